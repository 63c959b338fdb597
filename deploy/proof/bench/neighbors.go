package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/webhook"
)

// settling is how long the publishing of the neighbors' events may still keep the computer busy.
const settling = time.Minute

// besideNeighbors measures a shop at the steady pace: alone, and while other merchants' shops are
// slow, hang and refuse.
func (l deliveryLoad) besideNeighbors(ctx context.Context, r *rig) (report, error) {
	end, err := l.startWorkers(r)
	defer end()
	if err == nil {
		err = l.warmUp(ctx, r)
	}
	if err != nil {
		return report{}, err
	}
	alone, err := l.deliverWithRestart(ctx, r)
	if err != nil {
		return report{}, err
	}
	alone.name += ", alone"

	stop, err := l.deliverMeanwhile(ctx, r)
	if err != nil {
		return report{}, err
	}
	slow, hanging, refusing := openShop(time.Second), openShop(2*webhook.ResponseTimeout), openShop(0)
	defer slow.Close()
	defer hanging.Close()
	defer hanging.CloseClientConnections() // else Close waits for them
	refusing.Close()
	var before []float64
	arrived := table{columns: []string{fmt.Sprintf("neighbor; slow has %d", l.backlog), "arrived before", "arrived after"}}
	neighbors := []struct {
		*shop
		stream
	}{
		{refusing, stream{name: "refusing", count: l.backlog / 10}},
		{hanging, stream{name: "hanging", count: l.backlog / 10}},
		{slow, stream{name: "slow", count: l.backlog}},
	}
	for _, n := range neighbors {
		if err := r.publishBacklog(ctx, n.shop, n.stream); err != nil {
			return report{}, err
		}
	}
	time.Sleep(settling)
	if err := stop(); err != nil {
		return report{}, err
	}
	for _, n := range neighbors {
		before = append(before, float64(n.arrivals()))
	}
	beside, err := l.deliverWithRestart(ctx, r)
	if err != nil {
		return report{}, err
	}
	beside.name += ", beside neighbors"
	for i, n := range neighbors {
		arrived.add(n.name, []float64{before[i]}, []float64{float64(n.arrivals())})
	}

	p99 := func(o outcome) float64 { return ms(quantiles(o.lags)(0.99)) }
	return report{
		Tables: []table{streams("healthy shop", alone, beside), arrived},
		Result: fmt.Sprintf("p99 beside neighbors / alone: %.2f.", p99(beside)/p99(alone)),
	}, nil
}

// publishBacklog publishes a stream to a shop and waits for no arrival.
func (r *rig) publishBacklog(ctx context.Context, s *shop, st stream) error {
	publish, err := r.publisherTo(ctx, s, 1)
	if err != nil {
		return err
	}
	_, err = s.measure(ctx, st, 0, publish)
	return err
}

// startWorkers starts the workers beside the stack's own. end ends them.
func (l deliveryLoad) startWorkers(r *rig) (end func(), err error) {
	var more []*devstack.Process
	end = func() {
		for _, p := range more {
			p.Kill()
		}
	}
	for range l.workers - 1 {
		p, err := r.stack.StartMore("worker", "another worker", "CHECKOUT_HEALTH_ADDRESS=127.0.0.1:0")
		if err != nil {
			return end, err
		}
		more = append(more, p)
	}
	return end, nil
}

// deliverMeanwhile delivers at the steady pace until it is stopped. While a backlog grows, other merchants have
// deliveries too.
func (l deliveryLoad) deliverMeanwhile(ctx context.Context, r *rig) (stop func() error, err error) {
	s := openShop(0)
	publish, err := r.publisherTo(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	group, running := errgroup.WithContext(running)
	group.Go(func() error {
		every := time.NewTicker(time.Second / time.Duration(l.rate))
		defer every.Stop()
		for running.Err() == nil {
			<-every.C
			if _, err := publish(ctx, 0); err != nil {
				return err
			}
		}
		return nil
	})
	return func() error {
		defer s.Close()
		cancel()
		return group.Wait()
	}, nil
}

// deliverWithRestart measures the steady pace, and restarts the stack's worker in its middle when the load has that.
func (l deliveryLoad) deliverWithRestart(ctx context.Context, r *rig) (outcome, error) {
	restarted := make(chan error, 1)
	go func() {
		if !l.restart {
			restarted <- nil
			return
		}
		time.Sleep(l.steady / 2)
		restarted <- errors.Join(r.stack.Worker.Stop(time.Minute), r.stack.StartWorker(ctx))
	}()
	o, err := l.deliver(ctx, r, l.paced())
	return o, errors.Join(err, <-restarted)
}
