package treasury_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// cancel asks for the cancellation of a transfer, twice.
func (f fixture) cancel(t *testing.T, transferID string, of checkout.Ref) {
	t.Helper()
	for range 2 {
		payouts := must.Get(f.Store.Treasury.CancelTransfer(t.Context(), transferID, merchant.AuditEntry{Actor: "operator",
			Action: "transfer.canceled", Subject: transferID}))(t)
		require.Equal(t, []checkout.Ref{of}, payouts)
	}
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM audit_entry WHERE merchant_id = $1`, of.MerchantID))
}

// requireCanceled requires that the transfer paid nobody, and that a retry of its payout pays once.
func (f onAnvil) requireCanceled(t *testing.T, ref checkout.Ref) {
	t.Helper()
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer WHERE status = 'canceled'`))
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutNetworkError, ""}, []any{p.Status, p.Failure, p.TxHash})
	require.Equal(t, []webhook.EventType{webhook.PayoutSent, webhook.PayoutFailed}, f.eventTypes(t, ref))
	require.Equal(t, "0", f.received(t))
	require.Empty(t, f.sync(t).Frozen)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM treasury_account WHERE frozen_at IS NOT NULL`))

	f.retried(t, ref)
	f.confirms(t, ref)
	f.requirePaidOnce(t, ref)
}

// requirePaidOnce requires that the merchant has the payout, once, and that the books agree.
func (f onAnvil) requirePaidOnce(t *testing.T, ref checkout.Ref) {
	t.Helper()
	p := f.read(t, ref)
	require.NotNil(t, p.ConfirmedAt)
	require.Equal(t, p.Amount.Units().String(), f.received(t))
	require.Equal(t, "0", f.requireChain(t)["merchant:payable EUR"])
}

func TestCancelTransfer_TheCancellationWins(t *testing.T) {
	f := newOnAnvil(t)
	ref, id := f.sent(t)
	f.cancel(t, id, ref)
	require.Equal(t, 1, f.sync(t).Bumped)
	v := f.version(t, id, 2)
	require.Equal(t, []any{true, f.version(t, id, 1).Slot}, []any{v.Cancels, v.Slot})
	f.mine(t, 1)
	require.Equal(t, 0, f.sync(t).Canceled, "it is not final")
	require.Equal(t, checkout.PayoutSent, f.read(t, ref).Status)
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPayoutNotFailed)
	f.mine(t, 2)
	require.Equal(t, 1, f.sync(t).Canceled)
	f.requireCanceled(t, ref)
	require.ErrorIs(t, must.Err(f.Store.Treasury.CancelTransfer(t.Context(), id, merchant.AuditEntry{})), checkout.ErrConflict)
	require.ErrorIs(t, must.Err(f.Store.Treasury.CancelTransfer(t.Context(), "tr_none", merchant.AuditEntry{})), checkout.ErrNotFound)
}

func TestCancelTransfer_AReorganizationTurnsItRound(t *testing.T) {
	t.Parallel()
	t.Run("the original was mined first", func(t *testing.T) {
		f := newOnAnvil(t)
		ref, id := f.sent(t)
		f.cancel(t, id, ref)
		f.mine(t, 1)
		require.Equal(t, 0, f.sync(t).Bumped)
		f.mine(t, 1)
		require.NoError(t, f.anvil.Reorg(t.Context(), 2))
		require.Equal(t, 1, f.sync(t).Bumped)
		f.mine(t, 3)
		require.Equal(t, 1, f.sync(t).Canceled)
		f.requireCanceled(t, ref)
	})
	t.Run("the cancellation was mined first", func(t *testing.T) {
		f := newOnAnvil(t)
		ref, id := f.sent(t)
		original := f.version(t, id, 1)
		f.cancel(t, id, ref)
		f.sync(t)
		f.mine(t, 2)
		require.Equal(t, 0, f.sync(t).Canceled)
		require.NoError(t, f.anvil.Reorg(t.Context(), 2))
		require.NoError(t, f.anvil.Drop(t.Context(), f.version(t, id, 2).TxHash))
		require.NoError(t, f.node.Send(t.Context(), original))
		f.mine(t, 3)
		require.Equal(t, 1, f.sync(t).Confirmed)
		f.requirePaidOnce(t, ref)
		require.Equal(t, original.TxHash, f.read(t, ref).TxHash)
	})
}

func TestCancelTransfer_OnlyAnOperatorMakesAVersionThatPaysNobody(t *testing.T) {
	f := newFixture(t)
	f.send(t, f.usdc(t))
	live := must.Get(f.Store.Treasury.LiveTransfers(t.Context(), f.account(t).ID, 1))(t)
	plan := must.Get(f.chain.Cancel(t.Context(), live[0].Newest()))(t)
	_, _, err := f.Store.Treasury.AddVersion(t.Context(), live[0], plan, nil)
	require.ErrorContains(t, err, "the replacement pays something else")
}

func TestCancelTransfer_AFrozenAccountSignsNothing(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.send(t, ref)
	id := f.transferOf(t, ref)
	f.cancel(t, id, ref)
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), f.account(t).ID, "a drill"))
	require.Equal(t, []string{id + " is stuck, and its account is frozen"}, f.sync(t).Alarms)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer_version`))
}
