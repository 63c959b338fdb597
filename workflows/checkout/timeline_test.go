package checkout_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestSession_Timeline(t *testing.T) {
	t.Parallel()
	// at is a number of seconds after the session was created.
	at := func(seconds float64) *time.Time {
		t := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
		return &t
	}
	declined := func(id string, seconds float64, code checkout.FailureCode) checkout.Transaction {
		return checkout.Transaction{Ref: checkout.Ref{ID: id}, Status: checkout.TransactionFailed, Failure: code, CompletedAt: at(seconds)}
	}
	succeeded := func(id string, seconds float64) checkout.Transaction {
		return checkout.Transaction{Ref: checkout.Ref{ID: id}, Status: checkout.TransactionSucceeded, CompletedAt: at(seconds)}
	}
	for name, c := range map[string]struct {
		session checkout.Session
		want    string
	}{
		"pending": {
			checkout.Session{Status: checkout.StatusPending},
			`[{"status":"pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null}]`,
		},
		"declined, still pending": {
			checkout.Session{Status: checkout.StatusPending, Transactions: []checkout.Transaction{declined("txn_1", 5, checkout.FailureExpiredCard)}},
			`[{"status":"pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null},
			{"status":"payment_failed","at":"2026-01-02T03:00:05.000Z","transaction_id":"txn_1","payout_id":null,"reason":"expired_card"}]`,
		},
		"declined, then completed, the payout sent": {
			checkout.Session{
				Status: checkout.StatusCompleted, EndedAt: at(10),
				Transactions: []checkout.Transaction{declined("txn_1", 5, checkout.FailureCardDeclined), succeeded("txn_2", 10)},
				Payout:       &checkout.Payout{Ref: checkout.Ref{ID: "po_1"}, Status: checkout.PayoutSent, CreatedAt: *at(10), SentAt: at(12.5)},
			},
			`[{"status":"pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null},
			{"status":"payment_failed","at":"2026-01-02T03:00:05.000Z","transaction_id":"txn_1","payout_id":null,"reason":"card_declined"},
			{"status":"completed","at":"2026-01-02T03:00:10.000Z","transaction_id":"txn_2","payout_id":null,"reason":null},
			{"status":"payout_pending","at":"2026-01-02T03:00:10.000Z","transaction_id":null,"payout_id":"po_1","reason":null},
			{"status":"payout_sent","at":"2026-01-02T03:00:12.500Z","transaction_id":null,"payout_id":"po_1","reason":null}]`,
		},
		"the payout failed": {
			checkout.Session{
				Status: checkout.StatusCompleted, EndedAt: at(1), Transactions: []checkout.Transaction{succeeded("txn_1", 1)},
				Payout: &checkout.Payout{Ref: checkout.Ref{ID: "po_1"}, Status: checkout.PayoutFailed, Failure: checkout.PayoutInvalidAddress, CreatedAt: *at(1), FailedAt: at(2)},
			},
			`[{"status":"pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null},
			{"status":"completed","at":"2026-01-02T03:00:01.000Z","transaction_id":"txn_1","payout_id":null,"reason":null},
			{"status":"payout_pending","at":"2026-01-02T03:00:01.000Z","transaction_id":null,"payout_id":"po_1","reason":null},
			{"status":"payout_failed","at":"2026-01-02T03:00:02.000Z","transaction_id":null,"payout_id":"po_1","reason":"invalid_address"}]`,
		},
		"failed": {
			checkout.Session{
				Status: checkout.StatusFailed, EndedAt: at(7),
				Transactions: []checkout.Transaction{declined("txn_1", 5, checkout.FailureIncorrectCVC), declined("txn_2", 7, checkout.FailureFraudBlocked)},
			},
			`[{"status":"pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null},
			{"status":"payment_failed","at":"2026-01-02T03:00:05.000Z","transaction_id":"txn_1","payout_id":null,"reason":"incorrect_cvc"},
			{"status":"payment_failed","at":"2026-01-02T03:00:07.000Z","transaction_id":"txn_2","payout_id":null,"reason":"fraud_blocked"},
			{"status":"failed","at":"2026-01-02T03:00:07.000Z","transaction_id":"txn_2","payout_id":null,"reason":"fraud_blocked"}]`,
		},
		"expired, as the row says": {
			checkout.Session{Status: checkout.StatusExpired, EndedAt: at(60), Transactions: []checkout.Transaction{declined("txn_1", 5, checkout.FailureCardDeclined)}},
			`[{"status":"pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null},
			{"status":"payment_failed","at":"2026-01-02T03:00:05.000Z","transaction_id":"txn_1","payout_id":null,"reason":"card_declined"},
			{"status":"expired","at":"2026-01-02T03:01:00.000Z","transaction_id":null,"payout_id":null,"reason":null}]`,
		},
		"expired, as the clock says": {
			checkout.Session{Status: checkout.StatusExpired},
			`[{"status":"pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null},
			{"status":"expired","at":"2026-01-02T04:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null}]`,
		},
		"all in one millisecond": {
			checkout.Session{
				Status: checkout.StatusCompleted, EndedAt: at(0.0002),
				Transactions: []checkout.Transaction{declined("txn_1", 0.0004, checkout.FailureCardDeclined), succeeded("txn_2", 0.0001)},
				Payout:       &checkout.Payout{Ref: checkout.Ref{ID: "po_1"}, Status: checkout.PayoutSent, CreatedAt: *at(0.0001), SentAt: at(0)},
			},
			`[{"status":"pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null},
			{"status":"payment_failed","at":"2026-01-02T03:00:00.000Z","transaction_id":"txn_1","payout_id":null,"reason":"card_declined"},
			{"status":"completed","at":"2026-01-02T03:00:00.000Z","transaction_id":"txn_2","payout_id":null,"reason":null},
			{"status":"payout_pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":"po_1","reason":null},
			{"status":"payout_sent","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":"po_1","reason":null}]`,
		},
	} {
		c.session.Metadata = json.RawMessage(`{}`)
		c.session.CreatedAt, c.session.ExpiresAt = *at(0), *at(3600)
		object, err := json.Marshal(c.session)
		require.NoError(t, err, name)
		var got struct{ Timeline json.RawMessage }
		require.NoError(t, json.Unmarshal(object, &got))
		require.JSONEq(t, c.want, string(got.Timeline), name)
	}
}

