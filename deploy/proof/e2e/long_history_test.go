package e2e_test

import (
	"flag"
	"net/http"
	"sync"
	"testing"
	"time"

	"example.com/checkout/workflows/runs"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// many is how many calls and signals the tests of this file send. 10 show that none leaves a trace; .ci/run sends
// more than a run's history may hold.
var many = flag.Int("many", 10, "calls and signals that must not make a history long")

// TestHold_AnyNumberOfSignalsKeepsTheHistoryShort wakes a delivery on hold again and again, as only an operator can.
func TestHold_AnyNumberOfSignalsKeepsTheHistoryShort(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	c := e2e.TemporalClient(t, e2e.Shared)
	delivery := m.RefusedDelivery()
	m.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+delivery+"/hold", "")
	parked := func() time.Time {
		return e2e.Query[time.Time](t, e2e.Shared, `SELECT coalesce(parked_at, 'epoch') FROM webhook_delivery WHERE id = $1`, delivery)
	}
	e2e.Await(t, "the delivery is parked", 20*time.Second, func() bool { return parked().Unix() > 0 })
	made := len(m.Must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+delivery, "").Field("attempts").([]any))
	first := e2e.Events(t, c, delivery, "")[0].GetWorkflowExecutionStartedEventAttributes().OriginalExecutionRunId
	for range *many {
		before := parked()
		require.NoError(t, c.SignalWorkflow(t.Context(), delivery, "", contract.SignalResume, nil))
		e2e.Await(t, "it looks, and waits again", 20*time.Second, func() bool { return parked().After(before) })
	}
	require.Less(t, len(e2e.Events(t, c, delivery, "")), 5000)
	if now := e2e.Events(t, c, delivery, "")[0].GetWorkflowExecutionStartedEventAttributes(); now.OriginalExecutionRunId != first {
		require.NotEmpty(t, now.ContinuedExecutionRunId)
		t.Log("the run has continued as new")
	}

	m.Receiver.Answer(http.StatusOK)
	m.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+delivery+"/resume", "")
	end := m.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
	require.EqualValues(t, 1, end.Field("run"), "it is the same run of the log")
	require.Len(t, end.Field("attempts"), made+1)
}

// TestAdvance_AnyNumberOfCallsLeavesTheSessionReachable: Temporal takes 2,000 updates of a run.
func TestAdvance_AnyNumberOfCallsLeavesTheSessionReachable(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	c := e2e.TemporalClient(t, e2e.Shared)
	session := m.Sell(e2e.Card3DS)
	m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+session+"/advance", "")
	before := len(e2e.Events(t, c, session, ""))
	for range *many {
		m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+session+"/advance", "")
	}
	require.Equal(t, before, len(e2e.Events(t, c, session, "")), "no call left a trace")
	refused := m.Must(http.StatusConflict, http.MethodPost, "/v1/checkout/"+session+"/expire", "")
	require.Equal(t, "payment_in_progress", refused.Field("error"))
}

// TestSession_AnyNumberOfSignalsLeavesItPayable.
func TestSession_AnyNumberOfSignalsLeavesItPayable(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	c := e2e.TemporalClient(t, e2e.Shared)
	session := m.Create(e2e.Terms)
	for range min(*many, 9990) { // Temporal itself takes no more than 10,000
		require.NoError(t, c.SignalWorkflow(t.Context(), session, "", contract.SignalComplete,
			contract.CompleteInput{TransactionID: checkout.NewID(checkout.PrefixTransaction)}))
	}
	m.Complete(session)
}

// TestExpire_ManyAtOnce: Temporal takes ten updates of a run at a time.
func TestExpire_ManyAtOnce(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	client := &runs.Client{Temporal: e2e.TemporalClient(t, e2e.Shared)}
	session := m.Sell(e2e.Card3DS)
	errs := make([]error, 200)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = client.Expire(t.Context(), session) })
	}
	wg.Wait()
	for _, err := range errs {
		require.ErrorIs(t, err, checkout.ErrPaymentInFlight)
	}
}

// TestReset_AfterTheLastAttemptIsAReplay: whichever event an operator chooses in Temporal's UI, the reset is a replay.
func TestReset_AfterTheLastAttemptIsAReplay(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	c := e2e.TemporalClient(t, e2e.Shared)
	delivery := m.RefusedDelivery()
	m.AwaitDelivery(delivery, "status", "failed", 60*time.Second)
	e2e.AwaitRun(t, c, delivery, "the run is Failed", 10*time.Second, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED)
	failed := e2e.Events(t, c, delivery, "")
	var tasks []int64
	for _, e := range failed {
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			tasks = append(tasks, e.EventId)
		}
	}
	m.Receiver.Answer(http.StatusOK)
	runID := failed[0].GetWorkflowExecutionStartedEventAttributes().OriginalExecutionRunId
	for i, task := range tasks {
		reset, err := c.WorkflowService().ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: e2e.Shared.Temporal.Namespace(), WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: delivery, RunId: runID},
			Reason: "test", WorkflowTaskFinishEventId: task, RequestId: checkout.NewID("req"),
		})
		require.NoError(t, err)
		m.Arrivals(6+i+1, 20*time.Second)
		end := m.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
		require.EqualValues(t, 2+i, end.Field("run"), "reset to event %d of %d", task, len(failed))
		attempts := end.Field("attempts").([]any)
		require.EqualValues(t, 1, attempts[len(attempts)-1].(map[string]any)["number"])
		e2e.AwaitRun(t, c, delivery, "the run is Completed", 10*time.Second, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		if i == len(tasks)-1 {
			e2e.Record(t, c, "webhook_delivery_reset_late", delivery, reset.RunId)
		}
	}
	require.GreaterOrEqual(t, len(tasks), 3)
}
