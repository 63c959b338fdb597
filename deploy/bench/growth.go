package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

// growth measures creates while few sessions are pending, and while many are,
// and what one weighs.
func growth(ctx context.Context, args []string) (report, error) {
	p, pending := pace{rounds: 5, period: 5 * time.Second, clients: 8}, 0
	err := p.parse("growth", args, func(flags *flag.FlagSet) {
		flags.IntVar(&pending, "pending", 100_000, "pending sessions")
	})
	if err != nil {
		return report{}, err
	}
	r, err := newRig(ctx, devstack.Options{})
	if err != nil {
		return report{}, err
	}
	defer r.stop()
	overREST := r.createOverREST(p.clients)
	measure := func(name string) (way, error) {
		ways := []way{{name: name, do: func(ctx context.Context) error { _, err := overREST(ctx); return err }}}
		err := p.interleave(ctx, ways)
		return ways[0], err
	}
	few, err := measure("few pending")
	if err != nil {
		return report{}, err
	}
	before, err := r.size(ctx)
	if err != nil {
		return report{}, err
	}
	if err := r.pend(ctx, pending); err != nil {
		return report{}, err
	}
	after, err := r.size(ctx)
	if err != nil {
		return report{}, err
	}
	many, err := measure(fmt.Sprintf("%d pending", pending))
	if err != nil {
		return report{}, err
	}
	got := report{Columns: []string{"creates with", "n", "a second, median", "p50", "p99"}}
	for _, w := range []way{few, many} {
		at := quantiles(w.took)
		got.Rows = append(got.Rows, []string{w.name, fmt.Sprint(len(w.took)), fmt.Sprintf("%.0f", median(w.rates)), ms(at(0.5)), ms(at(0.99))})
	}
	got.Result = fmt.Sprintf("%.2f times as many a second with %d pending; one weighs %d bytes in PostgreSQL, Temporal's tables included",
		median(many.rates)/median(few.rates), pending, (after-before)/int64(max(1, pending)))
	return got, nil
}

// size is what all databases of the stack take, in bytes.
func (r *rig) size(ctx context.Context) (bytes int64, err error) {
	conn, err := pgx.Connect(ctx, r.stack.DatabaseURL())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT sum(pg_database_size(datname))::bigint FROM pg_database`).Scan(&bytes)
	return bytes, err
}

// pend creates sessions as the API does, without its front end.
func (r *rig) pend(ctx context.Context, count int) error {
	var made atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	const atATime = 32
	for range atATime {
		group.Go(func() error {
			for ctx.Err() == nil {
				n := made.Add(1)
				if n > int64(count) {
					return nil
				}
				if n%500 == 0 {
					fmt.Fprintf(os.Stderr, "\rpending sessions: %d of %d", n, count)
				}
				if err := r.pendOne(ctx); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	err := group.Wait()
	fmt.Fprintln(os.Stderr)
	return err
}

func (r *rig) pendOne(ctx context.Context) error {
	for {
		_, err := r.store.CreateSession(ctx, storage.NewSession{Lifetime: checkout.SessionLifetime, Session: checkout.Session{
			ID: checkout.NewID(checkout.PrefixSession), MerchantID: r.stack.Demo.MerchantID, Mode: checkout.ModeTest, Amount: 1000,
			Currency: checkout.USD, PayoutCurrency: checkout.USDC, Metadata: []byte(`{}`), MaxAttempts: checkout.DefaultPaymentAttempts,
		}}, r.flows.StartSession)
		if !errors.Is(err, workflows.ErrOutcomeUnknown) { // it left no row; another takes its place
			return err
		}
	}
}
