package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// TestTimeline_EndsByTheClock: a session past its time reads expired before its workflow writes so. What leads to each
// entry is in workflows/checkout.
func TestTimeline_EndsByTheClock(t *testing.T) {
	f := newFront(t)
	key := f.merchant.testKey
	id := f.newSession(key)
	first, _ := f.pay(id, checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureInsufficientFunds})
	f.exec(`UPDATE checkout_session SET expires_at = clock_timestamp() WHERE id = $1`, id)
	byClock := f.do("GET", "/v1/checkout/"+id, key, "").json
	entry := func(status string, at any) map[string]any {
		return map[string]any{"status": status, "at": at, "transaction_id": nil, "payout_id": nil, "reason": nil}
	}
	declined := entry("payment_failed", byClock["timeline"].([]any)[1].(map[string]any)["at"])
	declined["transaction_id"], declined["reason"] = first, "insufficient_funds"
	require.Equal(t, []any{
		entry("pending", byClock["created_at"]), declined, entry("expired", byClock["expires_at"]),
	}, byClock["timeline"])
	require.NoError(t, f.endsExpired(f.merchant, checkout.ModeTest)(id))
	byRun := f.do("GET", "/v1/checkout/"+id, key, "").json["timeline"].([]any)
	require.Len(t, byRun, 3)
	require.Equal(t, "expired", byRun[2].(map[string]any)["status"])
}
