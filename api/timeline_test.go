package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestTimeline_TellsWhatHappenedInItsOrder(t *testing.T) {
	f := newFront(t)
	key := f.merchant.testKey
	// moments are the timeline of a session, and each entry's only id or reason.
	moments := func(id string) (statuses []string, entries []map[string]any) {
		got := f.do("GET", "/v1/checkout/"+id, key, "")
		require.Equal(t, 200, got.status)
		last := ""
		for _, m := range got.json["timeline"].([]any) {
			entry := m.(map[string]any)
			require.Len(t, entry, 5)
			require.GreaterOrEqual(t, entry["at"].(string), last, "oldest first")
			last = entry["at"].(string)
			statuses, entries = append(statuses, entry["status"].(string)), append(entries, entry)
		}
		require.Equal(t, got.json["created_at"], entries[0]["at"])
		return statuses, entries
	}
	declined := checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureInsufficientFunds}

	session := f.newSession(key)
	statuses, _ := moments(session)
	require.Equal(t, []string{"pending"}, statuses)
	first, _ := f.pay(session, declined)
	second, settled := f.pay(session, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	statuses, _ = moments(session)
	require.Equal(t, []string{"pending", "payment_failed", "completed", "payout_pending"}, statuses)
	_, err := f.store.Payouts.FinishPayout(t.Context(), checkout.Owner{MerchantID: f.merchant.ID, Mode: checkout.ModeTest}.Ref(settled.PayoutID), 1, "")
	require.NoError(t, err)
	statuses, entries := moments(session)
	require.Equal(t, []string{"pending", "payment_failed", "completed", "payout_pending", "payout_sent"}, statuses)
	require.Equal(t, first, entries[1]["transaction_id"])
	require.Equal(t, "insufficient_funds", entries[1]["reason"])
	require.Equal(t, second, entries[2]["transaction_id"])
	require.Nil(t, entries[2]["reason"])
	require.Equal(t, settled.PayoutID, entries[4]["payout_id"])

	failed := f.newSession(key)
	f.pay(failed, checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureFraudBlocked})
	statuses, entries = moments(failed)
	require.Equal(t, []string{"pending", "payment_failed", "failed"}, statuses)
	require.Equal(t, "fraud_blocked", entries[2]["reason"])

	late := f.newSession(key)
	f.pay(late, declined)
	f.exec(`UPDATE checkout_session SET expires_at = clock_timestamp() WHERE id = $1`, late)
	statuses, entries = moments(late)
	require.Equal(t, []string{"pending", "payment_failed", "expired"}, statuses, "by the clock")
	require.Equal(t, f.do("GET", "/v1/checkout/"+late, key, "").json["expires_at"], entries[2]["at"])
	require.NoError(t, f.endsExpired(f.merchant, checkout.ModeTest)(late))
	statuses, _ = moments(late)
	require.Equal(t, []string{"pending", "payment_failed", "expired"}, statuses, "by its workflow")

	for i, entry := range f.do("GET", "/v1/checkout", key, "").json["data"].([]any) {
		require.Equal(t, f.do("GET", "/v1/checkout/"+[]string{late, failed, session}[i], key, "").json["timeline"], entry.(map[string]any)["timeline"])
	}
}
