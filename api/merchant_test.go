package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// TestMerchant_SaysWhoseKeyItIs: every key may ask, and no answer has a whole address.
func TestMerchant_SaysWhoseKeyItIs(t *testing.T) {
	f := newFront(t)
	const address = "0x52908400098527886E0F7030069857D2E4169EE7"
	f.exec(`DELETE FROM payout_address WHERE merchant_id = $1`, f.merchant.ID)
	f.exec(`INSERT INTO payout_address (merchant_id, mode, currency, network, address)
		VALUES ($1, 'test', 'USDC', 'ethereum', $2), ($1, 'live', 'ETH', 'ethereum', $2)`, f.merchant.ID, address)
	key, id := f.newKey(f.merchant, checkout.ModeTest, "events:read")
	got := f.answers(200, "GET", "/v1/merchant", key, "")
	require.Equal(t, f.merchant.ID, got.json["id"])
	require.Equal(t, false, got.json["livemode"])
	require.Equal(t, []any{map[string]any{"currency": "USDC", "network": "ethereum", "address": "0x5290…9EE7"}}, got.json["payout_addresses"])
	require.Equal(t, id, at(got, "key", "id"))
	require.Equal(t, []any{"events:read"}, got.json["key"].(map[string]any)["scopes"])
	require.NotContains(t, got.body, address)
	require.Equal(t, true, f.do("GET", "/v1/merchant", f.merchant.liveKey, "").json["livemode"])
}

// TestTransactions_ShowsDecidedPayments: an undecided payment is not there, and the session says that one is under way.
func TestTransactions_ShowsDecidedPayments(t *testing.T) {
	f := newFront(t)
	session, _ := f.newPayout(f.merchant, checkout.ModeTest)
	id := f.transactionOf(session)
	got := f.answers(200, "GET", "/v1/transactions/"+id, f.key, "")
	require.Equal(t, session, got.json["session_id"])
	require.Equal(t, []string{id}, f.do("GET", "/v1/transactions?status=succeeded", f.key, "").ids())
	require.Empty(t, f.do("GET", "/v1/transactions?status=failed", f.key, "").ids())
	require.Equal(t, []string{session}, f.do("GET", "/v1/checkout?transaction="+id, f.key, "").ids())

	f.exec(`UPDATE transaction SET customer_email = 'Ann@shop.example' WHERE id = $1`, id)
	require.Equal(t, []string{session}, f.do("GET", "/v1/checkout?customer_email=ann@shop.example", f.key, "").ids())
	require.Empty(t, f.do("GET", "/v1/checkout?customer_email=bob@shop.example", f.key, "").ids())
	require.Equal(t, []string{"customer_email"}, f.do("GET", "/v1/checkout?customer_email=x", f.key, "").params())

	f.exec(`DELETE FROM payout`)
	f.exec(`UPDATE transaction SET status = 'processing', completed_at = NULL WHERE id = $1`, id)
	f.exec(`UPDATE checkout_session SET status = 'pending', ended_at = NULL, payment_in_flight = true WHERE id = $1`, session)
	require.Equal(t, 404, f.do("GET", "/v1/transactions/"+id, f.key, "").status)
	require.Empty(t, f.do("GET", "/v1/transactions", f.key, "").ids())
	paying := f.do("GET", "/v1/checkout/"+session, f.key, "")
	require.Equal(t, []any{"pending", true, nil}, []any{paying.json["status"], paying.json["payment_in_progress"], paying.json["transaction"]})
}
