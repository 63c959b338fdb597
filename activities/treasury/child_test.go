package treasury_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// restricted is the version of the transactions of transfers.
const restricted = 3

// batch signs one transfer of nine payouts of 99 EUR and one of 495 EUR, the last one.
func (f onBitcoin) batch(t *testing.T) (refs []checkout.Ref) {
	t.Helper()
	for _, amount := range append(slices.Repeat([]money.Amount{10_000}, 9), 50_000) {
		refs = append(refs, f.payout(t, f.owner, amount, money.BTC))
	}
	f.signAll(t, refs)
	return refs
}

func (f onBitcoin) signAll(t *testing.T, refs []checkout.Ref) {
	t.Helper()
	require.Equal(t, len(refs), f.sync(t).Signed)
	for _, ref := range refs {
		f.send(t, ref)
	}
}

// spend lets the payee of a payout spend its output of the transfer before a block has it.
func (f onBitcoin) spend(t *testing.T, ref checkout.Ref, c chains.Child) error {
	t.Helper()
	v, _, err := f.Store.Treasury.StandingTransfer(t.Context(), ref)
	require.NoError(t, err)
	i := slices.IndexFunc(v.Outputs, func(o treasury.TransferOutput) bool { return o.PayoutID == ref.ID })
	_, err = f.node.Spend(t.Context(), "merchant", v.Raw, i, c)
	return err
}

// mineOnly adds blocks: one with these transactions, and empty ones.
func (f onBitcoin) mineOnly(t *testing.T, blocks int, transactions ...string) {
	t.Helper()
	for range blocks {
		require.NoError(t, f.node.Call(t.Context(), "", nil, "generateblock", minerAddress, append([]string{}, transactions...)))
		transactions = nil
	}
}

// held returns a batch under a payee's child, a later batch, and what the round reports about the first.
func (f onBitcoin) held(t *testing.T, c chains.Child, rate string) (held, others []checkout.Ref, round treasurer.AccountResult) {
	t.Helper()
	held = f.batch(t)
	require.NoError(t, f.spend(t, held[9], c))
	f.market.Set(rate)
	f.mineOnly(t, 4)
	others = f.batch(t)
	f.mineOnly(t, 6, f.read(t, others[0]).TxHash)
	return held, others, f.sync(t)
}

// The child is as large and cheap as possible. The account goes on, and the next version replaces both transactions.
func TestBitcoin_APayeeHoldsABatchWithAChild(t *testing.T) {
	f := newOnBitcoin(t, 4)
	held, others, round := f.held(t, chains.Child{Version: restricted, Size: 978, Fee: 1_000}, "0.00020000")
	require.Equal(t, []any{1, []string(nil)}, []any{round.Confirmed, round.Alarms})
	require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM transfer_version`))
	f.mine(t, 6)
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.requirePaidOnce(t, append(held, others...))
}

// aboveTheBudget pays nearly 10 % of a batch, at 97 satoshis for a virtual byte of both.
var aboveTheBudget = chains.Child{Version: restricted, Size: 978, Fee: 138_500}

// The account goes on meanwhile. When the price falls, miners take the transfer with the child. Everybody is paid once.
func TestBitcoin_APayeeHoldsABatchAboveItsBudget(t *testing.T) {
	f := newOnBitcoin(t, 4)
	held, others, round := f.held(t, aboveTheBudget, "0.00100000")
	require.Equal(t, 1, round.Confirmed)
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM transfer_version`))
	require.Equal(t, []string{f.transferOf(t, held[0]) + " blocks the account: the network's fee is above the limit"}, round.Alarms)
	f.mine(t, 6)
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.requirePaidOnce(t, append(held, others...))
}

// An operator depends on no payee. Everybody is paid once, by another transfer.
func TestBitcoin_ACancellationFreesABatchThatAPayeeHolds(t *testing.T) {
	f := newOnBitcoin(t, 4)
	held, others, _ := f.held(t, aboveTheBudget, "0.00100000")
	payouts, err := f.Store.Treasury.CancelTransfer(t.Context(), f.transferOf(t, held[0]), merchant.AuditEntry{Actor: "operator",
		Action: "transfer.canceled"})
	require.NoError(t, err)
	require.Len(t, payouts, 10)
	require.Equal(t, 1, f.sync(t).Bumped)
	f.mine(t, 6)
	require.Equal(t, 1, f.sync(t).Canceled)
	f.market.Set("0.00002000")
	for _, ref := range held {
		require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
		f.retried(t, ref)
	}
	f.signAll(t, held)
	f.mine(t, 6)
	f.sync(t)
	f.requirePaidOnce(t, append(held, others...))
}
