package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"

	sdkpb "go.temporal.io/api/sdk/v1"

	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

// TestOperators_FindAndUnderstandRuns: what Temporal's UI shows of a run comes
// from its search attributes, its summaries, its details and the query status.
func TestOperators_FindAndUnderstandRuns(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	c := temporalClient(t, shared)
	waiting, paid := m.create(terms), m.create(terms)
	m.mustPay(paid, cardSucceeds)
	m.receiver.Answer(http.StatusInternalServerError)
	declined := m.create(terms)
	m.mustPay(declined, cardDeclined)
	failed := deliveryOf(t, shared, declined, "checkout.failed")

	for query, want := range map[string]string{
		`SessionStatus = "pending"`:   waiting,
		`SessionStatus = "completed"`: paid,
		`DeliveryStatus = "failed" AND ExecutionStatus = "Failed" AND WorkflowType = "WebhookDelivery"`: failed,
		`CheckoutMode = "test" AND EventType = "checkout.failed"`:                                       failed,
	} {
		await(t, query, 40*time.Second, func() bool { // the index follows the runs with a delay
			found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
				Query: fmt.Sprintf(`%s AND MerchantId = %q AND WorkflowId = %q`, query, m.id, want),
			})
			return err == nil && len(found.Executions) == 1
		})
	}

	state, err := c.QueryWorkflow(t.Context(), waiting, "", workflows.QueryStatus)
	require.NoError(t, err)
	var got workflows.SessionState
	require.NoError(t, state.Get(&got))
	require.Equal(t, workflows.SessionState{Status: checkout.StatusPending}, got)

	metadata, err := c.QueryWorkflow(t.Context(), waiting, "", "__temporal_workflow_metadata")
	require.NoError(t, err)
	var shown sdkpb.WorkflowMetadata
	require.NoError(t, metadata.Get(&shown))
	require.Contains(t, shown.CurrentDetails, "Waits for the customer to pay until")
	t.Log(protojson.Format(&shown))

	run, err := c.DescribeWorkflowExecution(t.Context(), failed, "")
	require.NoError(t, err)
	require.Contains(t, string(run.ExecutionConfig.UserMetadata.Summary.Data), "checkout.failed to 127.0.0.1")
}
