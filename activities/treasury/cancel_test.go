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
	for range 2 {
		payouts := must.Get(f.Store.Treasury.CancelTransfer(t.Context(), transferID, merchant.AuditEntry{Actor: "operator",
			Action: "transfer.canceled", Subject: transferID}))(t)
		require.Equal(t, []checkout.Ref{of}, payouts)
	}
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM audit_entry WHERE merchant_id = $1`, of.MerchantID))
}

// requireCanceled requires that the transfer paid nobody, and that a retry of its payout pays once.
func (f fixture) requireCanceled(t *testing.T, ref checkout.Ref) {
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer WHERE status = 'canceled'`))
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutNetworkError, ""}, []any{p.Status, p.Failure, p.TxHash})
	require.Equal(t, []webhook.EventType{webhook.PayoutSent, webhook.PayoutFailed}, f.eventTypes(t, ref))
	require.Empty(t, f.sync(t).Frozen)
	require.Nil(t, f.account(t).FrozenAt)

	f.retried(t, ref)
	f.confirms(t, ref)
	f.requirePaidOnce(t, ref)
	require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])
}

func TestCancelTransfer_TheCancellationWins(t *testing.T) {
	f := newFixture(t)
	ref, id := f.sent(t)
	f.cancel(t, id, ref)
	require.Equal(t, 1, f.sync(t).Bumped)
	v := f.version(t, id, 2)
	require.Equal(t, []any{true, f.version(t, id, 1).Slot}, []any{v.Cancels, v.Slot})
	f.chain.mine(f.chain.finality)
	require.Equal(t, 0, f.sync(t).Canceled, "it is not final")
	require.Equal(t, checkout.PayoutSent, f.read(t, ref).Status)
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPayoutNotFailed)
	f.chain.mine(1)
	require.Equal(t, 1, f.sync(t).Canceled)
	f.requireCanceled(t, ref)
	require.ErrorIs(t, must.Err(f.Store.Treasury.CancelTransfer(t.Context(), id, merchant.AuditEntry{})), checkout.ErrConflict)
	require.ErrorIs(t, must.Err(f.Store.Treasury.CancelTransfer(t.Context(), "tr_none", merchant.AuditEntry{})), checkout.ErrNotFound)
}

// A reorganization turns it round.
func TestCancelTransfer_TheOriginalWasMinedFirst(t *testing.T) {
	f := newFixture(t)
	ref, id := f.sent(t)
	f.cancel(t, id, ref)
	f.chain.mine(2)
	require.Equal(t, 0, f.sync(t).Bumped)
	f.chain.undo(2)
	require.Equal(t, 1, f.sync(t).Bumped)
	f.chain.mine(f.chain.finality + 1)
	require.Equal(t, 1, f.sync(t).Canceled)
	f.requireCanceled(t, ref)
}

func TestCancelTransfer_TheCancellationWasMinedFirst(t *testing.T) {
	f := newFixture(t)
	ref, id := f.sent(t)
	original := f.version(t, id, 1)
	f.cancel(t, id, ref)
	f.sync(t)
	f.chain.mine(2)
	require.Equal(t, 0, f.sync(t).Canceled)
	f.chain.undo(2)
	require.NoError(t, f.chain.Send(t.Context(), original))
	f.settle(t)
	f.requirePaidOnce(t, ref)
	require.Equal(t, original.TxHash, f.read(t, ref).TxHash)
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
	ref, id := f.sent(t)
	f.cancel(t, id, ref)
	f.freeze(t, "a drill")
	require.Equal(t, []string{id + " is stuck, and its account is frozen"}, f.sync(t).Alarms)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer_version`))
}
