package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// dispute makes the card network report a dispute of 10.50 EUR without a fee.
func (f fixture) dispute(t *testing.T, s sale, status books.RiskStatus) {
	must.Get(f.Books.RecordRisks(t.Context(), s.session.Mode, storage.ChargeToCheck{Reference: s.payment}, []books.ChargeRisk{{
		ID: "du_" + s.payment, Kind: books.RiskDispute, Status: status, Amount: 1050, Currency: money.EUR,
	}}))(t)
}

func TestMerchantRisks_CountPaymentsOnceAndBeginWithDisputes(t *testing.T) {
	f := newFixture(t)
	quiet, disputed := f.other(t, checkout.ModeTest), f.other(t, checkout.ModeTest)
	of := func(m merchant.Merchant, currency money.Currency) func(*storage.NewSession) {
		return func(n *storage.NewSession) {
			n.Ref, n.Currency = m.Owner(checkout.ModeTest).Ref(n.ID), currency
		}
	}
	s := f.sale(t, of(disputed, "EUR"))
	f.dispute(t, s, books.RiskInquiry)
	f.dispute(t, f.sale(t, of(disputed, "EUR")), books.RiskOpen)
	f.dispute(t, f.sale(t, of(disputed, "EUR")), books.RiskWon)
	f.sale(t, of(disputed, "USD"))
	f.sends(t, s)

	partly, failed := f.sale(t), f.sale(t)
	for range 2 {
		f.decide(t, must.Get(f.refund(t, partly, 100))(t), checkout.RefundSucceeded)
	}
	f.decide(t, must.Get(f.refund(t, failed, 100))(t), checkout.RefundFailed)
	f.create(t, f.newSession())
	old := f.sale(t)
	f.Exec(t, `DO $$ BEGIN
		SET LOCAL session_replication_role = replica;
		UPDATE checkout_session SET id = 'cs_0' WHERE id = '`+old.session.ID+`';
	END $$`)

	got := must.Get(f.Merchants.MerchantRisks(t.Context(), checkout.ModeTest))(t)
	require.Len(t, got, 3)
	require.Equal(t, []string{disputed.ID, f.merchant.ID, quiet.ID}, []string{got[0].ID, got[1].ID, got[2].ID})
	require.Equal(t, []any{4, 2, 0, 50.0, []merchant.Sum{{Currency: "EUR", Amount: 3150}, {Currency: "USD", Amount: 1050}}},
		[]any{got[0].Payments, got[0].Disputed, got[0].Refunded, got[0].DisputedPercent(), got[0].Volume})
	require.Equal(t, []any{2, 0, 1, 50.0, []merchant.Sum{{Currency: "EUR", Amount: 2100}}},
		[]any{got[1].Payments, got[1].Disputed, got[1].Refunded, got[1].RefundedPercent(), got[1].Volume})
	require.Equal(t, []any{0, 0.0, 0}, []any{got[2].Payments, got[2].DisputedPercent(), len(got[2].Balances)})
	for _, r := range got[:2] {
		balances := must.Get(f.Balances.Balance(t.Context(), r.Owner(checkout.ModeTest)))(t)
		require.Equal(t, balances, r.Balances)
		require.Equal(t, r, must.Get(f.Merchants.MerchantRisk(t.Context(), r.Owner(checkout.ModeTest)))(t))
	}
	live := must.Get(f.Merchants.MerchantRisks(t.Context(), checkout.ModeLive))(t)
	require.Equal(t, []any{quiet.Name, 0, 0, 0}, []any{live[0].Name, live[0].Payments, live[0].Disputed, len(live[0].Balances)})
	require.ErrorIs(t, must.Err(f.Merchants.MerchantRisk(t.Context(), checkout.Owner{MerchantID: "mer_1"})), checkout.ErrNotFound)
}
