package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"example.com/checkout/workflows/runs"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// growth measures creates while few sessions are pending, and while many are,
// and what one of each thing weighs.
func growth(flags *flag.FlagSet) func(context.Context) (report, error) {
	p := pace{rounds: 5, period: 5 * time.Second, clients: 8}
	p.addFlags(flags)
	pending := flags.Int("pending", 100_000, "pending sessions")
	finished := flags.Int("finished", 1000, "sessions that are paid, to weigh them")
	delivered := flags.Int("delivered", 1000, "deliveries, to weigh them")
	return func(ctx context.Context) (report, error) {
		r, err := newRig(ctx, devstack.Options{})
		if err != nil {
			return report{}, err
		}
		defer r.stop()
		overREST := r.createOverREST(p.clients)
		create := func(ctx context.Context) error { _, err := overREST(ctx); return err }
		few, many := &way{name: "few pending", do: create}, &way{name: fmt.Sprintf("%d pending", *pending), do: create}
		if err := r.interleave(ctx, p, few); err != nil {
			return report{}, err
		}

		customers := r.newCustomers(p.clients)
		go customers.listen(ctx)
		publisher, err := newPublisher(ctx, &neighbourhood{rig: r}, p.clients)
		if err != nil {
			return report{}, err
		}
		defer publisher.close()
		weight := figure{Name: "in PostgreSQL, Temporal's tables included", Unit: "bytes"}
		for _, thing := range []struct {
			name  string
			count int
			do    func(context.Context) error
		}{
			{"delivery, with its event", *delivered, publisher.one},
			{"paid session, with payout and 2 deliveries", *finished, customers.payOne},
			{"pending session", *pending, r.pendOne},
		} {
			bytes, err := r.weigh(ctx, thing.name, thing.count, thing.do)
			if err != nil {
				return report{}, err
			}
			weight.Series = append(weight.Series, one(thing.name, bytes))
		}
		if err := r.interleave(ctx, p, many); err != nil {
			return report{}, err
		}
		return report{
			Parts:  []part{{Of: "creates with", Figures: compared(few, many)}, {Of: "one", Figures: []figure{weight}}},
			Result: fmt.Sprintf("There are %.2f times as many creates a second with %d pending.", median(many.rates)/median(few.rates), *pending),
		}, nil
	}
}

// weigh does something count times and returns how many bytes each leaves.
func (r *rig) weigh(ctx context.Context, name string, count int, do func(context.Context) error) (float64, error) {
	before, err := r.size(ctx)
	if err != nil {
		return 0, err
	}
	if err := repeat(ctx, name, count, do); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	after, err := r.size(ctx)
	return float64(after-before) / float64(max(1, count)), err
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

// repeat does something count times, some at a time.
func repeat(ctx context.Context, name string, count int, do func(context.Context) error) error {
	var begun atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	const atATime = 32
	for range atATime {
		group.Go(func() error {
			for ctx.Err() == nil {
				n := begun.Add(1)
				if n > int64(count) {
					return nil
				}
				if n%500 == 0 {
					fmt.Fprintf(os.Stderr, "\r%s: %d of %d", name, n, count)
				}
				if err := do(ctx); err != nil {
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

// pendOne creates a session as the API does, without its front end.
func (r *rig) pendOne(ctx context.Context) error {
	for {
		_, err := r.store.CreateSession(ctx, storage.NewSession{Lifetime: checkout.SessionLifetime, Session: checkout.Session{
			Ref: checkout.Owner{MerchantID: r.stack.Demo.MerchantID, Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixSession)), Amount: 1000,
			Currency: checkout.USD, PayoutCurrency: checkout.USDC, Metadata: []byte(`{}`), MaxAttempts: checkout.DefaultPaymentAttempts,
		}}, r.flows.StartSession)
		if !errors.Is(err, runs.ErrOutcomeUnknown) { // it left no row; another takes its place
			return err
		}
	}
}
