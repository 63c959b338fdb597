package treasury_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

func (f fixture) signAll(t *testing.T, n int) {
	require.Equal(t, n, f.sync(t).Signed)
	f.chain.mine(f.chain.finality + 1)
}

// loseAll signs and mines what is pending, and loses that. The rows of some payouts are lost too.
func (f fixture) loseAll(t *testing.T, n int, lostPayouts ...checkout.Ref) {
	f.lose(t, func() { f.signAll(t, n) })
	for _, ref := range lostPayouts {
		f.Exec(t, `SET session_replication_role = replica; DELETE FROM payout WHERE id = '`+ref.ID+`'`)
	}
}

// alike returns payouts to one merchant, each some cents larger than the one before.
func (f fixture) alike(t *testing.T, n int, cents money.Amount) (all []checkout.Ref) {
	owner := f.merchant(t, "toOne")
	for i := range n {
		all = append(all, f.payout(t, owner, 10_000+money.Amount(i)*cents, money.BTC))
	}
	return all
}

// recoverOutputs runs a recovery. It returns the payments by their outputs.
func (f fixture) recoverOutputs(t *testing.T, o treasurer.RecoveryOrder) map[string]treasurer.Recovery {
	found := map[string]treasurer.Recovery{}
	for _, r := range f.recover(t, o) {
		require.Empty(t, found[r.Output])
		found[r.Output] = r
	}
	return found
}

// requireDone requires that a recovery wrote every payment but those of some outputs.
func requireDone(t *testing.T, found map[string]treasurer.Recovery, but ...string) {
	for output, r := range found {
		require.Equal(t, !slices.Contains(but, output), r.Done, r.Why)
	}
}

func (f fixture) hash(t *testing.T) string {
	mined := f.chain.mined()
	require.Len(t, mined, 1)
	return mined[0].txHash
}

// Payouts to one address differ by less than the transaction's fee, and by more than the share of each.
func TestLostTransaction_APayoutPaysItsShareOfTheFee(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	all := f.alike(t, 9, 6) // 8 share 341 satoshis, and differ by 59
	f.Exec(t, `UPDATE payout SET next_action_at = now() + interval '1 day' WHERE id = $1`, all[8].ID)
	f.loseAll(t, 8)
	f.sync(t)

	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{}))
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.requirePaidOnce(t, all[:8]...)
	require.Equal(t, "0", f.requireBooked(t)["suspense BTC"])
	require.Equal(t, checkout.PayoutPending, f.read(t, all[8]).Status)
}

// As many payouts fit the payments to an address as there are: all of them are paid.
func TestLostTransaction_TwinsThatAreAllPaidAreClear(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	all := f.alike(t, 5, 1) // 10 satoshis apart, and a share is 50
	f.loseAll(t, 5)
	f.sync(t)
	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{}))
	f.sync(t)
	f.requirePaidOnce(t, all...)
	require.Equal(t, "0", f.requireBooked(t)["suspense BTC"])
}

