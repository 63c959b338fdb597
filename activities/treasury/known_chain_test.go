package treasury_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// refund orders a refund as the command does.
func (f fixture) refund(ctx context.Context, ref checkout.Ref) error {
	if err := f.Compare(ctx); err != nil {
		return err
	}
	_, err := f.Store.Refunds.RefundPayout(ctx, ref)
	return err
}

// refundByMerchant orders a refund as the merchant does; 0 is all that is left.
func (f fixture) refundByMerchant(t *testing.T, payout checkout.Ref, amount money.Amount) {
	require.NoError(t, must.Err(f.Store.Refunds.OrderRefund(t.Context(), storage.RefundOrder{
		ID: checkout.NewID(checkout.PrefixRefund), Session: payout.Owner.Ref(f.read(t, payout).SessionID), Amount: amount,
	})))
}

// owed returns what the merchant owes.
func (f fixture) owed(t *testing.T) money.Amount {
	debts := must.Get(f.Store.Payouts.Debts(t.Context(), f.owner))(t)
	if len(debts) == 0 {
		return 0
	}
	require.Len(t, debts, 1)
	return debts[0].Owed
}

// refunds returns the refunds of the merchant, newest first.
func (f fixture) refunds(t *testing.T) []checkout.Refund {
	return must.Get(f.Store.Refunds.Refunds(t.Context(), f.owner, storage.RefundFilter{}, pg.Page{Limit: 10}))(t)
}

// maySend returns why the newest refund is not sent.
func (f fixture) maySend(t *testing.T) error {
	return must.Err(f.Store.Refunds.RefundToSend(t.Context(), f.refunds(t)[0].Ref))
}

func TestRefundPayout_IsRefusedUnlessTheChainIsKnown(t *testing.T) {
	f := newFixture(t)
	before := f.usdc(t)
	f.open(t, f.Treasury)
	_, err := f.Store.Refunds.RefundPayout(t.Context(), before)
	require.ErrorIs(t, err, storage.ErrNotCompared, "the account is younger than the payout")
	require.NotErrorIs(t, err, storage.ErrNotComparedLately, "that does not pass")

	ref := f.usdc(t)
	for _, old := range []string{"NULL", "now() - interval '61 seconds'"} {
		f.Exec(t, `UPDATE treasury_account SET compared_at = `+old)
		_, err = f.Store.Refunds.RefundPayout(t.Context(), ref)
		require.ErrorIs(t, err, storage.ErrNotCompared)
		require.ErrorIs(t, err, storage.ErrNotComparedLately)
	}
	f.Exec(t, `UPDATE treasury_account SET compared_at = NULL`)
	f.chain.foreign(t, 0, 5_000_000)
	require.ErrorIs(t, f.refund(t.Context(), ref), storage.ErrFrozen, "the chain has a nonce that no transfer has")
	require.Nil(t, f.query(t, `SELECT compared_at FROM treasury_account`))

	f.Exec(t, `UPDATE treasury_account SET next_nonce = 1, frozen_at = NULL, frozen_why = ''`)
	require.NoError(t, f.refund(t.Context(), ref))
	// The order is in a backup, whose chain is not known: the worker does not send it.
	require.NoError(t, f.maySend(t))
	f.Exec(t, `UPDATE treasury_account SET compared_at = now() - interval '61 seconds'`)
	require.ErrorIs(t, f.maySend(t), storage.ErrNotCompared)
	f.Exec(t, `UPDATE refund SET network_ref = 're_1'`)
	require.NoError(t, f.maySend(t), "the card network has it already")
}

