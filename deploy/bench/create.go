package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/workflows/checkout"
)

// create measures POST /v1/checkout against the plain sum of its parts, in
// rounds that take turns.
func create(ctx context.Context, args []string) (report, error) {
	p := pace{rounds: 7, period: 5 * time.Second, clients: 8}
	if err := p.parse("create", args, nil); err != nil {
		return report{}, err
	}
	r, err := newRig(ctx, devstack.Options{})
	if err != nil {
		return report{}, err
	}
	defer r.stop()
	pool, err := pgxpool.New(ctx, r.stack.DatabaseURL())
	if err != nil {
		return report{}, err
	}
	defer pool.Close()
	overREST := r.createOverREST(p.clients)
	ways := []way{
		{name: "POST /v1/checkout", do: func(ctx context.Context) error { _, err := overREST(ctx); return err }},
		{name: "INSERT + StartWorkflow", do: r.createBare(pool)},
	}
	if err := p.interleave(ctx, ways); err != nil {
		return report{}, err
	}
	got := report{Columns: []string{"way", "n", "a second, median", "p50", "p99"}}
	for _, w := range ways {
		at := quantiles(w.took)
		got.Rows = append(got.Rows, []string{w.name, fmt.Sprint(len(w.took)), fmt.Sprintf("%.0f", median(w.rates)), ms(at(0.5)), ms(at(0.99))})
	}
	got.Result = fmt.Sprintf("the whole request does %.2f times as many a second as the plain sum of its parts", median(ways[0].rates)/median(ways[1].rates))
	return got, nil
}

// way is one of the ways to do the same that are compared.
type way struct {
	name  string
	do    func(context.Context) error
	rates []float64 // a second, of each round
	cpu   []float64 // milliseconds for each, of each round
	took  []time.Duration
}

// pace is how much is measured of each way.
type pace struct {
	rounds  int
	period  time.Duration // of a round
	clients int           // at a time
}

// parse reads the flags of a benchmark; more adds those that only it has.
func (p *pace) parse(name string, args []string, more func(*flag.FlagSet)) error {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.IntVar(&p.rounds, "rounds", p.rounds, "rounds of each way")
	flags.DurationVar(&p.period, "for", p.period, "how long a round is")
	flags.IntVar(&p.clients, "clients", p.clients, "how many do it at a time")
	if more != nil {
		more(flags)
	}
	return flags.Parse(args)
}

// interleave lets the ways take turns, after one round of each that does not
// count.
func (p pace) interleave(ctx context.Context, ways []way) error {
	for round := range p.rounds + 1 {
		for i := range ways {
			fmt.Fprintf(os.Stderr, "\rround %d of %d: %-30s", round, p.rounds, ways[i].name)
			began, cpu := time.Now(), cpuTime()
			took, err := load(ctx, ways[i].do, p.clients, p.period)
			if err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
			}
			if round > 0 {
				ways[i].took = append(ways[i].took, took...)
				ways[i].cpu = append(ways[i].cpu, float64((cpuTime()-cpu).Milliseconds())/float64(max(1, len(took))))
				ways[i].rates = append(ways[i].rates, float64(len(took))/time.Since(began).Seconds())
			}
		}
	}
	fmt.Fprintln(os.Stderr)
	return nil
}

// load does something with clients at a time for a period, and returns how long
// each took.
func load(ctx context.Context, do func(context.Context) error, clients int, period time.Duration) ([]time.Duration, error) {
	var (
		mu   sync.Mutex
		all  []time.Duration
		ends = time.Now().Add(period)
	)
	group, ctx := errgroup.WithContext(ctx)
	for range clients {
		group.Go(func() error {
			var took []time.Duration
			for time.Now().Before(ends) {
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
	return all, group.Wait()
}

// createOverREST creates a session and returns its id.
func (r *rig) createOverREST(clients int) func(context.Context) (string, error) {
	var orders atomic.Int64
	browser := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	return func(ctx context.Context) (string, error) {
		body := fmt.Appendf(nil, `{"amount": 10.00, "currency": "USD", "payout_currency": "USDC", "metadata": {"order_id": "r%d"}}`, orders.Add(1))
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.stack.APIURL()+"/v1/checkout", bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		request.Header.Set("Authorization", "Bearer "+r.stack.Demo.APIKey)
		request.Header.Set("Content-Type", "application/json")
		answer, err := browser.Do(request)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusCreated {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return strings.TrimPrefix(answer.Header.Get("Location"), "/v1/checkout/"), err
	}
}

// createBare is what no service could do without: the same row, the same
// workflow; no request, key, rate limit, checks or transaction around both.
func (r *rig) createBare(pool *pgxpool.Pool) func(context.Context) error {
	var orders atomic.Int64
	return func(ctx context.Context) error {
		order := fmt.Sprintf("b%d", orders.Add(1))
		now := time.Now().UTC().Truncate(time.Millisecond)
		s := checkout.Session{
			ID: checkout.NewID(checkout.PrefixSession), MerchantID: r.stack.Demo.MerchantID, Mode: checkout.ModeTest,
			Currency: checkout.USD, ExpiresAt: now.Add(checkout.SessionLifetime),
		}
		_, err := pool.Exec(ctx, `
			INSERT INTO checkout_session (id, merchant_id, mode, amount, currency, payout_currency, status, metadata, order_id, max_attempts, created_at, expires_at)
			VALUES ($1, $2, $3, 1000, 'USD', 'USDC', 'pending', $4, $5, 3, $6, $7)`,
			s.ID, s.MerchantID, s.Mode, fmt.Appendf(nil, `{"order_id":%q}`, order), order, now, s.ExpiresAt)
		if err != nil {
			return err
		}
		return r.flows.StartSession(ctx, s)
	}
}
