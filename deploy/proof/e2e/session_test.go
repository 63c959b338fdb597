package e2e_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85/webhook"

	"example.com/checkout/deploy/proof/e2e"
)

// TestMainJob is the whole story: create, pay, checkout.completed, payout.sent.
func TestMainJob(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	id := m.Create(`{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "customer_email": "ann@example.com",
		"metadata": {"order_id": "order-1", "n": 1.50}, "redirect_url": "https://shop.example/thanks?a=1"}`)
	page := m.MustPay(id, e2e.CardSucceeds)
	require.Contains(t, page, "https://shop.example/thanks?a=1")

	got := m.Session(id)
	require.Equal(t, "completed", got.Field("status"))
	require.Equal(t, "succeeded", got.Field("transaction.status"))
	require.NotNil(t, got.Field("completed_at"))

	types := map[string]map[string]any{}
	for _, a := range m.Arrivals(2, 10*time.Second) {
		require.NoError(t, a.Signature)
		require.NoError(t, webhook.ValidatePayload(a.Body, a.Header.Get("X-Service-Signature"), m.Secret), "written by somebody else")
		require.Error(t, webhook.ValidatePayload(append([]byte(" "), a.Body...), a.Header.Get("X-Service-Signature"), m.Secret))
		require.Error(t, webhook.ValidatePayload(a.Body, a.Header.Get("X-Service-Signature"), "whsec_other"))
		require.NotEmpty(t, a.Header.Get("traceparent"))
		var envelope struct {
			Type string
			Data map[string]any
		}
		require.NoError(t, json.Unmarshal(a.Body, &envelope))
		types[envelope.Type] = envelope.Data
	}
	require.Equal(t, map[string]any{"order_id": "order-1", "n": 1.5}, types["checkout.completed"]["metadata"])
	require.Equal(t, id, types["payout.sent"]["session_id"])
	require.Equal(t, "11.209978", types["payout.sent"]["amount"], "10.39 EUR at 1.08 less 0.1 %")
	e2e.Await(t, "the payout is sent", 5*time.Second, func() bool { return m.Session(id).Field("payout.status") == "sent" })
}
