package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/checkout/deploy/proof/chaos/invariant"
)

// outcome is what a run measured.
type outcome struct {
	load     time.Duration
	rest     *invariant.Rest
	hastened int    // deliveries hastened with retry_now after the last fault, because their worker had died
	back     string // money that came back, in words
	facts    *invariant.Facts
	results  []invariant.Result
}

// examine checks every invariant. It repeats the check for a while when a violation may be a run
// that ends a little after its row: after a kill this can take long. A true violation stays.
func (c *chaos) examine(ctx context.Context, o *outcome) (err error) {
	if o.back, err = query[string](ctx, c.rig, moneyBack); err != nil {
		return err
	}
	for try := 1; ; try++ {
		told, err := c.readStatements(ctx)
		if err != nil {
			return err
		}
		sources, err := c.sources(o.rest, told)
		if err != nil {
			return err
		}
		if o.facts, err = invariant.Gather(ctx, sources); err != nil {
			return err
		}
		o.results = invariant.Check(o.facts)
		n := violations(o.results)
		if n == 0 || try == 3 {
			return nil
		}
		c.say("%d violations; looking again", n)
		pause(ctx, 10*time.Second)
	}
}

// print writes what happened, with the violations last.
func (c *chaos) print(out io.Writer, o *outcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(out, "\nseed %d: %s under load; at rest %s after the last fault; %d deliveries hastened\n", c.seed,
		o.load.Round(time.Second), o.rest.After.Round(100*time.Millisecond), o.hastened)
	for _, h := range o.rest.Held {
		fmt.Fprintf(out, "%s holds %+v; before the load %+v\n", h.Process, h.After, h.Before)
	}
	if o.facts.Live != nil {
		for _, why := range o.facts.Live.Frozen {
			fmt.Fprintf(out, "the treasury was frozen: %s\n", why)
		}
	}
	status := map[string]string{} // of each session
	for _, s := range o.facts.Sessions {
		status[s.ID] = string(s.Status)
	}
	live := slices.DeleteFunc(slices.Clone(o.facts.Payouts), func(p invariant.Payout) bool { return !p.Mode.Live() })
	for _, line := range []struct{ what, counts string }{
		{"sessions", tally(maps.Values(status), func(s string) string { return s })},
		{"deliveries", tally(slices.Values(o.facts.Deliveries), func(d *invariant.Delivery) string {
			return string(d.Status)
		})},
		{"live payouts", tally(slices.Values(live), func(p invariant.Payout) string {
			return string(p.Currency) + " " + string(p.Status)
		})},
		{"money back", o.back},
		{"faults", tally(slices.Values(c.broken), func(kind string) string { return kind })},
		{"calls", tally(slices.Values(c.calls), func(made invariant.Call) string { return made.Op + " " + made.Outcome() })},
		{"scripts and races", tally(slices.Values(c.played), func(p played) string {
			return p.script + " " + status[p.session]
		})},
	} {
		fmt.Fprintf(out, "%s: %s\n", line.what, line.counts)
	}
	fmt.Fprintln(out)
	return report{Violations: violations(o.results), Invariants: o.results, Unsettled: o.rest.Restless}.print(out)
}

// tally counts by kind, such as "3 completed, 1 expired".
func tally[T any](all iter.Seq[T], kind func(T) string) string {
	counts := map[string]int{}
	for one := range all {
		counts[kind(one)]++
	}
	words := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(words, ", ")
}
