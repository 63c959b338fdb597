package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"example.com/checkout/workflows/runs"

	"github.com/jackc/pgx/v5"
)

// asksTheBank is a card whose payment stays in flight until the customer confirms at the bank.
// During this time, the session's row can be locked.
const asksTheBank = "4000000000003220"

// raceDecisions makes several runs of one session decide its payment at once. It locks the row, so
// that a run waits for it. Then operators end that run, and the next run waits as well.
func raceDecisions(operators ...func(ctx context.Context, c *chaos, id string) error) injection {
	return within(40*time.Second, func(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
		m, key := c.merchants[random.IntN(len(c.merchants))], c.nextKey()
		id, _ := c.create(ctx, m, key, m.terms(key, "", ""), 3, 2)
		conn, err := pgx.Connect(ctx, c.rig.databaseURL)
		if id == "" || err != nil {
			return false
		}
		var customer sync.WaitGroup
		defer customer.Wait()
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // the lock ends with it
		customer.Go(func() { c.pay(ctx, m, id, asksTheBank) })
		if !lockInFlight(ctx, conn, id) || !c.awaitWaiting(ctx, conn, 1) {
			return false
		}
		for i, operator := range operators {
			if operator(ctx, c, id) != nil || !c.awaitWaiting(ctx, conn, i+2) {
				return false
			}
		}
		return true
	})
}

// lockInFlight locks a session's row once its payment is in flight. It returns false if no payment
// is in flight for a while.
func lockInFlight(ctx context.Context, conn *pgx.Conn, id string) bool {
	tx, err := conn.Begin(ctx)
	return err == nil && until(ctx, 10*time.Second, 5*time.Millisecond, func() bool {
		tag, err := tx.Exec(ctx, `SELECT FROM checkout_session WHERE id = $1 AND payment_in_flight FOR UPDATE`, id)
		return err == nil && tag.RowsAffected() == 1
	})
}

// awaitWaiting waits until the wanted number of runs waits for the locks of a connection. It
// returns false if fewer wait after a while. When several are wanted, it calls Reconcile, which
// starts missing runs.
func (c *chaos) awaitWaiting(ctx context.Context, conn *pgx.Conn, wanted int) bool {
	service := runs.Client{Temporal: c.rig.temporal}
	return until(ctx, 8*time.Second, 200*time.Millisecond, func() bool {
		waiting, err := query[int](ctx, c.rig, `
			WITH RECURSIVE waiting AS (
				SELECT $1::int AS pid UNION SELECT a.pid FROM pg_stat_activity a
					JOIN waiting w ON w.pid = ANY(pg_blocking_pids(a.pid)))
			SELECT count(*) - 1 FROM waiting`, conn.PgConn().PID())
		enough := err == nil && waiting >= wanted
		if !enough && wanted > 1 {
			_ = service.ReconcileNow(ctx) // after an error, its schedule runs it later
		}
		return enough
	})
}