func TestSession_TimelineOfARetriedPayout(t *testing.T) {
	t.Parallel()
	at := func(seconds int) *time.Time {
		t := time.Date(2026, 1, 2, 3, 0, seconds, 0, time.UTC)
		return &t
	}
	p := checkout.Payout{
		Ref: checkout.Ref{ID: "po_1"}, Generation: 3, CreatedAt: *at(1),
		Retried: []checkout.RetriedPayout{
			{Failure: checkout.PayoutInvalidAddress, FailedAt: *at(2), RetriedAt: *at(3)},
			{Failure: checkout.PayoutNetworkError, SentAt: at(4), FailedAt: *at(5), RetriedAt: *at(6)},
		},
	}
	steps := func() (all []string) {
		s := checkout.Session{Status: checkout.StatusCompleted, CreatedAt: *at(0), EndedAt: at(1), Payout: &p}
		for _, m := range s.Timeline()[2:] {
			step := string(m.Status) + " " + m.At[17:19]
			if m.Reason != nil {
				step += " " + *m.Reason
			}
			require.Equal(t, "po_1", *m.PayoutID)
			all = append(all, step)
		}
		return all
	}
	before := []string{
		"payout_pending 01", "payout_failed 02 invalid_address",
		"payout_pending 03", "payout_sent 04", "payout_failed 05 network_error", "payout_pending 06",
	}
	require.Equal(t, before, steps())
	p.Status, p.SentAt = checkout.PayoutSent, at(7)
	require.Equal(t, append(before, "payout_sent 07"), steps())
	p.Status, p.FailedAt, p.Failure = checkout.PayoutFailed, at(8), checkout.PayoutInvalidAddress
	require.Equal(t, append(before, "payout_sent 07", "payout_failed 08 invalid_address"), steps())
}
