package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/runs"
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
	declined := m.Sell(e2e.CardDeclined)
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

	require.Equal(t, contract.SessionState{Status: checkout.StatusPending},
		queried[contract.SessionState](t, c, waiting, contract.QueryStatus))
	shown := queried[*sdkpb.WorkflowMetadata](t, c, waiting, "__temporal_workflow_metadata")
	require.Contains(t, shown.CurrentDetails, "Waits for the customer to pay until")

	run := must.Get(c.DescribeWorkflowExecution(t.Context(), failed, ""))(t)
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
	must.Get(service.PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
		Namespace: e2e.Shared.Temporal.Namespace(), Execution: execution, Activity: &workflowservice.PauseActivityRequest_Type{Type: "SendAttempt"},
	}))(t)
	paused, _ := m.Receiver.Arrivals()
	time.Sleep(4 * time.Second) // two attempts would have been due
	still, _ := m.Receiver.Arrivals()
	require.LessOrEqual(t, len(still), len(paused)+1, "at most one was under way")
	must.Get(service.UnpauseActivity(t.Context(), &workflowservice.UnpauseActivityRequest{
		Namespace: e2e.Shared.Temporal.Namespace(), Execution: execution, Activity: &workflowservice.UnpauseActivityRequest_Type{Type: "SendAttempt"},
	}))(t)
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
	must.Get(service.ResetActivity(t.Context(), &workflowservice.ResetActivityRequest{
		Namespace: e2e.Shared.Temporal.Namespace(), Execution: execution, Activity: &workflowservice.ResetActivityRequest_Type{Type: "SendAttempt"},
	}))(t)
	end := m.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
	require.EqualValues(t, 2, end.Field("run"))
	attempts := end.Field("attempts").([]any)
	require.EqualValues(t, 1, attempts[len(attempts)-1].(map[string]any)["number"])
}

// TestUI_ShowsTheRunsOfTheNamespace reads Temporal's UI as an operator's browser does. It may also write.
func TestUI_ShowsTheRunsOfTheNamespace(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	id := m.Create(e2e.Terms)
	ask := func(path string) string {
		got := e2e.Ask(t, http.MethodGet, e2e.Shared.UIURL()+path, "")
		require.Equal(t, http.StatusOK, got.Status, path)
		return string(got.Body)
	}
	namespace := "/namespaces/" + e2e.Shared.Temporal.Namespace()
	require.Contains(t, ask(namespace+"/workflows"), "<html")
	require.Contains(t, ask("/api/v1/settings"), `"DisableWriteActions":false`)
	require.Contains(t, ask("/api/v1"+namespace), `"name": "`+e2e.Shared.Temporal.Namespace()+`"`)
	e2e.Await(t, "the UI lists the run", 20*time.Second, func() bool { // the index of runs follows with a delay
		return strings.Contains(ask("/api/v1"+namespace+"/workflows?query="+url.QueryEscape(`MerchantId = "`+m.ID+`"`)), id)
	})
}

// TestPayout_RetriedByAnOperatorToAnotherAddress: the payout fails, the merchant changes the address, and an operator
// retries it. The merchant learns each end once.
func TestPayout_RetriedByAnOperatorToAnotherAddress(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	payTo := func(address string) {
		e2e.Exec(t, m.Stack, `UPDATE payout_address SET address = $2 WHERE merchant_id = $1 AND mode = 'test'`, m.ID, address)
	}
	payTo("sandbox:invalid")
	session := m.Sell(e2e.CardSucceeds)
	awaitPayout := func(status string) {
		e2e.Await(t, "the payout is "+status, 15*time.Second, func() bool { return m.Session(session).Field("payout.status") == status })
	}
	awaitPayout("failed")
	payTo("sandbox:another")
	payout := m.Session(session).Field("payout.id").(string)
	out := e2e.MustCommand(t, e2e.Shared, "payout", "retry", payout)
	require.Contains(t, out, payout+" is pending again, to sandbox:another; its run has started")
	awaitPayout("sent")
	told := map[string]int{}
	for _, a := range m.Arrivals(3, 20*time.Second) {
		told[a.Type]++
	}
	require.Equal(t, map[string]int{"checkout.completed": 1, "payout.failed": 1, "payout.sent": 1}, told)
	require.Equal(t, "operator test of "+session+", after invalid_address", e2e.Query[string](t, e2e.Shared, `
		SELECT actor || ' ' || mode || ' ' || detail FROM audit_entry WHERE action = 'payout.retried' AND subject = $1 AND merchant_id = $2`, payout, m.ID))
	require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT count(*) FROM sandbox_transfer WHERE payout_id = $1`, payout))
	e2e.RequireRefused(t, e2e.Shared, "has not failed", "payout", "retry", payout)
}

// TestSetup_MakesEverythingOutsideTheProcesses runs checkout setup for a new namespace, without a
// master key, and runs it again with other settings.
func TestSetup_MakesEverythingOutsideTheProcesses(t *testing.T) {
	t.Parallel()
	stack := e2e.Shared
	setup := func(settings ...string) string {
		var out, notes bytes.Buffer
		err := app.Main(t.Context(), []string{"setup"}, slices.Concat([]string{
			"DATABASE_URL=" + stack.DatabaseURL(), "TEMPORAL_ADDRESS=" + stack.Temporal.Address(),
			"TEMPORAL_NAMESPACE=setup.a1b2c",
		}, settings), &out, &notes)
		require.NoError(t, err)
		return out.String()
	}
	require.Equal(t, "the database's schema is up to date\n"+
		"connecting to Temporal at "+stack.Temporal.Address()+" (TEMPORAL_ADDRESS), for 3m0s at most\n"+
		"Temporal has the namespace setup.a1b2c and its search attributes\n"+
		"Temporal has the schedules\n", setup())
	c, err := client.DialContext(t.Context(), client.Options{HostPort: stack.Temporal.Address(), Namespace: "setup.a1b2c"})
	require.NoError(t, err)
	defer c.Close()
	got, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "setup.a1b2c"})
	require.NoError(t, err)
	require.Equal(t, 168*time.Hour, got.Config.WorkflowExecutionRetentionTtl.AsDuration())
	require.Equal(t, time.Minute, every(t, c, runs.ScheduleReconcile))
	require.Equal(t, time.Hour, every(t, c, runs.ScheduleRetention))

	setup("CHECKOUT_RECONCILE_INTERVAL=7s", "CHECKOUT_ETHEREUM_TREASURY=0x0000000000000000000000000000000000000001")
	require.Equal(t, 7*time.Second, every(t, c, runs.ScheduleReconcile))
	require.Equal(t, 15*time.Second, every(t, c, runs.ScheduleTreasury))
}

// every returns the interval of a schedule.
func every(t *testing.T, c client.Client, id string) time.Duration {
	schedule := must.Get(c.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context()))(t)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, schedule.Schedule.Policy.Overlap)
	return schedule.Schedule.Spec.Intervals[0].Every
}
