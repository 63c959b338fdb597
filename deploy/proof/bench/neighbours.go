package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/runs"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// neighbourhood is a stack with one healthy merchant and many sick ones.
type neighbourhood struct {
	*rig

	hanging atomic.Int64 // open requests at hanging endpoints
}

// neighbours measures the time from publish to receipt at a healthy endpoint: alone, beside others that answer, and
// beside others that hang while many deliveries wait.
func neighbours(flags *flag.FlagSet) func(context.Context) (report, error) {
	rate := flags.Int("rate", 10, "healthy deliveries a second")
	period := flags.Duration("for", 25*time.Second, "how long each phase is measured")
	sick := flags.Int("sick", 200, "endpoints that hang for 10 s, each with an attempt under way all the time")
	waiting := flags.Int("waiting", 50_000, "deliveries that wait for their next attempt")
	return func(ctx context.Context) (report, error) {
		// Retries wait for hours, so that none is made during the measurement.
		r, err := newRig(ctx, devstack.Options{RetrySchedule: "12h,12h,12h,12h,12h"})
		if err != nil {
			return report{}, err
		}
		defer r.stop()
		n := &neighbourhood{rig: r}

		nothing := func() error { return nil }
		fill := func() error { return n.wait(ctx, *waiting) }
		hanging := figure{Name: "hanging meanwhile"}
		var phases []phase
		measureAll := func() error {
			for _, p := range []struct {
				name   string
				first  func() error
				beside int
				hang   bool
			}{
				{"alone", nothing, 0, false},
				{fmt.Sprintf("beside %d that answer", *sick), nothing, *sick, false},
				{fmt.Sprintf("beside %d that hang, %d waiting", *sick, *waiting), fill, *sick, true},
				{fmt.Sprintf("beside %d that answer, %d waiting", *sick, *waiting), nothing, *sick, false},
				{fmt.Sprintf("alone, %d waiting", *waiting), nothing, 0, false},
			} {
				if err := p.first(); err != nil {
					return err
				}
				end, err := n.beside(ctx, p.beside, p.hang)
				if err != nil {
					return err
				}
				latencies, hang, err := n.measure(ctx, p.name, *rate, *period)
				end()
				if err != nil {
					return err
				}
				phases = append(phases, phase{p.name, latencies})
				hanging.Series = append(hanging.Series, one(p.name, float64(hang)))
			}
			return nil
		}
		memory, err := r.memoryUnder(ctx, measureAll)
		if err != nil {
			return report{}, err
		}
		figures := latency(phases...)
		p99 := func(i int) float64 { return figures[2].median(phases[i].name) }
		const goal = 1.5
		ratio, verdict := p99(2)/p99(1), "NOT met"
		if ratio <= goal {
			verdict = "met"
		}
		return report{
			Parts: []part{{Of: "healthy deliveries", Figures: append(figures, hanging)}, memory},
			Result: fmt.Sprintf("p99 beside those that hang / beside those that answer: %.2f. The goal of %.1f is %s. "+
				"The waiting deliveries alone make %.2f.", ratio, goal, verdict, p99(3)/p99(1)),
		}, nil
	}
}

// phase holds the measurements of one period.
type phase struct {
	name      string
	latencies []time.Duration // times from publish to receipt
}

// latency returns the figures of the phases.
func latency(phases ...phase) []figure {
	figures := []figure{
		{Name: "n"},
		{Name: "p50", Unit: "ms"},
		{Name: "p99", Unit: "ms"},
		{Name: "max", Unit: "ms"},
	}
	for _, p := range phases {
		q := quantiles(p.latencies)
		for i, v := range []float64{float64(len(p.latencies)), ms(q(0.5)), ms(q(0.99)), ms(q(1))} {
			figures[i].Series = append(figures[i].Series, one(p.name, v))
		}
	}
	return figures
}