// The old account may have paid, too. What nobody compares any more must be frozen, and compared afterwards.
func TestRefundPayout_AReplacedAccountMustBeFrozen(t *testing.T) {
	f := newFixture(t)
	f.open(t, f.Treasury)
	ref := f.usdc(t)
	old := must.Get(f.Accounts(t.Context()))(t)
	f.chain.account.Address = "0xNew"
	require.ErrorIs(t, f.refund(t.Context(), ref), storage.ErrNotCompared)
	require.Equal(t, checkout.HoldFrozen, f.transfer(t, ref).Held)
	accounts := f.accounts(t)
	require.Equal(t, "what waits may be paid by "+old[0].ID, accounts[1].FrozenWhy)
	thaw := treasurer.ThawOrder{AccountID: accounts[1].ID}
	require.ErrorIs(t, f.Thaw(t.Context(), thaw), storage.ErrOtherAccount)
	f.chain.account.Address = "0xTreasury"
	require.ErrorIs(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: old[0].ID, Retire: true}), storage.ErrNotFrozen)
	f.chain.account.Address = "0xNew"
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), old[0].ID, "its key is stolen"))
	require.ErrorIs(t, f.Thaw(t.Context(), thaw), storage.ErrOtherAccount, "it paid something before")
	f.chain.account.Address = "0xTreasury"
	f.retire(t, old[0].ID) // by a command with the old settings
	f.chain.account.Address = "0xNew"
	require.NoError(t, f.Thaw(t.Context(), thaw))
	require.NoError(t, f.refund(t.Context(), ref))
}

// A wrong setting made another account for a moment.
func TestRefundPayout_AfterAWayBackToAnEarlierAccount(t *testing.T) {
	f := newFixture(t)
	f.open(t, f.Treasury)
	ref := f.usdc(t)
	f.chain.account.Address = "0xWrong"
	f.open(t, f.Treasury)
	accounts := f.accounts(t)
	require.Len(t, accounts, 2)
	require.NotNil(t, accounts[1].FrozenAt)
	f.retire(t, accounts[1].ID)
	f.chain.account.Address = "0xTreasury"
	require.NoError(t, f.refund(t.Context(), ref))
}

// A command with a wrong setting opens no account.
func TestCompare_OpensNoAccount(t *testing.T) {
	f := newFixture(t)
	f.open(t, f.Treasury)
	ref, id := f.usdc(t), f.account(t).ID
	f.chain.account.Address = "0xWrong"
	err := f.refund(t.Context(), ref)
	require.ErrorIs(t, err, storage.ErrNotCompared)
	require.ErrorContains(t, err, "no worker has followed 0xWrong")
	require.Equal(t, id, f.account(t).ID)
	_, err = f.Recover(t.Context(), treasurer.RecoveryOrder{AccountID: id})
	require.ErrorIs(t, err, treasurer.ErrOtherSettings)
	require.ErrorContains(t, err, "0xTreasury")
	f.chain.account.Address = "0xTreasury"
	require.NoError(t, f.refund(t.Context(), ref))
}

// The chain of a lost wallet cannot be asked: the account is retired on a person's word.
func TestRetireByHand_LetsTheNextAccountSign(t *testing.T) {
	f := newFixture(t)
	f.open(t, f.Treasury)
	ref, old := f.usdc(t), f.account(t).ID
	f.chain.account.Address = "0xNew"
	require.Equal(t, checkout.HoldFrozen, f.transfer(t, ref).Held)
	require.ErrorIs(t, f.Store.Treasury.RetireByHand(t.Context(), old, "its wallet is lost"), storage.ErrNotFrozen)
	require.ErrorIs(t, f.Store.Treasury.RetireByHand(t.Context(), "tre_none", "its wallet is lost"), checkout.ErrNotFound)
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), old, "a drill"))
	require.NoError(t, must.Err(f.Store.Books.ReconcileLedger(t.Context(), checkout.ModeLive)))
	require.Len(t, f.findings(t), 2, "both are frozen")
	require.NoError(t, f.Store.Treasury.RetireByHand(t.Context(), old, "its wallet is lost"))
	require.NoError(t, must.Err(f.Store.Books.ReconcileLedger(t.Context(), checkout.ModeLive)))
	accounts := f.accounts(t)
	require.Equal(t, "a drill; retired by hand: its wallet is lost", accounts[0].FrozenWhy)
	require.NotNil(t, accounts[0].RetiredAt)
	require.Equal(t, accounts[1].ID, f.findings(t)[0].Subject, "the retired one needs nobody any longer")
	require.Len(t, f.findings(t), 1)
	require.NoError(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: accounts[1].ID}))
	f.Exec(t, `UPDATE payout SET next_action_at = now()`)
	f.send(t, ref)
}

