package main

import (
	"context"
	"fmt"
	"time"

	"example.com/checkout/workflows/webhook"
)

// settling is how long the publishing of the neighbors' events may still keep the computer busy.
const settling = 20 * time.Second

// besideNeighbors measures a shop at the steady pace: alone, and while other merchants' shops are
// slow, hang and refuse.
func (l deliveryLoad) besideNeighbors(ctx context.Context, r *rig) (report, error) {
	if err := l.warmUp(ctx, r); err != nil {
		return report{}, err
	}
	alone, err := l.deliver(ctx, r, l.paced())
	if err != nil {
		return report{}, err
	}
	alone.name += ", alone"

	slow, hanging, refusing := openShop(time.Second), openShop(2*webhook.ResponseTimeout), openShop(0)
	defer slow.Close()
	defer hanging.Close()
	defer hanging.CloseClientConnections() // else Close waits for them
	refusing.Close()
	before, after := figure{Name: "arrived before"}, figure{Name: "arrived after"}
	neighbors := []struct {
		*shop
		stream
	}{
		{refusing, stream{name: "refusing", count: l.backlog / 10}},
		{hanging, stream{name: "hanging", count: l.backlog / 10}},
		{slow, stream{name: "slow", count: l.backlog}},
	}
	for _, n := range neighbors {
		publish, err := r.publisherTo(ctx, n.shop, 1)
		if err != nil {
			return report{}, err
		}
		if _, err := n.measure(ctx, n.stream, 0, publish); err != nil {
			return report{}, err
		}
	}
	time.Sleep(settling)
	for _, n := range neighbors {
		before.Series = append(before.Series, one(n.name, float64(n.arrivals())))
	}
	beside, err := l.deliver(ctx, r, l.paced())
	if err != nil {
		return report{}, err
	}
	beside.name += ", beside neighbors"
	for _, n := range neighbors {
		after.Series = append(after.Series, one(n.name, float64(n.arrivals())))
	}

	p99 := func(o outcome) float64 { return ms(quantiles(o.lags)(0.99)) }
	return report{
		Parts: []part{
			{Of: "healthy shop", Figures: figuresOf(alone, beside)},
			{Of: fmt.Sprintf("neighbor; slow has %d", l.backlog), Figures: []figure{before, after}},
		},
		Result: fmt.Sprintf("p99 beside neighbors / alone: %.2f.", p99(beside)/p99(alone)),
	}, nil
}
