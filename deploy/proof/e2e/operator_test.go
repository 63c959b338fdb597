package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"

	sdkpb "go.temporal.io/api/sdk/v1"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// TestOperators_FindAndUnderstandRuns: what Temporal's UI shows of a run comes
// from its search attributes, its summaries, its details and the query status.
func TestOperators_FindAndUnderstandRuns(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	c := e2e.TemporalClient(t, e2e.Shared)
	waiting, paid := m.Create(e2e.Terms), m.Create(e2e.Terms)
	m.MustPay(paid, e2e.CardSucceeds)
	m.Receiver.Answer(http.StatusInternalServerError)
	declined := m.Create(e2e.Terms)
	m.MustPay(declined, e2e.CardDeclined)
	failed := e2e.DeliveryOf(t, e2e.Shared, declined, "checkout.failed")

	m.AwaitDelivery(failed, "status", "failed", 40*time.Second)
	for query, want := range map[string]string{
		`SessionStatus = "pending"`:   waiting,
		`SessionStatus = "completed"`: paid,
		`DeliveryStatus = "failed" AND ExecutionStatus = "Failed" AND WorkflowType = "WebhookDelivery"`: failed,
		`CheckoutMode = "test" AND EventType = "checkout.failed"`:                                       failed,
	} {
		e2e.Await(t, query, 40*time.Second, func() bool { // the index follows the runs with a delay
			found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
				Query: fmt.Sprintf(`%s AND MerchantId = %q AND WorkflowId = %q`, query, m.ID, want),
			})
			return err == nil && len(found.Executions) == 1
		})
	}

	state, err := c.QueryWorkflow(t.Context(), waiting, "", contract.QueryStatus)
	require.NoError(t, err)
	var got contract.SessionState
	require.NoError(t, state.Get(&got))
	require.Equal(t, contract.SessionState{Status: checkout.StatusPending}, got)

	metadata, err := c.QueryWorkflow(t.Context(), waiting, "", "__temporal_workflow_metadata")
	require.NoError(t, err)
	var shown sdkpb.WorkflowMetadata
	require.NoError(t, metadata.Get(&shown))
	require.Contains(t, shown.CurrentDetails, "Waits for the customer to pay until")
	t.Log(protojson.Format(&shown))

	run, err := c.DescribeWorkflowExecution(t.Context(), failed, "")
	require.NoError(t, err)
	require.Contains(t, string(run.ExecutionConfig.UserMetadata.Summary.Data), "checkout.failed to 127.0.0.1 ("+m.Registration()+")")
	require.Contains(t, string(run.ExecutionConfig.UserMetadata.Details.Data), "this attempt is under way")
}

// TestOperators_SteerAnActivity: pausing uses up no attempt, and a reset of the
// activity begins six new ones, in the log as a new run.
func TestOperators_SteerAnActivity(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	service := e2e.TemporalClient(t, e2e.Shared).WorkflowService()
	delivery := m.RefusedDelivery()
	execution := &commonpb.WorkflowExecution{WorkflowId: delivery}
	e2e.Await(t, "the activity is there", 5*time.Second, func() bool {
		run, err := service.DescribeWorkflowExecution(t.Context(), &workflowservice.DescribeWorkflowExecutionRequest{Namespace: e2e.Shared.Temporal.Namespace(), Execution: execution})
		return err == nil && len(run.PendingActivities) == 1 && run.PendingActivities[0].GetLastFailure().GetMessage() == "answered 500"
	})
	_, err := service.PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
		Namespace: e2e.Shared.Temporal.Namespace(), Execution: execution, Activity: &workflowservice.PauseActivityRequest_Type{Type: "SendAttempt"},
	})
	require.NoError(t, err)
	paused, _ := m.Receiver.Arrivals()
	time.Sleep(4 * time.Second) // two attempts would have been due
	still, _ := m.Receiver.Arrivals()
	require.LessOrEqual(t, len(still), len(paused)+1, "at most one was under way")
	_, err = service.UnpauseActivity(t.Context(), &workflowservice.UnpauseActivityRequest{
		Namespace: e2e.Shared.Temporal.Namespace(), Execution: execution, Activity: &workflowservice.UnpauseActivityRequest_Type{Type: "SendAttempt"},
	})
	require.NoError(t, err)
	next := m.Arrivals(len(still)+1, 10*time.Second)
	require.Equal(t, strconv.Itoa(len(still)+1), next[len(still)].Attempt)

	e2e.Await(t, "an attempt is finished", 10*time.Second, func() bool {
		return m.Must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+delivery, "").Field("next_attempt_at") != nil
	})
	m.Receiver.ReplyBy(func(a devstack.Arrival) devstack.Reply { // an attempt before the reset is refused too
		if a.Attempt == "1" {
			return devstack.Reply{Status: http.StatusOK}
		}
		return devstack.Reply{Status: http.StatusInternalServerError}
	})
	_, err = service.ResetActivity(t.Context(), &workflowservice.ResetActivityRequest{
		Namespace: e2e.Shared.Temporal.Namespace(), Execution: execution, Activity: &workflowservice.ResetActivityRequest_Type{Type: "SendAttempt"},
	})
	require.NoError(t, err)
	end := m.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
	require.EqualValues(t, 2, end.Field("run"))
	attempts := end.Field("attempts").([]any)
	require.EqualValues(t, 1, attempts[len(attempts)-1].(map[string]any)["number"])
}
