package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// TestReconcile_StartsAgainWhatAnOperatorTerminated: every kind of run is
// terminated, or was never started, and everything still comes to its end.
func TestReconcile_StartsAgainWhatAnOperatorTerminated(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	c := e2e.TemporalClient(t, e2e.Shared)
	store := e2e.OpenStore(t, e2e.Shared)
	terminate := func(id string) { require.NoError(t, c.TerminateWorkflow(t.Context(), id, "", "a test")) }

	session := m.Create(e2e.Terms)
	terminate(session)

	m.Receiver.Answer(http.StatusInternalServerError)
	held := m.Sell(e2e.CardDeclined)
	parked := checkout.Owner{MerchantID: m.ID, Mode: checkout.ModeTest}.Ref(e2e.DeliveryOf(t, e2e.Shared, held, "checkout.failed"))
	require.NoError(t, store.Webhooks.HoldDelivery(t.Context(), parked))
	e2e.AwaitQuery(t, "the delivery is parked", 20*time.Second, e2e.Shared, true, `SELECT parked_at IS NOT NULL FROM webhook_delivery WHERE id = $1`, parked.ID)
	terminate(parked.ID)
	retrying := m.RefusedDelivery() // last, so that its new run meets a receiver that is back
	terminate(retrying)
	m.Receiver.Answer(http.StatusOK)
	require.NoError(t, store.Webhooks.ResumeDelivery(t.Context(), parked))

	endpoint := e2e.Query[string](t, e2e.Shared, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1`, m.ID)
	_, missing, err := store.Webhooks.PublishTest(t.Context(), m.TestEvent(endpoint))
	require.NoError(t, err)

	const picture = "http://127.0.0.1:1/beans.png"
	unseen, err := store.Sessions.CreateSession(t.Context(), storage.NewSession{Lifetime: time.Hour, Session: checkout.Session{
		Ref: parked.Owner.Ref(checkout.NewID(checkout.PrefixSession)), Amount: 1050, Currency: money.EUR, PayoutCurrency: money.USDC,
		Metadata: json.RawMessage(`{}`), MaxAttempts: 3,
		LineItems: []checkout.LineItem{{Name: "Beans", Quantity: 1, UnitAmount: 1050, ImageURL: new(picture)}},
	}}, func(context.Context, checkout.Session) error { return nil }) // nobody starts the runs, as after a crash
	require.NoError(t, err)
	e2e.Query[string](t, e2e.Shared, `UPDATE picture SET created_at = now() - interval '1 hour' WHERE id = $1 RETURNING id`, unseen.Pictures[0].ID)

	e2e.Await(t, "the delivery that was retrying is delivered by a new run", 30*time.Second, func() bool { return e2e.DeliveryStatus(t, retrying) == "delivered" })
	require.Equal(t, 2, e2e.Query[int](t, e2e.Shared, `SELECT run FROM webhook_delivery WHERE id = $1`, retrying))
	e2e.Await(t, "the delivery that was parked is delivered", 60*time.Second, func() bool { return e2e.DeliveryStatus(t, parked.ID) == "delivered" })
	e2e.Await(t, "the delivery that was never started is delivered", 60*time.Second, func() bool { return e2e.DeliveryStatus(t, missing.ID) == "delivered" })
	e2e.AwaitQuery(t, "the picture is given up after its tries", 60*time.Second, e2e.Shared, "failed3", `SELECT status || tries FROM picture WHERE id = $1`, unseen.Pictures[0].ID)
	e2e.Await(t, "the session can be paid", 30*time.Second, func() bool {
		_, _, _ = m.Pay(session, e2e.CardSucceeds) // refused until it has a run again
		return m.Session(session).Field("status") == "completed"
	})

	// A payout whose run never was: as after a crash that took the parent too.
	payout := checkout.NewID(checkout.PrefixPayout)
	e2e.Await(t, "the payout is sent", 20*time.Second, func() bool { return m.Session(session).Field("payout.status") == "sent" })
	require.Equal(t, payout, e2e.Query[string](t, e2e.Shared, `
		WITH former AS (
			SELECT e.* FROM ledger_entry e JOIN payout p ON p.id = e.subject WHERE p.session_id = $1 AND e.kind = 'payout'
		), unbooked AS (
			INSERT INTO ledger_entry (mode, kind, subject, generation, merchant_id)
			SELECT mode, kind, subject, 2, merchant_id FROM former RETURNING id
		), postings AS (
			INSERT INTO ledger_posting SELECT unbooked.id, l.mode, l.account, l.holder, l.asset, -l.amount
			FROM unbooked, former JOIN ledger_posting l ON l.entry_id = former.id
		)
		UPDATE payout SET id = $2, status = 'pending', tx_hash = '', signed_transfer = NULL, created_at = created_at - interval '1 hour'
		WHERE session_id = $1 RETURNING id`, session, payout))
	e2e.Await(t, "the payout without a run is sent", 30*time.Second, func() bool { return m.Session(session).Field("payout.status") == "sent" })
	require.Equal(t, payout, m.Session(session).Field("payout.id"))
}

// TestLostRun_IsStartedByTheNextMessage: Temporal knows nothing of sessions that are pending, as after the
// loss of its database. They are paid and expire without a wait for Reconcile.
func TestLostRun_IsStartedByTheNextMessage(t *testing.T) {
	t.Parallel()
	stack := e2e.Beside(t, devstack.Options{Env: []string{"CHECKOUT_RECONCILE_INTERVAL=1h"}})
	m := e2e.NewMerchant(t, stack)
	paid, expired, advanced, ended := m.Create(e2e.Terms), m.Create(e2e.Terms), m.Create(e2e.Terms), m.Create(e2e.Terms)
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+ended+"/expire", "")
	moveToEmptyNamespace(t, stack)

	m.Complete(paid)
	require.Equal(t, 1, m.Charges(paid))
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+expired+"/expire", "")
	m.AwaitStatus(expired, checkout.StatusExpired, 10*time.Second)
	m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+advanced+"/advance", "")
	m.AwaitStatus(advanced, checkout.StatusExpired, 10*time.Second)
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+ended+"/expire", "")
	_, err := e2e.TemporalClient(t, stack).DescribeWorkflow(t.Context(), ended, "")
	require.Error(t, err, "a session that has ended needs no run")
}

// moveToEmptyNamespace starts the processes again in a namespace that has no run.
func moveToEmptyNamespace(t *testing.T, stack *devstack.Stack) {
	stack.API.Kill()
	stack.Worker.Kill()
	empty := must.Get(stack.Temporal.In(t.Context(), stack.Temporal.Namespace()+"_empty"))(t)
	stack.Temporal = empty
	require.NoError(t, stack.StartWorker(t.Context()))
	require.NoError(t, stack.StartAPI(t.Context()))
}
