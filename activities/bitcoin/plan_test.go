package bitcoin

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// One transaction pays addresses of every kind, which share the fee by size.
func TestPlan_ABatchOfAHundred(t *testing.T) {
	r := newRig(t, "5", "5", "5")
	c := r.open()
	r.market.Set("0.00010000")
	payouts := r.requests(slices.Repeat([]string{"0.05", "0.051"}, 50)...)
	kinds := []string{"legacy", "p2sh-segwit", "bech32", "bech32m"} // P2PKH, P2SH, P2WPKH, P2TR
	for i := range payouts {
		payouts[i].Destination = r.payee(kinds[i%4])
	}
	var hash struct { // P2WSH
		Address string `json:"address"`
	}
	r.call("", &hash, "createmultisig", 1, []string{"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"}, "bech32")
	payouts[0].Destination = hash.Address
	plan := must.Get(c.Plan(t.Context(), payouts, nil))(t)
	v := r.sign(c, plan)
	require.NoError(t, c.Send(t.Context(), v))

	var sent struct {
		Size int64 `json:"vsize"`
		Fees struct {
			Base sats `json:"base"`
		} `json:"fees"`
	}
	r.call("", &sent, "getmempoolentry", v.TxHash)
	require.Equal(t, v.MaxCost, sent.Fees.Base.crypto())
	require.GreaterOrEqual(t, int64(sent.Fees.Base), 10*sent.Size, "the rate, at least")
	require.Less(t, int64(sent.Fees.Base), 10*(sent.Size+20), "and no more than the length of signatures makes it")
	fees := map[string]money.Crypto{}
	paid := btc("0")
	for i, o := range plan.Outputs {
		require.Equal(t, payouts[i].Gross, o.Amount.Add(o.Fee))
		paid = paid.Add(o.Fee)
		fees[kinds[i%4]] = o.Fee
	}
	require.Equal(t, plan.Fee, paid)
	extra := r.terms(plan).Rate.of(changeWeight / 4) // the wallet has few coins, so the change is two
	require.Equal(t, v.MaxCost, plan.Fee.Add(extra.crypto()))
	require.Len(t, r.terms(plan).Change, 2)
	require.Equal(t, 1, fees["bech32m"].Cmp(fees["legacy"]))
	require.Equal(t, 1, fees["legacy"].Cmp(fees["p2sh-segwit"]))
	require.Equal(t, 1, fees["p2sh-segwit"].Cmp(fees["bech32"]))

	r.mine(6)
	require.Equal(t, plan.Outputs, r.outputsOf(c, v))
	for _, i := range []int{1, 2, 3, 99} {
		require.Equal(t, plan.Outputs[i].Amount.String(), r.received(plan.Outputs[i].Destination))
	}
}

// outputsOf returns a version's outputs as the outflows show them. A payout's fee is the most it can have paid.
func (r *rig) outputsOf(c *Chain, v treasury.TransferVersion) []treasury.TransferOutput {
	out := must.Get(c.Outflows(r.Context(), 0, 10_000))(r)
	got := must.Get(c.VersionOf(r.Context(), out.All))(r)
	require.Equal(r, v.Raw, got.Raw)
	require.Equal(r, v.TxHash, got.TxHash)
	require.Equal(r, v.Slot, got.Slot)
	require.Equal(r, v.MaxCost, got.MaxCost)
	for i := range got.Outputs {
		more := got.Outputs[i].Fee.Sub(v.Outputs[i].Fee).Units().Int64()
		require.True(r, more >= 0 && more <= 6, "%d satoshis more than the fee of a payout", more)
		got.Outputs[i].PayoutID, got.Outputs[i].Fee = v.Outputs[i].PayoutID, v.Outputs[i].Fee
	}
	return got.Outputs
}

// A share is wrong by one satoshi, up or down.
func TestSign_RefusesAWrongShare(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	satoshi := sats(1).crypto()
	change := func(plan treasury.TransferPlan, how func([]treasury.TransferOutput)) treasury.TransferPlan {
		plan.Outputs = slices.Clone(plan.Outputs)
		how(plan.Outputs)
		return plan
	}
	plan := r.planned(c, "0.1", "0.2", "0.3")
	for name, wrong := range map[string]treasury.TransferPlan{
		"one pays another's": change(plan, func(o []treasury.TransferOutput) {
			o[0].Fee, o[0].Amount = o[0].Fee.Add(satoshi), o[0].Amount.Sub(satoshi)
			o[1].Fee, o[1].Amount = o[1].Fee.Sub(satoshi), o[1].Amount.Add(satoshi)
		}),
		"one pays less":     change(plan, func(o []treasury.TransferOutput) { o[2].Fee = o[2].Fee.Sub(satoshi) }),
		"one receives more": change(plan, func(o []treasury.TransferOutput) { o[2].Amount = o[2].Amount.Add(satoshi) }),
	} {
		require.Error(t, must.Err(c.Sign(t.Context(), wrong)), name)
	}
	r.sign(c, plan)
}

