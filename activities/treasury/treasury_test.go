package treasury_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

func TestTransfer_IsStoredBeforeItIsSent(t *testing.T) {
	f := newFixture(t)
	var sent []string
	f.chain.onSend = func(hash string) {
		sent = append(sent, hash)
		require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer_version WHERE tx_hash = $1`, hash),
			"another connection sees the signed bytes")
	}
	ref, _ := f.sent(t)
	p := f.read(t, ref)
	require.Equal(t, []string{p.TxHash}, sent)
	require.Equal(t, "106.670000", p.Amount.String(), "100 EUR less 1 %, at 1.08, less 0.25 for the network")
	require.Equal(t, "0.250000", p.Fee.String())
	require.Equal(t, checkout.PayoutSent, p.Status)
	require.EqualValues(t, 1, f.query(t, `SELECT next_nonce FROM treasury_account`))
	f.settle(t)
	require.NotNil(t, f.read(t, ref).ConfirmedAt)
	require.Equal(t, map[string]string{
		"acquirer:receivable EUR": "10000", "revenue:fee EUR": "-100", "merchant:payable EUR": "0", "fx EUR": "-9900",
		"fx USDC": "106920000", "revenue:network_fee USDC": "-250000", "transit USDC": "0",
		"wallet USDC": "999893330000", "funding USDC": "-1000000000000",
		"wallet USDT": "1000000000000", "funding USDT": "-1000000000000",
		"wallet ETH": "999999748000000000000", "funding ETH": "-1000000000000000000000", "expense:gas ETH": "252000000000000",
	}, f.requireBooked(t))
}

// A node's error decides nothing: the same bytes go out again, and the state decides.
func TestTransfer_ARepeatSendsTheSameBytes(t *testing.T) {
	f := newFixture(t)
	var sent []string
	f.chain.onSend = func(hash string) { sent = append(sent, hash) }
	ref := f.usdc(t)
	for range 3 {
		require.Equal(t, treasury.TransferOutcome{Generation: 1}, f.transfer(t, ref))
	}
	f.chain.mine(1)
	require.NoError(t, must.Err(f.Transfer(t.Context(), ref)), "the nonce is too low because it was mined")
	require.Len(t, sent, 4)
	require.Len(t, slices.Compact(sent), 1)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer`))
}

func TestTransfer_IsNotSentUntilANodeHasIt(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.chain.refuse = errNode
	require.ErrorIs(t, must.Err(f.Transfer(t.Context(), ref)), treasurer.ErrNotTaken)
	f.chain.refuse = nil
	require.Equal(t, 1, f.sync(t).Resent, "the round sends it, although no run asks for it")
	require.Equal(t, 0, f.sync(t).Resent)
	f.settle(t)
	require.Equal(t, checkout.PayoutPending, f.read(t, ref).Status, "its run says that it was sent")
	f.send(t, ref)
}

