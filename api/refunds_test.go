package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// paidSession returns a session of 10.50 USD that is paid, and its payout, which is not signed.
func (f *front) paidSession() (session string, payout checkout.Ref) {
	session = f.newSession(f.key)
	_, followUp := f.pay(session, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	return session, f.ref(followUp.PayoutID)
}

func (f *front) refund(session, body string, header ...string) answer {
	return f.do("POST", "/v1/checkout/"+session+"/refund", f.key, body, header...)
}

// refundEnds stores how the card network says that a refund ended.
func (f *front) refundEnds(id string, result checkout.RefundResult) {
	got, err := f.store.Refunds.Refund(f.t.Context(), f.ref(id))
	require.NoError(f.t, err)
	_, err = f.store.Refunds.RecordRefund(f.t.Context(), got, result)
	require.NoError(f.t, err)
}

// disputes stores a dispute of 10.50 USD as the card network reports it.
func (f *front) disputes(session string, status books.RiskStatus) {
	_, err := f.store.Books.RecordRisks(f.t.Context(), checkout.ModeTest, storage.ChargeToCheck{Reference: f.transactionOf(session)},
		[]books.ChargeRisk{{
			ID: "du_1", Kind: books.RiskDispute, Status: status, Amount: 1050, Currency: money.USD, Reason: "fraudulent",
			RespondBy: timeIn(f.t, "2100-01-02T03:04:05.000Z"), Fee: 1500, FeeCurrency: money.USD,
		}})
	require.NoError(f.t, err)
}

func TestRefundSession_GivesAPartBackAndReducesThePayout(t *testing.T) {
	f := newFront(t)
	session, payout := f.paidSession()
	var started []string
	f.temporal.Start = func(o client.StartWorkflowOptions) error { started = append(started, o.ID); return nil }
	got := f.refund(session, `{"amount":4.5,"reason":"duplicate"}`, idempotent, "return-1")
	require.Equal(t, 201, got.status, got.body)
	id := got.json["id"].(string)
	for field, want := range map[string]any{
		"session_id": session, "transaction_id": f.transactionOf(session), "status": "pending", "amount": 4.5, "currency": "USD",
		"fee_returned": 0.04, "reason": "duplicate", "failure": nil, "livemode": false, "completed_at": nil,
	} {
		require.Equal(t, want, got.json[field], field)
	}
	require.Equal(t, "/v1/refunds/"+id, got.header.Get("Location"))
	require.Equal(t, []string{id}, started)
	require.Equal(t, 1, f.count("audit_entry WHERE action = 'payment.refunded' AND subject = '"+id+"' AND mode = 'test'"))

	again := f.refund(session, `{"amount":4.5,"reason":"duplicate"}`, idempotent, "return-1")
	require.Equal(t, []any{201, "true", got.body}, []any{again.status, again.header.Get("Idempotent-Replayed"), again.body})
	require.Equal(t, got.json, f.answers(200, "GET", "/v1/refunds/"+id, f.key, "").json)
	require.Equal(t, []string{id}, f.do("GET", "/v1/refunds?status=pending&session="+session, f.key, "").ids())
	require.Empty(t, f.do("GET", "/v1/refunds?status=failed", f.key, "").ids())
	require.Equal(t, "completed", f.do("GET", "/v1/checkout/"+session, f.key, "").json["status"])
	reduced := f.do("GET", "/v1/payouts/"+payout.ID, f.key, "").json
	require.Equal(t, 10.39, reduced["source_amount"])
	require.Equal(t, []any{map[string]any{"type": "refund", "source": id, "amount": 4.46}}, reduced["deductions"])
	require.Equal(t, 1, f.count("event WHERE type = 'payout.reduced'"))
}

func TestRefundSession_EverythingEndsThePayout(t *testing.T) {
	f := newFront(t)
	session, payout := f.paidSession()
	got := f.refund(session, "")
	require.Equal(t, []any{201, 10.5, 0.11, nil}, []any{got.status, got.json["amount"], got.json["fee_returned"], got.json["reason"]})
	ended := f.do("GET", "/v1/payouts/"+payout.ID, f.key, "").json
	require.Equal(t, map[string]any{"code": "refunded", "message": "The payment was refunded."}, ended["failure"])
	require.Equal(t, "409 payment_refunded", f.retry(payout.ID).refused())
}

func TestRefundSession_SaysWhyNot(t *testing.T) {
	f := newFront(t)
	pending := f.refund(f.newSession(f.key), "")
	require.Equal(t, "409 session_not_paid", pending.refused())
	require.Equal(t, "pending", pending.json["status"])

	session, payout := f.paidSession()
	large := f.refund(session, `{"amount":10.51}`)
	require.Equal(t, "409 refund_exceeds_payment", large.refused())
	require.Equal(t, []any{"amount", 10.5, "USD"}, []any{large.json["param"], large.json["refundable"], large.json["currency"]})
	require.Equal(t, "amount must be at most 10.50 USD: that is left of the payment.", large.json["message"])

	f.finishPayout(payout, 1, "")
	f.exec(`UPDATE merchant SET debt_limit = 500`)
	poor := f.refund(session, "")
	require.Equal(t, "409 insufficient_balance", poor.refused())
	require.Equal(t, []any{5.39, "USD"}, []any{poor.json["missing"], poor.json["currency"]})
	require.Zero(t, f.count("refund"))

	f.disputes(session, books.RiskOpen)
	require.Equal(t, "409 dispute_open", f.refund(session, `{"amount":1}`).refused())
	f.disputes(session, books.RiskWon)
	f.exec(`UPDATE merchant SET debt_limit = 100000`)
	first := f.refund(session, `{"amount":1}`)
	require.Equal(t, 201, first.status, first.body)
	require.Equal(t, "409 refund_pending", f.refund(session, `{"amount":1}`).refused())
	f.refundEnds(first.json["id"].(string), checkout.RefundResult{Status: checkout.RefundSucceeded, Reference: "re_1", Amount: 100})
	rest := f.refund(session, "")
	require.Equal(t, []any{201, 9.5}, []any{rest.status, rest.json["amount"]}, rest.body)
	f.refundEnds(rest.json["id"].(string), checkout.RefundResult{Status: checkout.RefundSucceeded, Reference: "re_2", Amount: 950})
	none := f.refund(session, "")
	require.Equal(t, "409 refund_exceeds_payment", none.refused())
	require.Equal(t, "Nothing is left of the payment: the customer has it already.", none.json["message"])
	require.Equal(t, 0.0, none.json["refundable"])
}

func TestRefundSession_RefusesWrongFields(t *testing.T) {
	f := newFront(t)
	session, _ := f.paidSession()
	for body, want := range map[string]string{
		`{"amount":0}`:      "amount must be between 0.01 and 999999.99, not 0",
		`{"amount":-1}`:     "amount must be between 0.01 and 999999.99, not -1",
		`{"amount":0.001}`:  "amount 0.001 has more than 2 decimals",
		`{"amount":"0.10"}`: "amount must be a number, not a string; send 0.10 without quotes",
		`{"amount":[1]}`:    "amount must be a number in major units with at most 2 decimals, for example 10.50",
		`{"reason":"late"}`: "reason must be one of requested_by_customer, duplicate, fraudulent",
		`{"cause":"x"}`:     "cause is not a known field; known are amount, reason",
	} {
		got := f.refund(session, body)
		require.Equal(t, "400 invalid_request", got.refused(), body)
		require.Equal(t, want, got.json["message"], body)
	}
	require.Zero(t, f.count("refund"))
	require.Equal(t, 201, f.refund(session, `{"amount":0.01,"reason":null}`).status, "the smallest")
}

func TestRefund_ThatTheBankReturnsFailsAfterItSucceeded(t *testing.T) {
	f := newFront(t)
	session, payout := f.paidSession()
	id := f.refund(session, `{"amount":4.5}`).json["id"].(string)
	f.refundEnds(id, checkout.RefundResult{Status: checkout.RefundSucceeded, Reference: "re_1", Amount: 450})
	got := f.answers(200, "GET", "/v1/refunds/"+id, f.key, "").json
	require.Equal(t, "succeeded", got["status"])
	require.NotNil(t, got["completed_at"])
	f.refundEnds(id, checkout.RefundResult{Status: checkout.RefundFailed, Reference: "re_1"})
	got = f.answers(200, "GET", "/v1/refunds/"+id, f.key, "").json
	require.Equal(t, "failed", got["status"])
	require.Equal(t, map[string]any{"code": "returned", "message": "The customer's bank returned the refund."}, got["failure"])
	require.NotContains(t, f.do("GET", "/v1/payouts/"+payout.ID, f.key, "").json, "deductions", "the payout has it back")
	require.Equal(t, 1, f.count("event WHERE type = 'refund.succeeded'"))
	require.Equal(t, 1, f.count("event WHERE type = 'refund.failed'"))
}