// The shares add up to the fee, and each is within a satoshi of its size.
func TestShares_ComeOutEven(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fee     sats
		weights []int64
		want    []sats
	}{
		{100, []int64{124}, []sats{100}},
		{100, []int64{124, 124, 124}, []sats{34, 33, 33}},
		{1001, []int64{136, 128, 124, 172}, []sats{244, 229, 221, 307}},
		{0, []int64{124, 172}, []sats{0, 0}},
	} {
		got := shares(c.fee, c.weights)
		require.Equal(t, c.want, got)
	}
}

// An error names the payouts that have it, and the others are paid.
func TestPlan_PayoutsWithoutAPlace(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	r.market.Set("0.00020000")
	payouts := r.requests("0.3", "0.00001", "0.3", "0.9", "0.3")
	payouts[4].Destination = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	var some treasury.PayoutErrors
	for _, step := range []struct {
		id   string
		want error
	}{{"po_005", nil}, {"po_004", treasury.ErrFloatTooLow}, {"po_002", treasury.ErrTooSmall}} {
		require.ErrorAs(t, must.Err(c.Plan(t.Context(), payouts, nil)), &some)
		require.Len(t, some, 1)
		require.Contains(t, some, step.id)
		if step.want != nil {
			require.ErrorIs(t, some[step.id], step.want)
		}
		payouts = slices.DeleteFunc(payouts, func(p treasury.TransferRequest) bool { return p.PayoutID == step.id })
	}
	require.NoError(t, r.planError(c, payouts))

	require.ErrorIs(t, r.planError(c, r.requests("0.0002")), treasury.ErrTooSmall)
	r.market.Set("0.00200000")
	require.ErrorIs(t, r.planError(c, payouts), treasury.ErrFeeTooHigh)
}

// TestPlan_WhatEarlierTransfersCostIsPaid by the payout that they were for.
func TestPlan_WhatEarlierTransfersCostIsPaid(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	payouts := r.requests("0.1", "0.1")
	payouts[1].Burnt = btc("0.0001")
	plan := must.Get(c.Plan(t.Context(), payouts, nil))(t)
	require.Equal(t, btc("0.0001"), plan.Outputs[1].Fee.Sub(plan.Outputs[0].Fee))
	v := r.sign(c, plan)
	require.Equal(t, plan.Fee, v.MaxCost.Add(btc("0.0001")).Sub(r.terms(plan).Rate.of(changeWeight/4).crypto()))
}

// TestPlan_CombinesSmallCoinsWhileSizeIsCheap, at the treasury's cost.
func TestPlan_CombinesSmallCoinsWhileSizeIsCheap(t *testing.T) {
	r := newRig(t, append(slices.Repeat([]string{"0.001"}, 210), "1")...)
	c := r.open()
	few := r.planned(c, "0.5")
	require.Len(t, few.Slot, 1+10, "the wallet keeps 200 coins")
	v := r.sign(c, few)
	require.NoError(t, c.Send(t.Context(), v))
	r.market.Set("0.00006000")
	many := r.planned(c, "0.05")
	require.Greater(t, len(many.Slot), 40, "of the coins that are left")
	require.Zero(t, r.terms(many).Extra, "size is not cheap")

	alone := rate(perKilo).of(size([]coin{{Weight: r.terms(few).Coins[0].Weight}}, 124+124, 2))
	require.Equal(t, alone.crypto(), few.Fee, "the merchant pays for one coin")
	require.Equal(t, 1, v.MaxCost.Cmp(few.Fee))
	r.mine(6)
	r.sees(c, treasury.TransferStateConfirmed, v)
}

// The chosen coins cover the fee of every later version.
func TestPlan_KeepsTheBudgetInTheChange(t *testing.T) {
	r := newRig(t, "0.12", "0.1")
	c := r.open()
	plan := r.planned(c, "0.1")
	require.Len(t, plan.Slot, 1)
	terms := r.terms(plan)
	require.GreaterOrEqual(t, sum(terms.Coins), sats(10_000_000+1_000_000))
	require.EqualValues(t, 1_000_000, terms.Budget)
	require.GreaterOrEqual(t, terms.Change[0].Sats, terms.Budget-terms.Fee)
}

// A float of 64 bits would lose the last ones.
func TestSats_KeepsEveryDigit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]sats{
		"5000.00000730": 500_000_000_730, "20999999.99999999": 2_099_999_999_999_999, "0.00000001": 1,
		"-0.10000000": -10_000_000, "3": 300_000_000,
	} {
		var got sats
		require.NoError(t, got.UnmarshalJSON([]byte(text)))
		require.Equal(t, want, got)
	}
	for _, wrong := range []string{"1e-8", "0.000000001", "21000001", "NaN", `"1"`, "--1", "", "null"} {
		require.Error(t, new(sats).UnmarshalJSON([]byte(wrong)), wrong)
	}
	written := must.Get(sats(500_000_000_730).MarshalJSON())(t)
	require.Equal(t, `"5000.00000730"`, string(written), "a text: JSON's numbers may be read as floats")
}
