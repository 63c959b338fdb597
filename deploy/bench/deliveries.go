package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// deliveries measures from the publishing of an event to its receipt, at a
// steady pace and as fast as it goes, beside a bare Temporal workflow with one
// activity.
func deliveries(ctx context.Context, args []string) (report, error) {
	fast, rate, steady := pace{rounds: 5, period: 5 * time.Second, clients: 24}, 0, time.Duration(0)
	err := fast.parse("deliveries", args, func(flags *flag.FlagSet) {
		flags.IntVar(&rate, "rate", 10, "deliveries a second of the steady pace")
		flags.DurationVar(&steady, "steady", 30*time.Second, "how long the steady pace is measured")
	})
	if err != nil {
		return report{}, err
	}
	r, err := newRig(ctx, devstack.Options{})
	if err != nil {
		return report{}, err
	}
	defer r.stop()
	n := &neighbourhood{rig: r}
	latencies, _, err := n.measure(ctx, "steady pace", rate, steady)
	if err != nil {
		return report{}, err
	}
	bare := &bareApplication{temporal: r.temporal}
	running, err := bare.start()
	if err != nil {
		return report{}, err
	}
	defer running.Stop()
	p, err := newPublisher(ctx, n, fast.clients)
	if err != nil {
		return report{}, err
	}
	defer p.close()
	ways := []way{{name: "delivery", do: p.one}, {name: "bare workflow, one activity", do: bare.deliverOne}}
	if err := fast.interleave(ctx, ways); err != nil {
		return report{}, err
	}
	at := quantiles(latencies)
	got := report{Columns: []string{"way", "n", "a second, median", "CPU ms each", "p50", "p99"}}
	got.Rows = append(got.Rows, []string{fmt.Sprintf("delivery, %d a second", rate), fmt.Sprint(len(latencies)), fmt.Sprint(rate), "", ms(at(0.5)), ms(at(0.99))})
	for _, w := range ways {
		at := quantiles(w.took)
		got.Rows = append(got.Rows, []string{
			w.name + ", as fast as it goes", fmt.Sprint(len(w.took)), fmt.Sprintf("%.0f", median(w.rates)), fmt.Sprintf("%.0f", median(w.cpu)), ms(at(0.5)), ms(at(0.99)),
		})
	}
	got.Result = fmt.Sprintf("%.2f times as many deliveries a second as bare workflows with one activity", median(ways[0].rates)/median(ways[1].rates))
	return got, nil
}

// publisher publishes events and waits for each to arrive.
type publisher struct {
	*neighbourhood
	endpoints []webhook.Endpoint // several: each takes four at a time
	close     func()
	turn      chan int
	arrived   sync.Map // event id to a channel that is closed
}

func newPublisher(ctx context.Context, n *neighbourhood, clients int) (*publisher, error) {
	p := &publisher{neighbourhood: n, turn: make(chan int, clients)}
	base, stop, err := serve(func(_ http.ResponseWriter, r *http.Request) {
		done, _ := p.arrived.LoadOrStore(r.Header.Get("X-Service-Event-Id"), make(chan struct{}))
		close(done.(chan struct{}))
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

// one is one delivery; no two at a time share an endpoint.
func (p *publisher) one(ctx context.Context) error {
	i := <-p.turn
	defer func() { p.turn <- i }()
	event, err := p.publish(ctx, p.endpoints[i])
	if err != nil {
		return err
	}
	done, _ := p.arrived.LoadOrStore(event.ID, make(chan struct{}))
	defer p.arrived.Delete(event.ID)
	select {
	case <-done.(chan struct{}):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return errors.New(event.ID + " did not arrive within a minute")
	}
}

// deliverOne is one bare workflow whose activity arrives.
func (b *bareApplication) deliverOne(ctx context.Context) error {
	id := checkout.NewID("bare")
	done := make(chan struct{}, 1)
	b.done.Store(id, done)
	defer b.done.Delete(id)
	if _, err := b.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: bareQueue}, bareChild, id); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s: %w", id, errPatience)
	}
}