// One more payout fits than is paid: a person chooses for each payment of the transaction.
func TestLostTransaction_APersonChoosesForEachPayment(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	twins := f.alike(t, 3, 0)
	f.Exec(t, `UPDATE payout SET next_action_at = now() + interval '1 day' WHERE id = $1`, twins[2].ID)
	other := f.payouts(t, 1)
	f.loseAll(t, 3)
	f.sync(t)

	found := f.recoverOutputs(t, treasurer.RecoveryOrder{})
	require.Equal(t, []string{"several payouts fit", "several payouts fit", "another payment of its transaction is not clear"},
		[]string{found["0"].Why, found["1"].Why, found["2"].Why})
	require.Len(t, found["0"].Fits, 3)
	hash := f.hash(t)
	choices := map[string]string{hash + ":0": twins[0].ID}
	found = f.recoverOutputs(t, treasurer.RecoveryOrder{Chosen: choices})
	require.Equal(t, "several payouts fit", found["1"].Why)
	choices[hash+":1"] = twins[0].ID
	found = f.recoverOutputs(t, treasurer.RecoveryOrder{Chosen: choices})
	require.Equal(t, "other payments fit the payout too", found["1"].Why, "one payout cannot be paid twice")
	choices[hash+":1"] = other[0].ID
	found = f.recoverOutputs(t, treasurer.RecoveryOrder{Chosen: choices})
	require.Equal(t, "it cannot have paid the chosen payout", found["1"].Why)
	choices[hash+":1"] = twins[1].ID
	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{Chosen: choices}))
	f.sync(t)
	f.thaw(t)
	f.Exec(t, `UPDATE payout SET next_action_at = NULL`)
	require.Equal(t, 1, f.sync(t).Signed, "the third is paid now")
	f.send(t, twins[2:]...)
	f.settle(t)
	f.requirePaidOnce(t, append(twins, other...)...)
	require.Equal(t, "0", f.requireBooked(t)["suspense BTC"])
}

// The row of one payout is lost, and an operator names its payment as a loss, after or before a round has booked it.
func TestLostTransaction_TheRestOfALossIsWritten(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"after a round": true, "before a round": false} {
		for lost := range 3 { // the first and the second one are the same payment, to the last satoshi
			t.Run(name+", output "+strconv.Itoa(lost), func(t *testing.T) {
				f := newOnCoins(t, 2, soon)
				f.requireRestWritten(t, f.alike(t, 3, 0), lost, seen)
			})
		}
	}
}

func (f fixture) requireRestWritten(t *testing.T, all []checkout.Ref, lost int, seen bool) {
	f.loseAll(t, 3, all[lost])
	paid, _ := f.chain.paid()
	loss := paid[all[lost].ID][0].Units
	require.Equal(t, paid[all[0].ID][0].Units, paid[all[1].ID][0].Units)
	id := f.account(t).ID
	name := f.hash(t) + ":" + strconv.Itoa(lost)
	thaw := treasurer.ThawOrder{AccountID: id, Losses: []string{name}}
	if seen {
		f.sync(t)
		require.ErrorIs(t, f.Thaw(t.Context(), thaw), treasurer.ErrUnrecovered, "its other payments paid payouts")
		thaw.Losses = []string{f.hash(t)}
		require.ErrorIs(t, f.Thaw(t.Context(), thaw), treasurer.ErrNoPayment, "a payment is named, not a transaction")
	} else {
		require.NoError(t, f.Store.Treasury.Freeze(t.Context(), id, "a restore"))
	}

	for _, r := range f.recoverOutputs(t, treasurer.RecoveryOrder{}) {
		require.NotEmpty(t, r.Why)
	}
	left := append(all[:lost:lost], all[lost+1:]...)
	both := treasurer.RecoveryOrder{Losses: []string{name}, Chosen: map[string]string{name: left[0].ID}}
	require.Equal(t, "it is chosen and named as a loss", f.recoverOutputs(t, both)[strconv.Itoa(lost)].Why)
	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{Losses: []string{name}}), strconv.Itoa(lost))
	again := f.recoverOutputs(t, treasurer.RecoveryOrder{})
	require.Len(t, again, 1, "a repeat finds the loss")
	for _, r := range again {
		require.Contains(t, r.Why, "which is live and does not pay it")
		require.Equal(t, loss, r.Amount.Units().Int64())
		thaw.Losses = []string{r.Payment()} // of two that are the same, any
	}
	require.ErrorIs(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: id}), treasurer.ErrUnrecovered)
	require.NoError(t, f.Thaw(t.Context(), thaw))

	require.Zero(t, f.sync(t).Signed, "nobody is paid again")
	f.settle(t)
	require.Empty(t, f.sync(t).Alarms)
	require.Nil(t, f.account(t).FrozenAt)
	require.Equal(t, strconv.FormatInt(loss, 10), f.requireBooked(t)["suspense BTC"])
	f.requireConfirmed(t, left...)
}

