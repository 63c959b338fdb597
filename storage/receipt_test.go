package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// buys pays a session as a customer with an e-mail address, and decides the payment twice.
func (f fixture) buys(t *testing.T, n storage.NewSession, email string, result checkout.ChargeResult) checkout.Session {
	t.Helper()
	s := f.create(t, n)
	id := storagetest.Begin(t, f.Store, s.Ref, storage.NewPayment{CustomerEmail: &email, Language: "pl"}, "")
	f.record(t, s, id, result)
	for range 2 {
		must.Get(f.Sessions.FinishPayment(t.Context(), s.Ref, id))(t)
	}
	return s
}

func TestFinishPayment_MailsOneReceiptToTheCustomer(t *testing.T) {
	f := newFixture(t)
	f.owner(t, "ann@shop.example")
	f.Exec(t, `DELETE FROM mail`)
	receipts := func(s checkout.Session) any {
		return f.query(t, `SELECT count(*) FROM mail WHERE session_id = $1 AND kind = 'receipt' AND detail = 'pl'`, s.ID)
	}
	paid := checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}
	require.EqualValues(t, 0, receipts(f.buys(t, f.liveSession(), "customer@example.com", paid)), "nobody has turned it on")

	on := true
	require.NoError(t, f.People.SetBrand(t.Context(), f.merchant.ID, people.BrandChange{Receipts: &on}))
	live := f.buys(t, f.liveSession(), "customer@example.com", paid)
	require.EqualValues(t, 1, receipts(live), "once, though it was decided twice")
	require.EqualValues(t, 0, receipts(f.buys(t, f.newSession(), "customer@example.com", paid)), "a test key writes to no stranger")
	require.EqualValues(t, 1, receipts(f.buys(t, f.newSession(), "Ann@shop.example", paid)), "but to the merchant's people")
	declined := checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined}
	require.EqualValues(t, 0, receipts(f.buys(t, f.liveSession(), "customer@example.com", declined)))

	// Somebody who cannot sign in waits for no receipts.
	f.Exec(t, `UPDATE mail SET next_at = next_at - interval '1 hour'`)
	require.NoError(t, f.People.AskForReset(t.Context(), "ann@shop.example"))
	due := must.Get(f.People.DueMails(t.Context(), 1))(t)
	require.Equal(t, merchant.MailPasswordReset, due[0].Kind)
	due = must.Get(f.People.DueMails(t.Context(), 1))(t)
	require.Equal(t, []any{merchant.MailReceipt, live.ID, "pl", ""}, []any{due[0].Kind, due[0].SessionID, due[0].Detail, due[0].To})
}
