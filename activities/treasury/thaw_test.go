package treasury_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

// The block at which the account was opened is the last one then, so it becomes final later. Its rounds only read.
func TestThaw_AYoungAccountWaitsUntilItsFirstBlockIsFinal(t *testing.T) {
	f := newFixture(t)
	f.chain.mine(1)
	f.sync(t)
	o := treasurer.ThawOrder{AccountID: f.account(t).ID}
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), o.AccountID, "a drill"))
	var early storage.NotFinalError
	require.ErrorAs(t, f.Thaw(t.Context(), o), &early)
	require.EqualError(t, early, "the ledger knows block 1, which is not final yet; the last final block is 0")
	require.Zero(t, early.Left, "nothing shows how fast the chain is")

	f.chain.mine(2)
	f.Exec(t, `UPDATE treasury_account SET created_at = now() - interval '24 seconds'`)
	require.ErrorAs(t, f.Thaw(t.Context(), o), &early)
	require.InDelta(t, 12, early.Left.Seconds(), 2, "two blocks in 24 s, and one block is missing")
	require.NotNil(t, f.account(t).FrozenAt)
	f.chain.mine(1)
	f.thaw(t)
}

// A chain that went back is not waited for: a person must find out why.
func TestThaw_RefusesAChainThatIsBehindTheLedger(t *testing.T) {
	for name, c := range map[string]struct {
		opened, mined, undone int
		want                  string
	}{
		"what was final is not": {1, 9, 5, "block 7 was final when the balances were compared, and the last final block is 5"},
		"it lost its blocks":    {9, 0, 4, "the ledger knows block 9, and the last block is 5"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			for _, blocks := range []int{c.opened, c.mined} {
				f.chain.mine(blocks)
				f.sync(t)
			}
			o := treasurer.ThawOrder{AccountID: f.account(t).ID}
			require.NoError(t, f.Store.Treasury.Freeze(t.Context(), o.AccountID, "a drill"))
			f.chain.undo(c.undone)
			require.EqualError(t, f.Thaw(t.Context(), o), "thaw: the chain is behind the ledger: "+c.want)
			require.ErrorIs(t, f.Thaw(t.Context(), o), storage.ErrBehind)
		})
	}
}

// The lost block leaves nonce, blocks and logs of a dead transfer, and balances of a payment: nothing is decided.
func TestSync_ADeathThatTheBalancesDenyIsNone(t *testing.T) {
	f, ref, _ := newLost(t)
	p := f.read(t, ref)
	for range 2 {
		got := f.sync(t)
		require.Equal(t, 0, got.Dead)
		require.Contains(t, got.Alarms, "the chain says that "+f.transferOf(t, ref)+" is dead, and the account lacks "+
			p.Amount.String()+" USDC: nothing is decided")
		f.chain.mine(1)
	}
	require.Contains(t, f.account(t).FrozenWhy, "a use of slot 0 without a transaction")
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPayoutNotFailed)
	require.ErrorIs(t, f.refundError(t, ref), checkout.ErrTransferStands)
}

// newLost returns an account whose node lost the block of a payment. It is frozen.
func newLost(t *testing.T) (f fixture, ref checkout.Ref, o treasurer.ThawOrder) {
	f = newFixture(t)
	f.settle(t)
	ref, _ = f.sent(t)
	f.chain.mine(f.chain.finality + 1)
	f.chain.forget()
	require.NotEmpty(t, f.sync(t).Frozen)
	return f, ref, treasurer.ThawOrder{AccountID: f.account(t).ID, By: merchant.AuditEntry{Actor: "operator", Action: "payout.recovered"}}
}

// requireShortage requires that a thaw is refused because of the payment of the payout and its gas.
func (f fixture) requireShortage(t *testing.T, o treasurer.ThawOrder, ref checkout.Ref) storage.ShortageError {
	var short storage.ShortageError
	require.ErrorAs(t, f.Thaw(t.Context(), o), &short)
	require.Len(t, short.Payments, 1)
	require.Equal(t, ref.ID, short.Payments[0].PayoutID)
	require.Contains(t, short.Error(), short.Payments[0].Amount.String()+" USDC")
	require.Contains(t, short.Error(), " ETH")
	require.NotNil(t, f.account(t).FrozenAt)
	return short
}

