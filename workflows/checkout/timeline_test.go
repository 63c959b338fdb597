package checkout_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// at is a number of seconds after the session was created.
func at(seconds float64) *time.Time {
	t := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
	return &t
}

// moments are the steps of a session's timeline as text, with minutes and seconds.
func moments(s checkout.Session) (all []string) {
	s.CreatedAt, s.ExpiresAt = *at(0), *at(3000)
	for _, m := range s.Timeline() {
		text := string(m.Status) + " " + m.At[14:23]
		for _, more := range []*string{m.TransactionID, m.PayoutID, m.Reason} {
			if more != nil {
				text += " " + *more
			}
		}
		all = append(all, text)
	}
	return all
}

func TestSession_Timeline(t *testing.T) {
	t.Parallel()
	declined := func(id string, seconds float64, code checkout.FailureCode) checkout.Transaction {
		return checkout.Transaction{Ref: checkout.Ref{ID: id}, Status: checkout.TransactionFailed, Failure: code, CompletedAt: at(seconds)}
	}
	completed := func(seconds float64, p checkout.Payout, declined ...checkout.Transaction) checkout.Session {
		p.ID, p.CreatedAt = "po_1", *at(seconds)
		paid := checkout.Transaction{Ref: checkout.Ref{ID: "txn_paid"}, Status: checkout.TransactionSucceeded, CompletedAt: at(seconds)}
		return checkout.Session{
			Status: checkout.StatusCompleted, EndedAt: at(seconds), Transactions: append(declined, paid), Payout: &p,
		}
	}
	retried := checkout.Payout{Generation: 3, Retried: []checkout.RetriedPayout{
		{Failure: checkout.PayoutInvalidAddress, FailedAt: *at(2), RetriedAt: *at(3)},
		{Failure: checkout.PayoutNetworkError, SentAt: at(4), FailedAt: *at(5), RetriedAt: *at(6)},
	}}
	tries := []string{
		"pending 00:00.000", "completed 00:01.000 txn_paid",
		"payout_pending 00:01.000 po_1", "payout_failed 00:02.000 po_1 invalid_address",
		"payout_pending 00:03.000 po_1", "payout_sent 00:04.000 po_1", "payout_failed 00:05.000 po_1 network_error",
		"payout_pending 00:06.000 po_1",
	}
	sent, refused := retried, retried
	sent.Status, sent.SentAt = checkout.PayoutSent, at(7)
	refused.Status, refused.SentAt, refused.FailedAt, refused.Failure = checkout.PayoutFailed, at(7), at(8), checkout.PayoutInvalidAddress

	for name, c := range map[string]struct {
		session checkout.Session
		want    []string
	}{
		"pending": {checkout.Session{Status: checkout.StatusPending}, []string{"pending 00:00.000"}},
		"declined, still pending": {
			checkout.Session{Status: checkout.StatusPending, Transactions: []checkout.Transaction{declined("txn_1", 5, checkout.FailureExpiredCard)}},
			[]string{"pending 00:00.000", "payment_failed 00:05.000 txn_1 expired_card"},
		},
		"declined, then completed, the payout sent": {
			completed(10, checkout.Payout{Status: checkout.PayoutSent, SentAt: at(12.5)}, declined("txn_1", 5, checkout.FailureCardDeclined)),
			[]string{
				"pending 00:00.000", "payment_failed 00:05.000 txn_1 card_declined", "completed 00:10.000 txn_paid",
				"payout_pending 00:10.000 po_1", "payout_sent 00:12.500 po_1",
			},
		},
		"the payout failed": {
			completed(1, checkout.Payout{Status: checkout.PayoutFailed, Failure: checkout.PayoutInvalidAddress, FailedAt: at(2)}),
			[]string{
				"pending 00:00.000", "completed 00:01.000 txn_paid", "payout_pending 00:01.000 po_1",
				"payout_failed 00:02.000 po_1 invalid_address",
			},
		},
		"the payout was retried twice":            {completed(1, retried), tries},
		"the payout was retried twice, then sent": {completed(1, sent), append(tries[:8:8], "payout_sent 00:07.000 po_1")},
		"the payout was sent, and paid nothing": {
			completed(1, refused), append(tries[:8:8], "payout_sent 00:07.000 po_1", "payout_failed 00:08.000 po_1 invalid_address"),
		},
		"failed": {
			checkout.Session{Status: checkout.StatusFailed, EndedAt: at(7), Transactions: []checkout.Transaction{
				declined("txn_1", 5, checkout.FailureIncorrectCVC), declined("txn_2", 7, checkout.FailureFraudBlocked),
			}},
			[]string{
				"pending 00:00.000", "payment_failed 00:05.000 txn_1 incorrect_cvc", "payment_failed 00:07.000 txn_2 fraud_blocked",
				"failed 00:07.000 txn_2 fraud_blocked",
			},
		},
		"expired, as the row says":   {checkout.Session{Status: checkout.StatusExpired, EndedAt: at(60)}, []string{"pending 00:00.000", "expired 01:00.000"}},
		"expired, as the clock says": {checkout.Session{Status: checkout.StatusExpired}, []string{"pending 00:00.000", "expired 50:00.000"}},
		"all in one millisecond": {
			completed(0.0001, checkout.Payout{Status: checkout.PayoutSent, SentAt: at(0)}, declined("txn_1", 0.0004, checkout.FailureCardDeclined)),
			[]string{
				"pending 00:00.000", "payment_failed 00:00.000 txn_1 card_declined", "completed 00:00.000 txn_paid",
				"payout_pending 00:00.000 po_1", "payout_sent 00:00.000 po_1",
			},
		},
	} {
		require.Equal(t, c.want, moments(c.session), name)
	}
}

func TestSession_ItsObjectHasTheTimeline(t *testing.T) {
	t.Parallel()
	none := json.RawMessage(`{}`)
	object, err := json.Marshal(checkout.Session{
		Metadata: none, CreatedAt: *at(0), Status: checkout.StatusCompleted, EndedAt: at(2),
		Transactions: []checkout.Transaction{{Metadata: none, Failure: checkout.FailureCardDeclined, CompletedAt: at(1)}},
		Payout: &checkout.Payout{
			Metadata: none, CreatedAt: *at(2), Status: checkout.PayoutFailed, Failure: checkout.PayoutNetworkError, FailedAt: at(3),
		},
	})
	require.NoError(t, err)
	require.Contains(t, string(object),
		`"timeline":[{"status":"pending","at":"2026-01-02T03:00:00.000Z","transaction_id":null,"payout_id":null,"reason":null},`)
	require.Contains(t, string(object), `"failure":{"code":"network_error","message":"The network did not accept the transfer."}`)
}
