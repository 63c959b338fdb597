package treasury_test

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

func TestSync_BumpsOnlyWhatBlocksTheOthers(t *testing.T) {
	f := newFixture(t)
	refs := []checkout.Ref{f.usdc(t), f.usdc(t), f.usdc(t)}
	f.send(t, refs...)
	require.Equal(t, 0, f.sync(t).Bumped, "too early")
	f.StuckAfter = time.Nanosecond
	f.chain.base = 9_000
	require.Equal(t, []string{f.transferOf(t, refs[0]) + " blocks the account: the network's fee is above the limit"}, f.sync(t).Alarms)
	f.chain.base = 3_000 // none of them is mined now
	require.Equal(t, 1, f.sync(t).Bumped)
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM transfer_version WHERE transfer_id = (SELECT id FROM transfer ORDER BY nonce LIMIT 1)`))
	require.EqualValues(t, 4, f.query(t, `SELECT count(*) FROM transfer_version`))
	f.settle(t)
	f.requirePaidOnce(t, refs...)
	f.requireBooked(t)
}

func TestSync_AFrozenAccountIsFollowedAndSignsNothing(t *testing.T) {
	f := newFixture(t)
	f.StuckAfter = time.Nanosecond
	ref, _ := f.sent(t)
	account := f.account(t)
	require.Equal(t, 1, account.Live)
	id := account.ID
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), id, "a drill"))
	err := f.Store.Treasury.Freeze(t.Context(), id, "another reason")
	require.ErrorIs(t, err, storage.ErrFrozen)
	require.ErrorContains(t, err, "a drill")
	f.chain.base = 900
	got := f.sync(t)
	require.Equal(t, 0, got.Bumped)
	require.Contains(t, got.Alarms[0], "is stuck, and its account is frozen")
	other := f.usdc(t)
	require.Equal(t, checkout.HoldFrozen, must.Get(transfer(t.Context(), f.process(t), other))(t).Held, "in every process")
	f.chain.base = 10
	f.settle(t)
	require.NotNil(t, f.read(t, ref).ConfirmedAt)
	require.Equal(t, "a drill", f.account(t).FrozenWhy)
	f.thaw(t)
	f.send(t, other)
	require.ErrorIs(t, f.Store.Treasury.Freeze(t.Context(), "tre_none", "x"), checkout.ErrNotFound)
	require.ErrorIs(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: "tre_none"}), checkout.ErrNotFound)
}

// The account is frozen for another reason, and no round has seen what left it.
func TestThaw_BooksALossOnce(t *testing.T) {
	f := newFixture(t)
	f.settle(t)
	o := treasurer.ThawOrder{AccountID: f.account(t).ID}
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), o.AccountID, "a drill"))
	f.chain.foreign(t, 0, 5_000_000)
	require.ErrorAs(t, f.Thaw(t.Context(), o), new(storage.NotFinalError))
	f.chain.mine(1)
	require.ErrorAs(t, f.Thaw(t.Context(), o), new(storage.NotFinalError), "in a block that may disappear")
	f.chain.mine(5)
	require.NoError(t, f.Thaw(t.Context(), o))
	for range 2 {
		require.Empty(t, f.sync(t).Frozen)
		f.chain.mine(1)
	}
	books := f.requireBooked(t)
	require.Equal(t, "5000000", books["suspense USDC"])
}

func TestSync_MissingMoneyFreezesWhenItStaysMissing(t *testing.T) {
	f := newFixture(t)
	f.settle(t)
	f.chain.take(money.USDT, 3)
	got := f.sync(t)
	require.Equal(t, map[money.PayoutCurrency]string{money.USDT: "3"}, got.Short)
	require.Empty(t, got.Frozen, "once may be a reorganization")
	require.Empty(t, f.sync(t).Frozen, "of the same height")
	f.chain.mine(1)
	require.Contains(t, f.sync(t).Frozen, "the balance is below the ledger by 0.000003 USDT")

	f = newSerialFixture(t)
	f.settle(t)
	f.chain.take(money.USDT, 3)
	f.chain.mine(4)
	require.Contains(t, f.sync(t).Frozen, "below the ledger by 0.000003 USDT", "at once when it is final")
}

// A gift is booked when it is final. A reorganization that takes it back freezes nothing.
func TestSync_AGiftThatAReorganizationTakesBackFreezesNothing(t *testing.T) {
	f := newFixture(t)
	f.settle(t)
	gift := func() {
		f.chain.mine(1)
		f.chain.tip().balances["ETH"].Add(f.chain.tip().balances["ETH"], big.NewInt(7_000_000))
	}
	gift()
	before := f.ledger(t)["funding ETH"]
	f.sync(t)
	require.Equal(t, before, f.ledger(t)["funding ETH"], "not yet")
	f.chain.undo(1)
	for range 5 {
		f.chain.mine(1)
		require.Empty(t, f.sync(t).Frozen)
	}
	require.Equal(t, before, f.ledger(t)["funding ETH"])
	gift()
	f.settle(t)
	require.NotEqual(t, before, f.requireBooked(t)["funding ETH"])
}

func TestSync_LiveTransfersAreNoMissingMoney(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	for range 5 {
		f.send(t, f.usdc(t))
		f.chain.mine(1)
		got := f.sync(t)
		require.Empty(t, got.Short)
		require.Empty(t, got.Alarms)
	}
	f.chain.fund(money.USDC, "10")
	f.settle(t)
	require.Equal(t, "-1000010000000", f.requireBooked(t)["funding USDC"])
}

// A node shows a receipt of a block that is gone. The final nonce disproves it.
func TestSync_AReceiptAloneConfirmsNothing(t *testing.T) {
	f := newFixture(t)
	ref, _ := f.sent(t)
	f.chain.mine(1)
	f.chain.undo(1)
	f.chain.lies = func(seen treasury.TransferSnapshot, v treasury.TransferVersion) treasury.TransferSnapshot {
		receipt := f.chain.orphaned[v.TxHash]
		receipt.State = treasury.TransferStateConfirmed
		return receipt
	}
	f.chain.mine(5)
	require.Equal(t, 0, f.sync(t).Confirmed)
	require.Nil(t, f.read(t, ref).ConfirmedAt)
	f.chain.lies = nil
	f.settle(t)
	f.requirePaidOnce(t, ref)
	f.requireBooked(t)
}

// A node without its receipts reports that another transaction took the nonce.
func TestSync_ADeathThatTheOutflowsDenyIsNone(t *testing.T) {
	t.Parallel()
	for _, state := range []treasury.TransferState{treasury.TransferStateDead, treasury.TransferStateReverted} {
		f := newSerialFixture(t)
		ref := f.usdc(t)
		f.chain.mine(7)
		f.send(t, ref)
		f.chain.mine(5)
		f.chain.atOnce = 2 // the payment is not in the first range of blocks
		f.chain.lies = func(seen treasury.TransferSnapshot, _ treasury.TransferVersion) treasury.TransferSnapshot {
			seen.State = state
			return seen
		}
		got := f.sync(t)
		require.Equal(t, []int{0, 0}, []int{got.Dead, got.Reverted})
		require.Contains(t, got.Alarms[0], "and shows its payment")
		require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPayoutNotFailed)
		f.chain.lies = nil
		require.Equal(t, 1, f.sync(t).Confirmed)
	}
}

func TestSync_ARevertedTransferFailsThePayoutAndARetryPaysIt(t *testing.T) {
	f := newFixture(t)
	_, err := f.Store.Webhooks.CreateEndpoint(t.Context(), webhook.Endpoint{Ref: f.owner.Ref(checkout.NewID(checkout.PrefixEndpoint)),
		URL: "https://shop.example/hook", Events: []webhook.EventType{webhook.PayoutSent, webhook.PayoutFailed},
		Status: webhook.EndpointEnabled, Secret: webhook.NewSecret()})
	require.NoError(t, err)
	f.chain.reverts["0xMerchant"] = true
	ref, _ := f.sent(t)
	f.chain.mine(5)
	got := f.sync(t)
	require.Equal(t, 1, got.Reverted)
	require.Equal(t, ref, got.Failed[0].Ref)
	require.Equal(t, webhook.PayoutFailed, got.Failed[0].EventType)
	require.Len(t, got.Failed[0].Deliveries, 1, "to be started")
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutInvalidAddress}, []any{p.Status, p.Failure})
	books := f.requireBooked(t)
	require.Equal(t, "-9900", books["merchant:payable EUR"], "we owe it again")
	require.Equal(t, "0", books["revenue:network_fee USDC"])
	require.Equal(t, "252000000000000", books["expense:gas ETH"], "the network took its fee")

	f.Exec(t, `UPDATE payout_address SET address = '0xNew'`)
	retried := f.retried(t, ref)
	require.Equal(t, []any{2, "0xNew", "", checkout.PayoutPending}, []any{retried.Generation, retried.Destination, retried.TxHash, retried.Status})
	f.send(t, ref)
	f.settle(t)
	require.Equal(t, []webhook.EventType{webhook.PayoutSent, webhook.PayoutFailed, webhook.PayoutSent}, f.eventTypes(t, ref))
	f.requirePaidOnce(t, ref)
	require.Equal(t, "0xNew", f.read(t, ref).Destination)
	require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])
}

func TestSync_ADeadTransferFreezesAndLetsItsPayoutBeSentAgain(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.sync(t)
	f.send(t, ref)
	f.chain.foreign(t, 0, 1_000_000) // takes the nonce of the transfer
	got := f.sync(t)
	require.Equal(t, 1, got.Resent, "its own bytes are not in the pool: no proof of anything")
	f.chain.mine(1)
	require.Equal(t, 0, f.sync(t).Dead, "not final")
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrConflict)
	f.chain.mine(4)
	got = f.sync(t)
	require.Equal(t, 1, got.Dead)
	require.NotEmpty(t, got.Frozen)
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutNetworkError, ""}, []any{p.Status, p.Failure, p.TxHash})

	f.retried(t, ref)
	require.Equal(t, checkout.HoldFrozen, f.transfer(t, ref).Held, "a person must look first")
	f.thaw(t)
	f.send(t, ref)
	f.settle(t)
	f.requirePaidOnce(t, ref)
	f.requireBooked(t)
}

func TestSync_AReorganizationBelowTheFinalBlockReopens(t *testing.T) {
	f := newFixture(t)
	ref, _ := f.sent(t)
	f.settle(t)
	require.NotNil(t, f.read(t, ref).ConfirmedAt)
	f.chain.undo(len(f.chain.blocks) - 1)
	got := f.sync(t)
	require.Equal(t, 1, got.Reopened)
	require.Contains(t, got.Alarms[0], "a reorganization undid the end of")
	require.Nil(t, f.read(t, ref).ConfirmedAt)
	require.Equal(t, "-106670000", f.ledger(t)["transit USDC"], "on its way again")
	require.Equal(t, 1, got.Resent, "the same bytes")
	f.chain.mine(30)
	f.settle(t)
	f.requirePaidOnce(t, ref)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer_version`))
	f.requireBooked(t)
}

