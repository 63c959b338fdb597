package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

// failedPayout creates a payout and fails it.
func (f fixture) failedPayout(t *testing.T) checkout.Ref {
	t.Helper()
	p := f.payout(t)
	must.Get(f.Payouts.FinishPayout(t.Context(), p, 1, checkout.PayoutInvalidAddress))(t)
	return p
}

func TestRetryPayout_BeginsTheNextGeneration(t *testing.T) {
	f := newFixture(t)
	ref := f.failedPayout(t)
	must.Get(f.Payouts.RetryPayout(t.Context(), ref))(t)
	sending := must.Get(f.Payouts.PayoutToSend(t.Context(), ref))(t)
	p := sending.Payout
	require.Nil(t, sending.Recorded)
	require.Equal(t, []any{checkout.PayoutPending, 2, checkout.PayoutFailure("")}, []any{p.Status, p.Generation, p.Failure})
	require.Len(t, p.Retried, 1)
	require.Equal(t, checkout.PayoutInvalidAddress, p.Retried[0].Failure)
	require.False(t, p.Retried[0].RetriedAt.Before(p.Retried[0].FailedAt))

	require.Equal(t, p, must.Get(f.Payouts.AnyPayout(t.Context(), ref.ID))(t))
	_, err := f.Payouts.AnyPayout(t.Context(), "po_none")
	require.ErrorIs(t, err, checkout.ErrNotFound)
}

// A run of the first generation goes on after the retry. What it knew concerns the former address.
func TestRetryPayout_ARunOfBeforeDecidesNothing(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t, "https://shop.example/a", webhook.PayoutSent, webhook.PayoutFailed)
	ref := f.payout(t)
	first := must.Get(f.Payouts.Payout(t.Context(), ref))(t)
	decided := must.Get(f.Payouts.FinishPayout(t.Context(), ref, 1, checkout.PayoutNetworkError))(t)
	must.Get(f.Payouts.RetryPayout(t.Context(), ref))(t)

	_, _, err := f.Sandbox.RecordSandboxTransfer(t.Context(), first, treasury.SandboxTransfer{Signed: []byte("to the former address"), TxHash: "0x1"})
	require.ErrorIs(t, err, checkout.ErrConflict)
	_, err = f.Payouts.RefusePayout(t.Context(), first, checkout.PayoutInvalidAddress)
	require.ErrorIs(t, err, checkout.ErrConflict)
	_, err = f.Payouts.HoldPayout(t.Context(), first, checkout.HoldFloat, 0)
	require.ErrorIs(t, err, checkout.ErrConflict)
	again := must.Get(f.Payouts.FinishPayout(t.Context(), ref, 1, checkout.PayoutNetworkError))(t)
	require.Equal(t, decided, again, "its own event and deliveries")
	now := must.Get(f.Payouts.PayoutToSend(t.Context(), ref))(t)
	require.Nil(t, now.Recorded)
	require.Equal(t, []any{checkout.PayoutPending, checkout.PayoutFailure("")}, []any{now.Status, now.Failure})

	sent := must.Get(f.Payouts.FinishPayout(t.Context(), ref, 2, ""))(t)
	require.Equal(t, webhook.PayoutSent, sent.EventType)
	require.NotEmpty(t, sent.Deliveries)
	require.NotEqual(t, decided.Deliveries, sent.Deliveries)
	events, err := f.Webhooks.Events(t.Context(), ref.Owner, storage.EventFilter{SessionID: now.SessionID}, pg.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, webhook.PayoutSent, events[0].Type)
	require.Equal(t, webhook.PayoutFailed, events[1].Type)
}

// Reconcile finds a retried payout whose run was never started.
func TestRetryPayout_IsOverdueWithoutARun(t *testing.T) {
	f := newFixture(t)
	ref := f.failedPayout(t)
	overdue := func() (ids []string) {
		rows := must.Get(f.Installation.Overdue(t.Context(), 0, "", 10))(t)
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		return ids
	}
	require.NotContains(t, overdue(), ref.ID)
	must.Get(f.Payouts.RetryPayout(t.Context(), ref))(t)
	require.Contains(t, overdue(), ref.ID)
}
