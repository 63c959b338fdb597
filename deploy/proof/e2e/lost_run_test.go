package e2e_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
)

// TestLostRun_IsStartedByTheNextMessage: Temporal knows nothing of sessions that are pending, as after the
// loss of its database. They are paid and expire without a wait for Reconcile.
func TestLostRun_IsStartedByTheNextMessage(t *testing.T) {
	t.Parallel()
	stack := e2e.Beside(t, devstack.Options{Env: []string{"CHECKOUT_RECONCILE_INTERVAL=1h"}})
	m, c := e2e.NewMerchant(t, stack), e2e.TemporalClient(t, stack)
	paid, expired, advanced, ended := m.Create(e2e.Terms), m.Create(e2e.Terms), m.Create(e2e.Terms), m.Create(e2e.Terms)
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+ended+"/expire", "")
	for _, id := range []string{paid, expired, advanced, ended} {
		forget(t, stack, c, id)
	}

	m.MustPay(paid, e2e.CardSucceeds)
	m.AwaitStatus(paid, checkout.StatusCompleted, 10*time.Second)
	require.Equal(t, 1, m.Charges(paid))
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+expired+"/expire", "")
	m.AwaitStatus(expired, checkout.StatusExpired, 10*time.Second)
	m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+advanced+"/advance", "")
	m.AwaitStatus(advanced, checkout.StatusExpired, 10*time.Second)
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+ended+"/expire", "")
	_, err := c.DescribeWorkflow(t.Context(), ended, "")
	require.Error(t, err, "a session that has ended needs no run")
}

// forget deletes a run and its history.
func forget(t *testing.T, stack *devstack.Stack, c client.Client, id string) {
	t.Helper()
	_, err := c.WorkflowService().DeleteWorkflowExecution(t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: stack.Temporal.Namespace(), WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
	})
	require.NoError(t, err)
	e2e.Await(t, "Temporal has forgotten "+id, 30*time.Second, func() bool {
		_, err := c.DescribeWorkflow(t.Context(), id, "")
		var notFound *serviceerror.NotFound
		return errors.As(err, &notFound)
	})
}