// The payout of a transfer that paid nobody may have another transfer by now, or be refunded.
func TestSync_AReorganizationThatUndoesAnEndWithoutAPaymentFreezes(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"reverted", "canceled"} {
		f := newSerialFixture(t)
		f.open(t, f.Treasury)
		f.chain.reverts["0xMerchant"] = end == "reverted"
		ref, _ := f.sent(t)
		if end == "canceled" {
			f.cancel(t, f.transferOf(t, ref), ref)
		}
		f.settle(t)
		require.NoError(t, f.refund(t.Context(), ref))
		f.chain.undo(len(f.chain.blocks) - 1)
		got := f.sync(t)
		require.Zero(t, got.Reopened)
		require.NotEmpty(t, got.Alarms)
		require.Contains(t, f.account(t).FrozenWhy, "was "+end+", and a reorganization undid it")
		require.Equal(t, f.read(t, ref).TransactionID, f.query(t, `SELECT subject FROM finding WHERE kind = 'refunded_and_paid'`))
	}
}

// The version that a pool refused is never mined, and the first one stays in the pool until a version is high enough.
func TestSync_AnUnderpricedVersionIsFollowedByAHigherOne(t *testing.T) {
	t.Parallel()
	for dearer, versions := range map[int64]int{10: 2, 30: 3} {
		f := newSerialFixture(t)
		f.chain.dearer = dearer
		ref, transfer := f.sent(t)
		f.StuckAfter = time.Nanosecond
		for range versions - 2 {
			require.Equal(t, 1, f.sync(t).Bumped)
			require.Contains(t, f.chain.pool, f.version(t, transfer, 1).TxHash)
		}
		require.Equal(t, 1, f.sync(t).Bumped)
		last := f.version(t, transfer, versions)
		require.Equal(t, []string{last.TxHash}, slices.Collect(maps.Keys(f.chain.pool)))

		f.StuckAfter = time.Hour
		f.settle(t)
		f.requirePaidOnce(t, ref)
		require.Equal(t, last.TxHash, f.read(t, ref).TxHash)
		require.EqualValues(t, versions, f.query(t, `SELECT count(*) FROM transfer_version`))
	}
}

