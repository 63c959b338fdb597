package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

func TestSumPayouts_IsExactAndBounded(t *testing.T) {
	f := newFixture(t)
	owner := f.merchant.Owner(checkout.ModeTest)
	sum := func(owner checkout.Owner, filter storage.PayoutFilter, p pg.Page) ([]storage.PayoutSum, bool) {
		sums, complete, err := f.Payouts.SumPayouts(t.Context(), owner, filter, p)
		require.NoError(t, err)
		return sums, complete
	}
	one, two := f.payout(t), f.payout(t)
	f.failedPayout(t)
	for ref, amount := range map[checkout.Ref]string{one: "0.100000000000000001", two: "123456789012345678.200000000000000002"} {
		f.Exec(t, `UPDATE payout SET status = 'sent', sent_at = now(), amount = $2, currency = 'ETH', source_amount = 10, source_currency = 'GBP' WHERE id = $1`, ref.ID, amount)
	}
	all, complete := sum(owner, storage.PayoutFilter{}, pg.Page{Limit: 3})
	require.True(t, complete)
	require.Len(t, all, 4)
	sent := []storage.PayoutSum{
		{Status: checkout.PayoutSent, SourceCurrency: money.GBP, Payouts: 2, Amount: "123456789012345678.300000000000000003", Source: 20},
		{Status: checkout.PayoutSent, Currency: money.ETH, Payouts: 2, Amount: "123456789012345678.300000000000000003"},
	}
	require.Equal(t, sent, all[2:])
	require.Empty(t, all[0].Amount, "a failed payout has none")

	got, _ := sum(owner, storage.PayoutFilter{Currency: money.ETH}, pg.Page{Limit: 3, Before: one.ID})
	require.Equal(t, sent, got, "the page does not count")
	for _, nothing := range f.strangers() {
		got, _ = sum(nothing, storage.PayoutFilter{}, pg.Page{Limit: 3})
		require.Empty(t, got)
	}
	got, _ = sum(owner, storage.PayoutFilter{}, pg.Page{Limit: 3, Since: time.Now().Add(time.Hour)})
	require.Empty(t, got)

	got, complete = sum(owner, storage.PayoutFilter{}, pg.Page{Limit: 2})
	require.False(t, complete)
	require.Empty(t, got)
	_, complete = sum(owner, storage.PayoutFilter{Status: checkout.PayoutSent}, pg.Page{Limit: 2})
	require.True(t, complete)
}
