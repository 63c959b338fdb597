package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// judgeMerchants returns the kinds and the details of the findings that are new, and the number of the open ones.
func (f fixture) judgeMerchants(t *testing.T, limits storage.MerchantLimits) (fresh []string, open int) {
	for _, found := range must.Get(f.Books.JudgeMerchants(t.Context(), limits))(t) {
		fresh = append(fresh, string(found.Kind)+": "+found.Detail)
	}
	return fresh, len(must.Get(f.Books.OpenFindings(t.Context(), checkout.ModeLive))(t))
}

func ofLive(m merchant.Merchant) func(*storage.NewSession) {
	return func(n *storage.NewSession) { n.Ref = m.Owner(checkout.ModeLive).Ref(n.ID) }
}

func (f fixture) declined(t *testing.T, m merchant.Merchant, failure checkout.FailureCode, times int) {
	for range times {
		n := f.newSession()
		ofLive(m)(&n)
		f.pay(t, f.create(t, n), checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: failure})
	}
}

func TestJudgeMerchants_AShareIsAFindingUntilItFalls(t *testing.T) {
	f := newFixture(t)
	limits := storage.MerchantLimits{DisputedPercent: 75, RefundedPercent: 75, Suspend: true}
	disputed, refunded := f.other(t, checkout.ModeLive), f.other(t, checkout.ModeLive)
	f.sale(t, ofLive(disputed))
	for range 4 {
		f.dispute(t, f.sale(t, ofLive(disputed)), books.RiskOpen)
	}
	for range 19 {
		must.Get(f.refund(t, f.sale(t, ofLive(refunded)), 0))(t)
	}
	f.Exec(t, `UPDATE finding SET closed_at = now()`) // of the disputes themselves
	fresh, open := f.judgeMerchants(t, limits)
	require.Equal(t, []any{0, 0}, []any{len(fresh), open}, "the shares of a few mean nothing")

	f.dispute(t, f.sale(t, ofLive(disputed)), books.RiskLost)
	must.Get(f.refund(t, f.sale(t, ofLive(refunded)), 0))(t)
	f.Exec(t, `UPDATE finding SET closed_at = now()`)
	for _, other := range []storage.MerchantLimits{{}, {DisputedPercent: 84, RefundedPercent: 100}} {
		fresh, _ = f.judgeMerchants(t, other)
		require.Empty(t, fresh)
	}
	fresh, open = f.judgeMerchants(t, limits)
	require.Equal(t, []string{
		"merchant_disputes: 5 payments of 6 in 30 days are disputed, 83.33 %: the limit is 75 %.",
		"merchant_refunds: 20 payments of 20 in 30 days are refunded, 100.00 %: the limit is 75 %.",
	}, fresh)
	require.Equal(t, 2, open)
	require.Equal(t, merchant.Suspended{"payments", "payouts"}, must.Get(f.Merchants.Suspension(t.Context(), disputed.ID))(t).Suspended)
	require.Equal(t, merchant.Suspended{"payments"}, must.Get(f.Merchants.Suspension(t.Context(), refunded.ID))(t).Suspended)

	must.Get(f.Merchants.Resume(t.Context(), disputed.ID, merchant.Suspended{"payments", "payouts"}))(t)
	fresh, open = f.judgeMerchants(t, limits)
	require.Equal(t, []any{0, 2}, []any{len(fresh), open})
	require.Empty(t, must.Get(f.Merchants.Suspension(t.Context(), disputed.ID))(t).Suspended, "an operator resumed it")
	f.sale(t, ofLive(disputed))
	_, open = f.judgeMerchants(t, limits)
	require.Equal(t, 1, open)
}

func TestJudgeMerchants_ABurstOfDeclinedCardsSuspendsPayments(t *testing.T) {
	f := newFixture(t)
	limits := storage.MerchantLimits{Declined: 3}
	busy, tested, quiet := f.other(t, checkout.ModeLive), f.other(t, checkout.ModeLive), f.other(t, checkout.ModeLive)
	f.declined(t, busy, checkout.FailureCardDeclined, 3)
	for range 3 {
		f.sale(t, ofLive(busy))
	}
	f.declined(t, tested, checkout.FailureIncorrectCVC, 2)
	f.declined(t, quiet, checkout.FailureThreeDSAbandoned, 3)
	fresh, _ := f.judgeMerchants(t, limits)
	require.Empty(t, fresh)

	f.declined(t, tested, checkout.FailureCardDeclined, 1)
	limits.Suspend = true
	fresh, open := f.judgeMerchants(t, limits)
	detail := "3 cards were declined within 10 minutes, and 0 payments succeeded."
	require.Equal(t, []string{"card_testing: " + detail}, fresh)
	require.Equal(t, 1, open)
	got := must.Get(f.Merchants.Suspension(t.Context(), tested.ID))(t)
	require.Equal(t, []any{merchant.Suspended{"payments"}, "payments: " + detail}, []any{got.Suspended, got.Why})
	log := must.Get(f.AuditLog.AuditEntries(t.Context(), tested.Owner(checkout.ModeLive), pg.Page{Limit: 9}))(t)
	require.Equal(t, []any{1, "the service", "merchant.suspended", tested.ID, "payments: " + detail},
		[]any{len(log), log[0].Actor, log[0].Action, log[0].Subject, log[0].Detail})
	require.Empty(t, must.Get(f.Merchants.Suspension(t.Context(), busy.ID))(t).Suspended)

	f.Exec(t, `UPDATE transaction SET completed_at = completed_at - interval '10 minutes'`)
	_, open = f.judgeMerchants(t, limits)
	require.Zero(t, open)
}
