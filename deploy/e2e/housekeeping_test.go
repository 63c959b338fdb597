package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

// TestReconcile_StartsAgainWhatAnOperatorTerminated: every kind of run is
// terminated, or was never started, and everything still comes to its end.
func TestReconcile_StartsAgainWhatAnOperatorTerminated(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	c := temporalClient(t, shared)
	store := openStore(t, shared)
	terminate := func(id string) { require.NoError(t, c.TerminateWorkflow(t.Context(), id, "", "a test")) }

	session := m.create(terms)
	terminate(session)

	m.receiver.Answer(http.StatusInternalServerError)
	declined := m.create(terms)
	m.mustPay(declined, cardDeclined)
	retrying := deliveryOf(t, shared, declined, "checkout.failed")
	m.arrivals(1, 10*time.Second)
	terminate(retrying)

	held := m.create(terms)
	m.mustPay(held, cardDeclined)
	parked := storage.DeliveryRef{ID: deliveryOf(t, shared, held, "checkout.failed"), MerchantID: m.id, Mode: checkout.ModeTest}
	require.NoError(t, store.HoldDelivery(t.Context(), parked))
	await(t, "the delivery is parked", 20*time.Second, func() bool {
		return query[bool](t, shared, `SELECT parked_at IS NOT NULL FROM webhook_delivery WHERE id = $1`, parked.ID)
	})
	terminate(parked.ID)
	m.receiver.Answer(http.StatusOK)
	require.NoError(t, store.ResumeDelivery(t.Context(), parked))

	endpoint := query[string](t, shared, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1`, m.id)
	_, missing, err := store.PublishTest(t.Context(), m.testEvent(endpoint))
	require.NoError(t, err)

	await(t, "the delivery that was retrying is delivered by a new run", 30*time.Second, func() bool { return deliveryStatus(t, retrying) == "delivered" })
	require.Equal(t, 2, query[int](t, shared, `SELECT run FROM webhook_delivery WHERE id = $1`, retrying))
	await(t, "the delivery that was parked is delivered", 60*time.Second, func() bool { return deliveryStatus(t, parked.ID) == "delivered" })
	await(t, "the delivery that was never started is delivered", 60*time.Second, func() bool { return deliveryStatus(t, missing.ID) == "delivered" })
	await(t, "the session can be paid", 30*time.Second, func() bool {
		_, _, _ = m.pay(session, cardSucceeds) // refused until it has a run again
		return m.session(session).field("status") == "completed"
	})

	// A payout whose run never was: as after a crash that took the parent too.
	payout := checkout.NewID(checkout.PrefixPayout)
	await(t, "the payout is sent", 20*time.Second, func() bool { return m.session(session).field("payout.status") == "sent" })
	require.Equal(t, payout, query[string](t, shared, `
		UPDATE payout SET id = $2, status = 'pending', tx_hash = '', signed_transfer = NULL, created_at = created_at - interval '1 hour'
		WHERE session_id = $1 RETURNING id`, session, payout))
	await(t, "the payout without a run is sent", 30*time.Second, func() bool { return m.session(session).field("payout.status") == "sent" })
	require.Equal(t, payout, m.session(session).field("payout.id"))
}

// TestReconcile_LeavesWhatHasARunAlone: deliveries that are late, because all
// workers were away, are not started twice.
func TestReconcile_LeavesWhatHasARunAlone(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	m.receiver.Answer(http.StatusInternalServerError)
	id := m.create(terms)
	m.mustPay(id, cardDeclined)
	delivery := deliveryOf(t, shared, id, "checkout.failed")
	m.arrivals(1, 10*time.Second)
	// It looks overdue to Reconcile all the time.
	query[string](t, shared, `UPDATE webhook_delivery SET next_attempt_at = next_attempt_at - interval '1 hour' WHERE id = $1 RETURNING id`, delivery)
	await(t, "the delivery is permanently failed", 60*time.Second, func() bool { return deliveryStatus(t, delivery) == "failed" })
	require.Equal(t, 1, query[int](t, shared, `SELECT run FROM webhook_delivery WHERE id = $1`, delivery))
}

// TestRetention_RemovesWhatIsFinishedAndOldEnough on a stack of its own: it
// would remove other tests' deliveries.
func TestRetention_RemovesWhatIsFinishedAndOldEnough(t *testing.T) {
	t.Parallel()
	stack := ownStack(t, devstack.Options{})
	m := newMerchant(t, stack)
	c := temporalClient(t, stack)
	delivered := m.create(terms)
	m.mustPay(delivered, cardDeclined)
	await(t, "delivered", 20*time.Second, func() bool {
		return query[int](t, stack, `SELECT count(*) FROM webhook_delivery WHERE status = 'delivered'`) == 1
	})
	m.receiver.Answer(http.StatusInternalServerError)
	pending := m.create(terms)
	m.mustPay(pending, cardDeclined)
	m.arrivals(2, 20*time.Second)

	var deleted int64
	retention := func(age time.Duration) {
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: workflows.TaskQueueCheckout},
			workflows.TypeRetention, workflows.RetentionInput{Age: age})
		require.NoError(t, err)
		require.NoError(t, run.Get(t.Context(), &deleted))
	}
	retention(24 * time.Hour)
	require.Zero(t, deleted, "nothing is that old")
	retention(time.Millisecond)
	require.EqualValues(t, 1, deleted, "one delivery")
	require.Equal(t, deliveryOf(t, stack, pending, "checkout.failed"), query[string](t, stack, `SELECT id FROM webhook_delivery`), "what is pending stays")
	require.Equal(t, 1, query[int](t, stack, `SELECT count(DISTINCT delivery_id) FROM webhook_attempt`))

	for id, every := range map[string]time.Duration{workflows.ScheduleReconcile: time.Minute, workflows.ScheduleRetention: time.Hour} {
		schedule, err := c.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, every, schedule.Schedule.Spec.Intervals[0].Every, id)
		require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, schedule.Schedule.Policy.Overlap)
	}
}
