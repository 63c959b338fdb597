package bitcoin

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/treasury"
)

// TestBump_KeepsCoinsAndOutputs: any of the versions may be mined, and only one.
func TestBump_KeepsCoinsAndOutputs(t *testing.T) {
	r := newRig(t, "0.3", "0.3", "0.3")
	c := r.open()
	first := r.signed(c, "0.2", "0.25")
	require.Len(t, first.Slot, 2)
	require.NoError(t, c.Send(t.Context(), first))
	require.ErrorIs(t, must.Err(c.Bump(t.Context(), first)), treasury.ErrNotStuck, "blocks may still take it")

	r.mineNothing(9)
	require.ErrorIs(t, must.Err(c.Bump(t.Context(), first)), treasury.ErrNotStuck, "size costs no more now")
	r.market.Set("0.00020000")
	second := r.bumped(c, first)
	require.Equal(t, first.Slot, second.Slot)
	require.Equal(t, first.Outputs, second.Outputs)
	require.Equal(t, first.Fee, second.Fee, "the change pays")
	was, is := r.terms(first.TransferPlan), r.terms(second.TransferPlan)
	require.Greater(t, is.Fee, 15*was.Fee)
	require.Equal(t, is.Fee-was.Fee, was.Change[0].Sats-is.Change[0].Sats)
	require.Equal(t, []string{second.TxHash}, r.pool())
	require.Error(t, c.Send(t.Context(), first))
	r.sees(c, treasury.TransferStatePending, first, second)

	r.mine(6)
	seen := r.sees(c, treasury.TransferStateConfirmed, first, second)
	require.Equal(t, second.TxHash, seen.TxHash)
	require.Equal(t, second.MaxCost, seen.Cost)
	out := r.outflows(c)
	require.Len(t, out.All, 2, "what was replaced is no outflow")
	require.Equal(t, second.TxHash, out.All[0].TxHash)
	require.Equal(t, second.MaxCost, out.All[0].Cost)
	require.False(t, out.All[1].Cost.Known())
}

// Fees rise 20 times, twice.
func TestBump_WithinTheBudget(t *testing.T) {
	r := newRig(t, "1")
	c := r.open(func(o *Options) { o.MaxFeeRate = 10_000 })
	r.market.Set("0.00005000")
	first := r.sent(c, "0.005")
	r.mineNothing(9)
	r.market.Set("0.00100000")
	second := r.bumped(c, first)
	r.market.Set("0.02000000")
	require.ErrorIs(t, must.Err(c.Bump(t.Context(), second)), treasury.ErrNotStuck, "each version has its time")
	r.mineNothing(9)
	third := r.bumped(c, second)
	require.Equal(t, "0.00050000", third.MaxCost.String(), "10 % of the payout")
	r.mineNothing(9)
	require.ErrorIs(t, must.Err(c.Bump(t.Context(), third)), treasury.ErrFeeTooHigh)
	require.Equal(t, []string{third.TxHash}, r.pool())
}

// The payees get nothing, and the coins come back less the fee.
func TestCancel_PaysTheWallet(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	v := r.sent(c, "0.2", "0.25")
	canceled := r.canceled(c, v)
	require.Equal(t, v.Slot, canceled.Slot)
	require.True(t, canceled.Cancels)
	require.Empty(t, canceled.Outputs)
	require.Equal(t, []string{canceled.TxHash}, r.pool())
	r.mine(6)
	seen := r.sees(c, treasury.TransferStateCanceled, v, canceled)
	require.Equal(t, canceled.MaxCost, seen.Cost)
	left := btc("1").Sub(canceled.MaxCost).String()
	require.Equal(t, [2]string{left, left}, r.has(c))
	out := r.outflows(c)
	require.Len(t, out.All, 1)
	require.Equal(t, canceled.TxHash, out.All[0].TxHash)
	require.False(t, out.All[0].Moved())
	require.Equal(t, canceled.MaxCost, out.All[0].Cost)
}

// The version that pays nobody is much smaller than the replaced one, and pays a higher fee.
func TestCancel_ALargeBatch(t *testing.T) {
	r := newRig(t, "1")
	c := r.open(func(o *Options) { o.MaxFeeRate = 30 })
	r.market.Set("0.00020000")
	v := r.sent(c, slices.Repeat([]string{"0.01"}, 30)...)
	r.canceled(c, v)
}

// TestChain_AFullCacheForgetsNoQuestion: the addresses of one question are answered together.
func TestChain_AFullCacheForgetsNoQuestion(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	var ours string
	r.call(wallet, &ours, "getrawchangeaddress", "bech32")
	ask := []string{ours, r.payee("bech32")}
	want := map[string]bool{ask[0]: true, ask[1]: false}
	for i := range 100_001 {
		c.ours[strconv.Itoa(i)] = false
	}
	c.ours[ours] = true
	require.Equal(t, want, must.Get(c.ownAddresses(t.Context(), ask...))(t))
}
