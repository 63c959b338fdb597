package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"example.com/checkout/deploy/proof/chaos/invariant"
)

// runReport is the result of a run.
type runReport struct {
	Seed     uint64          `json:"seed"`
	Began    time.Time       `json:"began"`
	Load     time.Duration   `json:"load"` // duration of the load, in nanoseconds
	Sessions int             `json:"sessions"`
	Statuses map[string]int  `json:"statuses"` // of sessions
	Rest     *invariant.Rest `json:"rest"`
	// Deliveries hastened with retry_now after the last fault, because their worker had died.
	Hastened int `json:"hastened"`

	Deliveries int            `json:"deliveries"`
	Delivered  map[string]int `json:"delivered"`  // deliveries by status
	Attempts   int            `json:"attempts"`   // attempts noted
	Requests   int            `json:"requests"`   // requests that receivers got
	Duplicates int            `json:"duplicates"` // events that a receiver accepted more than once without a replay

	LivePayouts map[string]int `json:"live_payouts"` // by currency and status
	Frozen      []string       `json:"frozen"`       // why the treasury was frozen, each time

	Faults map[string]int            `json:"faults"`
	Calls  map[string]map[string]int `json:"calls"`  // by operation and outcome
	Played map[string]map[string]int `json:"played"` // sessions by script and status

	Violations int                `json:"violations"`
	Invariants []invariant.Result `json:"invariants"`
}

// examine checks every invariant. It repeats the check for a while when a violation may be a run
// that ends a little after its row: after a kill this can take long. A true violation stays.
func (c *chaos) examine(ctx context.Context, r *runReport) error {
	sources, err := c.sources()
	if err != nil {
		return err
	}
	c.mu.Lock()
	sources.Calls, sources.Rest = slices.Clone(c.calls), r.Rest
	c.mu.Unlock()
	for try := 1; ; try++ {
		facts, err := invariant.Gather(ctx, sources)
		if err != nil {
			return err
		}
		r.Invariants, r.Violations = invariant.Check(facts), 0
		for _, i := range r.Invariants {
			r.Violations += len(i.Violations)
		}
		if r.Violations == 0 || try == 3 {
			c.count(r, facts)
			return nil
		}
		c.say("%d violations; looking again", r.Violations)
		pause(ctx, 10*time.Second)
	}
}

// count fills in the counts.
func (c *chaos) count(r *runReport, f *invariant.Facts) {
	r.Sessions, r.Deliveries = len(f.Sessions), len(f.Deliveries)
	r.Statuses, r.Delivered, r.Calls, r.Played = map[string]int{}, map[string]int{}, map[string]map[string]int{},
		map[string]map[string]int{}
	status := map[string]string{}
	for _, s := range f.Sessions {
		status[s.ID] = string(s.Status)
		r.Statuses[status[s.ID]]++
	}

	r.LivePayouts = map[string]int{}
	if f.Live != nil {
		r.Frozen = f.Live.Frozen
	}
	for _, p := range f.Payouts {
		if p.Mode.Live() {
			r.LivePayouts[string(p.Currency)+" "+string(p.Status)]++
		}
	}

	runs := map[string]int{}
	for _, d := range f.Deliveries {
		r.Delivered[string(d.Status)]++
		r.Attempts += len(d.Attempts)
		runs[d.ID] = d.Run
	}

	accepted := map[string]int{}
	for _, one := range f.Requests {
		if one.Method == "" {
			continue
		}
		r.Requests++
		if one.Status >= 200 && one.Status <= 299 && one.AnsweredAt != nil {
			accepted[one.Delivery]++
		}
	}

	for delivery, n := range accepted {
		if n > max(1, runs[delivery]) {
			r.Duplicates++
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	r.Faults = maps.Clone(c.broken)
	for _, made := range c.calls {
		add(r.Calls, made.Op, made.Outcome())
	}

	for name, ids := range c.played {
		for _, id := range ids {
			add(r.Played, name, status[id])
		}
	}
}

func add(counts map[string]map[string]int, row, column string) {
	if counts[row] == nil {
		counts[row] = map[string]int{}
	}
	counts[row][column]++
}

// write writes the report as text to out, and as JSON to path if path is not empty. With the path
// "-", it writes JSON instead of text to out.
func (r *runReport) write(path string, out io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if path == "-" {
		_, err := out.Write(text)
		return err
	}
	if path != "" {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return r.print(out)
}

// print writes the report as text, with the violations last.
func (r *runReport) print(out io.Writer) error {
	faults := 0
	for name, n := range r.Faults {
		if !strings.HasPrefix(name, enemyPrefix) {
			faults += n
		}
	}

	fmt.Fprintf(
		out,
		"\nseed %d: %s under load, %d sessions (%.1f a second), %d deliveries, %d attempts, %d faults\n",
		r.Seed, r.Load.Round(time.Second), r.Sessions, float64(r.Sessions)/r.Load.Seconds(),
		r.Deliveries, r.Attempts, faults,
	)
	fmt.Fprintf(
		out, "at rest %s after the last fault; %d deliveries hastened\n",
		r.Rest.After.Round(100*time.Millisecond), r.Hastened,
	)
	for _, h := range r.Rest.Held {
		fmt.Fprintf(
			out, "%s holds %d files, %d goroutines, %.0f MB; before the load %d, %d, %.0f\n", h.Process,
			h.After.Files, h.After.Goroutines, h.After.Memory, h.Before.Files, h.Before.Goroutines,
			h.Before.Memory,
		)
	}

	fmt.Fprintf(out, "sessions: %s; deliveries: %s\n", listed(r.Statuses), listed(r.Delivered))
	fmt.Fprintf(
		out, "receivers: %d requests, %d deliveries accepted once more than asked for\n\n", r.Requests,
		r.Duplicates,
	)
	if len(r.LivePayouts) > 0 {
		fmt.Fprintf(out, "live payouts: %s\n", listed(r.LivePayouts))
	}
	for _, why := range r.Frozen {
		fmt.Fprintf(out, "the treasury was frozen: %s\n", why)
	}
	fmt.Fprintf(out, "faults: %s\n\n", listed(r.Faults))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "calls\tok\tfail\tunknown")
	for _, op := range slices.Sorted(maps.Keys(r.Calls)) {
		of := r.Calls[op]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", op, of[invariant.CallOK], of[invariant.CallRefused], of[invariant.CallUnknown])
	}

	fmt.Fprintln(table, "\nscript or race\twho won")
	for _, name := range slices.Sorted(maps.Keys(r.Played)) {
		fmt.Fprintf(table, "%s\t%s\n", name, listed(r.Played[name]))
	}
	if err := table.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(out)
	return report{Violations: r.Violations, Invariants: r.Invariants, Unsettled: r.Rest.Restless}.print(out)
}

// listed formats counts as "3 completed, 1 expired".
func listed(counts map[string]int) string {
	words := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(words, ", ")
}
