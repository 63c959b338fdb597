package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/api/enums/v1"
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
	var l deliveryLoad
	flags.IntVar(&l.rate, "rate", 10, "deliveries a second of the steady pace")
	flags.DurationVar(&l.steady, "steady", 30*time.Second, "how long the steady pace is measured")
	flags.DurationVar(&l.wait, "wait", time.Minute, "how long to wait for what has not arrived")
	flags.DurationVar(&l.handler, "handler", 0,
		"how long the shop's handler takes: measures the steady pace and a backlog beside a plain pool of senders")
	flags.IntVar(&l.endpoints, "endpoints", 1, "registrations that share the steady pace or the backlog")
	flags.IntVar(&l.backlog, "backlog", 1000, "deliveries of the backlog, with -handler or -neighbors")
	neighbors := flags.Bool("neighbors", false,
		"measure the steady pace alone and beside shops that are slow, hang and refuse")
	flags.IntVar(&l.workers, "workers", 1, "workers, with -neighbors")
	flags.BoolVar(&l.restart, "restart", false, "restart a worker in the middle of each measurement, with -neighbors")
	return func(ctx context.Context) (report, error) {
		r, err := newRig(ctx, devstack.Options{})
		if err != nil {
			return report{}, err
		}
		defer r.stop()
		switch {
		case *neighbors:
			return l.besideNeighbors(ctx, r)
		case l.handler > 0:
			return l.besidePool(ctx, r)
		}
		return l.besideBare(ctx, r, fast)
	}
}

// besideBare measures the steady pace, and deliveries at full speed beside bare workflows.
func (l deliveryLoad) besideBare(ctx context.Context, r *rig, fast pace) (report, error) {
	steady, err := l.deliver(ctx, r, l.paced())
	if err != nil {
		return report{}, err
	}
	s := openShop(0)
	defer s.Close()
	publish, err := r.publisherTo(ctx, s, fast.clients)
	if err != nil {
		return report{}, err
	}
	var turn atomic.Int64
	deliver := func(ctx context.Context) error {
		id, err := publish(ctx, int(turn.Add(1)))
		if err != nil {
			return err
		}
		return s.received.await(ctx, id, 1)
	}
	got, err := r.compareWithBare(
		ctx, fast, "as fast as it goes", "Deliveries a second / bare workflows with one activity",
		&way{name: "delivery", do: deliver},
		func(b *bareApplication) *way { return &way{name: "bare workflow, one activity", do: b.deliverOne} },
	)
	got.Tables = append([]table{streams("steady pace", steady)}, got.Tables...)
	return got, err
}

// deliveryLoad is what a shop gets.
type deliveryLoad struct {
	rate      int           // a second, of the steady pace
	steady    time.Duration // how long the steady pace lasts
	wait      time.Duration // for what has not arrived
	handler   time.Duration
	endpoints int
	backlog   int
	workers   int
	restart   bool // of one worker, in the middle
}

// paced returns the steady pace.
func (l deliveryLoad) paced() stream {
	every := time.Second / time.Duration(l.rate)
	return stream{fmt.Sprintf("%d a second", l.rate), int(l.steady / every), every}
}

// warmUp delivers for some seconds, which nothing measures.
func (l deliveryLoad) warmUp(ctx context.Context, r *rig) error {
	l.handler, l.steady = 0, 5*time.Second
	_, err := l.deliver(ctx, r, l.paced())
	return err
}

// deliver measures a stream of the service.
func (l deliveryLoad) deliver(ctx context.Context, r *rig, st stream) (outcome, error) {
	s := openShop(l.handler)
	defer s.Close()
	st.name = "delivery, " + st.name
	publish, err := r.publisherTo(ctx, s, l.endpoints)
	if err != nil {
		return outcome{}, err
	}
	o, err := s.measure(ctx, st, l.wait, publish)
	if err != nil {
		return o, err
	}
	err = r.readHistories(ctx, s, &o)
	return o, err
}

// publisherTo returns the function that publishes to a shop's registrations by turns.
func (r *rig) publisherTo(
	ctx context.Context, s *shop, count int,
) (func(context.Context, int) (string, error), error) {
	endpoints, err := r.endpoints(ctx, s.URL, count)
	return func(ctx context.Context, i int) (string, error) { return r.publish(ctx, endpoints[i%count]) }, err
}

// readHistories sets what Temporal recorded of each delivery: the executions of activities that are
// not one of the shop's requests, and the events of its history.
func (r *rig) readHistories(ctx context.Context, s *shop, o *outcome) error {
	var executed, events atomic.Int64
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(publishers)
	for _, id := range o.ids {
		group.Go(func() error {
			// The execution that sends is recorded when it has ended, so wait for the end of what arrives.
			all := r.plain.GetWorkflowHistory(reading, id, "", o.missed == 0, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for all.HasNext() {
				event, err := all.Next()
				if err != nil {
					return err
				}
				events.Add(1)
				executed.Add(int64(event.GetActivityTaskStartedEventAttributes().GetAttempt()))
				if event.GetMarkerRecordedEventAttributes().GetMarkerName() == "LocalActivity" {
					executed.Add(1)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := float64(len(o.ids))
	o.unsent = []float64{(float64(executed.Load()) - float64(s.requests-s.open)) / n}
	o.events = []float64{float64(events.Load()) / n}
	return err
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

// publish makes an event for one endpoint and starts its delivery. It returns the delivery's id.
func (r *rig) publish(ctx context.Context, e webhook.Endpoint) (string, error) {
	event, ref, err := r.store.Webhooks.PublishTest(ctx, storage.TestEvent{
		Owner: e.Owner, EndpointID: e.ID, SubjectID: checkout.NewID("test"), Type: webhook.PayoutSent,
		Data: func(time.Time) any { return struct{}{} },
	})
	if err != nil {
		return "", err
	}
	err = r.runs.StartDelivery(ctx, event, ref)
	for tries := 0; errors.Is(err, runs.ErrOutcomeUnknown) && tries < 10; tries++ {
		err = r.runs.StartDelivery(ctx, event, ref) // a repetition changes nothing
	}
	return ref.ID, err
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