// Workers start with different settings, and people thaw, at the same time.
func TestOpenTreasury_OfTwoAtOnceOneSigns(t *testing.T) {
	f := newFixture(t)
	const signs = `SELECT count(*) FROM treasury_account WHERE frozen_at IS NULL`
	for range 10 {
		f.Exec(t, `DELETE FROM treasury_account`)
		var group errgroup.Group
		for _, address := range []string{"0xOne", "0xTwo", "0xThree", "0xFour"} {
			account := f.chain.Account()
			account.Address = address
			group.Go(func() error {
				_, err := f.Store.Treasury.OpenTreasury(t.Context(), f.Mode, account, treasury.AccountSnapshot{})
				return err
			})
		}
		require.NoError(t, group.Wait())
		require.EqualValues(t, 4, f.query(t, `SELECT count(*) FROM treasury_account`))
		require.EqualValues(t, 1, f.query(t, signs))

		f.Exec(t, `UPDATE treasury_account SET frozen_at = now(), frozen_why = 'a drill', retired_at = now()`)
		accounts := f.accounts(t)
		for _, a := range accounts {
			group.Go(func() error {
				err := f.Store.Treasury.Thaw(t.Context(), storage.ThawOrder{AccountID: a.ID})
				if errors.Is(err, storage.ErrOtherAccount) {
					err = nil
				}
				return err
			})
		}
		require.NoError(t, group.Wait())
		require.EqualValues(t, 1, f.query(t, signs))
	}
}

// After any freeze the transfers may lack outflows from the next block on.
func TestFreeze_EveryKindStopsRefunds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		freeze func(t *testing.T, f fixture)
		why    string
	}{
		"a person": {func(t *testing.T, f fixture) {
			f.freeze(t, "a drill")
		}, "a drill"},
		"a signature that sees a nonce in the pool which no transfer has": {func(t *testing.T, f fixture) {
			f.chain.foreign(t, 0, 5_000_000)
			require.Equal(t, checkout.HoldFrozen, f.transfer(t, f.usdc(t)).Held)
		}, "a transaction uses slot 0"},
		"a round that sees such a nonce": {func(t *testing.T, f fixture) {
			f.chain.foreign(t, 0, 5_000_000)
			require.NotEmpty(t, f.sync(t).Frozen)
		}, "a transaction uses slot 0"},
		"missing money": {func(t *testing.T, f fixture) {
			f.chain.take(money.USDC, 1)
			f.sync(t)
			f.chain.mine(1)
			f.sync(t)
		}, "the balance is below the ledger by 0.000001 USDC"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.settle(t)
			ref := f.usdc(t)
			c.freeze(t, f)
			require.Contains(t, f.account(t).FrozenWhy, c.why)
			require.ErrorIs(t, f.refund(t.Context(), ref), storage.ErrFrozen)
			require.Equal(t, true, f.query(t, `SELECT unexplained_block <= next_block FROM treasury_account`))
		})
	}
}

// The backup has a refund of a payout, which failed later: the payout was retried, and the chain has paid it.
func TestRecover_FindsWhatIsRefundedToo(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	ref := f.usdc(t)
	require.NoError(t, f.refund(t.Context(), ref))
	f.lose(t, func() {
		require.NoError(t, must.Err(f.Store.Refunds.RecordRefund(t.Context(), f.refunds(t)[0], checkout.RefundResult{Status: checkout.RefundFailed})))
		f.retried(t, ref)
		f.send(t, ref)
	})
	f.Exec(t, `UPDATE refund SET status = 'pending', ended_at = NULL`)
	f.Exec(t, `UPDATE finding SET closed_at = now()`)
	f.sync(t)
	require.ErrorIs(t, f.maySend(t), storage.ErrFrozen, "nothing goes back meanwhile")

	found := f.recover(t, treasurer.RecoveryOrder{})
	require.Equal(t, "its payment is refunded too: the customer and the merchant both have the money", found[0].Why)
	findings := f.findings(t)
	require.Len(t, findings, 1)
	require.Equal(t, books.FindingRefundedAndPaid, findings[0].Kind)
	require.Contains(t, findings[0].Detail, found[0].TxHash)
	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)

	// The customer's bank returns the refund: the merchant alone has the money.
	require.NoError(t, must.Err(f.Store.Refunds.RecordRefund(t.Context(), f.refunds(t)[0], checkout.RefundResult{Status: checkout.RefundFailed, Reference: "re_1", Amount: 10_000})))
	findings = f.findings(t)
	require.Len(t, findings, 1)
	require.Equal(t, books.FindingRefundFailed, findings[0].Kind)
	f.retried(t, ref)
	f.recovered(t, treasurer.RecoveryOrder{})
}