// endpoints registers count endpoints at base, 50 for each merchant.
func (n *neighbourhood) endpoints(ctx context.Context, base string, count int) ([]webhook.Endpoint, error) {
	var all []webhook.Endpoint
	var owner checkout.Owner
	for i := range count {
		var err error
		if i%webhook.MaxEndpoints == 0 {
			if owner, _, err = devstack.AddMerchant(ctx, n.store, "Shop", checkout.ModeTest); err != nil {
				return nil, err
			}
		}
		e, err := devstack.AddEndpoint(ctx, n.store, owner, fmt.Sprintf("%s/%d", base, i), webhook.NewSecret())
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// publish makes an event for one endpoint and starts its delivery.
func (n *neighbourhood) publish(ctx context.Context, e webhook.Endpoint) (webhook.Event, error) {
	event, ref, err := n.store.PublishTest(ctx, storage.TestEvent{
		Owner: e.Owner, EndpointID: e.ID, SubjectID: checkout.NewID("test"), Type: webhook.PayoutSent,
		Data: func(time.Time) any { return struct{}{} },
	})
	if err != nil {
		return event, err
	}
	err = n.flows.StartDelivery(ctx, event, ref)
	for tries := 0; errors.Is(err, runs.ErrOutcomeUnknown) && tries < 10; tries++ {
		err = n.flows.StartDelivery(ctx, event, ref) // a repetition changes nothing
	}
	return event, err
}

// measure publishes at rate to a healthy endpoint of its own. It returns the time from publish to
// receipt of each event, and how many other attempts were under way.
func (n *neighbourhood) measure(
	ctx context.Context, name string, rate int, period time.Duration,
) ([]time.Duration, int, error) {
	fmt.Fprintf(os.Stderr, "%s: measuring for %s\n", name, period)
	var (
		published, arrived sync.Map // event id to time.Time
		group              errgroup.Group
		elsewhere          int
	)
	base, closeServer, err := serve(func(_ http.ResponseWriter, r *http.Request) {
		arrived.LoadOrStore(r.Header.Get("X-Service-Event-Id"), time.Now())
	})
	if err != nil {
		return nil, 0, err
	}
	defer closeServer()
	healthy, err := n.endpoints(ctx, base, 1)
	if err != nil {
		return nil, 0, err
	}

	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for end := time.Now().Add(period); time.Now().Before(end) && ctx.Err() == nil; <-ticker.C {
		began := time.Now()
		group.Go(func() error {
			event, err := n.publish(ctx, healthy[0])
			published.Store(event.ID, began)
			return err
		})
	}

	elsewhere = int(n.hanging.Load())
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}

	var latencies []time.Duration
	deadline := time.Now().Add(time.Minute)
	published.Range(func(id, began any) bool {
		at, ok := arrived.Load(id)
		for ; !ok && time.Now().Before(deadline); at, ok = arrived.Load(id) {
			time.Sleep(10 * time.Millisecond)
		}
		if !ok {
			err = fmt.Errorf("event %s did not arrive within a minute", id)
			return false
		}
		latencies = append(latencies, at.(time.Time).Sub(began.(time.Time)))
		return true
	})
	return latencies, elsewhere, err
}

// wait makes count deliveries wait for their second attempt. Making all the first attempts would take ten minutes. So
// one delivery of each of 200 endpoints is real. The others are copies of its rows, and their runs begin with the wait.
func (n *neighbourhood) wait(ctx context.Context, count int) error {
	if count == 0 {
		return nil
	}
	base, closeServer, err := serve(nil)
	if err != nil {
		return err
	}
	closeServer() // from now on the port refuses connections
	endpoints, err := n.endpoints(ctx, base, min(count, 200))
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if _, err := n.publish(ctx, e); err != nil {
			return err
		}
	}
	return errors.Join(n.copyWaiting(ctx, len(endpoints), count), n.tidy(ctx))
}

// copyRows copies the rows of a delivery for each row of the table copy.
const copyRows = `
	INSERT INTO event SELECT made.* FROM copy c JOIN webhook_delivery d ON d.id = c.of JOIN event e ON e.id = d.event_id
		CROSS JOIN LATERAL jsonb_populate_record(e, jsonb_build_object('id', c.event_id, 'subject_id', c.event_id)) AS made;
	INSERT INTO webhook_delivery SELECT made.* FROM copy c JOIN webhook_delivery d ON d.id = c.of
		CROSS JOIN LATERAL jsonb_populate_record(d, jsonb_build_object('id', c.id, 'event_id', c.event_id)) AS made;
	INSERT INTO webhook_attempt SELECT made.* FROM copy c JOIN webhook_attempt a ON a.delivery_id = c.of
		CROSS JOIN LATERAL jsonb_populate_record(a, jsonb_build_object('delivery_id', c.id)) AS made`

