package treasury_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/treasury"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/workflows/checkout"
)

// After the restore of an old backup PostgreSQL lacks the version that was mined. The transfer must not
// count as dead: its payout would be retried or refunded although the merchant was paid.
func TestSync_AVersionThatTheBackupLacksIsNoDeath(t *testing.T) {
	t.Parallel()
	f := newOnAnvil(t)
	ref, id := f.sent(t)
	first := f.version(t, id, 1)
	plan, err := f.node.Bump(t.Context(), first)
	require.NoError(t, err)
	second, err := f.node.Sign(t.Context(), plan)
	require.NoError(t, err)
	require.NoError(t, f.node.Send(t.Context(), second))
	f.mine(t, 3)
	for range 2 {
		got := f.sync(t)
		require.Equal(t, 0, got.Dead+got.Confirmed)
		require.Contains(t, got.Alarms, "the chain says that "+id+" is dead, and shows its payment")
	}
	require.Equal(t, checkout.PayoutSent, f.read(t, ref).Status)
	_, err = f.Store.RefundPayout(t.Context(), ref)
	require.ErrorIs(t, err, checkout.ErrTransferStands)
	require.Contains(t, f.query(t, `SELECT frozen_why FROM treasury_account`), "no transfer explains the transaction")
	require.NotEqual(t, "0", f.received(t))
}

// The rows are those of a backup from before the transfer was signed.
func TestSync_AnOldBackupIsFrozenBeforeAnythingIsSigned(t *testing.T) {
	t.Parallel()
	f := newOnAnvil(t)
	first := f.payout(t, f.owner, 10_000, checkout.USDC)
	f.sync(t)
	tables := []string{"payout", "treasury_account", "transfer", "transfer_payout", "transfer_version"}
	for _, table := range tables {
		f.Exec(t, "CREATE TABLE backup_"+table+" AS TABLE "+table)
	}
	f.send(t, first)
	f.mine(t, 3)
	require.Equal(t, 1, f.sync(t).Confirmed)
	paid := f.received(t)

	f.Exec(t, `DROP TRIGGER transfer_version_insert_only ON transfer_version`)
	f.Exec(t, `TRUNCATE transfer_version, transfer_payout, transfer_slot, transfer`)
	f.Exec(t, `UPDATE treasury_account a SET next_nonce = b.next_nonce, next_block = b.next_block, seen_height = b.seen_height
		FROM backup_treasury_account b WHERE b.id = a.id`)
	f.Exec(t, `UPDATE payout p SET status = b.status, amount = b.amount, fee = b.fee, tx_hash = b.tx_hash, sent_at = NULL,
		confirmed_at = NULL FROM backup_payout b WHERE b.id = p.id`)
	require.Equal(t, checkout.PayoutPending, f.read(t, first).Status)

	got := f.transfer(t, first)
	require.Equal(t, checkout.TransferOutcome{Held: checkout.HoldFrozen, Generation: 1}, got, "also when its run comes before the first round")
	f.mine(t, 3)
	f.sync(t)
	require.Contains(t, f.query(t, `SELECT frozen_why FROM treasury_account`), "a transaction uses slot 0")
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer`))
	require.Equal(t, paid, f.received(t))
}

// After the restore of an old backup a payment that PostgreSQL lacks waits in the pool, behind a nonce that was
// dropped. It is no pending nonce, and it is mined as soon as another transfer fills the gap.
func TestSync_APaymentBehindAGapFreezesAfterARestore(t *testing.T) {
	t.Parallel()
	f := newOnAnvil(t)
	f.booked(t)
	dropped, waits := f.payout(t, f.owner, 5_000, checkout.USDC), f.payout(t, f.owner, 6_000, checkout.USDC)
	restore := f.backup(t)
	f.send(t, dropped)
	f.send(t, waits)
	behind := f.version(t, f.transferOf(t, waits), 1)
	require.NoError(t, f.anvil.Drop(t.Context(), f.read(t, dropped).TxHash)) // it takes the other one with it
	require.NoError(t, f.node.Send(t.Context(), behind))
	f.mine(t, 1)
	require.Equal(t, "0", f.received(t))
	restore()

	held := f.transfer(t, dropped)
	require.Equal(t, checkout.HoldFrozen, held.Held)
	require.Contains(t, f.query(t, `SELECT frozen_why FROM treasury_account`), "a transaction uses slot 1")
	o := treasury.ThawOrder{AccountID: f.account(t).ID}
	require.ErrorIs(t, f.Thaw(t.Context(), o), treasury.ErrNotFinal)

	// A person fills the gap: the treasury sends nothing to itself.
	account := f.anvil.Accounts[1]
	_, err := f.anvil.Send(t.Context(), chains.Transaction{From: account, To: &account})
	require.NoError(t, err)
	f.mine(t, 3)
	f.sync(t)
	require.ErrorIs(t, f.Thaw(t.Context(), o), treasury.ErrUnrecovered)
	got := f.recover(t, nil)
	require.Equal(t, []string{"it moved nothing, so it paid no payout", ""}, []string{got.Found[0].Why, got.Found[1].Why})
	require.Equal(t, waits.ID, got.Found[1].Payout)
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.thaw(t)
	f.send(t, dropped)
	f.mine(t, 3)
	require.Equal(t, 1, f.sync(t).Confirmed)
	require.Equal(t, f.sentTo(t), f.received(t))
	f.requireChain(t)
}