func TestTransfer_HoldsWhatCannotBeSentNow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(f *fixture)
		mend   func(f *fixture)
		want   checkout.PayoutHold
	}{
		"the account has too little": {
			func(f *fixture) { f.chain.take(money.USDC, 1_000_000_000_000-106_669_999) },
			func(f *fixture) { f.chain.fund(money.USDC, "0.000001") }, checkout.HoldFloat},
		"the account cannot pay the network": {
			func(f *fixture) {
				*f.chain = *newFakeChain(1, map[money.PayoutCurrency]string{money.USDC: "1000"})
			},
			func(f *fixture) { f.chain.fund(money.ETH, "1") }, checkout.HoldFloat},
		"above the limit of a payout": {
			func(f *fixture) { f.Limits.Payout = 10_691 },
			func(f *fixture) { f.Limits.Payout = 10_692 }, checkout.HoldLarge},
		"above what may be unsettled": {
			func(f *fixture) { f.Limits.MerchantUnsettled = 10_691 },
			func(f *fixture) { f.Limits.MerchantUnsettled = 10_692 }, checkout.HoldUnsettled},
		"the fee is above its limit": {
			func(f *fixture) { f.chain.planErr = treasury.ErrFeeTooHigh },
			func(f *fixture) { f.chain.planErr = nil }, checkout.HoldFee},
		"the fee leaves nothing": {
			func(f *fixture) { f.chain.planErr = treasury.ErrTooSmall },
			func(f *fixture) { f.chain.planErr = nil }, checkout.HoldFee},
		"the chain says that the account has too little": {
			func(f *fixture) { f.chain.planErr = treasury.ErrFloatTooLow },
			func(f *fixture) { f.chain.planErr = nil }, checkout.HoldFloat},
		"the token takes a fee": {
			func(f *fixture) { f.chain.planErr = treasury.ErrNotTransferable },
			func(f *fixture) { f.chain.planErr = nil }, checkout.HoldChain},
		"no rate": {
			func(f *fixture) { f.Rates = &fakeRates{none: true} },
			func(f *fixture) { f.Rates = &fakeRates{} }, checkout.HoldRate},
		"the signer refuses": {
			func(f *fixture) { f.chain.signErr = errors.New("refused") },
			func(f *fixture) { f.chain.signErr = nil }, checkout.HoldSigner},
		"the signer hangs": {
			func(f *fixture) { f.chain.signHangs = true },
			func(f *fixture) { f.chain.signHangs = false }, checkout.HoldSigner},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			ref := f.usdc(t)
			c.damage(&f)
			for range 2 {
				require.Equal(t, treasury.TransferOutcome{Held: c.want, Generation: 1}, f.transfer(t, ref))
			}
			p := f.read(t, ref)
			require.Equal(t, c.want, p.Hold)
			require.NotNil(t, p.NextActionAt)
			require.Equal(t, checkout.PayoutPending, p.Status)
			require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer`), "nothing was signed")
			late := must.Get(f.Store.Installation.Overdue(t.Context(), 0, "", 10))(t)
			require.Empty(t, late, "Reconcile leaves it alone until its next action is due")

			c.mend(&f)
			f.send(t, ref)
			p = f.read(t, ref)
			require.Equal(t, []any{checkout.PayoutHold(""), (*time.Time)(nil)}, []any{p.Hold, p.NextActionAt})
			f.settle(t)
			f.requirePaidOnce(t, ref)
		})
	}
}

func TestTransfer_StoresNothingThatTheSignerChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(v *treasury.TransferVersion){
		"slot":        func(v *treasury.TransferVersion) { v.Slot = treasury.NumberSlot(8) },
		"destination": func(v *treasury.TransferVersion) { v.Outputs[0].Destination = "0xThief" },
		"amount":      func(v *treasury.TransferVersion) { v.Outputs[0].Amount = money.MustCrypto("107", money.USDC) },
		"currency": func(v *treasury.TransferVersion) {
			v.Outputs[0].Amount = money.NewCrypto(v.Outputs[0].Amount.Units(), money.ETH)
		},
		"terms":    func(v *treasury.TransferVersion) { v.Terms = []byte(`{"Tip":9}`) },
		"no bytes": func(v *treasury.TransferVersion) { v.Raw = nil },
	} {
		f := newSerialFixture(t)
		f.chain.forge = change
		ref := f.usdc(t)
		require.ErrorContains(t, must.Err(f.Transfer(t.Context(), ref)), "is not the planned one", name)
		require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer_version`), name)
		f.chain.forge = nil
		f.send(t, ref)
		require.EqualValues(t, 0, f.query(t, `SELECT nonce FROM transfer`), "no nonce was lost")
	}
}

