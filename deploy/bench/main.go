// Command bench measures the service on this machine, with its own stack on
// loopback: go run ./deploy/bench neighbours. Figures of different runs and
// machines do not compare; ratios within one run do.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"example.com/checkout/deploy/devstack"
)

// A benchmark measures and returns what goes into the report.
type benchmark struct {
	about string
	run   func(ctx context.Context, args []string) (report, error)
}

var benchmarks = map[string]benchmark{
	"create":     {"sessions created over REST, against starting the same workflow and inserting the same row", create},
	"paid":       {"whole sessions, from their creation to the last event, against a bare Temporal application", paid},
	"deliveries": {"events from publish to receipt, at a steady pace and as fast as it goes", deliveries},
	"growth":     {"creates with few and with many pending sessions, and what one weighs", growth},
	"neighbours": {"healthy deliveries beside endpoints that hang and thousands of waiting retries", neighbours},
}

// report is a table that is also JSON.
type report struct {
	Name    string     `json:"name"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Result  string     `json:"result"` // one sentence
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

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || benchmarks[args[0]].run == nil {
		var b strings.Builder
		b.WriteString("usage: go run ./deploy/bench NAME [flags]\n")
		for name, bench := range benchmarks {
			fmt.Fprintf(&b, "  %-12s %s\n", name, bench.about)
		}
		b.WriteString("-help after the name lists its flags")
		return errors.New(b.String())
	}
	got, err := benchmarks[args[0]].run(ctx, args[1:])
	if err != nil {
		return err
	}
	got.Name = args[0]
	fmt.Println()
	got.print()
	return json.NewEncoder(os.Stdout).Encode(got)
}

func (r report) print() {
	widths := make([]int, len(r.Columns))
	for _, row := range append([][]string{r.Columns}, r.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range append([][]string{r.Columns}, r.Rows...) {
		for i, cell := range row {
			fmt.Printf("%-*s  ", widths[i], cell)
		}
		fmt.Println()
	}
	fmt.Println(r.Result)
}