// The chain paid the payout in the lost time. Meanwhile the merchant refunds the payment, or a part of it.
func TestRecover_WhatTheMerchantRefundedMeanwhileIsOwed(t *testing.T) {
	t.Parallel()
	for amount, want := range map[money.Amount]struct {
		status     checkout.PayoutStatus
		generation int
		owed       money.Amount
	}{
		0:     {checkout.PayoutFailed, 2, 9_900},
		4_000: {checkout.PayoutPending, 1, 3_960},
	} {
		f := newSerialFixture(t)
		f.sync(t)
		ref := f.usdc(t)
		f.lose(t, func() { f.send(t, ref) })
		f.sync(t)
		f.refundByMerchant(t, ref, amount)
		require.Equal(t, want.status, f.read(t, ref).Status)
		require.Zero(t, f.owed(t))

		f.recovered(t, treasurer.RecoveryOrder{})
		p := f.read(t, ref)
		require.Equal(t, []any{checkout.PayoutSent, want.generation, money.Amount(0)}, []any{p.Status, p.Generation, p.Deducted})
		require.Equal(t, "106.920000", p.Amount.Add(p.Fee).String(), "it was paid whole")
		require.Equal(t, want.owed, f.owed(t))
		require.Empty(t, f.findings(t))
		f.thaw(t)
		f.settle(t)
		require.Equal(t, strconv.Itoa(int(want.owed)), f.requireBooked(t)["merchant:payable EUR"])
	}
}

// replaceKey gives the worker another account, which has sent nothing. It returns the chain as the old one sees it.
func (f fixture) replaceKey() (old *fakeChain, now fixture) {
	old, f.chain = f.chain, newFakeChain(2, wealth)
	if old.ofCoins() {
		f.chain = newCoinChain(3, 100_000_000, soon)
	}
	f.chain.account.Address = "0xNew"
	f.chain.mine(len(old.blocks) - len(f.chain.blocks))
	f.use(f.chain)
	return old, f
}

func (f *fixture) use(chain *fakeChain) {
	f.chain, f.Chains = chain, map[string]treasury.Chain{chain.account.Network: chain}
}

func (f fixture) retire(t *testing.T, account string) {
	require.NoError(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: account, Retire: true}))
}

// replaced is an account whose key is replaced by the book.
func (f fixture) replaced(t *testing.T) {
	id := f.account(t).ID
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), id, "its key is replaced"))
	f.retire(t, id)
}

// kinds are fixtures of both kinds of chains.
var kinds = map[string]func(*testing.T) fixture{
	"nonces": newFixture,
	"coins":  func(t *testing.T) fixture { return newOnCoins(t, 3, soon) },
}

