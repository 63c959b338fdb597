package treasury_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// A transfer that is signed may be on its way, so its payout waits as a held one.
func TestHoldAwayPayout_AlsoWaitsWithASignedTransfer(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.chain.refuse = errNode
	require.Error(t, must.Err(f.Transfer(t.Context(), ref)))
	got := must.Get(f.Store.Payouts.HoldAwayPayout(t.Context(), ref))(t)
	require.Equal(t, treasury.TransferOutcome{Held: checkout.HoldAway, Generation: 1}, got)
	late := must.Get(f.Store.Installation.Overdue(t.Context(), 0, "", 10))(t)
	require.Empty(t, late, "Reconcile leaves it alone until its next action is due")

	f.chain.refuse = nil
	f.settle(t)
	f.send(t, ref)
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutHold(""), (*time.Time)(nil)}, []any{p.Hold, p.NextActionAt})
	f.requirePaidOnce(t, ref)
	got = must.Get(f.Store.Payouts.HoldAwayPayout(t.Context(), ref))(t)
	require.Equal(t, treasury.TransferOutcome{Generation: 1}, got, "it was sent")
	require.ErrorIs(t, must.Err(f.Store.Payouts.HoldAwayPayout(t.Context(), f.owner.Ref("po_none"))), checkout.ErrNotFound)

	refused := f.usdc(t)
	require.NoError(t, must.Err(f.Store.Payouts.RefusePayout(t.Context(), f.read(t, refused), checkout.PayoutInvalidAddress)))
	got = must.Get(f.Store.Payouts.HoldAwayPayout(t.Context(), refused))(t)
	require.Equal(t, treasury.TransferOutcome{Failure: checkout.PayoutInvalidAddress, Generation: 1}, got, "a retry is not decided by it")
}

// The time in which no node answered does not use up the patience with another hold.
func TestHoldAwayPayout_UsesUpNoPatience(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	require.NoError(t, must.Err(f.Store.Payouts.HoldAwayPayout(t.Context(), ref)))
	f.Exec(t, `UPDATE payout SET held_at = held_at - interval '3 days'`)
	f.chain.planErr = treasury.ErrFeeTooHigh
	for range 2 {
		require.Equal(t, treasury.TransferOutcome{Held: checkout.HoldFee, Generation: 1}, f.transfer(t, ref))
	}
}

// A failed payout is not on hold.
func TestHoldAwayPayout_EndsWithTheTransfer(t *testing.T) {
	f := newFixture(t)
	f.chain.reverts["0xMerchant"] = true
	ref := f.usdc(t)
	f.chain.refuse = errNode
	require.Error(t, must.Err(f.Transfer(t.Context(), ref)))
	require.NoError(t, must.Err(f.Store.Payouts.HoldAwayPayout(t.Context(), ref)))
	f.chain.refuse = nil
	f.settle(t)
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutHold(""), (*time.Time)(nil)}, []any{p.Status, p.Hold, p.NextActionAt})
}