func TestTransfer_FailsWhenItsPatienceIsOver(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.chain.planErr = treasury.ErrFeeTooHigh
	require.Equal(t, checkout.HoldFee, f.transfer(t, ref).Held)
	f.Exec(t, `UPDATE payout SET held_at = held_at - interval '23:59'`)
	require.Equal(t, checkout.HoldFee, f.transfer(t, ref).Held)
	f.Exec(t, `UPDATE payout SET held_at = held_at - interval '1 minute'`)
	require.Equal(t, treasury.TransferOutcome{Failure: checkout.PayoutInsufficientLiquidity, Generation: 1}, f.transfer(t, ref))

	// The same call again, of a run that was believed dead, signs nothing although it now could.
	f.chain.planErr = nil
	require.Equal(t, treasury.TransferOutcome{Failure: checkout.PayoutInsufficientLiquidity, Generation: 1}, f.transfer(t, ref))
	f.end(t, ref, 1, checkout.PayoutInsufficientLiquidity)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer`))

	// A retry has a patience of its own.
	f.retried(t, ref)
	f.chain.planErr = treasury.ErrFeeTooHigh
	require.Equal(t, checkout.HoldFee, f.transfer(t, ref).Held)
}

func TestTransfer_AnInvalidAddressFailsBeforeAnythingIsSigned(t *testing.T) {
	f := newFixture(t)
	f.chain.invalid["0xMerchant"] = true
	ref := f.usdc(t)
	require.Equal(t, treasury.TransferOutcome{Failure: checkout.PayoutInvalidAddress, Generation: 1}, f.transfer(t, ref))
	f.chain.invalid["0xMerchant"] = false
	require.Equal(t, treasury.TransferOutcome{Failure: checkout.PayoutInvalidAddress, Generation: 1}, f.transfer(t, ref), "the first answer stays")
	f.end(t, ref, 1, checkout.PayoutInvalidAddress)
	require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
	require.Equal(t, checkout.PayoutInvalidAddress, f.transfer(t, ref).Failure)
}

func TestTransfer_OnlyOfItsModeAndNetworks(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.Mode = checkout.ModeTest
	require.ErrorIs(t, must.Err(f.Transfer(t.Context(), ref)), treasurer.ErrNoChain)
	f.Mode, f.Chains = checkout.ModeLive, nil
	require.ErrorIs(t, must.Err(f.Transfer(t.Context(), ref)), treasurer.ErrNoChain)
	require.ErrorIs(t, must.Err(f.Transfer(t.Context(), f.owner.Ref("po_none"))), checkout.ErrNotFound)
}

func TestTransfer_LimitsHoldWhenManyReachThemAtOnce(t *testing.T) {
	t.Parallel()
	const most = 3*10_692 + 10_691
	for name, c := range map[string]struct {
		limit func(f *fixture)
		want  checkout.PayoutHold
	}{
		"of a merchant":  {func(f *fixture) { f.Limits.MerchantDay = most }, checkout.HoldLimit},
		"of the account": {func(f *fixture) { f.Limits.Day = most }, checkout.HoldLimit},
		"the float": {func(f *fixture) {
			f.chain.take(money.USDC, 1_000_000_000_000-3*106_670_000-1_000)
		}, checkout.HoldFloat},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.limit(&f)
			var group errgroup.Group
			for range 12 {
				ref := f.usdc(t)
				group.Go(func() error {
					_, err := f.Transfer(t.Context(), ref)
					return err
				})
			}
			require.NoError(t, group.Wait())

			require.EqualValues(t, 9, f.query(t, `SELECT count(*) FROM payout WHERE hold = $1`, c.want))
			f.settle(t)
			require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM transfer WHERE status = 'confirmed'`))
			require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM transfer`))
		})
	}
}

func TestTransfer_OfAPayoutThatWasRetriedMeanwhile(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	before := must.Get(f.Store.Payouts.PayoutToSend(t.Context(), ref))(t)
	f.Exec(t, `UPDATE payout SET status = 'failed'`)
	f.retried(t, ref)

	_, err := f.Treasury.Transfer(t.Context(), before)

	require.ErrorIs(t, err, checkout.ErrConflict)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer`))
}

func TestRetryPayout_OnlyAfterAFailure(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPayoutNotFailed, "pending")
	f.send(t, ref)
	_, err := f.Store.Payouts.RetryPayout(t.Context(), ref)
	require.ErrorIs(t, err, checkout.ErrPayoutNotFailed, "sent")
	require.ErrorIs(t, err, checkout.ErrConflict)
	f.Exec(t, `UPDATE payout SET status = 'failed'`)
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrTransferStands, "a row that somebody changed by hand")
	require.ErrorIs(t, f.retryError(t, f.merchant(t, "0xOther").Ref(ref.ID)), checkout.ErrNotFound)
}