// copyWaiting waits until the made deliveries wait, and copies them until there are count.
func (n *neighbourhood) copyWaiting(ctx context.Context, made, count int) error {
	conn, err := pgx.Connect(ctx, n.stack.DatabaseURL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // everything is committed
	type waiting struct{ id, merchant, endpoint string }
	var real []waiting
	for len(real) < made {
		rows, _ := conn.Query(ctx, `SELECT id, merchant_id, endpoint_id FROM webhook_delivery
			WHERE status = 'pending' AND next_attempt_at > now() + interval '1 hour'`) // CollectRows returns the error
		real, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (w waiting, err error) {
			err = row.Scan(&w.id, &w.merchant, &w.endpoint)
			return w, err
		})
		if err := errors.Join(err, pgtemp.Pause(ctx, 100*time.Millisecond)); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, `CREATE TEMP TABLE copy (of text, id text, event_id text)`); err != nil {
		return err
	}
	copies := make([][]any, count-made)
	for i := range copies {
		copies[i] = []any{real[i%made].id, checkout.NewID(checkout.PrefixDelivery), checkout.NewID(checkout.PrefixEvent)}
	}
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"copy"}, []string{"of", "id", "event_id"}, pgx.CopyFromRows(copies))
	if err == nil {
		_, err = conn.Exec(ctx, copyRows)
	}
	if err != nil {
		return err
	}

	group, starting := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i, row := range copies {
		if starting.Err() != nil {
			break // Wait returns the error
		}
		if i%500 == 0 {
			fmt.Fprintf(os.Stderr, "\rwaiting retries: %d of %d", i, count)
		}
		group.Go(func() error {
			of, id := real[i%made], row[1].(string)
			in := contract.NewWebhookDeliveryInput(checkout.Owner{MerchantID: of.merchant, Mode: checkout.ModeTest},
				webhook.PayoutSent, webhook.Dispatch{ID: id, EndpointID: of.endpoint, Host: "127.0.0.1"})
			_, err := n.plain.ExecuteWorkflow(starting, client.StartWorkflowOptions{
				ID: id, TaskQueue: contract.TaskQueueWebhooks, StartDelay: 12 * time.Hour,
				TypedSearchAttributes: contract.SearchAttributesOf(in.Owner, in.SearchAttribute()),
				Priority:              temporal.Priority{FairnessKey: of.merchant},
			}, contract.TypeWebhookDelivery, in)
			return err
		})
	}
	fmt.Fprintln(os.Stderr)
	return group.Wait()
}

// tidy makes PostgreSQL do its maintenance at once. After so many rows it would work for minutes
// and disturb the measurement, and no neighbour causes that.
func (n *neighbourhood) tidy(ctx context.Context) error {
	for _, database := range []string{"", "temporal", "temporal_visibility"} {
		config, err := pgx.ParseConfig(n.stack.DatabaseURL())
		if err != nil {
			return err
		}
		config.Database = cmp.Or(database, config.Database)
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, `VACUUM (ANALYZE)`)
		if err == nil {
			_, err = conn.Exec(ctx, `CHECKPOINT`)
		}
		_ = conn.Close(ctx) // nothing was written
		if err != nil {
			return err
		}
	}
	return nil
}

// beside publishes to each of count endpoints until stop is called. It publishes so often that a
// hanging endpoint always has an attempt under way.
func (n *neighbourhood) beside(ctx context.Context, count int, hang bool) (stop func(), err error) {
	if count == 0 {
		return func() {}, nil
	}
	base, closeServer, err := serve(func(_ http.ResponseWriter, r *http.Request) {
		if !hang {
			return
		}
		n.hanging.Add(1)
		defer n.hanging.Add(-1)
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the sender has gone
		<-r.Context().Done()
	})
	if err != nil {
		return nil, err
	}

	endpoints, err := n.endpoints(ctx, base, count)
	if err != nil {
		closeServer()
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for i, e := range endpoints {
		group.Go(func() {
			pause := time.Duration(i) * webhook.ResponseTimeout / time.Duration(count) // spread
			for pgtemp.Pause(ctx, pause) == nil {
				_, _ = n.publish(ctx, e) // after an error, the next one follows
				pause = webhook.ResponseTimeout
			}
		})
	}

	time.Sleep(webhook.ResponseTimeout + time.Second) // until all endpoints have attempts
	return func() {
		cancel()
		group.Wait()
		closeServer()
	}, nil
}
