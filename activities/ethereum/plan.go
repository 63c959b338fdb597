package ethereum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Rules of the fee. Source: api/decisions/ethereum.md, "fee of an Ethereum payout".
var (
	largestFee    = big.NewRat(5, 100)  // of the gross payout: above it the payout is too small
	largestBudget = big.NewRat(10, 100) // of the gross payout: what a transfer may cost at most
)

// terms are TransferPlan.Terms. Prices are for a unit of gas.
type terms struct {
	Estimate  uint64   `json:"gas_estimate"` // what the transfer will need
	Gas       uint64   `json:"gas"`          // what it may need
	TipWei    *big.Int `json:"-"`            // for who makes the block
	CapWei    *big.Int `json:"-"`            // the whole price at most
	BudgetWei *big.Int `json:"-"`            // what Estimate may cost at CapWei, in every version

	// The same three as decimal texts: a JSON number of that size is not read back by everybody.
	Tip    string `json:"tip_wei"`
	Cap    string `json:"cap_wei"`
	Budget string `json:"budget_wei"`
}

// encode returns the terms as JSON.
func (t terms) encode() (json.RawMessage, error) {
	t.Tip, t.Cap, t.Budget = t.TipWei.String(), t.CapWei.String(), t.BudgetWei.String()
	return json.Marshal(t)
}

// decodeTerms reads the terms of a plan.
func decodeTerms(raw json.RawMessage) (terms, error) {
	var t terms
	if err := json.Unmarshal(raw, &t); err != nil {
		return terms{}, fmt.Errorf("terms of the plan: %w", err)
	}
	ok := t.Estimate > 0 && t.Gas >= t.Estimate
	for _, number := range []struct {
		into **big.Int
		text string
	}{{&t.TipWei, t.Tip}, {&t.CapWei, t.Cap}, {&t.BudgetWei, t.Budget}} {
		n, read := new(big.Int).SetString(number.text, 10)
		*number.into = n
		ok = ok && read && n.Sign() >= 0
	}
	if !ok || t.TipWei.Cmp(t.CapWei) > 0 {
		return terms{}, errors.New("terms of the plan: they are not those of an Ethereum transfer")
	}
	return t, nil
}

// setGas sets the node's estimate of the gas, and a limit a quarter above it.
func (t *terms) setGas(estimate uint64) { t.Estimate, t.Gas = estimate, estimate+estimate/4+1 }

// maxCost is the highest fee of a transfer, in wei.
func (t terms) maxCost() *big.Int { return cost(t.Gas, t.CapWei) }

// cost is the price of gas units, in wei.
func cost(gas uint64, price *big.Int) *big.Int {
	return new(big.Int).Mul(new(big.Int).SetUint64(gas), price)
}

// Plan implements treasury.Chain. It also returns treasury.ErrFloatTooLow when the treasury has too
// little of the currency or of ether, and treasury.ErrNotTransferable when a simulation of the
// transfer does not give the destination the whole amount.
func (c *Chain) Plan(
	ctx context.Context, payouts []treasury.TransferRequest, _ treasury.Slot,
) (_ treasury.TransferPlan, err error) {
	if len(payouts) != 1 {
		return treasury.TransferPlan{}, fmt.Errorf("ethereum: a transfer pays one payout, not %d", len(payouts))
	}
	req := payouts[0]
	defer checkout.Wrap(&err, "ethereum: plan %s", req.PayoutID)
	to, err := address.Ethereum(req.Destination)
	if err != nil {
		return treasury.TransferPlan{}, fmt.Errorf("the destination %w", err)
	}
	if req.Gross.Sign() <= 0 {
		return treasury.TransferPlan{}, fmt.Errorf("%q is not a positive amount", req.Gross)
	}
	if !req.FeeRate.Known() {
		return treasury.TransferPlan{}, fmt.Errorf("there is no price of ETH in %s", req.Gross.Currency())
	}
	rate := req.FeeRate.Rat()
	n, v, err := c.healthy(ctx)
	if err != nil {
		return treasury.TransferPlan{}, err
	}

	t, err := c.price(ctx, n, v, to, req.Gross)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	budget := part(req.Gross, largestBudget)
	t.BudgetWei = money.FloorCrypto(budget.Quo(budget, rate), money.ETH).Units()
	if t.BudgetWei.Cmp(c.stuckFee) < 0 {
		t.BudgetWei = c.stuckFee
	}

	now := new(big.Int).Add(v.head.BaseFee.ToInt(), t.TipWei)
	forGas := part(ether(cost(t.Estimate, now)), rate)
	if fee := money.CeilCrypto(forGas, req.Gross.Currency()); fee.Coins().Cmp(part(req.Gross, largestFee)) > 0 {
		return treasury.TransferPlan{}, fmt.Errorf("%w: the fee of %s is more than %s of %s %s", treasury.ErrTooSmall,
			fee, largestFee.FloatString(2), req.Gross, req.Gross.Currency())
	}
	fee := money.CeilCrypto(forGas.Add(forGas, part(req.Burnt, rate)), req.Gross.Currency())
	amount := req.Gross.Sub(fee)
	if amount.Sign() <= 0 {
		return treasury.TransferPlan{}, fmt.Errorf("%w: its reverted transfers cost %s ETH", treasury.ErrTooSmall, req.Burnt)
	}

	if err := c.rehearseTransfer(ctx, n, to, amount, t); err != nil {
		return treasury.TransferPlan{}, err
	}
	encoded, err := t.encode()
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	return treasury.TransferPlan{
		Outputs: []treasury.TransferOutput{{PayoutID: req.PayoutID, Destination: req.Destination, Amount: amount, Fee: fee}},
		Fee:     fee, MaxCost: ether(t.maxCost()), Terms: encoded,
	}, nil
}

