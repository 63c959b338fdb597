package bitcoin

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// Cancel implements treasury.Chain. The version spends all coins of the transfer to the wallet itself. Its fee is above
// that of the last version, as Bump makes it. Its limit is the highest rate for the last version with the largest
// child: an operator wants it. It returns treasury.ErrFeeTooHigh.
func (c *Chain) Cancel(ctx context.Context, last treasury.TransferVersion) (_ treasury.TransferPlan, err error) {
	defer checkout.Wrap(&err, "bitcoin: cancel %s", last.TxHash)
	t, err := decodeTerms(last.Terms)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	m, err := c.market(ctx, last)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	to := change{}
	if len(t.Change) > 0 {
		to.Address = t.Change[0].Address
	} else if err := c.node.Call(ctx, &to.Address, "getrawchangeaddress", "bech32"); err != nil {
		return treasury.TransferPlan{}, err
	}
	weights, err := c.outputWeights(last.Outputs)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	to.Sats = int64(sum(t.Coins)) - t.Fee
	// The change gets all but the last fee; raise takes the rest of the new fee from it. A cancellation is smaller than
	// the version that it replaces, and must pay more.
	t.Budget = int64(c.maxRate.of(t.size(weights) + largestChild))
	t.Change, t.Burnt, t.Version = []change{to}, nil, restricted
	size := t.size(nil)
	if err := t.raise(m, size, m.now.of(size), sats(t.Budget)); err != nil {
		return treasury.TransferPlan{}, err
	}
	return nextVersion(treasury.TransferPlan{Slot: last.Slot, Cancels: true}, t)
}
