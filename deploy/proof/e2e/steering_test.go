package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/workflows/webhook"
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
	e2e.Await(t, "both deliveries are parked", 20*time.Second, func() bool {
		return e2e.Query[int](t, e2e.Shared, `SELECT count(*) FROM webhook_delivery WHERE endpoint_id = $1 AND parked_at IS NOT NULL`, endpoint) == 2
	})
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

// TestRegistration_ItsLife: a corrected address, a rotated secret, a test event,
// and the end.
func TestRegistration_ItsLife(t *testing.T) {
	t.Parallel()
	m, other := e2e.NewMerchant(t, e2e.Shared), e2e.NewMerchant(t, e2e.Shared)
	endpoint := m.Registration()

	// The deliveries under way follow a corrected address.
	delivery := m.RefusedDelivery()
	m.Must(http.StatusOK, http.MethodPatch, "/v1/webhooks/"+endpoint, `{"url": "`+other.URL+`", "description": "corrected"}`)
	e2e.Excuse(t, 11, delivery, "the other server knows another secret")
	m.AwaitDelivery(delivery, "status", "failed", 40*time.Second)
	require.NotEmpty(t, other.Arrivals(1, time.Second))
	m.Must(http.StatusOK, http.MethodPatch, "/v1/webhooks/"+endpoint, `{"url": "`+m.URL+`"}`)
	m.Receiver.Answer(http.StatusOK)

	// A test event carries the merchant's own metadata and never looks live.
	before, _ := m.Receiver.Arrivals()
	sent := m.Must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+endpoint+"/test", `{"type": "checkout.completed", "metadata": {"order_id": "mine"}}`)
	require.NotEmpty(t, sent.Field("delivery.id"))
	arrived := m.Arrivals(len(before)+1, 10*time.Second)[len(before)]
	require.Contains(t, string(arrived.Body), `"metadata":{"order_id":"mine"}`)
	require.Contains(t, string(arrived.Body), `"livemode":false`)

	// While a rotation lasts, receivers with either secret accept.
	rotated := m.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+endpoint+"/rotate_secret", `{"overlap_hours": 1}`)
	secret := rotated.Field("secret").(string)
	require.NotEqual(t, m.Secret, secret)
	m.Must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+endpoint+"/test", `{}`)
	arrived = m.Arrivals(len(before)+2, 10*time.Second)[len(before)+1]
	header := arrived.Header.Get(webhook.SignatureHeader)
	require.Equal(t, 2, strings.Count(header, "v1="))
	require.NoError(t, arrived.Signature, "the old secret")
	require.NoError(t, webhook.Verify(secret, header, arrived.Body, time.Now()), "the new one")
	explained := m.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/verify", quoted("header", header, "body", string(arrived.Body)))
	require.Equal(t, true, explained.Field("valid"), string(explained.Body))
	explained = m.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/verify", quoted("header", header, "body", string(arrived.Body)+"\n"))
	require.Equal(t, "body_trailing_newline", explained.Field("problem"))

	// Deleting cancels what is pending, at once and not only when it is due.
	pending := m.RefusedDelivery()
	m.Must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+endpoint, "")
	m.Must(http.StatusNotFound, http.MethodGet, "/v1/webhooks/"+endpoint, "")
	m.AwaitDelivery(pending, "status", "canceled", 15*time.Second)
	refused := m.Must(http.StatusConflict, http.MethodPost, "/v1/deliveries/"+pending+"/replay", "")
	require.Equal(t, "webhook_deleted", refused.Field("error"))
}

// quoted returns a JSON object of strings.
func quoted(pairs ...string) string {
	object := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		object[pairs[i]] = pairs[i+1]
	}
	text, _ := json.Marshal(object) // strings only
	return string(text)
}