// A name that the chain does not show is a mistake of the person who gives it.
func TestLostTransaction_AWrongNameIsRefused(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	all := f.alike(t, 2, 0)
	f.loseAll(t, 2)
	f.sync(t)
	id, hash := f.account(t).ID, f.hash(t)
	for _, wrong := range []string{hash, hash + ":2", "x:0", ""} {
		require.ErrorContains(t, must.Err(f.Recover(t.Context(), treasurer.RecoveryOrder{AccountID: id, Losses: []string{wrong}})), "no such payment")
		require.ErrorContains(t, must.Err(f.Recover(t.Context(), treasurer.RecoveryOrder{AccountID: id, Apply: true, Chosen: map[string]string{wrong: all[0].ID}})), "no such payment")
	}
	chosen := map[string]string{hash + ":0": all[0].ID, hash + ":1": all[1].ID}
	for range 2 {
		f.recoverOutputs(t, treasurer.RecoveryOrder{Chosen: chosen}) // a repeat is no mistake
	}
	f.sync(t)
	require.Error(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: id, Losses: []string{hash + ":2"}}))
	require.NotNil(t, f.account(t).FrozenAt)
	require.Error(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: id, Paid: []string{"po_none"}}))
	require.NoError(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: id}))
}

// A payment is named as a loss, and then its payment is decided.
func TestLostTransaction_NoLossWhileAPaymentIsUndecided(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	known := f.payouts(t, 1)
	session, tx := f.begin(t, f.merchant(t, "toLate"), 10_000, money.BTC)
	f.lose(t, func() {
		f.complete(t, session, tx)
		f.signAll(t, 2)
	})
	f.sync(t)
	name := ""
	for _, r := range f.recoverOutputs(t, treasurer.RecoveryOrder{}) {
		if r.Destination == "toLate" {
			name = r.Payment()
		}
	}
	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{Losses: []string{name}}), "0", "1")
	late := f.complete(t, session, tx)
	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{Losses: []string{name}}), "0", "1") // its payout fits
	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{}))
	f.sync(t)
	f.thaw(t)
	f.requireConfirmed(t, late, known[0])
	require.Equal(t, "0", f.requireBooked(t)["suspense BTC"])
}

// The backup is of a time at which the account was frozen.
func TestLostTransaction_AThawWaitsForPaymentsThatAreNewerThanTheFreeze(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	f.freeze(t, "an operator")
	session, tx := f.begin(t, f.owner, 10_000, money.BTC)
	f.lose(t, func() {
		f.thaw(t)
		f.complete(t, session, tx)
		f.signAll(t, 1)
	})
	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)
	f.sync(t)
	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)
}

// The backup has a live transfer that was canceled, and the payout was retried and paid.
func TestLostTransaction_AThawSeesThePayoutThatItFails(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	ref := f.payout(t, f.merchant(t, "toOne"), 10_000, money.BTC)
	require.Equal(t, 1, f.sync(t).Signed)
	restore := f.backup(t)
	require.NoError(t, must.Err(f.Store.Treasury.CancelTransfer(t.Context(), f.transferOf(t, ref), merchant.AuditEntry{Actor: "operator", Action: "transfer.canceled"})))
	f.sync(t)
	f.chain.mine(f.chain.finality + 1)
	require.Equal(t, 1, f.sync(t).Canceled)
	f.retried(t, ref)
	f.signAll(t, 1)
	f.settle(t)
	restore()
	f.freeze(t, "a restore")
	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)
	f.retried(t, ref)
	for _, r := range f.recover(t, treasurer.RecoveryOrder{}) {
		require.Equal(t, r.Moved(), r.Done, r.Why) // the cancellation moved nothing
	}
	f.sync(t)
	f.thaw(t)
	f.requirePaidOnce(t, ref)
}

