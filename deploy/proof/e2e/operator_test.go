package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"

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

// TestUI_ShowsTheNamespaceAndActs reads and terminates a run in Temporal's UI, as an operator's browser does.
func TestUI_ShowsTheNamespaceAndActs(t *testing.T) {
	t.Parallel()
	m, c := e2e.NewMerchant(t, e2e.Shared), e2e.TemporalClient(t, e2e.Shared)
	id := m.Create(e2e.Terms)
	run, err := c.DescribeWorkflowExecution(t.Context(), id, "")
	require.NoError(t, err)

	cookie, token := "", ""
	ask := func(method, path, body string) (int, string) {
		got := e2e.Ask(t, method, e2e.Shared.UIURL()+path, body, "Cookie", cookie, "X-CSRF-Token", token, "Content-Type", "application/json")
		for _, set := range (&http.Response{Header: got.Header}).Cookies() {
			if set.Name == "_csrf" {
				cookie = set.Name + "=" + set.Value
			}
		}
		return got.Status, string(got.Body)
	}
	namespace := "/namespaces/" + e2e.Shared.Temporal.Namespace()
	for path, want := range map[string]string{
		namespace + "/workflows": "<html", "/api/v1/settings": `"DisableWriteActions":false`,
		"/api/v1" + namespace: `"name": "` + e2e.Shared.Temporal.Namespace() + `"`,
	} {
		status, content := ask("GET", path, "")
		require.Equal(t, http.StatusOK, status, path)
		require.Contains(t, content, want)
	}
	e2e.Await(t, "the UI lists the run", 20*time.Second, func() bool { // the index of runs follows with a delay
		_, workflows := ask("GET", "/api/v1"+namespace+"/workflows?query="+url.QueryEscape(`MerchantId = "`+m.ID+`"`), "")
		return strings.Contains(workflows, id)
	})

	// An operator's click sends the cookie's token in a header.
	terminate := "/api/v1" + namespace + "/workflows/" + id + "/terminate"
	status, said := ask("POST", terminate, `{}`)
	require.GreaterOrEqual(t, status, 400, "refused without the token: %s", said)
	token = strings.TrimPrefix(cookie, "_csrf=")
	status, said = ask("POST", terminate, `{"reason":"test"}`)
	require.Equal(t, http.StatusOK, status, said)
	run, err = c.DescribeWorkflowExecution(t.Context(), id, run.WorkflowExecutionInfo.Execution.RunId)
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, run.WorkflowExecutionInfo.Status)
	e2e.AwaitRun(t, c, id, "the session has a run again", 60*time.Second, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
}
