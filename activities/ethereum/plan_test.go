package ethereum

import (
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

func TestCheck_SaysWhyNothingMustBeSent(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	refuser := r.deploy("Payee", uint8(1))
	blocked := common.HexToAddress("0xb10cced000000000000000000000000000000001")
	r.invoke("USDC", r.market.USDC, "blacklist", blocked, true)
	r.invoke("USDT", r.market.USDT, "blacklist", blocked, true)

	for _, test := range []struct {
		currency    money.PayoutCurrency
		destination string
		want        checkout.PayoutFailure
	}{
		{money.ETH, r.payee(), ""},
		{money.USDC, r.payee(), ""},
		{money.USDT, r.payee(), ""},
		{money.ETH, "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359", ""}, // no checksum
		{money.USDC, "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", ""},
		{money.USDC, "0xFB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", checkout.PayoutInvalidAddress}, // wrong checksum
		{money.USDC, "fB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", checkout.PayoutInvalidAddress},
		{money.USDC, "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d3", checkout.PayoutInvalidAddress},
		{money.USDC, "sandbox:ok", checkout.PayoutInvalidAddress},
		{money.USDC, "", checkout.PayoutInvalidAddress},
		{money.ETH, "0x0000000000000000000000000000000000000000", checkout.PayoutInvalidAddress},
		{money.ETH, "0x0000000000000000000000000000000000000001", checkout.PayoutInvalidAddress}, // a contract of the machine
		{money.ETH, r.market.USDT.Hex(), checkout.PayoutInvalidAddress},
		{money.USDC, r.market.USDC.Hex(), checkout.PayoutInvalidAddress},
		{money.USDC, r.market.USDT.Hex(), checkout.PayoutInvalidAddress},
		{money.USDC, r.key.account.Hex(), checkout.PayoutInvalidAddress}, // the treasury itself
		{money.USDC, blocked.Hex(), checkout.PayoutInvalidAddress},
		{money.USDT, blocked.Hex(), checkout.PayoutInvalidAddress}, // USDT would send to it
		{money.ETH, blocked.Hex(), ""},
		{money.ETH, refuser.Hex(), checkout.PayoutInvalidAddress},
		{money.USDC, refuser.Hex(), ""},
	} {
		got := must.Get(c.Check(t.Context(), test.currency, test.destination))(t)
		require.Equal(t, test.want, got, "%s to %s", test.currency, test.destination)
	}
	require.ErrorContains(t, must.Err(c.Check(t.Context(), money.BTC, r.payee())), "no token is configured for BTC")
}

// A contract takes ether in a simulation, where gas is free or the treasury has code, and burns all gas on the chain.
func TestPlan_SimulatesAsTheChainRunsIt(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	burner := r.deploy("Payee", uint8(3)).Hex()
	require.ErrorIs(t, r.planError(c, request(money.ETH, burner, "1")), treasury.ErrNotTransferable)
	require.NoError(t, r.planError(c, request(money.USDC, burner, "100")), "a token asks no payee")
}

// The gas of the payout's reverted transfers is taken off its amount.
func TestPlan_ThePayoutPaysForGasThatWasBurnt(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	for currency, more := range map[money.PayoutCurrency]string{money.ETH: "0.01", money.USDC: "32"} {
		req := request(currency, r.payee(), "40")
		before := must.Get(c.Plan(t.Context(), []treasury.TransferRequest{req}, nil))(t)
		req.Burnt = money.MustCrypto("0.01", money.ETH)
		after := must.Get(c.Plan(t.Context(), []treasury.TransferRequest{req}, nil))(t)
		require.Equal(t, money.MustCrypto(more, currency), after.Fee.Sub(before.Fee))
		require.Equal(t, req.Gross, after.Outputs[0].Amount.Add(after.Fee))
		req.Burnt = money.MustCrypto("40", money.ETH)
		require.ErrorIs(t, r.planError(c, req), treasury.ErrTooSmall)
	}
}

// A paused token and a treasury that is blacklisted or empty are no faults of the merchant's address.
func TestCheck_DoesNotBlameTheAddressForTheToken(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	for _, token := range []struct {
		currency money.PayoutCurrency
		at       common.Address
	}{{money.USDC, r.market.USDC}, {money.USDT, r.market.USDT}} {
		name := string(token.currency)
		r.invoke(name, token.at, "pause", true)
		require.ErrorIs(t, must.Err(c.Check(t.Context(), token.currency, r.payee())), treasury.ErrNotTransferable)
		require.ErrorContains(t, r.planError(c, request(token.currency, r.payee(), "100")), "ethereum: plan po_1")
		r.invoke(name, token.at, "pause", false)

		r.invoke(name, token.at, "blacklist", r.key.account, true)
		require.ErrorIs(t, must.Err(c.Check(t.Context(), token.currency, r.payee())), treasury.ErrNotTransferable)
		r.invoke(name, token.at, "blacklist", r.key.account, false)
	}

	poor := r.open(func(o *Options) { o.Treasury, o.Signer = "0x00000000000000000000000000000000000F00D5", nil })
	for _, currency := range []money.PayoutCurrency{money.ETH, money.USDC, money.USDT} {
		require.Empty(t, must.Get(poor.Check(t.Context(), currency, r.payee()))(t))
		require.ErrorIs(t, r.planError(poor, request(currency, r.payee(), "100")), treasury.ErrFloatTooLow)
	}
}

// The merchant pays for gas at the present price, rounded up, in the payout's currency. The cap is twice that price.
func TestPlan_ThePayoutPaysTheExpectedFee(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	for _, currency := range []money.PayoutCurrency{money.ETH, money.USDC, money.USDT} {
		r.setBaseFee(3 * gwei)
		rate := decimal.NewFromInt(3200)
		if currency == money.ETH {
			rate = decimal.NewFromInt(1)
		}
		plan := must.Get(c.Plan(t.Context(), []treasury.TransferRequest{request(currency, r.payee(), "50.5")}, nil))(t)
		terms := must.Get(decodeTerms(plan.Terms))(t)
		require.Equal(t, big.NewInt(gwei), terms.TipWei) // what anvil suggests
		require.Equal(t, big.NewInt(7*gwei), terms.CapWei, "2 x 3 + 1")
		if currency == money.ETH {
			require.Equal(t, uint64(21000), terms.Estimate)
		} else {
			require.Greater(t, terms.Estimate, uint64(40000), "it was asked for, not assumed")
		}
		require.Equal(t, terms.Estimate+terms.Estimate/4+1, terms.Gas)

		fee := decimal.New(int64(terms.Estimate)*4, -9).Mul(rate).RoundUp(currency.Places())
		require.Equal(t, fee.StringFixed(currency.Places()), plan.Fee.String())
		require.Equal(t, decimal.RequireFromString("50.5").Sub(fee).StringFixed(currency.Places()), plan.Outputs[0].Amount.String())
		require.Equal(t, decimal.New(int64(terms.Gas)*7, -9).StringFixed(18), plan.MaxCost.String())
	}
}

func TestPlan_RefusesWhatCostsTooMuch(t *testing.T) {
	r := newRig(t, chains.Options{})
	r.setBaseFee(20 * gwei) // the head's base fee is 20 gwei; a plan pays 21 with the tip
	plan := func(c *Chain, gross string) (terms, error) {
		p, err := c.Plan(t.Context(), []treasury.TransferRequest{request(money.USDC, r.payee(), gross)}, nil)
		if err != nil {
			return terms{}, err
		}
		return decodeTerms(p.Terms)
	}
	// Some 50,000 gas at 21 gwei are 0.00105 ETH, 3.36 USDC: that is 5 % of 67 USDC.
	c := r.open()
	require.ErrorIs(t, must.Err(plan(c, "40")), treasury.ErrTooSmall)
	require.ErrorIs(t, must.Err(plan(c, "0.000001")), treasury.ErrTooSmall, "dust")
	require.NoError(t, must.Err(plan(c, "100")))

	_, err := plan(r.open(func(o *Options) { o.MaxFeeGwei = 20 }), "100")
	require.ErrorIs(t, err, treasury.ErrFeeTooHigh)
	require.ErrorContains(t, err, ", the limit is 20.000000000 gwei", "in the unit of the setting")
	got, err := plan(r.open(func(o *Options) { o.MaxFeeGwei = 30 }), "100")
	require.NoError(t, err)
	require.Equal(t, big.NewInt(30*gwei), got.CapWei, "the limit, not 41")

	for want, req := range map[string]treasury.TransferRequest{
		"is not a positive amount": request(money.USDC, r.payee(), "0"),
		"the destination":          request(money.USDC, "nowhere", "10"),
		"there is no price of ETH": {PayoutID: "po_1", Destination: r.payee(), Gross: money.MustCrypto("10", money.USDT)},
	} {
		require.ErrorContains(t, r.planError(c, req), want)
	}
}

// The destination would receive less than the payout's amount.
func TestPlan_RefusesATokenThatTakesAFee(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	r.invoke("USDT", r.market.USDT, "setParams", big.NewInt(10), big.NewInt(50_000000)) // 0.1 %
	err := r.planError(c, request(money.USDT, r.payee(), "100"))
	require.ErrorIs(t, err, treasury.ErrNotTransferable)
	require.ErrorContains(t, err, "the destination would receive 9")
	r.invoke("USDT", r.market.USDT, "setParams", big.NewInt(10), big.NewInt(0)) // at most nothing
	require.NoError(t, r.planError(c, request(money.USDT, r.payee(), "100")))
}

// It returns false and moves nothing.
func TestPlan_RefusesATokenThatOnlySaysNo(t *testing.T) {
	r := newRig(t, chains.Options{})
	liar := r.deploy("Liar")
	r.invoke("Liar", liar, "mint", r.key.account, big.NewInt(1_000_000_000))
	c := r.open()
	c.tokens[money.USDC] = liar
	require.ErrorIs(t, r.planError(c, request(money.USDC, r.payee(), "100")), treasury.ErrNotTransferable)
	require.ErrorIs(t, must.Err(c.Check(t.Context(), money.USDC, r.payee())), treasury.ErrNotTransferable)
}

func TestPlan_NeedsEtherForTheFee(t *testing.T) {
	r := newRig(t, chains.Options{})
	require.NoError(t, r.anvil.SetBalance(t.Context(), r.key.account, big.NewInt(1000)))
	err := r.planError(r.open(), request(money.USDC, r.payee(), "100"))
	require.ErrorIs(t, err, treasury.ErrFloatTooLow)
	require.ErrorContains(t, err, "it has 0.000000000000001000 ETH")
}

// Each version costs at least 15 % more, follows the base fee, and stays below the price limit and the budget.
func TestRaise(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tip, limit, budget, base, most int64
		wantTip, wantCap               int64 // 0: refused
	}{
		"15 % more":                  {100, 1000, 1e9, 300, 1e6, 115, 1150},
		"rounded up":                 {1, 3, 1e9, 0, 1e6, 2, 4},
		"the base fee jumped":        {100, 1000, 1e9, 20000, 1e6, 115, 40115},
		"up to the limit":            {100, 1000, 1e9, 20000, 30000, 115, 30000},
		"above the limit":            {100, 1000, 1e9, 20000, 20114, 0, 0},
		"15 % are above the limit":   {100, 1000, 1e9, 10, 1149, 0, 0},
		"up to the budget":           {100, 1000, 250_000, 20000, 1e6, 115, 25000}, // of 10 gas
		"above the budget":           {100, 1000, 200_000, 20000, 1e6, 0, 0},
		"a tip of nothing rises too": {0, 10, 1e9, 0, 1e6, 1, 12},
	} {
		terms := terms{Estimate: 10, Gas: 12, TipWei: big.NewInt(test.tip), CapWei: big.NewInt(test.limit), BudgetWei: big.NewInt(test.budget)}
		err := terms.raise(big.NewInt(test.base), big.NewInt(test.most))
		if test.wantCap == 0 {
			require.ErrorIs(t, err, treasury.ErrFeeTooHigh, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, big.NewInt(test.wantTip), terms.TipWei, name)
		require.Equal(t, big.NewInt(test.wantCap), terms.CapWei, name)
	}
}

// The budget is a tenth of the payout, or the setting if that is more.
func TestBump_HasABudget(t *testing.T) {
	r := newRig(t, chains.Options{})
	r.setBaseFee(gwei)
	small := r.open(func(o *Options) { o.StuckFee = "0" })
	v := r.signed(small, money.USDC, "10", 0) // 1 USDC is 0.0003125 ETH: 5 or 6 gwei for each gas
	same := must.Get(small.Bump(t.Context(), v))(t)
	require.Equal(t, v.Outputs, same.Outputs)
	require.Equal(t, v.Fee, same.Fee, "the merchant's fee stays")

	r.setBaseFee(20 * gwei)
	require.ErrorIs(t, must.Err(small.Bump(t.Context(), v)), treasury.ErrFeeTooHigh)

	stuck := r.open() // 0.005 ETH however small it is
	v = must.Get(stuck.Sign(t.Context(), v.TransferPlan))(t)
	require.ErrorIs(t, must.Err(stuck.Bump(t.Context(), v)), treasury.ErrFeeTooHigh, "the budget is the plan's")

	other := v
	other.Outputs[0].Amount = money.MustCrypto("1", money.USDC)
	require.ErrorContains(t, must.Err(small.Bump(t.Context(), other)), "its signed bytes do something else than its plan")
	other.Raw = []byte("x")
	require.ErrorContains(t, must.Err(small.Bump(t.Context(), other)), "its signed bytes are not a transaction")
}

func TestTransferFee_IsWhatAPayoutWouldPay(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	r.setBaseFee(3 * gwei)
	fee := must.Get(c.TransferFee(t.Context(), money.ETH))(t)
	require.Equal(t, "0.000084000000000000", fee.String(), "21,000 gas at 3 + 1 gwei")
	plan := must.Get(c.Plan(t.Context(), []treasury.TransferRequest{request(money.ETH, r.payee(), "50.5")}, nil))(t)
	require.Equal(t, plan.Fee, fee)
	for _, token := range []money.PayoutCurrency{money.USDC, money.USDT} {
		got := must.Get(c.TransferFee(t.Context(), token))(t)
		require.True(t, got.Cmp(money.MustCrypto("0.00016", money.ETH)) > 0, got)
		require.True(t, got.Cmp(money.MustCrypto("0.0008", money.ETH)) < 0, got)
	}
	require.ErrorContains(t, must.Err(c.TransferFee(t.Context(), money.BTC)), "no token is configured for BTC")
}

func TestCancel_TakesTheNonceAndPaysNobody(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	v := r.sent(c, money.USDC, "20", 0)
	plan := must.Get(c.Cancel(t.Context(), v))(t)
	require.True(t, plan.Cancels)
	require.Empty(t, plan.Outputs)
	canceling := must.Get(c.Sign(t.Context(), plan))(t)
	require.NoError(t, c.Send(t.Context(), canceling), "its price is high enough to replace the first version")
	r.sees(c, treasury.TransferStatePending, v, canceling)
	next := r.bumped(c, canceling) // a cancellation that is stuck is raised too
	require.True(t, next.Cancels)
	require.NoError(t, c.Send(t.Context(), next))
	r.mine(1)
	r.sees(c, treasury.TransferStateMined, v, canceling, next)
	r.mine(2)
	require.Equal(t, next.TxHash, r.sees(c, treasury.TransferStateCanceled, v, canceling, next).TxHash)
	require.Equal(t, "0.000000", r.has(money.USDC, v.Outputs[0].Destination))
	require.Equal(t, "1000000.000000", r.has(money.USDC, r.key.account.Hex()))
	out := r.outflows(c, 0)
	require.Len(t, out.All, 1)
	require.Equal(t, []string{next.TxHash, "0.000000000000000000"}, []string{out.All[0].TxHash, out.All[0].Amount.String()})
}

// The budget of a payout does not limit what its cancellation costs; the price of a unit of gas does.
func TestCancel_HasOnlyTheLimitOfThePrice(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open(func(o *Options) { o.StuckFee = "0" })
	v := r.signed(c, money.USDC, "20", 0)
	r.setBaseFee(150 * gwei)
	require.ErrorIs(t, must.Err(c.Bump(t.Context(), v)), treasury.ErrFeeTooHigh)
	require.NoError(t, must.Err(c.Cancel(t.Context(), v)))
	r.setBaseFee(250 * gwei)
	require.ErrorIs(t, must.Err(c.Cancel(t.Context(), v)), treasury.ErrFeeTooHigh)
}

func TestSanctioned_AsksTheOracle(t *testing.T) {
	r := newRig(t, chains.Options{})
	listed, clean := r.payee(), r.payee()
	without := r.open()
	oracle := r.deploy("SanctionsOracle")
	r.invoke("SanctionsOracle", oracle, "set", common.HexToAddress(listed), true)
	p := proxyTo(t, r.anvil.URL)
	c := r.open(func(o *Options) { o.SanctionsOracle, o.RPCURLs = oracle.Hex(), []string{p.URL} })
	asks := func(c *Chain, destination string) bool {
		return must.Get(c.Sanctioned(t.Context(), destination))(t)
	}
	require.True(t, asks(c, listed))
	require.False(t, asks(c, clean))
	require.False(t, asks(c, "0x1"), "Check refuses it")
	require.False(t, asks(without, listed), "no oracle is configured")
	refused := must.Get(c.Check(t.Context(), money.USDC, oracle.Hex()))(t)
	require.Equal(t, checkout.PayoutInvalidAddress, refused, "it keeps what it gets")

	for name, answer := range map[string]any{
		"an error": errors.New("busy"), "nothing": "0x", "a number": "0x" + common.Bytes2Hex(common.LeftPadBytes([]byte{2}, 32)),
		"no word": "0x01",
	} {
		p.tell(on("eth_call", answer))
		require.ErrorIs(t, must.Err(c.Sanctioned(t.Context(), clean)), treasury.ErrNotTransferable, name)
	}
	p.tell(on("eth_syncing", true))
	require.ErrorIs(t, must.Err(c.Sanctioned(t.Context(), clean)), jsonrpc.ErrNotReady, "an old answer does not count")
	p.tell(always(nil))
	r.invoke("SanctionsOracle", oracle, "silence", true)
	require.ErrorIs(t, must.Err(c.Sanctioned(t.Context(), listed)), treasury.ErrNotTransferable)
}
