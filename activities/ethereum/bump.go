package ethereum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"

	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Bump implements treasury.Chain. The tip rises by 15 %: nodes ask for 10 %. The cap rises by 15 % or
// to twice the base fee, whichever is more: after a jump of the base fee 15 % never catches up. It
// returns treasury.ErrFeeTooHigh when that is above the limit of the price or the transfer's budget.
func (c *Chain) Bump(ctx context.Context, last treasury.TransferVersion) (_ treasury.TransferPlan, err error) {
	defer checkout.Wrap(&err, "ethereum: bump %s", last.TxHash)
	t, err := decodeTerms(last.Terms)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	if err := c.samePayload(last); err != nil {
		return treasury.TransferPlan{}, err
	}
	_, v, err := c.healthy(ctx)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	if err := t.raise(v.head.BaseFee.ToInt(), c.maxFee); err != nil {
		return treasury.TransferPlan{}, err
	}

	next := last.TransferPlan
	next.MaxCost = ether(t.maxCost())
	next.Terms, err = t.encode()
	return next, err
}

// raise sets the tip and the cap of the next version. most is the highest price of a unit of gas.
func (t *terms) raise(base, most *big.Int) error {
	tip := raised(t.TipWei)
	least := bigger(raised(t.CapWei), new(big.Int).Add(base, tip)) // below it the version is of no use
	wanted := new(big.Int).Add(new(big.Int).Add(base, base), tip)
	limit := new(big.Int).Div(t.BudgetWei, new(big.Int).SetUint64(t.Estimate))
	if limit.Cmp(most) > 0 {
		limit = most
	}
	if least.Cmp(limit) > 0 {
		return fmt.Errorf("%w: a unit of gas would have to cost %s, the limit is %s",
			treasury.ErrFeeTooHigh, inGwei(least), inGwei(limit))
	}
	t.TipWei, t.CapWei = tip, bigger(least, wanted)
	if t.CapWei.Cmp(limit) > 0 {
		t.CapWei = limit
	}
	return nil
}

// raised returns price and 15 % of it, rounded up, and at least 1 more.
func raised(price *big.Int) *big.Int {
	more := new(big.Int).Mul(price, big.NewInt(115))
	more.Add(more, big.NewInt(99)).Div(more, big.NewInt(100))
	return bigger(more, new(big.Int).Add(price, big.NewInt(1)))
}

func bigger(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// samePayload checks that the signed bytes of a version do the same as a new signature would. They differ when the
// address of a token was changed in the settings.
func (c *Chain) samePayload(v treasury.TransferVersion) error {
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(v.Raw); err != nil {
		return errors.New("its signed bytes are not a transaction")
	}
	p, err := c.payloadOf(v.TransferPlan)
	if err != nil {
		return err
	}
	if tx.To() == nil || *tx.To() != p.to || tx.Value().Cmp(p.value) != 0 || !bytes.Equal(tx.Data(), p.data) {
		return errors.New("its signed bytes do something else than its plan")
	}
	return nil
}

// payloadOf returns the payload of a plan. A plan that cancels sends nothing to the treasury itself.
func (c *Chain) payloadOf(plan treasury.TransferPlan) (payload, error) {
	if plan.Cancels {
		return payload{c.treasury, new(big.Int), nil}, nil
	}
	if len(plan.Outputs) != 1 {
		return payload{}, fmt.Errorf("a transfer has one output, not %d", len(plan.Outputs))
	}
	pays := plan.Outputs[0]
	to, err := address.Ethereum(pays.Destination)
	if err != nil {
		return payload{}, fmt.Errorf("the destination %w", err)
	}
	if pays.Amount.Sign() <= 0 {
		return payload{}, fmt.Errorf("%q is not a positive amount", pays.Amount)
	}
	return c.payload(to, pays.Amount)
}

// inGwei writes a price of gas in the unit of the setting for its limit.
func inGwei(wei *big.Int) string { return money.FormatUnits(wei, 9) + " gwei" }
