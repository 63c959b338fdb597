package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// way is one of the compared ways to do the same work.
type way struct {
	name string
	do   func(context.Context) error

	// One value for each round that counts.
	rates    []float64            // per second
	cpu      []float64            // milliseconds per unit of work
	p50, p99 []float64            // milliseconds
	count    int                  // units of work in all rounds
	programs map[string][]float64 // CPU milliseconds per unit of work, by program
}

// add stores the values of a round.
func (w *way) add(took []time.Duration, lasted, cpu time.Duration, programs map[string]time.Duration) {
	at := quantiles(took)
	w.count += len(took)
	w.rates = append(w.rates, float64(len(took))/lasted.Seconds())
	w.cpu = append(w.cpu, ms(cpu)/float64(max(1, len(took))))
	w.p50, w.p99 = append(w.p50, ms(at(0.5))), append(w.p99, ms(at(0.99)))
	if w.programs == nil {
		w.programs = map[string][]float64{}
	}
	for name, used := range programs {
		w.programs[name] = append(w.programs[name], ms(used)/float64(max(1, len(took))))
	}
}

// compared returns the table of the compared ways. CPU is the CPU time of the whole computer.
func compared(of string, ways ...*way) table {
	t := table{columns: []string{of, "n", "rate, a second", "CPU for each, ms", "p50, ms", "p99, ms"}}
	for _, w := range ways {
		t.add(w.name, []float64{float64(w.count)}, w.rates, w.cpu, w.p50, w.p99)
	}
	return t
}

// cpuByProgram returns the CPU time of each way by program.
func cpuByProgram(ways ...*way) table {
	t := table{columns: []string{"CPU for each, by program"}}
	for _, w := range ways {
		t.columns = append(t.columns, w.name+", ms")
	}
	for _, name := range programs {
		var used [][]float64
		for _, w := range ways {
			used = append(used, w.programs[name])
		}
		if slices.ContainsFunc(used, func(values []float64) bool { return len(values) > 0 }) {
			t.add(name, used...)
		}
	}
	return t
}

// ratios returns, for each round, the rate of a divided by the rate of b beside it.
func ratios(a, b *way) []float64 {
	var all []float64
	for i := range a.rates {
		all = append(all, a.rates[i]/b.rates[i])
	}
	return all
}

// pace is the amount of measuring for each way.
type pace struct {
	rounds  int
	period  time.Duration // duration of a round
	clients int           // clients at a time
}

func (p *pace) addFlags(flags *flag.FlagSet) {
	flags.IntVar(&p.rounds, "rounds", p.rounds, "rounds of each way")
	flags.DurationVar(&p.period, "for", p.period, "how long a round is")
	flags.IntVar(&p.clients, "clients", p.clients, "how many do it at a time")
}

// interleave measures the ways by turns, in the order A B, B A, A B …: a computer that becomes slower favors
// neither. The first round of each is a warm-up and does not count.
func (r *rig) interleave(ctx context.Context, p pace, ways ...*way) error {
	ways = slices.Clone(ways)
	for round := range p.rounds + 1 {
		slices.Reverse(ways)
		for _, w := range ways {
			fmt.Fprintf(os.Stderr, "\rround %d of %d: %-30s", round, p.rounds, w.name)
			began, cpu, before := time.Now(), cpuTime(), r.processes()
			took, err := load(ctx, w.do, p.clients, func() bool { return time.Since(began) < p.period })
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if round > 0 {
				w.add(took, time.Since(began), cpuTime()-cpu, cpuSince(before, r.processes()))
			}
		}
	}
	fmt.Fprintln(os.Stderr)
	return nil
}

// compareWithBare measures a way of the service and a way of a bare application by turns.
func (r *rig) compareWithBare(
	ctx context.Context, p pace, heading, result string, ours *way, of func(*bareApplication) *way,
) (report, error) {
	b, err := newBare("bare", r.temporal)
	if err != nil {
		return report{}, err
	}
	defer b.worker.Stop()
	bare := of(b)
	memory, err := r.memoryUnder(ctx, func() error { return r.interleave(ctx, p, ours, bare) })
	if err != nil {
		return report{}, err
	}
	return report{
		Tables: []table{compared(heading, ours, bare), cpuByProgram(ours, bare), memory},
		Result: compare(result, ratios(ours, bare)),
	}, nil
}

// load repeats a function with several clients while there is more to do, and returns the duration of each call.
func load(
	ctx context.Context, do func(context.Context) error, clients int, more func() bool,
) ([]time.Duration, error) {
	var (
		mu  sync.Mutex
		all []time.Duration
	)
	group, ctx := errgroup.WithContext(ctx)
	for range clients {
		group.Go(func() error {
			var took []time.Duration
			for more() {
				began := time.Now()
				if err := do(ctx); err != nil {
					return err
				}
				took = append(took, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			return nil
		})
	}

	err := group.Wait()
	return all, err
}

// createOverREST creates a session and returns its id. It repeats the request after a 503, as
// merchants do; the measured time includes the repetition.
func (r *rig) createOverREST(clients int) func(context.Context) (string, error) {
	browser := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	try := func(ctx context.Context, body string) (id string, status int, err error) {
		answer, err := browser.Do(send(ctx, http.MethodPost, r.stack.APIURL()+"/v1/checkout", []byte(body),
			"Authorization", "Bearer "+r.stack.Demo.APIKey, "Content-Type", "application/json"))
		if err != nil {
			return "", 0, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusCreated {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return strings.TrimPrefix(answer.Header.Get("Location"), "/v1/checkout/"), answer.StatusCode, err
	}
	return func(ctx context.Context) (string, error) {
		body := fmt.Sprintf(
			`{"amount": 10.00, "currency": "USD", "payout_currency": "USDC", "metadata": {"order_id": "r%d"}}`,
			r.orders.Add(1),
		)
		id, status, err := try(ctx, body)
		for tries := 1; status == http.StatusServiceUnavailable && tries < 10; tries++ {
			id, status, err = try(ctx, body)
		}
		return id, err
	}
}
