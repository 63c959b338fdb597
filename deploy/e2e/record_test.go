package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

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
	declined := m.create(terms)
	m.mustPay(declined, cardDeclined)
	m.mustPay(declined, cardSucceeds)
	expired := m.create(terms)
	m.must(http.StatusOK, http.MethodPost, "/v1/checkout/"+expired+"/expire", "")
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
		"checkout_session_declined_first": {declined, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_expired":        {expired, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_called_back":    {slow, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		"checkout_session_waiting":        {waiting, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"checkout_session_3ds":            {asked, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
		"payout_sent":                     {m.session(paid).field("payout.id").(string), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
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

func statusOf(t *testing.T, c client.Client, id string) enumspb.WorkflowExecutionStatus {
	t.Helper()
	run, err := c.DescribeWorkflowExecution(t.Context(), id, "")
	require.NoError(t, err)
	return run.WorkflowExecutionInfo.Status
}

// record writes the history of a workflow as it is now.
func record(t *testing.T, c client.Client, name, id string) {
	t.Helper()
	var h historypb.History
	for i := c.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); i.HasNext(); {
		e, err := i.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, e)
	}
	require.NotEmpty(t, h.Events)
	if *recordHistories == "" {
		return
	}
	text, err := protojson.Marshal(&h)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(*recordHistories, name+".json"), text, 0o600))
}
