package bitcoin

import (
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/chains"
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

// spends gives the node a child of a payee that spends its output of a transfer.
func (r *rig) spends(v treasury.TransferVersion, output int, c chains.Child) error {
	_, err := r.node.Spend(r.Context(), chains.Miner, v.Raw, output, c)
	return err
}

func (r *rig) sent(c *Chain, gross ...string) treasury.TransferVersion {
	v := r.signed(c, gross...)
	require.NoError(r, c.Send(r.Context(), v))
	return v
}

// old returns a transfer as 1.0.0 signed it.
func (r *rig) old(c *Chain, gross ...string) treasury.TransferVersion {
	plan := r.planned(c, gross...)
	t := r.terms(plan)
	t.Version = 0
	plan.Terms = must.Get(t.encode())(r)
	v := r.sign(c, plan)
	require.NoError(r, c.Send(r.Context(), v))
	return v
}

// requirePaid requires that a block has a version of a transfer, and that each payee was paid once.
func (r *rig) requirePaid(c *Chain, versions ...treasury.TransferVersion) {
	r.mine(6)
	r.sees(c, treasury.TransferStateConfirmed, versions...)
	for _, o := range versions[0].Outputs {
		require.Equal(r, o.Amount.String(), r.received(o.Destination))
	}
}

// Miners take the child with the transfer. The next version replaces both, within the budget of 20,000 satoshis.
func TestBump_AChildThatPaysForBoth(t *testing.T) {
	t.Parallel()
	for fee, raised := range map[int64]string{18_000: "0.00018344", 25_000: "", 70_000: ""} {
		t.Run(strconv.FormatInt(fee, 10), func(t *testing.T) {
			r := newRig(t, "1")
			c := r.open()
			v := r.sent(c, "0.0015")
			require.NoError(t, r.spends(v, 0, chains.Child{Version: restricted, Size: chains.SmallChild, Fee: fee}))
			r.market.Set("0.00020000")
			r.mineNothing(17)
			require.ErrorIs(t, must.Err(c.Bump(t.Context(), v)), treasury.ErrNotStuck)

			r.mineNothing(1)
			plan, err := c.Bump(t.Context(), v)
			if raised == "" {
				require.ErrorIs(t, err, treasury.ErrFeeTooHigh)
				r.requirePaid(c, v)
				return
			}
			require.NoError(t, err)
			require.Equal(t, raised, plan.MaxCost.String())
			next := r.sign(c, plan)
			require.NoError(t, c.Send(t.Context(), next))
			require.Equal(t, []string{next.TxHash}, r.pool())
			r.requirePaid(c, v, next)
		})
	}
}

// A cancellation depends on no payee.
func TestCancel_AChildAboveTheBudget(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	v := r.sent(c, "0.0015", "0.002")
	require.NoError(t, r.spends(v, 1, chains.Child{Version: restricted, Size: chains.SmallChild, Fee: 70_000}))
	canceled := r.canceled(c, v)
	require.Equal(t, []string{canceled.TxHash}, r.pool())
	r.mine(6)
	r.sees(c, treasury.TransferStateCanceled, v, canceled)
	require.Equal(t, "0.00000000", r.received(v.Outputs[1].Destination))
}

// Nodes relay small children only, one at a time. The next version pays the price of its own size at most.
func TestBump_ALargeChildAtALowPrice(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	v := r.sent(c, "0.02", "0.03", "0.01", "0.0015")
	for large, refused := range map[chains.Child]string{
		{Version: unrestricted, Size: 25_000, Fee: 25_000}:         "cannot spend from version=3 tx",
		{Version: unrestricted, Size: chains.SmallChild, Fee: 110}: "cannot spend from version=3 tx",
		{Version: restricted, Size: 1_009, Fee: 1_009}:             "> 1000 virtual bytes",
		{Version: restricted, Size: 98_000, Fee: 98_000}:           "is too big",
	} {
		require.ErrorContains(t, r.spends(v, 1, large), refused, large)
	}
	require.NoError(t, r.spends(v, 1, chains.Child{Version: restricted, Size: 978, Fee: 1_000}))
	require.ErrorContains(t, r.spends(v, 0, chains.Child{Version: restricted, Size: chains.SmallChild, Fee: 500}), "insufficient fee", "it would replace that of the other payee")

	r.mineNothing(9)
	r.market.Set("0.00020000")
	next := r.bumped(c, v)
	require.Equal(t, "0.00005300", next.MaxCost.String())
	require.Equal(t, []string{next.TxHash}, r.pool())
	r.requirePaid(c, v, next)
}

// Prices keep doubling, and a payee spends each version just below them. The transfer never costs more than the budget.
func TestBump_AChildOfEveryVersion(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	all := []treasury.TransferVersion{r.sent(c, "0.0015")}
	var fees []string
	for price := rate(2_000); price <= 64_000; price *= 2 {
		last := all[len(all)-1]
		fee := int64(price.of(1_150)) - r.terms(last.TransferPlan).Fee - 50 // both are 1,150 vB
		require.NoError(t, r.spends(last, 0, chains.Child{Version: restricted, Size: 978, Fee: fee}))
		r.market.Set(sats(price).crypto().String())
		r.mineNothing(9)
		plan, err := c.Bump(t.Context(), last)
		if errors.Is(err, treasury.ErrNotStuck) {
			continue
		}
		if price > 16_000 {
			require.ErrorIs(t, err, treasury.ErrFeeTooHigh)
			continue
		}
		require.NoError(t, err)
		next := r.sign(c, plan)
		require.NoError(t, c.Send(t.Context(), next))
		all, fees = append(all, next), append(fees, next.MaxCost.String())
	}
	require.Equal(t, []string{"0.00002422", "0.00009322"}, fees)
	r.requirePaid(c, all...)
}

// TestSend_APayeeOfTwoTransfers holds neither with the other, and has no key of the change.
func TestSend_APayeeOfTwoTransfers(t *testing.T) {
	r := newRig(t, "1", "1")
	c := r.open()
	one, other := r.sent(c, "0.0015"), r.sent(c, "0.0015")
	var unsigned string
	r.call("", &unsigned, "createrawtransaction", []map[string]any{
		{"txid": one.TxHash, "vout": 0}, {"txid": other.TxHash, "vout": 0}},
		map[string]string{r.payee("bech32"): "0.001"})
	unsigned = "03" + unsigned[2:] // the version
	var signed struct{ Hex string }
	r.call(chains.Miner, &signed, "signrawtransactionwithwallet", unsigned)
	require.ErrorContains(t, r.node.Call(t.Context(), "", nil, "sendrawtransaction", signed.Hex, 0), "would have too many ancestors")
	require.ErrorContains(t, r.spends(one, 1, chains.Child{Version: restricted, Size: chains.SmallChild, Fee: 1_000}), "script-verify")
}

// Release 1.0.0 signed transactions of version 2. Their replacements have version 3 and can be canceled under a child.
func TestBump_ATransferOf1_0_0(t *testing.T) {
	r := newRig(t, "1", "1")
	c := r.open()
	held, free := r.old(c, "0.004", "0.0015"), r.old(c, "0.02")
	require.NoError(t, r.spends(held, 0, chains.Child{Version: unrestricted, Size: 25_000, Fee: 75_000}))
	r.mineNothing(9)
	r.market.Set("0.00020000")
	require.ErrorIs(t, must.Err(c.Bump(t.Context(), held)), treasury.ErrFeeTooHigh)
	canceled := r.canceled(c, held)

	next := r.bumped(c, free)
	require.EqualValues(t, restricted, r.terms(next.TransferPlan).Version)
	require.ErrorContains(t, r.spends(next, 0, chains.Child{Version: unrestricted, Size: 25_000, Fee: 75_000}), "cannot spend from version=3 tx")
	r.requirePaid(c, free, next)
	r.sees(c, treasury.TransferStateCanceled, held, canceled)
}

// A recovery reads transactions of release 1.0.0 too.
func TestVersionOf_BothKindsOfTransactions(t *testing.T) {
	r := newRig(t, "1", "1")
	c := r.open()
	signed := map[string]treasury.TransferVersion{}
	for _, v := range []treasury.TransferVersion{r.sent(c, "0.2"), r.old(c, "0.3")} {
		signed[v.TxHash] = v
	}
	r.mine(6)
	out := r.outflows(c)
	require.Len(t, out.All, 2)
	for _, o := range out.All {
		got := must.Get(c.VersionOf(t.Context(), []treasury.Outflow{o}))(t)
		require.Equal(t, signed[o.TxHash].Raw, got.Raw)
		require.Equal(t, r.terms(signed[o.TxHash].TransferPlan).Version, r.terms(got.TransferPlan).Version)
	}
}

// Our node sees a child that pays for both. The miners see a larger one that does not, so the fee doubles.
func TestBump_AChildThatOnlyMinersHave(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	v := r.sent(c, "0.0015")
	miners := r.mirror()
	large := must.Get(chains.Child{Version: restricted, Size: 978, Fee: 9_000}.Sign(t.Context(), r.node, chains.Miner, v.Raw, 0))(t)
	for _, digits := range []string{hex.EncodeToString(v.Raw), large} {
		require.NoError(t, miners.Call(t.Context(), "", nil, "sendrawtransaction", digits, 0))
	}
	require.NoError(t, r.spends(v, 0, chains.Child{Version: restricted, Size: chains.SmallChild, Fee: 8_500}))
	r.market.Set("0.00016000")
	all, fees := []treasury.TransferVersion{v}, []string(nil)
	for taken := false; !taken; {
		require.Less(t, len(all), 4)
		r.mineNothing(17)
		last := all[len(all)-1]
		require.ErrorIs(t, must.Err(c.Bump(t.Context(), last)), treasury.ErrNotStuck)
		r.mineNothing(1)
		next := r.bumped(c, last)
		all, fees = append(all, next), append(fees, next.MaxCost.String())
		taken = miners.Call(t.Context(), "", nil, "sendrawtransaction", hex.EncodeToString(next.Raw), 0) == nil
	}
	require.Equal(t, []string{"0.00008844", "0.00017688"}, fees)
	r.requirePaid(c, all...)
}

// mirror returns another node with the same blocks, which hears nothing more.
func (r *rig) mirror() *chains.Bitcoin {
	other := chains.BitcoinForTest(r, chains.BitcoinOptions{})
	var height int
	r.call("", &height, "getblockcount")
	for i := range height {
		var hash, block string
		r.call("", &hash, "getblockhash", i+1)
		r.call("", &block, "getblock", hash, 0)
		require.NoError(r, other.Call(r.Context(), "", nil, "submitblock", block))
	}
	return other
}

// TestPlan_TheLargestTransferIsRestricted: nodes refuse larger transactions of version 3.
func TestPlan_TheLargestTransferIsRestricted(t *testing.T) {
	t.Parallel()
	weight, ok := inputWeight("0014" + "0000000000000000000000000000000000000000")
	require.True(t, ok)
	all := terms{Change: make([]change, 2)}
	for range mostInputs {
		all.Coins = append(all.Coins, coin{Weight: weight})
	}
	weights := make([]int64, mostPayouts)
	for i := range weights {
		weights[i] = outputWeight(make([]byte, 34)) // P2WSH and P2TR
	}
	require.Equal(t, int64(9_813), all.size(weights))
	require.Less(t, all.size(weights), int64(largestRestricted))
}

// Bitcoin Knots does so only with a setting.
func TestOpen_ThePoolMustRestrictChildren(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.node.Stop())
	require.NoError(t, r.node.Start(t.Context(), "-mempooltruc=accept"))
	require.ErrorContains(t, must.Err(Open(t.Context(), r.options)), "set mempooltruc=enforce")
}
