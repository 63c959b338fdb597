package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// requireDirectory leaves the test out when there is nowhere to write to.
func requireDirectory(t *testing.T) {
	if *e2e.RecordHistories == "" {
		t.Skip("takes long: -record-histories DIRECTORY runs it")
	}
}

// TestHistories makes one run of each kind, closed and open, on the real server. It checks how each stands, and writes
// them to -record-histories, for the replay tests of package workflows. Store only what deployed code has recorded.
func TestHistories(t *testing.T) {
	t.Parallel()
	requireDirectory(t)
	m := e2e.NewMerchant(t, e2e.Shared)
	failing := e2e.NewMerchant(t, e2e.Shared)
	failing.Receiver.Answer(http.StatusInternalServerError)
	c := e2e.TemporalClient(t, e2e.Shared)

	paid := m.Sell(e2e.CardSucceeds)
	e2e.AwaitQuery(t, "the payout is told", 20*time.Second, e2e.Shared, 2, `SELECT count(*) FROM webhook_delivery d JOIN event e ON e.id = d.event_id
			WHERE e.session_id = $1 AND d.status = 'delivered'`, paid)
	silent := e2e.NewMerchant(t, e2e.Shared)
	e2e.Query[int](t, e2e.Shared, `WITH deleted AS (UPDATE webhook_endpoint SET deleted_at = now() WHERE merchant_id = $1) SELECT 1`, silent.ID)
	untold := silent.Sell(e2e.CardSucceeds)
	declined := m.Sell(e2e.CardDeclined)
	m.MustPay(declined, e2e.CardSucceeds)
	expired := m.Create(e2e.Terms)
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+expired+"/expire", "")
	advanced := m.Create(e2e.Terms)
	m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+advanced+"/advance", "")
	slow := m.Sell(e2e.CardSlow)
	m.AwaitStatus(slow, checkout.StatusCompleted, 20*time.Second)
	waiting := m.Create(e2e.Terms)
	asked := m.Sell(e2e.Card3DS)
	unsent := failing.Sell(e2e.CardDeclined)
	undelivered := e2e.DeliveryOf(t, e2e.Shared, unsent, "checkout.failed")
	retried := failing.Sell(e2e.CardDeclined)
	retrying := e2e.DeliveryOf(t, e2e.Shared, retried, "checkout.failed")
	resent := startPayout(t, c, silent, untold)
	onChain(t, paid, "eip155:0") // which is not configured
	stuck := startPayout(t, c, m, paid)

	recordEach(t, c, map[string]recorded{
		"checkout_session_paid":           {paid, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_paid_untold":    {untold, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_declined_first": {declined, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_expired":        {expired, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_advanced":       {advanced, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_called_back":    {slow, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_waiting":        {waiting, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"checkout_session_3ds":            {asked, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"payout_sent":                     {resent, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"payout_waiting":                  {stuck, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"webhook_delivery_delivered":      {e2e.DeliveryOf(t, e2e.Shared, paid, "checkout.completed"), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"webhook_delivery_retrying":       {retrying, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
	})
	recordEach(t, c, map[string]recorded{ // it takes the whole schedule
		"webhook_delivery_failed": {undelivered, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED},
	})
	require.NoError(t, c.TerminateWorkflow(t.Context(), stuck, "", "the test is over"))
	onChain(t, paid, checkout.ChainSandbox)
}

// recorded is a workflow and how its last run stands.
type recorded struct {
	id     string
	status enumspb.WorkflowExecutionStatus
}

// recordEach waits until each run stands as it must, and writes its history under its name.
func recordEach(t *testing.T, c client.Client, all map[string]recorded) {
	for name, run := range all {
		e2e.Await(t, name+" is "+run.status.String(), 40*time.Second, func() bool { return e2e.StatusOf(t, c, run.id) == run.status })
		e2e.Record(t, c, name, run.id, "")
	}
}

func startPayout(t *testing.T, c client.Client, m *e2e.Merchant, paid string) string {
	id := m.Session(paid).Field("payout.id").(string)
	must.Get(c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.TaskQueueCheckout},
		contract.TypePayout, checkout.Owner{MerchantID: m.ID, Mode: checkout.ModeTest}.Ref(id)))(t)
	return id
}

func onChain(t *testing.T, paid, name string) {
	e2e.Query[string](t, e2e.Shared, `
		UPDATE transaction SET chain_ref = $2 WHERE session_id = $1 AND status = 'succeeded' RETURNING id`, paid, name)
}

// TestHistories_OfSteering is TestHistories for deliveries that were steered, bulk replays and Reconcile.
func TestHistories_OfSteering(t *testing.T) {
	t.Parallel()
	requireDirectory(t)
	stack := e2e.Beside(t, madeUp)
	c := e2e.TemporalClient(t, stack)
	store := e2e.OpenStore(t, stack)
	steered, parked, canceled := e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)

	hurried := steered.RefusedDelivery()
	e2e.Await(t, "the next attempt waits", 5*time.Second, func() bool {
		got, err := steered.Call(http.MethodPost, "/v1/deliveries/"+hurried+"/retry_now", "")
		return err == nil && got.Status == http.StatusAccepted
	})
	steered.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+hurried+"/hold", "")
	held := parked.RefusedDelivery()
	parked.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/hold", "")
	for _, id := range []string{hurried, held} {
		e2e.AwaitQuery(t, "the delivery is parked", 20*time.Second, stack, true, `SELECT parked_at IS NOT NULL FROM webhook_delivery WHERE id = $1`, id)
	}
	steered.Receiver.Answer(http.StatusOK)
	steered.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+hurried+"/resume", "")
	steered.AwaitDelivery(hurried, "status", "delivered", 10*time.Second)
	deleted := canceled.RefusedDelivery()
	canceled.Must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+canceled.Registration(), "")
	canceled.AwaitDelivery(deleted, "status", "canceled", 20*time.Second)

	slow := e2e.NewMerchant(t, stack)
	completed, running := replayUnderWay(steered, 100), replayUnderWay(slow, 1)

	lost := steered.Create(e2e.Terms) // its payment waits for the customer's bank
	steered.MustPay(lost, e2e.Card3DS)
	require.NoError(t, c.TerminateWorkflow(t.Context(), lost, "", "the run is lost"))

	endpoint := e2e.Query[string](t, stack, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1`, steered.ID)
	changed, _, err := store.Webhooks.PublishTest(t.Context(), steered.TestEvent(endpoint))
	require.NoError(t, err)
	update, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: changed.ID, TaskQueue: contract.TaskQueueCheckout},
		contract.TypeMerchantUpdate, checkout.Owner{MerchantID: steered.ID, Mode: checkout.ModeTest}.Ref(changed.ID))
	require.NoError(t, err)
	require.NoError(t, update.Get(t.Context(), nil))
	_, orphan, err := store.Webhooks.PublishTest(t.Context(), steered.TestEvent(endpoint))
	require.NoError(t, err)
	e2e.Query[string](t, stack, `UPDATE webhook_delivery SET next_attempt_at = now() - interval '1 hour' WHERE id = $1 RETURNING id`, orphan.ID)
	beans := "http://127.0.0.1:1/beans.png"
	steered.Create(`{"amount": 1, "currency": "EUR", "payout_currency": "USDC", "line_items": [{"name": "Beans", "quantity": 1, "unit_amount": 1, "image_url": "` + beans + `"}]}`)
	picture := e2e.Query[string](t, stack, `SELECT id FROM picture WHERE url = $1`, beans)
	reconcile, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "reconcile-" + orphan.ID, TaskQueue: contract.TaskQueueCheckout}, contract.TypeReconcile)
	require.NoError(t, err)
	var result workflows.ReconcileResult
	require.NoError(t, reconcile.Get(t.Context(), &result))
	// The stack has no real card network, so the activities of the run are tried again and again.
	books, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "books-" + orphan.ID, TaskQueue: contract.TaskQueueCheckout},
		contract.TypeBooks, contract.ModeInput{Mode: checkout.ModeLive})
	require.NoError(t, err)

	e2e.Await(t, "the run that Reconcile started has asked about the payment, and waits", 90*time.Second, func() bool {
		run := must.Get(c.DescribeWorkflowExecution(t.Context(), lost, ""))(t)
		return run.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && run.WorkflowExecutionInfo.HistoryLength > 11
	})
	recordEach(t, c, map[string]recorded{
		"webhook_delivery_hurried_and_held": {hurried, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"webhook_delivery_parked":           {held, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"webhook_delivery_canceled":         {deleted, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"webhook_replay_completed":          {completed, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"webhook_replay_running":            {running, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"reconcile_restarts":                {reconcile.GetID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"picture_fetch":                     {picture, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"merchant_update":                   {changed.ID, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_followed":         {lost, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, // started again by Reconcile
		"books_waiting":                     {books.GetID(), enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
	})
	require.NoError(t, c.TerminateWorkflow(t.Context(), books.GetID(), "", "the test is over"))
	parked.Receiver.Answer(http.StatusOK)
	parked.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/resume", "")
	slow.Must(http.StatusOK, http.MethodPost, "/v1/replays/"+running+"/cancel", "")
}

// replayUnderWay starts a bulk replay and waits until it has begun.
func replayUnderWay(m *e2e.Merchant, rate int) string {
	path, id := replayFrom(m, m.FailedDeliveries(100), fmt.Sprintf(`"rate": %d`, rate))
	awaitProgress(m, path, 3, "")
	return id
}

// TestHistories_OfAClockThatIsAhead is TestHistories for sessions whose timer fires
// while PostgreSQL's clock says that there is time left: nobody loses a session by it.
func TestHistories_OfAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	if *e2e.RecordHistories == "" {
		e2e.OnlyLong(t)
	}
	stack := e2e.Beside(t, devstack.Options{SessionLifetime: "15s"})
	// PostgreSQL's clock is set back for the service's connections: they find a function of that name before
	// PostgreSQL's own.
	e2e.Exec(t, stack, `
		CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.clock_timestamp() - interval '10s' $$;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$;
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	c, m := e2e.TemporalClient(t, stack), e2e.NewMerchant(t, stack)
	timers := func(id string) (started int) {
		for _, e := range e2e.Events(t, c, id, "") {
			if e.EventType == enumspb.EVENT_TYPE_TIMER_STARTED {
				started++
			}
		}
		return started
	}
	paid, left := m.Create(e2e.Terms), m.Create(e2e.Terms)
	for _, id := range []string{paid, left} {
		e2e.Await(t, "the timer has fired, and another waits", time.Minute, func() bool { return timers(id) > 1 })
	}
	m.Complete(paid)
	e2e.AwaitRun(t, c, left, "the other session has expired", time.Minute, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.True(t, e2e.Query[bool](t, stack, `SELECT status = 'expired' AND ended_at >= expires_at FROM checkout_session WHERE id = $1`, left))
	e2e.Record(t, c, "checkout_session_early", left, "")
}
