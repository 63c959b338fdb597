package e2e

import (
	"flag"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

// many is how many calls and signals the tests of this file send; 10000 shows
// what Temporal's limits of a run do.
var many = flag.Int("many", 500, "calls and signals that must not make a history long")

// TestHold_AnyNumberOfSignalsKeepsTheHistoryShort wakes a delivery on hold again
// and again, as only an operator can.
func TestHold_AnyNumberOfSignalsKeepsTheHistoryShort(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	c := temporalClient(t, shared)
	delivery := m.refusedDelivery()
	m.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+delivery+"/hold", "")
	parked := func() time.Time {
		return query[time.Time](t, shared, `SELECT coalesce(parked_at, 'epoch') FROM webhook_delivery WHERE id = $1`, delivery)
	}
	await(t, "the delivery is parked", 20*time.Second, func() bool { return parked().Unix() > 0 })
	made := len(m.must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+delivery, "").field("attempts").([]any))
	first := events(t, c, delivery, "")[0].GetWorkflowExecutionStartedEventAttributes().OriginalExecutionRunId
	for range *many {
		before := parked()
		require.NoError(t, c.SignalWorkflow(t.Context(), delivery, "", workflows.SignalResume, nil))
		await(t, "it looks, and waits again", 20*time.Second, func() bool { return parked().After(before) })
	}
	require.Less(t, len(events(t, c, delivery, "")), 5000)
	if now := events(t, c, delivery, "")[0].GetWorkflowExecutionStartedEventAttributes(); now.OriginalExecutionRunId != first {
		require.NotEmpty(t, now.ContinuedExecutionRunId)
		t.Log("the run has continued as new")
	}

	m.receiver.Answer(http.StatusOK)
	m.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+delivery+"/resume", "")
	end := m.awaitDelivery(delivery, "status", "delivered", 20*time.Second)
	require.EqualValues(t, 1, end.field("run"), "it is the same run of the log")
	require.Len(t, end.field("attempts"), made+1)
}

// TestAdvance_AnyNumberOfCallsLeavesTheSessionReachable: Temporal takes 2,000
// updates of a run.
func TestAdvance_AnyNumberOfCallsLeavesTheSessionReachable(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	c := temporalClient(t, shared)
	session := m.create(terms)
	m.mustPay(session, card3DS)
	m.must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+session+"/advance", "")
	before := len(events(t, c, session, ""))
	for range *many {
		m.must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+session+"/advance", "")
	}
	require.Equal(t, before, len(events(t, c, session, "")), "no call left a trace")
	m.must(http.StatusConflict, http.MethodPost, "/v1/checkout/"+session+"/expire", "")
}

// TestSession_AnyNumberOfSignalsLeavesItPayable.
func TestSession_AnyNumberOfSignalsLeavesItPayable(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	c := temporalClient(t, shared)
	session := m.create(terms)
	for range min(*many, 9990) { // Temporal itself takes no more than 10,000
		require.NoError(t, c.SignalWorkflow(t.Context(), session, "", workflows.SignalComplete,
			workflows.CompleteInput{TransactionID: checkout.NewID(checkout.PrefixTransaction)}))
	}
	m.mustPay(session, cardSucceeds)
	m.awaitStatus(session, checkout.StatusCompleted, 20*time.Second)
}

// TestExpire_ManyAtOnce: Temporal takes ten updates of a run at a time.
func TestExpire_ManyAtOnce(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	flows := &workflows.Client{Temporal: temporalClient(t, shared)}
	session := m.create(terms)
	m.mustPay(session, card3DS)
	errs := make([]error, 200)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = flows.Expire(t.Context(), session) })
	}
	wg.Wait()
	for _, err := range errs {
		require.ErrorIs(t, err, checkout.ErrPaymentInFlight)
	}
}

// TestReset_AfterTheLastAttemptIsAReplay: whichever event an operator chooses in
// Temporal's UI, the reset is a replay.
func TestReset_AfterTheLastAttemptIsAReplay(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	c := temporalClient(t, shared)
	delivery := m.refusedDelivery()
	m.awaitDelivery(delivery, "status", "failed", 60*time.Second)
	await(t, "the run is Failed", 10*time.Second, func() bool {
		return statusOf(t, c, delivery) == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	})
	failed := events(t, c, delivery, "")
	var tasks []int64
	for _, e := range failed {
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			tasks = append(tasks, e.EventId)
		}
	}
	m.receiver.Answer(http.StatusOK)
	runID := failed[0].GetWorkflowExecutionStartedEventAttributes().OriginalExecutionRunId
	for i, task := range tasks {
		reset, err := c.WorkflowService().ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: shared.Temporal.Namespace(), WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: delivery, RunId: runID},
			Reason: "test", WorkflowTaskFinishEventId: task, RequestId: checkout.NewID("req"),
		})
		require.NoError(t, err)
		m.arrivals(6+i+1, 20*time.Second)
		end := m.awaitDelivery(delivery, "status", "delivered", 20*time.Second)
		require.EqualValues(t, 2+i, end.field("run"), "reset to event %d of %d", task, len(failed))
		attempts := end.field("attempts").([]any)
		require.EqualValues(t, 1, attempts[len(attempts)-1].(map[string]any)["number"])
		await(t, "the run is Completed", 10*time.Second, func() bool {
			return statusOf(t, c, delivery) == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		})
		if i == len(tasks)-1 {
			recordRun(t, c, "webhook_delivery_reset_late", delivery, reset.RunId)
		}
	}
	require.GreaterOrEqual(t, len(tasks), 3)
}
