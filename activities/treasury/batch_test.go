package treasury_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

func newOnCoins(t *testing.T, coins int, batch treasury.Batch) fixture {
	return newFixture(t).withCoins(t, newCoinChain(coins, 100_000_000, batch))
}

// withCoins returns the fixture with another chain. The ledger knows its first coins.
func (f fixture) withCoins(t *testing.T, chain *fakeChain) fixture {
	f.chain = chain
	f.Treasury = f.process(t)
	f.settle(t)
	return f
}

// payouts returns n payouts in BTC to addresses of different merchants.
func (f fixture) payouts(t *testing.T, n int) (all []checkout.Ref) {
	for range n {
		owner := f.merchant(t, "to"+checkout.NewID(checkout.PrefixMerchant))
		all = append(all, f.payout(t, owner, 10_000, money.BTC))
	}
	return all
}

func TestBatch_WaitsForOthers(t *testing.T) {
	f := newOnCoins(t, 3, treasury.Batch{Most: 2, Wait: time.Hour})
	f.payouts(t, 1)
	require.Zero(t, f.sync(t).Signed, "the first has time")
	left := f.payouts(t, 2)[1]
	require.Equal(t, 2, f.sync(t).Signed, "a transfer is full")
	require.Zero(t, f.sync(t).Signed)

	require.NoError(t, must.Err(f.Store.Payouts.HoldAwayPayout(t.Context(), left)))
	f.Exec(t, `UPDATE payout SET created_at = created_at - interval '2 hours' WHERE id = $1`, left.ID)
	require.Equal(t, 1, f.sync(t).Signed, "it waits for others since it was made, not since no node answered")
}

func TestBatch_OneThatWaitsLeavesTheOthers(t *testing.T) {
	f := newOnCoins(t, 3, soon)
	all := f.payouts(t, 2)
	small := f.payout(t, f.merchant(t, "toSmall"), 50, money.BTC)
	large := f.payout(t, f.merchant(t, "toLarge"), 1_000_000, money.BTC)
	invalid := f.payout(t, f.merchant(t, "toNobody"), 10_000, money.BTC)
	f.chain.invalid["toNobody"] = true
	f.Limits.Payout = 500_000

	require.Equal(t, 2, f.sync(t).Signed)

	f.send(t, all...)
	require.Equal(t, checkout.HoldFee, f.read(t, small).Hold)
	require.Equal(t, checkout.HoldLarge, f.read(t, large).Hold)
	require.Equal(t, checkout.PayoutInvalidAddress, f.read(t, invalid).Failure)
	require.Equal(t, checkout.HoldLarge, f.transfer(t, large).Held, "its run ends")
	f.settle(t)
	paid, _ := f.chain.paid()
	require.Len(t, paid, 2)
}

// A limit counts the payouts of the same transfer.
func TestBatch_LimitsCountThePayoutsBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit func(*treasury.PayoutLimits) *money.Amount
		hold  checkout.PayoutHold
	}{
		"of the merchant's day":    {func(l *treasury.PayoutLimits) *money.Amount { return &l.MerchantDay }, checkout.HoldLimit},
		"of the account's day":     {func(l *treasury.PayoutLimits) *money.Amount { return &l.Day }, checkout.HoldLimit},
		"of what is not available": {func(l *treasury.PayoutLimits) *money.Amount { return &l.MerchantUnsettled }, checkout.HoldUnsettled},
	} {
		t.Run(name, func(t *testing.T) {
			f := newOnCoins(t, 3, soon)
			owner := f.merchant(t, "toOne")
			f.payout(t, owner, 10_000, money.BTC)
			second := f.payout(t, owner, 10_000, money.BTC)
			*c.limit(&f.Limits) = 15_000

			require.Equal(t, 1, f.sync(t).Signed)
			require.Equal(t, c.hold, f.read(t, second).Hold)
		})
	}
}

