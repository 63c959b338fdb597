package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

// deliveries measures the time from the publishing of an event to its receipt, at a steady pace and
// at full speed. It compares with a bare Temporal workflow with one activity.
func deliveries(flags *flag.FlagSet) func(context.Context) (report, error) {
	fast := pace{rounds: 16, period: 3 * time.Second, clients: 24}
	fast.addFlags(flags)
	rate := flags.Int("rate", 10, "deliveries a second of the steady pace")
	period := flags.Duration("steady", 30*time.Second, "how long the steady pace is measured")
	return func(ctx context.Context) (report, error) {
		r, err := newRig(ctx, devstack.Options{})
		if err != nil {
			return report{}, err
		}
		defer r.stop()
		latencies, err := r.measure(ctx, *rate, *period)
		if err != nil {
			return report{}, err
		}
		bare, err := newBare("bare", r.temporal)
		if err != nil {
			return report{}, err
		}
		defer bare.worker.Stop()
		p, err := newPublisher(ctx, r, fast.clients)
		if err != nil {
			return report{}, err
		}
		defer p.close()
		ways := []*way{{name: "delivery", do: p.one}, {name: "bare workflow, one activity", do: bare.deliverOne}}
		memory, err := r.memoryUnder(ctx, func() error { return r.interleave(ctx, fast, ways...) })
		if err != nil {
			return report{}, err
		}
		steady := part{
			Of:      "steady pace",
			Figures: latency(fmt.Sprintf("delivery, %d a second", *rate), latencies),
		}
		return report{
			Parts:  []part{steady, {Of: "as fast as it goes", Figures: compared(ways...)}, where(ways...), memory},
			Result: compare("Deliveries a second / bare workflows with one activity", ratios(ways[0], ways[1])),
		}, nil
	}
}

// latency returns the figures of times from publish to receipt.
func latency(name string, took []time.Duration) []figure {
	q := quantiles(took)
	only := func(value float64) []series { return []series{one(name, value)} }
	return []figure{
		{Name: "n", Series: only(float64(len(took)))},
		{Name: "p50", Unit: "ms", Series: only(ms(q(0.5)))},
		{Name: "p99", Unit: "ms", Series: only(ms(q(0.99)))},
		{Name: "max", Unit: "ms", Series: only(ms(q(1)))},
	}
}

// endpoints registers count endpoints at base, 50 for each merchant.
func (r *rig) endpoints(ctx context.Context, base string, count int) ([]webhook.Endpoint, error) {
	var all []webhook.Endpoint
	var owner checkout.Owner
	for i := range count {
		var err error
		if i%webhook.MaxEndpoints == 0 {
			if owner, _, err = devstack.AddMerchant(ctx, r.store, "Shop", checkout.ModeTest); err != nil {
				return nil, err
			}
		}
		e, err := devstack.AddEndpoint(ctx, r.store, owner, fmt.Sprintf("%s/%d", base, i), webhook.NewSecret())
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// publish makes an event for one endpoint and starts its delivery.
func (r *rig) publish(ctx context.Context, e webhook.Endpoint) (webhook.Event, error) {
	event, ref, err := r.store.PublishTest(ctx, storage.TestEvent{
		Owner: e.Owner, EndpointID: e.ID, SubjectID: checkout.NewID("test"), Type: webhook.PayoutSent,
		Data: func(time.Time) any { return struct{}{} },
	})
	if err != nil {
		return event, err
	}
	err = r.flows.StartDelivery(ctx, event, ref)
	for tries := 0; errors.Is(err, runs.ErrOutcomeUnknown) && tries < 10; tries++ {
		err = r.flows.StartDelivery(ctx, event, ref) // a repetition changes nothing
	}
	return event, err
}

// measure publishes at rate to one endpoint. It returns the time from publish to
// receipt of each event.
func (r *rig) measure(ctx context.Context, rate int, period time.Duration) ([]time.Duration, error) {
	fmt.Fprintf(os.Stderr, "steady pace: measuring for %s\n", period)
	var (
		published, arrived sync.Map // event id to time.Time
		group              errgroup.Group
	)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		arrived.LoadOrStore(request.Header.Get("X-Service-Event-Id"), time.Now())
	}))
	defer server.Close()
	endpoints, err := r.endpoints(ctx, server.URL, 1)
	if err != nil {
		return nil, err
	}

	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for end := time.Now().Add(period); time.Now().Before(end) && ctx.Err() == nil; <-ticker.C {
		began := time.Now()
		group.Go(func() error {
			event, err := r.publish(ctx, endpoints[0])
			published.Store(event.ID, began)
			return err
		})
	}

	if err := group.Wait(); err != nil {
		return nil, err
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
	return latencies, err
}

// publisher publishes events and waits for each to arrive.
type publisher struct {
	*rig
	endpoints []webhook.Endpoint // several, because each gets four attempts at a time
	close     func()
	turn      chan int
	arrived   arrivals // of events
}

func newPublisher(ctx context.Context, r *rig, clients int) (*publisher, error) {
	p := &publisher{rig: r, turn: make(chan int, clients)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		p.arrived.note(request.Header.Get("X-Service-Event-Id"))
	}))
	p.close = server.Close
	for i := range clients {
		p.turn <- i
	}
	var err error
	p.endpoints, err = r.endpoints(ctx, server.URL, clients)
	return p, err
}

// one makes one delivery. No two deliveries share an endpoint at the same time.
func (p *publisher) one(ctx context.Context) error {
	i := <-p.turn
	defer func() { p.turn <- i }()
	event, err := p.publish(ctx, p.endpoints[i])
	if err != nil {
		return err
	}
	return p.arrived.await(ctx, event.ID, 1)
}

// deliverOne runs one bare workflow and waits for its activity.
func (b *bareApplication) deliverOne(ctx context.Context) error {
	id := checkout.NewID("bare")
	if _, err := b.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: b.queue},
		bareDelivery, id); err != nil {
		return err
	}
	return b.done.await(ctx, id, 1)
}