// part returns a share of an amount, or its price at a rate, in whole coins.
func part(of money.Crypto, share *big.Rat) *big.Rat { return new(big.Rat).Mul(of.Coins(), share) }

// price reads the gas that a transfer needs, and its price. It returns treasury.ErrFeeTooHigh when that is above the
// limit. The cap is twice the base fee, and at most the limit.
func (c *Chain) price(
	ctx context.Context, n *jsonrpc.Node, v view, to common.Address, amount money.Crypto,
) (terms, error) {
	p, err := c.payload(to, amount)
	if err != nil {
		return terms{}, err
	}
	if err := c.checkFloat(ctx, n, amount); err != nil {
		return terms{}, err // the node would refuse to estimate
	}
	var (
		gas hexutil.Uint64
		tip hexutil.Big
	)
	if err := n.Call(ctx, &tip, "eth_maxPriorityFeePerGas"); err != nil {
		return terms{}, err
	}
	now := new(big.Int).Add(v.head.BaseFee.ToInt(), tip.ToInt())
	if now.Cmp(c.maxFee) > 0 {
		return terms{}, fmt.Errorf("%w: gas costs %s, the limit is %s", treasury.ErrFeeTooHigh, inGwei(now), inGwei(c.maxFee))
	}
	limit := new(big.Int).Add(now, v.head.BaseFee.ToInt()) // 2 x base + tip
	if limit.Cmp(c.maxFee) > 0 {
		limit = c.maxFee
	}
	t := terms{TipWei: tip.ToInt(), CapWei: limit}
	// Without a price: with one a node refuses while the treasury has too little ether. rehearseTransfer has the price. At
	// the latest block, as rehearseTransfer: what waits in the pool may be canceled, and a first token costs more gas.
	call := message{From: &c.treasury, To: &p.to, Value: (*hexutil.Big)(p.value), Data: p.data}
	if err := n.Call(ctx, &gas, "eth_estimateGas", call, "latest"); err != nil {
		return terms{}, notTransferable(err)
	}
	t.setGas(uint64(gas))
	return t, nil
}

// TransferFee estimates the present fee of a transfer of the currency, in ether: the gas of the smallest transfer, at
// the present base fee and tip. It signs nothing and sends nothing. Its errors are those of Plan.
func (c *Chain) TransferFee(ctx context.Context, currency money.PayoutCurrency) (_ money.Crypto, err error) {
	defer checkout.Wrap(&err, "ethereum: fee of a transfer of %s", currency)
	n, v, err := c.healthy(ctx)
	if err != nil {
		return money.Crypto{}, err
	}
	t, err := c.price(ctx, n, v, control, money.NewCrypto(big.NewInt(1), currency))
	if err != nil {
		return money.Crypto{}, err
	}
	now := new(big.Int).Add(v.head.BaseFee.ToInt(), t.TipWei)
	return ether(cost(t.Estimate, now)), nil
}
