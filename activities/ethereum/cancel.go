package ethereum

import (
	"context"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// Cancel implements treasury.Chain. The version sends no ether from the treasury to itself. Its price is
// above that of the last version, as Bump makes it, and has no other limit than the price of a unit of
// gas: an operator wants it. It returns treasury.ErrFeeTooHigh.
func (c *Chain) Cancel(ctx context.Context, last treasury.TransferVersion) (_ treasury.TransferPlan, err error) {
	defer checkout.Wrap(&err, "ethereum: cancel %s", last.TxHash)
	t, err := decodeTerms(last.Terms)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	n, v, err := c.healthy(ctx)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	plan := treasury.TransferPlan{Slot: last.Slot, Cancels: true}
	p, err := c.payloadOf(plan)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	var gas hexutil.Uint64
	call := message{From: &c.treasury, To: &p.to, Value: (*hexutil.Big)(p.value)}
	if err := n.Call(ctx, &gas, "eth_estimateGas", call); err != nil {
		return treasury.TransferPlan{}, err
	}
	t.setGas(uint64(gas))
	t.BudgetWei = cost(t.Estimate, c.maxFee)
	if err := t.raise(v.head.BaseFee.ToInt(), c.maxFee); err != nil {
		return treasury.TransferPlan{}, err
	}
	plan.MaxCost = ether(t.maxCost())
	plan.Terms, err = t.encode()
	return plan, err
}