// A failed payout was retried and paid after the backup. Its merchant changes the address before the recovery.
func TestLostTransaction_AChangedAddressHidesNoPayout(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	ref := f.payout(t, f.merchant(t, "toOne"), 10_000, money.BTC)
	f.end(t, ref, 0, checkout.PayoutNetworkError)
	f.lose(t, func() {
		f.retried(t, ref)
		f.signAll(t, 1)
	})
	f.sync(t)
	f.Exec(t, `UPDATE payout_address SET address = 'toOther' WHERE merchant_id = $1`, ref.MerchantID)
	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)
	f.retried(t, ref)
	require.Equal(t, "toOther", f.read(t, ref).Destination)
	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)
	f.recovered(t, treasurer.RecoveryOrder{})
	f.sync(t)
	f.thaw(t)
	f.requirePaidOnce(t, ref)
	require.Equal(t, "toOne", f.read(t, ref).Destination)
	require.Equal(t, "0", f.requireBooked(t)["suspense BTC"])
	require.Zero(t, f.sync(t).Signed)
}

// The failure of a payout is recorded, and its run has not ended it.
func TestLostTransaction_AFailureThatIsOnlyRecordedCounts(t *testing.T) {
	f := newOnCoins(t, 2, soon)
	ref := f.payout(t, f.merchant(t, "toOne"), 10_000, money.BTC)
	f.chain.invalid["toOne"] = true
	f.sync(t)
	require.Equal(t, checkout.PayoutPending, f.read(t, ref).Status)
	require.NotEmpty(t, f.read(t, ref).Failure)
	f.lose(t, func() {
		f.chain.invalid["toOne"] = false
		f.end(t, ref, 1, checkout.PayoutInvalidAddress)
		f.retried(t, ref)
		f.signAll(t, 1)
	})
	f.sync(t)
	require.Contains(t, f.recoverOutputs(t, treasurer.RecoveryOrder{})["0"].Why, "has failed")
	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)
}

// newLostBatch returns a treasury that paid three payouts by one transaction, and lost it and the first payout's row.
func newLostBatch(t *testing.T) (f fixture, all []checkout.Ref) {
	f = newOnCoins(t, 2, soon)
	all = f.payouts(t, 3)
	f.loseAll(t, 3, all[0])
	f.sync(t)
	return f, all
}

// A person takes both payments of a transaction for losses, and one is none.
func TestLostTransaction_APaymentThatFitsIsNoLoss(t *testing.T) {
	f, _ := newLostBatch(t)
	hash := f.hash(t)
	both := treasurer.RecoveryOrder{Losses: []string{hash + ":0", hash + ":1"}}
	requireDone(t, f.recoverOutputs(t, both), "0", "1", "2") // the payout of output 1 fits
	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{Losses: []string{hash + ":0"}}), "0")
}

// A transaction is written beside a loss. A reorganization replaces it by an earlier version, which is lost too.
func TestLostTransaction_AnotherVersionBesideALoss(t *testing.T) {
	f, all := newLostBatch(t)
	name := f.hash(t) + ":0"
	f.recoverOutputs(t, treasurer.RecoveryOrder{Losses: []string{name}})
	earlier, blocks := f.chain.mined()[0].fakeTx, f.chain.blocks
	earlier.Cap, earlier.Change = earlier.Cap-10, earlier.Change+10
	f.chain.blocks = blocks[:1]
	f.chain.mine(len(blocks) - 1)
	require.NoError(t, f.chain.accept(earlier))
	f.chain.mine(f.chain.finality + 1)
	f.sync(t)
	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{}), "0", "1", "2")
	name = f.hash(t) + ":0"
	requireDone(t, f.recoverOutputs(t, treasurer.RecoveryOrder{Losses: []string{name}}), "0")
	f.sync(t)
	require.NoError(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: f.account(t).ID, Losses: []string{name}}))
	f.requireConfirmed(t, all[1:]...)
	f.requireBooked(t)
}
