package storage_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

func (f fixture) failedPayout(t *testing.T) checkout.Ref {
	p := f.payout(t)
	must.Get(f.Payouts.FinishPayout(t.Context(), p, 1, checkout.PayoutInvalidAddress))(t)
	return p
}

// A run of the first generation goes on after the retry. What it knew concerns the former address.
func TestRetryPayout_ARunOfBeforeDecidesNothing(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t, "https://shop.example/a", webhook.PayoutSent, webhook.PayoutFailed)
	ref := f.payout(t)
	first := must.Get(f.Payouts.Payout(t.Context(), ref))(t)
	must.Get(f.Payouts.RefusePayout(t.Context(), first, checkout.PayoutNetworkError))(t)
	require.Contains(t, string(must.Get(json.Marshal(must.Get(f.Payouts.Payout(t.Context(), ref))(t)))(t)), `"failure":null`, "it is not decided yet")
	decided := must.Get(f.Payouts.FinishPayout(t.Context(), ref, 1, checkout.PayoutNetworkError))(t)
	overdue := func() bool {
		return slices.ContainsFunc(must.Get(f.Installation.Overdue(t.Context(), 0, "", 10))(t),
			func(o storage.Overdue) bool { return o.ID == ref.ID })
	}
	require.False(t, overdue())
	must.Get(f.Payouts.RetryPayout(t.Context(), ref))(t)
	require.True(t, overdue(), "Reconcile finds it when nobody starts its run")

	_, _, err := f.Sandbox.RecordSandboxTransfer(t.Context(), checkout.Payout{Ref: ref.Owner.Ref("po_none")}, treasury.SandboxTransfer{})
	require.ErrorIs(t, err, checkout.ErrNotFound)
	_, _, err = f.Sandbox.RecordSandboxTransfer(t.Context(), first, treasury.SandboxTransfer{Signed: []byte("to the former address"), TxHash: "0x1"})
	require.ErrorIs(t, err, checkout.ErrConflict)
	_, err = f.Payouts.RefusePayout(t.Context(), first, checkout.PayoutInvalidAddress)
	require.ErrorIs(t, err, checkout.ErrConflict)
	require.ErrorIs(t, must.Err(f.Payouts.HoldPayout(t.Context(), first, checkout.HoldFloat, 0)), checkout.ErrConflict)
	require.Equal(t, decided, must.Get(f.Payouts.FinishPayout(t.Context(), ref, 1, checkout.PayoutNetworkError))(t), "its own event and deliveries")
	now := must.Get(f.Payouts.PayoutToSend(t.Context(), ref))(t)
	require.Nil(t, now.Recorded)
	require.Equal(t, []any{checkout.PayoutPending, checkout.PayoutFailure("")}, []any{now.Status, now.Failure})
	require.Equal(t, checkout.PayoutNetworkError, now.Retried[0].Failure)
	require.False(t, now.Retried[0].FailedAt.After(now.Retried[0].RetriedAt))

	sent := must.Get(f.Payouts.FinishPayout(t.Context(), ref, 2, ""))(t)
	require.Equal(t, webhook.PayoutSent, sent.EventType)
	require.NotEmpty(t, sent.Deliveries)
	require.NotEqual(t, decided.Deliveries, sent.Deliveries)
	events := must.Get(f.Webhooks.Events(t.Context(), ref.Owner, storage.EventFilter{SessionID: now.SessionID}, pg.Page{Limit: 10}))(t)
	require.Equal(t, webhook.PayoutSent, events[0].Type)
	require.Equal(t, webhook.PayoutFailed, events[1].Type)
}

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

// A failed payout hides the debt, because it is available: nothing is owed until it is retried.
func TestRetryPayout_PaysWhatTheMerchantOwes(t *testing.T) {
	f := newFixture(t)
	failed, paid := f.sale(t), f.sale(t)
	must.Get(f.Payouts.FinishPayout(t.Context(), failed.payout, 0, checkout.PayoutNetworkError))(t)
	require.Equal(t, checkout.PayoutSent, f.sends(t, paid).Status)
	must.Get(f.refund(t, paid, 0))(t)
	require.Equal(t, checkout.Balance{Currency: "EUR"}, f.balance(t))

	must.Get(f.Payouts.RetryPayout(t.Context(), failed.payout))(t)
	kept := f.sends(t, failed)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutRecovered}, []any{kept.Status, kept.Failure})
	require.Equal(t, checkout.Balance{Currency: "EUR"}, f.balance(t))
}