// requireSent requires that the payout is paid, once and for good.
func (f fixture) requireSent(t *testing.T, ref checkout.Ref) {
	for range 2 {
		f.chain.mine(1)
		got := f.sync(t)
		require.Empty(t, got.Frozen)
		require.Empty(t, got.Alarms)
	}
	require.Nil(t, f.account(t).FrozenAt)
	p := f.read(t, ref)
	require.Equal(t, checkout.PayoutSent, p.Status)
	require.NotNil(t, p.ConfirmedAt)
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPayoutNotFailed)
	require.ErrorIs(t, f.refundError(t, ref), checkout.ErrTransferStands)
	require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM audit_entry WHERE action = 'payout.recovered'`))
}

func TestThaw_RefusesWhileMoneyIsMissingThatNobodyNamed(t *testing.T) {
	f, ref, o := newLost(t)
	short := f.requireShortage(t, o, ref)
	require.Equal(t, checkout.PayoutSent, short.Payments[0].Status)
	for _, wrong := range []treasurer.ThawOrder{
		{AccountID: o.AccountID, Missing: money.PurseOf(money.MustCrypto("1", money.USDC))},
		{AccountID: o.AccountID, Missing: money.PurseOf(short.Payments[0].Amount)},
	} {
		require.ErrorAs(t, f.Thaw(t.Context(), wrong), &short)
	}
	other := f.payout(t, f.owner, 5_000, money.USDC)
	o.Paid = []string{other.ID}
	require.ErrorContains(t, f.Thaw(t.Context(), o), "no payment of "+other.ID+" is lost")

	found := f.recover(t, treasurer.RecoveryOrder{})
	require.Len(t, found, 1)
	require.Equal(t, []string{"", "the chain shows no transaction of this slot: thaw says what is missing"},
		[]string{found[0].TxHash, found[0].Why})
}

// callDead lets an earlier round have called the lost transfer dead, so its payout failed.
func (f fixture) callDead(t *testing.T, o treasurer.ThawOrder, ref checkout.Ref) {
	live := must.Get(f.Store.Treasury.LiveTransfers(t.Context(), o.AccountID, 1))(t)
	now := must.Get(f.chain.Snapshot(t.Context()))(t)
	now.FinalBalances[money.USDC] = money.MustCrypto("1000000", money.USDC)
	_, ended, err := f.Store.Treasury.EndTransfer(t.Context(), live[0], treasury.TransferSnapshot{State: treasury.TransferStateDead}, now)
	require.NoError(t, err)
	require.True(t, ended)
	require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
}

func TestThaw_APayoutThatTheMissingMoneyPaid(t *testing.T) {
	t.Parallel()
	for status, events := range map[checkout.PayoutStatus][]webhook.EventType{
		checkout.PayoutSent:   {webhook.PayoutSent},
		checkout.PayoutFailed: {webhook.PayoutSent, webhook.PayoutFailed, webhook.PayoutSent},
	} {
		t.Run(string(status), func(t *testing.T) {
			f, ref, o := newLost(t)
			if status == checkout.PayoutFailed {
				f.callDead(t, o, ref)
			}
			require.Equal(t, status, f.requireShortage(t, o, ref).Payments[0].Status)
			o.Paid = []string{ref.ID}
			require.NoError(t, f.Thaw(t.Context(), o))
			f.requireSent(t, ref)
			require.Equal(t, events, f.eventTypes(t, ref))
			require.Error(t, f.Thaw(t.Context(), o), "nothing is missing any more")
		})
	}
}

// The payout failed, its payment was refunded, and then a person learns that the missing money had paid the payout.
func TestThaw_ARefundedPayoutThatTheMissingMoneyPaid(t *testing.T) {
	f, ref, o := newLost(t)
	f.callDead(t, o, ref)
	f.Exec(t, `UPDATE treasury_account SET frozen_at = NULL, frozen_why = '', compared_at = now()`)
	require.NoError(t, must.Err(f.Store.Refunds.RefundPayout(t.Context(), ref)))
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), o.AccountID, "a test"))
	short := f.requireShortage(t, o, ref)
	require.Empty(t, f.findings(t))

	o.Paid = []string{ref.ID}
	for range 2 {
		require.ErrorIs(t, f.Thaw(t.Context(), o), checkout.ErrPaymentRefunded)
		require.Len(t, f.findings(t), 1)
		require.Equal(t, books.FindingRefundedAndPaid, f.findings(t)[0].Kind)
		require.Contains(t, f.findings(t)[0].Detail, "missing money paid "+ref.ID)
	}
	require.NotNil(t, f.account(t).FrozenAt)

	o.Paid, o.Missing = nil, parseShortage(short)
	require.NoError(t, f.Thaw(t.Context(), o))
	f.chain.mine(1)
	require.Empty(t, f.sync(t).Frozen)
	require.Len(t, f.findings(t), 1, "until a person has settled it")
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPaymentRefunded)
}

// A merchant's own refund hides no payment: the merchant owes it.
func TestThaw_APayoutThatTheMerchantRefundedMeanwhile(t *testing.T) {
	f, ref, o := newLost(t)
	f.callDead(t, o, ref)
	f.refundByMerchant(t, ref, 0)
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPaymentRefunded)
	require.Equal(t, ref.ID, f.requireShortage(t, o, ref).Payments[0].PayoutID)
	o.Paid = []string{ref.ID}
	require.NoError(t, f.Thaw(t.Context(), o))
	f.chain.mine(1)
	require.Empty(t, f.sync(t).Frozen)
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutSent, money.Amount(0)}, []any{p.Status, p.Deducted})
	require.Equal(t, money.Amount(9_900), f.owed(t))
	require.Equal(t, "9900", f.requireBooked(t)["merchant:payable EUR"])
	require.Empty(t, f.findings(t))
}

// parseShortage reads what a refused thaw names as missing.
func parseShortage(short storage.ShortageError) money.Purse {
	missing := money.Purse{}
	for part := range strings.SplitSeq(short.Missing, " and ") {
		amount, currency, _ := strings.Cut(part, " ")
		missing[money.PayoutCurrency(currency)] = money.MustCrypto(amount, money.PayoutCurrency(currency))
	}
	return missing
}

// A person confirms that the payee got nothing. Then chain and balances agree.
func TestThaw_MissingMoneyThatPaidNobody(t *testing.T) {
	f, ref, o := newLost(t)
	short := f.requireShortage(t, o, ref)
	o.Missing = parseShortage(short)
	require.NoError(t, f.Thaw(t.Context(), o))
	f.chain.mine(1)
	got := f.sync(t)
	require.Equal(t, 1, got.Dead)
	require.Empty(t, got.Frozen, "a person has looked already")
	require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
	f.retried(t, ref)
	f.confirms(t, ref)
	f.requireBooked(t)
}

// A loss that is named twice, or too large, would leave the ledger short of the balance.
func TestThaw_ALossThatIsNotMissingIsNone(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	f.sync(t)
	o := treasurer.ThawOrder{AccountID: f.account(t).ID, Missing: money.PurseOf(money.MustCrypto("5", money.USDC))}
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), o.AccountID, "a test"))
	require.ErrorIs(t, f.Thaw(t.Context(), o), checkout.ErrConflict)
	f.chain.take(money.USDC, 5_000_000)
	f.chain.mine(f.chain.finality + 1)
	o.Missing[money.ETH] = money.MustCrypto("1", money.ETH)
	require.ErrorIs(t, f.Thaw(t.Context(), o), checkout.ErrConflict)
	require.NotNil(t, f.account(t).FrozenAt)
	delete(o.Missing, money.ETH)
	require.NoError(t, f.Thaw(t.Context(), o))
	require.Equal(t, "5000000", f.requireBooked(t)["suspense USDC"])
	require.ErrorIs(t, f.Thaw(t.Context(), o), checkout.ErrConflict, "once")
	f.requireBooked(t)
}