// The account of the backup has paid in the lost time, and its key is replaced at once.
func TestOpenTreasury_ANewAccountSignsNothingThatALostTransferPaid(t *testing.T) {
	t.Parallel()
	for kind, world := range kinds {
		t.Run(kind, func(t *testing.T) {
			f := world(t)
			f.settle(t)
			ref, id := f.order(t, 10_000), f.account(t).ID
			f.lose(t, func() { f.pay(t, ref) })
			old, f := f.replaceKey()
			waits := f.order(t, 20_000)

			require.Zero(t, f.sync(t).Signed)
			for _, p := range []checkout.Ref{ref, waits} {
				require.Equal(t, checkout.HoldFrozen, f.transfer(t, p).Held)
			}
			thaw := treasurer.ThawOrder{AccountID: f.accounts(t)[1].ID}
			require.ErrorIs(t, f.Thaw(t.Context(), thaw), storage.ErrOtherAccount)
			require.NoError(t, f.Store.Treasury.Freeze(t.Context(), id, "a backup is restored"))

			replacement := f.chain
			f.use(old)
			f.sync(t)
			require.ErrorIs(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: id, Retire: true}), treasurer.ErrUnrecovered)
			f.recovered(t, treasurer.RecoveryOrder{AccountID: id})
			require.Equal(t, 1, f.sync(t).Confirmed)
			f.retire(t, id)
			f.requirePaidOnce(t, ref)
			f.use(replacement)
			require.NoError(t, f.Thaw(t.Context(), thaw))
			f.confirms(t, waits)
			payments, _ := f.chain.paid()
			require.Len(t, payments, 1, "each payout was paid once")
		})
	}
}

// The backup lacks the account that replaced another one and has paid a pending payout. On a chain with coins, its
// spent coins freeze it, and so do its final payments since the other account was compared.
func TestOpenTreasury_ALostAccountSignsNothingAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   string
		run    bool // comes before a round
		blocks int
	}{
		"a run": {"nonces", true, 4}, "a round": {"nonces", false, 4},
		"a round, with coins": {"coins", false, 4}, "coins in the pool": {"coins", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := kinds[c.kind](t)
			f.settle(t)
			ref := f.order(t, 10_000)
			f.replaced(t)
			restore := f.backup(t)
			_, f = f.replaceKey()
			f.pay(t, ref)
			f.chain.mine(c.blocks)
			restore()

			waits := f.order(t, 20_000)
			if !c.run {
				require.NotEmpty(t, f.sync(t).Frozen)
			}
			for _, p := range []checkout.Ref{ref, waits} {
				require.Equal(t, checkout.HoldFrozen, f.transfer(t, p).Held)
				require.ErrorIs(t, f.refund(t.Context(), p), storage.ErrFrozen)
			}
			f.chain.mine(4 - c.blocks)
			f.sync(t)
			o := treasurer.ThawOrder{AccountID: f.accounts(t)[1].ID}
			require.ErrorIs(t, f.Thaw(t.Context(), o), treasurer.ErrUnrecovered, "the blocks since the other one's are read")
			require.Equal(t, ref.ID, f.recovered(t, treasurer.RecoveryOrder{AccountID: o.AccountID}).Payout)
			require.Equal(t, 1, f.sync(t).Confirmed)
			require.NoError(t, f.Thaw(t.Context(), o))
			f.confirms(t, waits)
			require.Empty(t, f.sync(t).Alarms)
			f.requirePaidOnce(t, ref, waits)
		})
	}
}

// The backup is of a moment at which the account was retired. It was thawed, and has paid since.
func TestFreeze_ARetiredAccountIsLookedAtOnceMore(t *testing.T) {
	f := newFixture(t)
	f.settle(t)
	ref := f.usdc(t)
	f.replaced(t)
	f.lose(t, func() {
		f.thaw(t)
		f.send(t, ref)
	})
	require.ErrorIs(t, f.Store.Treasury.Freeze(t.Context(), f.account(t).ID, "a backup is restored"), storage.ErrFrozen)
	_, f = f.replaceKey()
	require.Equal(t, checkout.HoldFrozen, f.transfer(t, ref).Held)
}

// This holds for a chain's first account too. The block of its first payment is unknown, so it is only frozen.
func TestOpenTreasury_TheFirstAccountIsFrozenWhenItHasPaid(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.lose(t, func() { f.send(t, ref) })
	require.Equal(t, checkout.HoldFrozen, f.transfer(t, ref).Held)
	require.ErrorIs(t, f.refund(t.Context(), ref), storage.ErrNotCompared)
}

// An account that was used before the service had a payment is taken as it is.
func TestOpenTreasury_AUsedAccountMayBegin(t *testing.T) {
	f := newFixture(t)
	f.chain.foreign(t, 0, 5_000_000)
	require.Empty(t, f.sync(t).Frozen)
	f.send(t, f.usdc(t))
}
