package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

// TestHistories makes one run of each kind, closed and open, on the real server.
// It checks how each stands; with -record-histories it also writes them, for the
// replay tests of package workflows. Record only from code that is deployed.
func TestHistories(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	failing := newMerchant(t, shared)
	failing.receiver.Answer(http.StatusInternalServerError)
	c := temporalClient(t, shared)

	paid := m.create(terms)
	m.mustPay(paid, cardSucceeds)
	await(t, "the payout is told", 20*time.Second, func() bool {
		return query[int](t, shared, `SELECT count(*) FROM webhook_delivery d JOIN event e ON e.id = d.event_id
			WHERE e.session_id = $1 AND d.status = 'delivered'`, paid) == 2
	})
	silent := newMerchant(t, shared)
	query[int](t, shared, `WITH deleted AS (UPDATE webhook_endpoint SET deleted_at = now() WHERE merchant_id = $1) SELECT 1`, silent.id)
	untold := silent.create(terms)
	silent.mustPay(untold, cardSucceeds)
	declined := m.create(terms)
	m.mustPay(declined, cardDeclined)
	m.mustPay(declined, cardSucceeds)
	expired := m.create(terms)
	m.must(http.StatusOK, http.MethodPost, "/v1/checkout/"+expired+"/expire", "")
	advanced := m.create(terms)
	m.must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+advanced+"/advance", "")
	slow := m.create(terms)
	m.mustPay(slow, cardSlow)
	m.awaitStatus(slow, checkout.StatusCompleted, 20*time.Second)
	waiting := m.create(terms)
	asked := m.create(terms)
	m.mustPay(asked, card3DS)
	unsent := failing.create(terms)
	failing.mustPay(unsent, cardDeclined)
	undelivered := deliveryOf(t, shared, unsent, "checkout.failed")
	retried := failing.create(terms)
	failing.mustPay(retried, cardDeclined)
	retrying := deliveryOf(t, shared, retried, "checkout.failed")
	stuck := startPayoutWithoutNetwork(t, c, m)

	for name, run := range map[string]struct {
		id     string
		status enumspb.WorkflowExecutionStatus
	}{
		"checkout_session_paid":           {paid, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_paid_untold":    {untold, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_declined_first": {declined, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_expired":        {expired, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_advanced":       {advanced, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_called_back":    {slow, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_waiting":        {waiting, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"checkout_session_3ds":            {asked, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"payout_sent":                     {silent.session(untold).field("payout.id").(string), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"payout_waiting":                  {stuck, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"webhook_delivery_delivered":      {deliveryOf(t, shared, paid, "checkout.completed"), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"webhook_delivery_failed":         {undelivered, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED},
		"webhook_delivery_retrying":       {retrying, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
	} {
		if name == "webhook_delivery_failed" {
			continue // takes the whole schedule; below
		}
		await(t, name+" is "+run.status.String(), 20*time.Second, func() bool { return statusOf(t, c, run.id) == run.status })
		record(t, c, name, run.id)
	}
	await(t, "the delivery is failed", 40*time.Second, func() bool {
		return statusOf(t, c, undelivered) == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	})
	record(t, c, "webhook_delivery_failed", undelivered)
	require.NoError(t, c.TerminateWorkflow(t.Context(), stuck, "", "the test is over"))
}

// startPayoutWithoutNetwork starts a payout that waits for a live network to be
// configured.
func startPayoutWithoutNetwork(t *testing.T, c client.Client, m *merchant) string {
	t.Helper()
	id := checkout.NewID(checkout.PrefixPayout)
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueueCheckout},
		workflows.TypePayout, workflows.PayoutInput{Owner: workflows.Owner{MerchantID: m.id, Mode: checkout.ModeLive}, PayoutID: id})
	require.NoError(t, err)
	return id
}

// TestHistories_OfSteering is TestHistories for deliveries that were steered,
// bulk replays and Reconcile.
func TestHistories_OfSteering(t *testing.T) {
	t.Parallel()
	stack := madeUp(t)
	c := temporalClient(t, stack)
	store := openStore(t, stack)
	steered, parked, canceled := newMerchant(t, stack), newMerchant(t, stack), newMerchant(t, stack)

	hurried := steered.refusedDelivery()
	await(t, "the next attempt waits", 5*time.Second, func() bool {
		got, err := steered.call(http.MethodPost, "/v1/deliveries/"+hurried+"/retry_now", "")
		return err == nil && got.Status == http.StatusAccepted
	})
	steered.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+hurried+"/hold", "")
	held := parked.refusedDelivery()
	parked.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/hold", "")
	for _, id := range []string{hurried, held} {
		await(t, "the delivery is parked", 20*time.Second, func() bool {
			return query[bool](t, stack, `SELECT parked_at IS NOT NULL FROM webhook_delivery WHERE id = $1`, id)
		})
	}
	steered.receiver.Answer(http.StatusOK)
	steered.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+hurried+"/resume", "")
	steered.awaitDelivery(hurried, "status", "delivered", 10*time.Second)
	deleted := canceled.refusedDelivery()
	canceled.must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+canceled.registration(), "")
	canceled.awaitDelivery(deleted, "status", "canceled", 20*time.Second)

	slow := newMerchant(t, stack)
	completed, running := replayUnderWay(steered, 100), replayUnderWay(slow, 1)

	lost := steered.create(terms) // its payment waits for the customer's bank
	steered.mustPay(lost, card3DS)
	require.NoError(t, c.TerminateWorkflow(t.Context(), lost, "", "the run is lost"))

	endpoint := query[string](t, stack, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1`, steered.id)
	changed, _, err := store.PublishTest(t.Context(), steered.testEvent(endpoint))
	require.NoError(t, err)
	update, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: changed.ID, TaskQueue: workflows.TaskQueueCheckout},
		workflows.TypeMerchantUpdate, workflows.MerchantUpdateInput{Owner: workflows.Owner{MerchantID: steered.id, Mode: checkout.ModeTest}, EventID: changed.ID})
	require.NoError(t, err)
	require.NoError(t, update.Get(t.Context(), nil))
	_, orphan, err := store.PublishTest(t.Context(), steered.testEvent(endpoint))
	require.NoError(t, err)
	query[string](t, stack, `UPDATE webhook_delivery SET next_attempt_at = now() - interval '1 hour' WHERE id = $1 RETURNING id`, orphan.ID)
	reconcile, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "reconcile-" + orphan.ID, TaskQueue: workflows.TaskQueueCheckout}, workflows.TypeReconcile)
	require.NoError(t, err)
	var result workflows.ReconcileResult
	require.NoError(t, reconcile.Get(t.Context(), &result))

	await(t, "the run that Reconcile started has asked about the payment, and waits", 90*time.Second, func() bool {
		run, err := c.DescribeWorkflowExecution(t.Context(), lost, "")
		require.NoError(t, err)
		return run.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && run.WorkflowExecutionInfo.HistoryLength > 11
	})
	for name, run := range map[string]struct {
		id     string
		status enumspb.WorkflowExecutionStatus
	}{
		"webhook_delivery_hurried_and_held": {hurried, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"webhook_delivery_parked":           {held, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"webhook_delivery_canceled":         {deleted, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"webhook_replay_completed":          {completed, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"webhook_replay_running":            {running, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"reconcile":                         {reconcile.GetID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"merchant_update":                   {changed.ID, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_followed":         {lost, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, // started again by Reconcile
	} {
		await(t, name+" is "+run.status.String(), 20*time.Second, func() bool { return statusOf(t, c, run.id) == run.status })
		record(t, c, name, run.id)
	}
	parked.receiver.Answer(http.StatusOK)
	parked.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/resume", "")
	slow.must(http.StatusOK, http.MethodPost, "/v1/replays/"+running+"/cancel", "")
}

// replayUnderWay starts a bulk replay and waits until it has begun.
func replayUnderWay(m *merchant, rate int) string {
	m.t.Helper()
	created := m.must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+m.failedDeliveries(100)+"/replay",
		fmt.Sprintf(`{"since": %q, "rate": %d}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), rate))
	await(m.t, "the replay is under way", time.Minute, func() bool {
		return m.must(http.StatusOK, http.MethodGet, created.Header.Get("Location"), "").field("started").(float64) > 2
	})
	return created.field("id").(string)
}
