package e2e_test

import (
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// TestCustomerErase_LeavesNothingInAnyDatabase looks for the address in every table
// of the service and of Temporal, whose histories are tables too. Then the session itself leaves.
func TestCustomerErase_LeavesNothingInAnyDatabase(t *testing.T) {
	t.Parallel()
	stack := e2e.Beside(t, devstack.Options{})
	m := e2e.NewMerchant(t, stack)
	email := m.ID + "@example.com" // Temporal's tables are Shared's too
	id := m.Create(`{"amount": 20, "currency": "EUR", "payout_currency": "USDC", "customer_email": "` + email + `",
		"metadata": {"order_id": "o-1", "note": "` + email + `"}}`)
	e2e.PostForm(t, stack.PageURL()+"/"+id, url.Values{
		"card_number": {e2e.CardSucceeds}, "exp": {"12/40"}, "cvc": {"123"}, "email": {email},
	})
	m.AwaitStatus(id, checkout.StatusCompleted, 10*time.Second)
	e2e.AwaitQuery(t, "everything is delivered", 30*time.Second, stack, 2, `SELECT count(*) FROM webhook_delivery WHERE status = 'delivered'`)

	found := func() (tables []string) {
		for _, database := range []string{"", "temporal", "temporal_visibility"} {
			in, err := invariant.SearchDatabase(t.Context(), stack.DatabaseURL(), database, []invariant.Canary{{Value: email}})
			require.NoError(t, err)
			for table, rows := range in {
				if rows[0] > 0 {
					tables = append(tables, database+"."+table)
				}
			}
		}
		return tables
	}
	require.ElementsMatch(t, []string{".checkout_session", ".event", ".transaction"}, found())
	erase := []string{"customer", "erase", "--email", email, "--apply"}
	require.NoError(t, app.Main(t.Context(), erase, stack.Environment(), io.Discard, io.Discard))
	require.Empty(t, found())
	require.Nil(t, m.Session(id).Field("customer_email"))
	require.Equal(t, "o-1", m.Session(id).Field("metadata.order_id"))

	run, err := e2e.TemporalClient(t, stack).ExecuteWorkflow(t.Context(),
		client.StartWorkflowOptions{TaskQueue: contract.TaskQueueCheckout}, contract.TypeRetention,
		contract.RetentionInput{Age: time.Millisecond, Session: time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	m.Must(http.StatusNotFound, http.MethodGet, "/v1/checkout/"+id, "")
	m.Must(http.StatusNotFound, http.MethodPost, "/v1/checkout/"+id+"/expire", "")
}