// Two rounds run at once, and both find the same transfer stuck.
func TestSync_TwoRoundsRaiseTheFeeOnce(t *testing.T) {
	f := newFixture(t)
	f.send(t, f.usdc(t))
	live := must.Get(f.Store.Treasury.LiveTransfers(t.Context(), f.account(t).ID, 10))(t)
	require.Len(t, live, 1)
	for _, want := range []bool{true, false} {
		plan := must.Get(f.chain.Bump(t.Context(), live[0].Newest()))(t)
		_, added, err := f.Store.Treasury.AddVersion(t.Context(), live[0], plan, f.chain.Sign)
		require.NoError(t, err)
		require.Equal(t, want, added)
	}
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM transfer_version`))
}

// A node lags, or another round was faster: the balances are older than the books.
func TestSync_OldBalancesSayNothing(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	old := must.Get(f.chain.Snapshot(t.Context()))(t)
	f.send(t, f.usdc(t))
	f.settle(t)
	got := must.Get(f.Store.Treasury.CompareBalances(t.Context(), f.account(t).ID, old))(t)
	require.Empty(t, got.Inflows, "the payment is not in them")
	require.Equal(t, "-1000000000000", f.requireBooked(t)["funding USDC"])
}

// Each round ends the transfers that it has seen, and the next one continues from there.
func TestSync_ASlowNodeDelaysWhatItWasNotAskedAbout(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	var refs []checkout.Ref
	for range 5 {
		ref, _ := f.sent(t)
		refs = append(refs, ref)
	}
	f.chain.mine(f.chain.finality + 1)
	looks := 0
	f.chain.slow = func() bool { looks++; return looks > 2 }
	for _, left := range []int{5, 3} {
		looks = 0
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		report, err := f.Sync(ctx)
		cancel()
		require.NoError(t, err)
		got := report.Accounts[0]
		require.Equal(t, []int{left, 2, 0, 0}, []int{got.Live, got.Confirmed, got.Dead, got.Resent})
		require.Equal(t, []string{fmt.Sprintf("the nodes are slow: the round looked at 2 of %d transfers", left)}, got.Alarms)
		require.Empty(t, got.Frozen)
	}
	require.Nil(t, f.read(t, refs[4]).ConfirmedAt)
	looks = 0
	ctx, stop := context.WithCancel(t.Context())
	f.chain.slow = func() bool { stop(); return true }
	report, err := f.Sync(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, report.Accounts[0].Alarms, "the worker stops: its nodes may be fast")
	f.chain.slow = nil
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.requireBooked(t)
}

// A merchant's contract accepts ether until the signature, and then burns the treasury's gas: the retry pays less.
func TestTransfer_BurntGasIsTakenOffTheRetry(t *testing.T) {
	f := newFixture(t)
	f.chain.reverts["0xMerchant"] = true
	ref := f.payout(t, f.owner, 20_000, money.ETH)
	f.send(t, ref)
	first := f.read(t, ref)
	f.chain.mine(f.chain.finality + 1)
	require.Equal(t, 1, f.sync(t).Reverted)
	require.EqualValues(t, "0.000252", f.query(t, `SELECT trim_scale(cost)::text FROM transfer WHERE status = 'reverted'`))

	f.retry(t, ref, "0xGood")
	f.confirms(t, ref)
	second := f.read(t, ref)
	require.Equal(t, []string{"0.000100000000000000", "0.000352000000000000"}, []string{first.Fee.String(), second.Fee.String()})
	require.Equal(t, first.Amount.Add(first.Fee), second.Amount.Add(second.Fee))
	f.requireBooked(t)
}

// One round ends two transfers that paid nothing. The gas that the other burnt is not mistaken for a payment.
func TestSync_TransfersThatPaidNothingDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	for _, cancels := range []bool{false, true} {
		f := newSerialFixture(t)
		f.sync(t)
		owner := f.merchant(t, "0xBurner")
		f.chain.reverts["0xBurner"] = !cancels
		var refs []checkout.Ref
		for _, currency := range []money.PayoutCurrency{money.ETH, money.ETH, money.USDC} {
			ref := f.payout(t, owner, 20_000, currency)
			f.send(t, ref)
			refs = append(refs, ref)
		}
		if cancels {
			f.Exec(t, `UPDATE transfer SET cancel_at = now()`)
			require.Equal(t, 3, f.sync(t).Bumped)
		}
		f.chain.mine(f.chain.finality + 1)
		got := f.sync(t)
		require.Equal(t, 3, got.Reverted+got.Canceled)
		require.Empty(t, got.Frozen)
		for _, ref := range refs {
			require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
		}
		f.sync(t)
		f.requireBooked(t)
	}
}

// Two transfers were reverted while ether was stolen. They stay undecided, and the gas that they burnt is not missing.
func TestThaw_BurntGasIsNotMissing(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	owner := f.merchant(t, "0xBurner")
	f.chain.reverts["0xBurner"] = true
	var refs []checkout.Ref
	for range 2 {
		ref := f.payout(t, owner, 20_000, money.ETH)
		f.send(t, ref)
		refs = append(refs, ref)
	}
	f.chain.mine(1)
	f.chain.take(money.ETH, 7_000_000_000_000_000)
	f.chain.mine(f.chain.finality + 1)
	require.Len(t, f.sync(t).Alarms, 2)

	o := treasurer.ThawOrder{AccountID: f.account(t).ID}
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), o.AccountID, "an operator looks"))
	var short storage.ShortageError
	require.ErrorAs(t, f.Thaw(t.Context(), o), &short)
	require.Equal(t, "0.007000000000000000 ETH", short.Missing)
	o.Missing = money.PurseOf(money.MustCrypto("0.007", money.ETH))
	require.NoError(t, f.Thaw(t.Context(), o))
	require.Equal(t, 2, f.sync(t).Reverted)
	for _, ref := range refs {
		require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
	}
	f.requireBooked(t)
}
