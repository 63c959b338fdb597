package hosted

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestStatus_AnInventedPaymentNeverReachesTheWorkflow(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	for _, path := range []string{"/" + id + "?payment=", "/" + id + "/status?payment="} {
		require.Less(t, h.get(path+checkout.NewID(checkout.PrefixTransaction)).Code, 400)
	}
	require.Empty(t, h.paid)
}

func TestStatus_HoldsNoPersonalData(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	w := h.get("/" + id + "/status")
	var got map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Contains(t, got, "now")
	delete(got, "now")
	require.Equal(t, map[string]any{
		"status": "pending", "payment_in_flight": false, "action": false, "checking": false, "not_possible": false,
		"expires_at": checkout.FormatTime(h.read(id).ExpiresAt),
	}, got)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
}
