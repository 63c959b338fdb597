package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
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
		n := &neighbourhood{rig: r}
		latencies, _, err := n.measure(ctx, "steady pace", *rate, *period)
		if err != nil {
			return report{}, err
		}
		bare, err := newBare("bare", r.temporal)
		if err != nil {
			return report{}, err
		}
		defer bare.worker.Stop()
		p, err := newPublisher(ctx, n, fast.clients)
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
			Figures: latency(phase{fmt.Sprintf("delivery, %d a second", *rate), latencies}),
		}
		return report{
			Parts:  []part{steady, {Of: "as fast as it goes", Figures: compared(ways...)}, where(ways...), memory},
			Result: compare("Deliveries a second / bare workflows with one activity", ratios(ways[0], ways[1])),
		}, nil
	}
}

// publisher publishes events and waits for each to arrive.
type publisher struct {
	*neighbourhood
	endpoints []webhook.Endpoint // several, because each gets four attempts at a time
	close     func()
	turn      chan int
	arrived   arrivals // of events
}

func newPublisher(ctx context.Context, n *neighbourhood, clients int) (*publisher, error) {
	p := &publisher{neighbourhood: n, turn: make(chan int, clients)}
	base, stop, err := serve(func(_ http.ResponseWriter, r *http.Request) {
		p.arrived.note(r.Header.Get("X-Service-Event-Id"))
	})
	if err != nil {
		return nil, err
	}
	p.close = stop
	for i := range clients {
		p.turn <- i
	}
	p.endpoints, err = n.endpoints(ctx, base, clients)
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
