package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

// TestDisable_HoldsEverythingAndEnableSendsIt: also what happened meanwhile.
func TestDisable_HoldsEverythingAndEnableSendsIt(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	endpoint := m.Registration()
	m.Must(http.StatusOK, http.MethodPatch, "/v1/webhooks/"+endpoint, `{"status": "disabled"}`)
	paid := m.Create(e2e.Terms)
	m.MustPay(paid, e2e.CardSucceeds)
	m.AwaitStatus(paid, "completed", 10*time.Second)
	e2e.AwaitQuery(t, "both deliveries are parked", 20*time.Second, e2e.Shared, 2, `SELECT count(*) FROM webhook_delivery WHERE endpoint_id = $1 AND parked_at IS NOT NULL`, endpoint)
	list := m.Must(http.StatusOK, http.MethodGet, "/v1/deliveries?session="+paid, "").Field("data").([]any)
	require.Len(t, list, 2)
	require.Equal(t, true, list[0].(map[string]any)["held"])
	got, _ := m.Receiver.Arrivals()
	require.Empty(t, got)

	m.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+endpoint+"/resume", "")
	for _, a := range m.Arrivals(2, 15*time.Second) {
		require.NoError(t, a.Signature)
		require.Equal(t, "1", a.Attempt, "the hold used up no attempt")
	}
}
