package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/proof/chaos/invariant"
)

const checkUsage = `usage: go run ./deploy/proof/chaos check [flags]

Compares what PostgreSQL, Temporal and the receivers' log have. Prints a line for each violation, then a table of all
that was checked. Changes nothing. It reads the settings of the service: DATABASE_URL (needed), TEMPORAL_ADDRESS,
TEMPORAL_NAMESPACE, CHECKOUT_DELIVERY_RETENTION and CHECKOUT_TEST_RETRY_SCHEDULE. deploy/proof/chaos/README.md has
the invariants.

Exit status: 0 nothing is wrong, 1 there are violations, 2 it could not be found out.

`

// checkOptions are the flags and settings of check.
type checkOptions struct {
	config.Stores
	sources invariant.Sources
	wait    time.Duration
	json    bool
}

// parseCheck reads flags and settings. Its errors say how to correct the call.
func parseCheck(args, environment []string, help io.Writer) (checkOptions, error) {
	var o checkOptions
	flags := newFlags("check", checkUsage, help)
	about := "`FILE` of a receiver's log; may be given several times. Without one, what needs it is not checked"
	flags.Func("receiver-log", about, func(path string) error {
		o.sources.ReceiverLogs = append(o.sources.ReceiverLogs, path)
		return nil
	})
	flags.DurationVar(&o.wait, "wait", 0, "how long to wait for everything to come to rest")
	flags.BoolVar(&o.json, "json", false, "write one JSON object instead of lines and a table")
	if err := parse(flags, args); err != nil {
		return o, err
	}
	schedule, err := config.ParseSchedule(env.ToMap(environment)["CHECKOUT_TEST_RETRY_SCHEDULE"])
	if err != nil {
		return o, fmt.Errorf("CHECKOUT_TEST_RETRY_SCHEDULE %w", err)
	}
	if o.Stores, err = config.LoadStores(environment); err != nil {
		return o, fmt.Errorf("settings:\n%w", err)
	}

	// One connection keeps its session, so it must not go through PgBouncer.
	o.sources.DatabaseURL = cmp.Or(o.Pooler.DirectURL, o.DatabaseURL)
	o.sources.Namespace = o.Temporal.Namespace
	o.sources.Schedule, o.sources.DeliveryRetention = schedule, o.Schedules.DeliveryRetention
	return o, nil
}

// report is the result of check.
type report struct {
	At         time.Time          `json:"at"`
	Unsettled  string             `json:"unsettled,omitempty"` // work still in progress
	Moved      int                `json:"moved"`               // deliveries that changed during the check
	Violations int                `json:"violations"`
	Invariants []invariant.Result `json:"invariants"`
}

// check gathers the facts, checks them and writes the report. It returns errViolated when an
// invariant is violated.
func check(ctx context.Context, o checkOptions, out, progress io.Writer) error {
	began := time.Now()
	o.sources.Progress = func(text string) {
		fmt.Fprintf(progress, "%6.1f s  %s\n", time.Since(began).Seconds(), text)
	}
	var (
		r   report
		err error
	)
	if r.Unsettled, err = settle(ctx, o); err != nil {
		return err
	}
	options, err := o.Temporal.Options()
	if err != nil {
		return err
	}
	options.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	if o.sources.Temporal, err = client.DialContext(ctx, options); err != nil {
		return fmt.Errorf("no answer from Temporal at %s: %w", o.Temporal.Address, err)
	}
	defer o.sources.Temporal.Close()
	facts, err := invariant.Gather(ctx, o.sources)
	if err != nil {
		return err
	}
	r.At, r.Invariants = facts.At, invariant.Check(facts)
	for _, d := range facts.Deliveries {
		if d.Moved {
			r.Moved++
		}
	}
	r.Violations = violations(r.Invariants)
	if o.json {
		err = json.NewEncoder(out).Encode(r)
	} else {
		err = r.print(out)
	}
	if err == nil && r.Violations > 0 {
		err = errViolated
	}
	return err
}

func violations(results []invariant.Result) int {
	n := 0
	for _, r := range results {
		n += len(r.Violations)
	}
	return n
}

// settle waits until everything has come to rest, within the time allowed. It returns the work that
// has not, in words.
func settle(ctx context.Context, o checkOptions) (string, error) {
	stack := &rig{databaseURL: o.sources.DatabaseURL}
	for end := time.Now().Add(o.wait); ; {
		words, err := query[string](ctx, stack, invariant.Unsettled)
		if err != nil {
			return "", errors.New("no answer from PostgreSQL; is DATABASE_URL right?") // the error may quote the URL
		}
		if words == "" || time.Now().After(end) {
			return words, nil
		}
		o.sources.Progress("waiting: " + words)
		if pause(ctx, min(2*time.Second, time.Until(end)+time.Millisecond)); ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
}

// print writes the violations, then the table: a reader looks at the end first.
func (r report) print(out io.Writer) error {
	for _, i := range r.Invariants {
		for _, v := range i.Violations {
			fmt.Fprintf(out, "%2d  %s  %s\n", i.Number, v.ID, v.Text)
		}
	}
	if r.Violations > 0 {
		fmt.Fprintln(out)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "invariant\tchecked\tviolations\t")
	for _, i := range r.Invariants {
		if i.NotChecked != "" {
			fmt.Fprintf(table, "%d\t–\t–\t  not checked: %s\n", i.Number, i.NotChecked)
			continue
		}
		fmt.Fprintf(table, "%d\t%d\t%d\t  %s\n", i.Number, i.Checked, len(i.Violations), i.Title)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if r.Unsettled != "" {
		fmt.Fprintf(out, "\nnot at rest: %s\n", r.Unsettled)
	}
	if r.Moved > 0 {
		fmt.Fprintf(out, "%d deliveries moved while they were read and were compared with nobody\n", r.Moved)
	}
	return nil
}