func TestBatch_TwoProcessesShareNoCoinAndNoPayout(t *testing.T) {
	f := newOnCoins(t, 40, treasury.Batch{Most: 2, Wait: time.Nanosecond})
	all := f.payouts(t, 16)
	var both sync.WaitGroup
	for range 2 {
		process := f.process(t)
		both.Go(func() {
			for range 20 {
				_, err := process.Sync(t.Context())
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	f.send(t, all...)
	f.settle(t)

	f.requirePaidOnce(t, all...)
	require.Zero(t, f.query(t, `SELECT count(*) - count(DISTINCT unit) FROM transfer_slot`))
}

// Two processes chose the same coin before either had signed.
func TestBatch_ATakenCoinIsRefused(t *testing.T) {
	f := newOnCoins(t, 3, treasury.Batch{Most: 2, Wait: time.Nanosecond})
	f.payouts(t, 1)
	require.Equal(t, 1, f.sync(t).Signed)
	f.payouts(t, 1)
	f.chain.replan = func(plan *treasury.TransferPlan) { plan.Slot = treasury.Slot{"coin:2"} }
	require.Zero(t, f.sync(t).Signed)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer`))
	f.chain.replan = nil
	f.chain.pool = map[string]fakeTx{} // only PostgreSQL knows that the coin is taken
	require.Equal(t, 1, f.sync(t).Signed, "the next round plans again")
}

func TestBatch_APlanSharesTheWholeFee(t *testing.T) {
	f := newOnCoins(t, 3, soon)
	f.payouts(t, 3)
	f.chain.replan = func(plan *treasury.TransferPlan) { plan.Fee = plan.Fee.Add(btc(1)) }
	require.ErrorContains(t, must.Err(f.Sync(t.Context())), "the payouts do not share the fee of the transfer")
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer`))
}

func TestBatch_AReplacementKeepsSlotAndOutputs(t *testing.T) {
	f := newFixture(t).withCoins(t, newCoinChain(3, 200_000, soon))
	all := f.payouts(t, 3) // need two coins
	require.Equal(t, 3, f.sync(t).Signed)
	f.send(t, all...)
	f.StuckAfter = time.Nanosecond
	for wrong, forge := range map[string]func(plan *treasury.TransferPlan){
		"the replacement has another slot": func(plan *treasury.TransferPlan) { plan.Slot = treasury.Slot{"coin:2"} },
		"the replacement pays something else": func(plan *treasury.TransferPlan) {
			plan.Outputs = plan.Outputs[:2]
		},
	} {
		f.chain.replan = forge
		require.ErrorContains(t, must.Err(f.Sync(t.Context())), wrong)
	}
	f.chain.replan = nil
	require.Equal(t, 1, f.sync(t).Bumped)
	f.StuckAfter = time.Hour
	f.settle(t)

	f.requirePaidOnce(t, all...)
	require.Equal(t, treasury.Slot{"coin:2", "coin:1"}, f.chain.mined()[0].Coins, "a signer refuses another order")
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM transfer_version`))
}

func TestBatch_ACancellationFailsAllPayouts(t *testing.T) {
	f := newOnCoins(t, 3, soon)
	all := f.payouts(t, 3)
	require.Equal(t, 3, f.sync(t).Signed)
	f.send(t, all...)
	canceled := must.Get(f.Store.Treasury.CancelTransfer(t.Context(), f.transferOf(t, all[0]), merchant.AuditEntry{}))(t)
	require.ElementsMatch(t, all, canceled)
	require.Equal(t, 1, f.sync(t).Bumped)
	f.chain.mine(f.chain.finality + 1)
	require.Equal(t, 1, f.sync(t).Canceled)
	for _, ref := range all {
		f.retried(t, ref)
	}
	require.Equal(t, 3, f.sync(t).Signed)
	f.send(t, all...)
	f.settle(t)
	f.requirePaidOnce(t, all...)
}

// Somebody spends one of a transfer's coins: all its payouts fail, may be retried, and its other coins are free.
func TestBatch_ADeadTransferFreesItsCoinsAndPayouts(t *testing.T) {
	f := newFixture(t).withCoins(t, newCoinChain(3, 400_000, soon))
	all := f.payouts(t, 6) // need two coins
	require.Equal(t, 6, f.sync(t).Signed)
	f.send(t, all...)
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM transfer_slot`))
	thief := fakeTx{Coins: treasury.Slot{"coin:1"}, Pays: []fakeOutput{{To: "thief", Currency: money.BTC, Units: 300_000}}, Cap: 100_000}
	require.NoError(t, f.chain.accept(thief))
	f.chain.mine(f.chain.finality + 1)

	round := f.sync(t)
	require.Equal(t, 1, round.Dead)
	require.Len(t, round.Failed, 6)
	require.Contains(t, round.Frozen, "no transfer explains")
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer_slot WHERE standing`))
	require.Equal(t, checkout.PayoutNetworkError, f.read(t, all[5]).Failure)

	require.NoError(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: round.ID, Losses: []string{thief.hash() + ":0"}}))
	f.retried(t, all[5])
	require.Equal(t, 1, f.sync(t).Signed)
	require.Equal(t, "coin:2", f.query(t, `SELECT unit FROM transfer_slot WHERE standing`), "it is free again")
	f.send(t, all[5])
	f.settle(t)
	f.requirePaidOnce(t, all[5])
	paid, _ := f.chain.paid()
	require.Len(t, paid, 2, "and the thief's")
}

// A transaction of somebody else uses a coin that no transfer has: nothing more is signed.
func TestBatch_ACoinOfNobodyFreezes(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	require.NoError(t, f.chain.accept(fakeTx{Coins: treasury.Slot{"coin:1"}, Pays: []fakeOutput{{To: "thief", Currency: money.BTC, Units: 5}}, Cap: 1}))
	f.payouts(t, 1)

	round := f.sync(t)

	require.Contains(t, round.Frozen, "a transaction uses slot coin:1")
	require.Zero(t, round.Signed)
}

// The node lost a transfer's block and kept its state. A person confirms that the missing money paid all payouts.
func TestBatch_MissingMoneyPaidAllPayouts(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	all := f.payouts(t, 3)
	f.sync(t)
	f.send(t, all...)
	f.chain.mine(1)
	ids := []string{all[0].ID, all[1].ID, all[2].ID}
	f.chain.forget()
	f.chain.mine(4)

	round := f.sync(t)
	require.Len(t, round.Alarms, 1)
	require.Contains(t, round.Alarms[0], "nothing is decided")
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), round.ID, "a block is lost"))
	var short storage.ShortageError
	require.ErrorAs(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: round.ID}), &short)
	require.Len(t, short.Payments, 3)
	order := treasurer.ThawOrder{AccountID: round.ID, Paid: ids[:2], By: merchant.AuditEntry{Action: "transfer.recovered"}}
	require.ErrorIs(t, f.Thaw(t.Context(), order), checkout.ErrConflict, "the third is paid too")
	order.Paid = ids
	require.NoError(t, f.Thaw(t.Context(), order))

	f.requireConfirmed(t, all...)
	f.requireBooked(t)
	require.Empty(t, f.sync(t).Alarms)
}
