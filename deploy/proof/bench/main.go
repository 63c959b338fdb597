// Command bench measures the service on this machine, with its own stack on loopback: go run
// ./deploy/proof/bench neighbours. Compared things are measured by turns. A table shows the medians of
// the rounds; with -json, a file has every round. Compare only ratios within one run: figures of
// different runs or machines are not comparable.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"example.com/checkout/deploy/standin/devstack"
)

// A benchmark measures.
type benchmark struct {
	name, about string
	short       []string // flags that "all" uses
	// setup adds the benchmark's own flags and returns the function that measures. Call that
	// function after the flags were parsed.
	setup func(*flag.FlagSet) func(context.Context) (report, error)
}

var benchmarks = []benchmark{
	{
		"create", "sessions created over REST, against starting the same workflow and inserting the same row",
		[]string{"-rounds=4", "-for=3s"}, create,
	},
	{
		"paid", "whole sessions, from their creation to the last event, against a bare Temporal application; memory",
		[]string{"-rounds=4", "-for=5s"}, paid,
	},
	{
		"cost", "what one session costs in Temporal and PostgreSQL, by their own counters",
		[]string{"-sessions=100"}, cost,
	},
	{
		"deliveries", "events from publish to receipt, at a steady pace and as fast as it goes, against a bare Temporal workflow",
		[]string{"-rounds=4", "-for=3s", "-steady=10s"}, deliveries,
	},
	{
		"neighbours", "healthy deliveries beside endpoints that hang and thousands of waiting retries",
		[]string{"-for=10s", "-waiting=1000"}, neighbours,
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
	b.WriteString("  all          all of them, shortened\n-help after the name lists its flags")
	return errors.New(b.String())
}

// run runs the benchmarks in args and prints their results.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage()
	}

	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	jsonFile := flags.String("json", "", "file for all values as JSON")
	var chosen []func(context.Context) (report, error)
	for _, bench := range benchmarks {
		switch args[0] {
		case bench.name:
			chosen = append(chosen, named(bench, bench.setup(flags)))
		case "all":
			own := flag.NewFlagSet(bench.name, flag.ContinueOnError)
			measure := bench.setup(own)
			if err := own.Parse(bench.short); err != nil {
				return err
			}
			chosen = append(chosen, named(bench, measure))
		}
	}
	if len(chosen) == 0 {
		return errUsage()
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}

	got := newResults()
	var failed error
	for _, measure := range chosen {
		r, err := measure(ctx)
		if err != nil { // the earlier results are still printed
			failed = err
			break
		}
		got.Reports = append(got.Reports, r)
	}
	if len(got.Reports) == 0 {
		return failed
	}
	return errors.Join(failed, got.writeTable(os.Stdout), save(*jsonFile, got.writeJSON))
}

// named adds the benchmark's name to the reports of measure.
func named(bench benchmark, measure func(context.Context) (report, error)) func(context.Context) (report, error) {
	return func(ctx context.Context) (report, error) {
		fmt.Fprintln(os.Stderr, "==>", bench.name)
		got, err := measure(ctx)
		got.Name, got.About = bench.name, bench.about
		if err != nil {
			err = fmt.Errorf("%s: %w", bench.name, err)
		}
		return got, err
	}
}

// save writes a file. With the name "" it does nothing.
func save(file string, write func(io.Writer) error) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644) //nolint:gosec // meant to be read by others
}
