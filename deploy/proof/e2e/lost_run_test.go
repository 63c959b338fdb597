package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
)

// TestLostRun_IsStartedByTheNextMessage: Temporal knows nothing of sessions that are pending, as after the
// loss of its database. They are paid and expire without a wait for Reconcile.
func TestLostRun_IsStartedByTheNextMessage(t *testing.T) {
	t.Parallel()
	stack := e2e.Beside(t, devstack.Options{Env: []string{"CHECKOUT_RECONCILE_INTERVAL=1h"}})
	m := e2e.NewMerchant(t, stack)
	paid, expired, advanced, ended := m.Create(e2e.Terms), m.Create(e2e.Terms), m.Create(e2e.Terms), m.Create(e2e.Terms)
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+ended+"/expire", "")
	moveToEmptyNamespace(t, stack)

	m.MustPay(paid, e2e.CardSucceeds)
	m.AwaitStatus(paid, checkout.StatusCompleted, 10*time.Second)
	require.Equal(t, 1, m.Charges(paid))
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+expired+"/expire", "")
	m.AwaitStatus(expired, checkout.StatusExpired, 10*time.Second)
	m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+advanced+"/advance", "")
	m.AwaitStatus(advanced, checkout.StatusExpired, 10*time.Second)
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+ended+"/expire", "")
	_, err := e2e.TemporalClient(t, stack).DescribeWorkflow(t.Context(), ended, "")
	require.Error(t, err, "a session that has ended needs no run")
}

// moveToEmptyNamespace starts the processes again in a namespace that has no run.
func moveToEmptyNamespace(t *testing.T, stack *devstack.Stack) {
	t.Helper()
	stack.API.Kill()
	stack.Worker.Kill()
	empty, err := stack.Temporal.In(t.Context(), stack.Temporal.Namespace()+"_empty")
	require.NoError(t, err)
	stack.Temporal = empty
	require.NoError(t, stack.StartWorker(t.Context()))
	require.NoError(t, stack.StartAPI(t.Context()))
}
