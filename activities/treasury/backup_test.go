package treasury_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// After the restore of an old backup a payment that PostgreSQL lacks waits in the pool, behind a nonce that was
// dropped. It is no pending nonce, and it is mined as soon as another transfer fills the gap.
func TestSync_APaymentBehindAGapFreezesAfterARestore(t *testing.T) {
	f := newOnAnvil(t)
	f.booked(t)
	dropped, waits := f.payout(t, f.owner, 5_000, money.USDC), f.payout(t, f.owner, 6_000, money.USDC)
	restore := f.backup(t)
	f.send(t, dropped)
	f.send(t, waits)
	behind := f.version(t, f.transferOf(t, waits), 1)
	require.NoError(t, f.anvil.Drop(t.Context(), f.read(t, dropped).TxHash)) // it takes the other one with it
	require.NoError(t, f.node.Send(t.Context(), behind))
	f.mine(t, 1)
	require.Equal(t, "0", f.received(t))
	restore()

	require.Equal(t, checkout.HoldFrozen, f.transfer(t, dropped).Held)
	require.Contains(t, f.query(t, `SELECT frozen_why FROM treasury_account`), "a transaction uses slot 1")
	o := treasurer.ThawOrder{AccountID: f.account(t).ID}
	require.ErrorAs(t, f.Thaw(t.Context(), o), new(storage.NotFinalError))

	// A person fills the gap: the treasury sends nothing to itself.
	account := f.anvil.Accounts[1]
	require.NoError(t, errorOf(f.anvil.Send(t.Context(), chains.Transaction{From: account, To: &account})))
	f.mine(t, 3)
	f.sync(t)
	require.ErrorIs(t, f.Thaw(t.Context(), o), treasurer.ErrUnrecovered)
	got := f.recover(t, nil)
	require.Equal(t, []string{"it moved nothing, so it paid no payout", ""}, []string{got.Found[0].Why, got.Found[1].Why})
	require.Equal(t, waits.ID, got.Found[1].Payout)
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.thaw(t)
	f.confirms(t, dropped)
	require.Equal(t, f.sentTo(t), f.received(t))
	f.requireChain(t)
}
