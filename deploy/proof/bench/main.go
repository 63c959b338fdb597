// Command bench measures the service on this machine, with its own stack on loopback: go run
// ./deploy/proof/bench paid. Compared things are measured by turns. A table shows the medians of
// the rounds. Compare only ratios within one run: figures of different runs or machines are not
// comparable.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.com/checkout/deploy/standin/devstack"
)

// A benchmark measures.
type benchmark struct {
	name, about string
	// setup adds the benchmark's own flags and returns the function that measures. Call that
	// function after the flags were parsed.
	setup func(*flag.FlagSet) func(context.Context) (report, error)
}

var benchmarks = []benchmark{
	{"paid", "whole sessions, from their creation to the last event, against a bare Temporal application; memory", paid},
	{"cost", "what one session costs in Temporal and PostgreSQL, by their own counters", cost},
	{
		"deliveries", "events from publish to receipt, at a steady pace and as fast as it goes, against a bare Temporal workflow",
		deliveries,
	},
}

func main() {
	devstack.RunCommand()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errUsage returns the error of a wrong call, which lists the benchmarks.
func errUsage() error {
	var b strings.Builder
	b.WriteString("usage: go run ./deploy/proof/bench NAME [flags]\n")
	for _, bench := range benchmarks {
		fmt.Fprintf(&b, "  %-12s %s\n", bench.name, bench.about)
	}
	b.WriteString("-help after the name lists its flags")
	return errors.New(b.String())
}

// run runs the benchmark that args name, with its flags, and prints its result.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage()
	}
	chosen := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == args[0] })
	if chosen < 0 {
		return errUsage()
	}
	bench := benchmarks[chosen]
	flags := flag.NewFlagSet(bench.name, flag.ContinueOnError)
	measure := bench.setup(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	fmt.Fprintln(os.Stderr, "==>", bench.name)
	got, err := measure(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", bench.name, err)
	}
	fmt.Printf("\n%s: %s\n", bench.name, bench.about)
	if err := got.write(os.Stdout); err != nil {
		return err
	}
	_, err = fmt.Printf("\n%s/%s, %d CPUs, %s; %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(),
		time.Now().UTC().Format(time.RFC3339))
	return err
}