func TestFinishPayout_BelievesTheTransfers(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	require.ErrorIs(t, must.Err(f.Store.Payouts.FinishPayout(t.Context(), ref, 1, "")), checkout.ErrConflict, "nothing was signed")
	_ = f.transfer(t, ref)
	require.ErrorIs(t, must.Err(f.Store.Payouts.FinishPayout(t.Context(), ref, 1, checkout.PayoutNetworkError)), checkout.ErrTransferStands)
	f.end(t, ref, 1, "")
}

// eventTypes returns the types of the payout's events, oldest first.
func (f fixture) eventTypes(t *testing.T, ref checkout.Ref) (types []webhook.EventType) {
	p := f.read(t, ref)
	events := must.Get(f.Store.Webhooks.Events(t.Context(), ref.Owner, storage.EventFilter{SessionID: p.SessionID}, pg.Page{Limit: 100}))(t)
	for _, e := range slices.Backward(events) {
		if e.SubjectID == ref.ID {
			types = append(types, e.Type)
		}
	}
	return types
}

// A run that was believed dead gives up after another one has signed, before and after the end of the payout.
func TestHoldPayout_ComesTooLateForASignedPayout(t *testing.T) {
	f := newFixture(t)
	sent, signed := f.usdc(t), f.usdc(t)
	f.send(t, sent)
	_ = f.transfer(t, signed)
	for _, ref := range []checkout.Ref{sent, signed} {
		late := checkout.Payout{Ref: ref, Generation: 1}
		require.Zero(t, must.Get(f.Store.Payouts.HoldPayout(t.Context(), late, checkout.HoldFloat, 0))(t))
		require.Zero(t, must.Get(f.Store.Payouts.RefusePayout(t.Context(), late, checkout.PayoutInvalidAddress))(t))
		p := f.read(t, ref)
		require.Equal(t, []any{checkout.PayoutFailure(""), checkout.PayoutHold("")}, []any{p.Failure, p.Hold})
	}
}

// Time does not make it smaller. A retry waits again: its destination may be another one by then.
func TestTransfer_APayoutAboveTheLimitWaitsForAPerson(t *testing.T) {
	f := newFixture(t)
	ref, retried := f.usdc(t), f.usdc(t)
	f.Limits.Payout = 10_691
	for _, p := range []checkout.Ref{ref, retried} {
		f.held(t, p, checkout.HoldLarge)
		require.NoError(t, f.Store.Payouts.ReleasePayout(t.Context(), p, operators(p, "payout.released")))
		require.Equal(t, true, f.due(t, p))
	}
	f.send(t, ref)
	require.NoError(t, must.Err(f.Store.Payouts.RefusePayout(t.Context(), f.read(t, retried), checkout.PayoutInvalidAddress)))
	f.end(t, retried, 1, checkout.PayoutInvalidAddress)
	f.retried(t, retried)
	require.Equal(t, treasury.TransferOutcome{Held: checkout.HoldLarge, Generation: 2}, f.transfer(t, retried))
}

// Waiting for the account does not take every connection of the process.
func TestTransfer_ASlowSignerLeavesConnections(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	ref, id, store := f.usdc(t), f.account(t).ID, f.Open(t, 4)
	locks := must.Get(pgx.Connect(t.Context(), f.URL))(t)
	defer func() { _ = locks.Close(context.Background()) }()
	require.NoError(t, must.Err(locks.Exec(t.Context(), `BEGIN; SELECT FROM treasury_account FOR UPDATE`)))

	var waiting errgroup.Group
	for range 8 {
		waiting.Go(func() error { return store.Treasury.Freeze(t.Context(), id, "a drill") })
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := store.Payouts.Payout(ctx, ref)
		cancel()
		require.NoError(t, err)
	}
	canceled, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, store.Treasury.Freeze(canceled, id, "a drill"), context.DeadlineExceeded)
	require.LessOrEqual(t, f.query(t, `
		SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`), int64(2))
	require.NoError(t, must.Err(locks.Exec(t.Context(), `ROLLBACK`)))
	_ = waiting.Wait() // one freezes, and the others learn that, or have waited for too long
	require.NotNil(t, f.account(t).FrozenAt)
}
