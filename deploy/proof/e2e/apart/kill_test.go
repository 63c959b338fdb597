// Package apart has the tests that need another stack: they break it, or its Temporal or PostgreSQL is not the usual
// one.
package apart

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
)

func TestMain(m *testing.M) { e2e.MainWithoutShared(m) }

// TestKill9_InTheMiddleOfTheMainJob kills each part once while sessions are created and paid, and all of them at the
// end. Everything that was acknowledged still ends right.
func TestKill9_InTheMiddleOfTheMainJob(t *testing.T) {
	t.Parallel()
	stack := e2e.OwnStack(t, devstack.Options{RetrySchedule: "1s,2s,3s,4s,5s"})
	m := e2e.NewMerchant(t, stack)
	ctx := t.Context()
	type part struct {
		kill func()
		back func() error
	}
	parts := []part{ // in the order in which they start
		{func() { stack.Postgres.Kill() }, func() error { return stack.StartPostgres(ctx) }},
		{func() { stack.Temporal.Kill() }, func() error { return stack.Temporal.Start(ctx) }},
		{func() { stack.Worker.Kill() }, func() error { return stack.StartWorker(ctx) }},
		{func() { stack.API.Kill() }, func() error { return stack.StartAPI(ctx) }},
	}
	for name, parts := range map[string][]part{
		"PostgreSQL": parts[:1], "Temporal": parts[1:2], "worker": parts[2:3], "API": parts[3:], "everything": parts,
	} {
		load := e2e.StartLoad(m)
		e2e.Await(t, "the load runs", 10*time.Second, func() bool { return load.Since(time.Time{}) >= 3 })
		for _, p := range parts {
			p.kill()
		}
		time.Sleep(500 * time.Millisecond)
		for _, p := range parts {
			require.NoError(t, p.back(), name)
		}
		acknowledged, _ := load.Stop()
		t.Logf("%s: %d sessions acknowledged", name, len(acknowledged))
		requireCompleted(m, name, acknowledged)
	}
	completed := e2e.Query[int](t, stack, `SELECT count(*) FROM checkout_session WHERE status = 'completed'`)
	require.Equal(t, completed, e2e.Query[int](t, stack, `SELECT count(*) FROM sandbox_charge WHERE outcome = 'succeeded'`), "one charge each")
	require.Equal(t, completed, e2e.Query[int](t, stack, `SELECT count(*) FROM event WHERE type = 'checkout.completed'`), "one event each")
	e2e.AwaitQuery(t, "every payout is sent", 60*time.Second, stack, completed, `SELECT count(*) FROM payout WHERE status = 'sent'`)
	require.Equal(t, completed, e2e.Query[int](t, stack, `SELECT count(*) FROM sandbox_transfer`), "one transfer each")
	e2e.AwaitQuery(t, "every delivery is delivered", 90*time.Second, stack, 0, `SELECT count(*) FROM webhook_delivery WHERE status <> 'delivered'`)
	require.Equal(t, 2*completed, e2e.Query[int](t, stack, `SELECT count(*) FROM webhook_delivery`))
	got, _ := m.Receiver.Arrivals()
	events := map[string]bool{}
	for _, a := range got {
		require.NoError(t, a.Signature)
		events[a.EventID] = true
	}
	require.Len(t, events, 2*completed, "no event is lost")
	e2e.RequireInvariants(t, stack, e2e.SharedSchedule)
}

// requireCompleted requires that every acknowledged session is there and ends. What was not paid in
// the confusion can be paid now: nothing is stuck.
func requireCompleted(m *e2e.Merchant, after string, acknowledged []string) {
	for _, id := range acknowledged {
		e2e.Await(m.T, after+": the session is there", 30*time.Second, func() bool {
			got, err := m.Call(http.MethodGet, "/v1/checkout/"+id, "")
			return err == nil && got.Status == http.StatusOK
		})
	}
	for _, id := range acknowledged {
		e2e.Await(m.T, after+": "+id+" is completed", 90*time.Second, func() bool {
			got, err := m.Call(http.MethodGet, "/v1/checkout/"+id, "")
			if err == nil && got.Field("status") == "pending" {
				_, _, _ = m.Pay(id, e2e.CardSucceeds) // refused while a payment is in flight
			}
			return err == nil && got.Field("status") == "completed"
		})
	}
}

// TestKill9_OfAWorkerInAnAttempt kills the worker while the receiver has the request. The lost attempt counts, and the
// next follows by the policy's own back-off.
func TestKill9_OfAWorkerInAnAttempt(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.OwnStack(t, devstack.Options{RetrySchedule: "1s,2s,3s,4s,5s"})
	m := e2e.NewMerchant(t, stack)
	release := m.Receiver.Hang()
	id := m.Sell(e2e.CardDeclined)
	m.Arrivals(1, 10*time.Second)
	stack.Worker.Kill()
	release()
	require.NoError(t, stack.StartWorker(t.Context()))
	got := m.Arrivals(2, 70*time.Second)
	gap := got[1].At.Sub(got[0].At)
	require.InDelta(t, 45, gap.Seconds(), 5, "15 s until the server gives the attempt up, and the 30 s of the schedule")
	require.Equal(t, "2", got[1].Attempt)
	delivery := e2e.DeliveryOf(t, stack, id, "checkout.failed")
	e2e.AwaitQuery(t, "delivered", 10*time.Second, stack, "delivered", `SELECT status FROM webhook_delivery WHERE id = $1`, delivery)
	require.Equal(t, 1, e2e.Query[int](t, stack, `SELECT count(*) FROM webhook_attempt WHERE delivery_id = $1 AND duration_ms IS NULL`, delivery),
		"the log shows the attempt that was begun and lost")
	e2e.RequireInvariants(t, stack, e2e.SharedSchedule)
}

// TestSupervise_StartsPostgresAgain: kill -9 of the postmaster from outside, which
// the stack only notices, left its directory taken and the stack without a database.
func TestSupervise_StartsPostgresAgain(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.OwnStack(t, devstack.Options{})
	ctx, stop := context.WithCancel(t.Context())
	supervised := make(chan struct{})
	go func() { defer close(supervised); stack.Supervise(ctx) }()
	t.Cleanup(func() { stop(); <-supervised })
	m := e2e.NewMerchant(t, stack)
	require.NoError(t, syscall.Kill(stack.Postgres.PID(), syscall.SIGKILL))
	e2e.Await(t, "sessions are created again", 30*time.Second, func() bool {
		got, err := m.Call(http.MethodPost, "/v1/checkout", e2e.Terms)
		return err == nil && got.Status == http.StatusCreated
	})
}
