package bitcoin

import (
	"context"
	"errors"
	"fmt"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// patience is how many blocks more than the fee target a version has before its fee is raised.
const patience = 3

// Bump implements treasury.Chain. The next version spends the same coins and pays the same outputs; the change pays
// the higher fee. It returns treasury.ErrNotStuck when blocks may still take the last version, and
// treasury.ErrFeeTooHigh when the fee would be above the limit or the transfer's budget.
//
// A version that replaces a payee's child pays the fee of that too, within the same budget. Miners take a child that
// pays for both, so it needs no replacement. A version that pays enough and that no block takes for twice as long may
// have a child that this node does not see: its fee doubles, up to the price of the transfer with the largest child.
func (c *Chain) Bump(ctx context.Context, last treasury.TransferVersion) (_ treasury.TransferPlan, err error) {
	defer checkout.Wrap(&err, "bitcoin: bump %s", last.TxHash)
	t, err := decodeTerms(last.Terms)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	if err := c.sameTransaction(last, t); err != nil {
		return treasury.TransferPlan{}, err
	}
	weights, err := c.outputWeights(last.Outputs)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	m, err := c.market(ctx, last)
	if err != nil {
		return treasury.TransferPlan{}, err
	}

	size, enough := t.size(weights), c.feeTarget+patience
	pays := sats(t.Fee) >= m.now.of(size) || m.pays(m.now)
	isHeld := pays && m.head >= t.Height+2*enough
	if m.head < t.Height+enough || pays && m.Count > 0 && !isHeld {
		return treasury.TransferPlan{}, treasury.ErrNotStuck
	}
	want, paysFor := min(m.now, c.maxRate).of(size), size
	if isHeld {
		want = max(want, min(sats(2*t.Fee), m.now.of(size+largestChild)+m.increment.of(size)))
	}
	if isHeld || m.Count > 1 {
		paysFor += largestChild
	}
	if size <= largestRestricted {
		t.Version = restricted // 1.0.0 made others
	}
	if err := t.raise(m, size, want, c.feeLimit(last.TransferPlan, t, paysFor)); err != nil {
		return treasury.TransferPlan{}, err
	}
	return nextVersion(last.TransferPlan, t)
}

// nextVersion returns the plan of the next version.
func nextVersion(plan treasury.TransferPlan, t terms) (treasury.TransferPlan, error) {
	var err error
	plan.MaxCost = sats(t.Fee).crypto()
	plan.Terms, err = t.encode()
	return plan, err
}

// raise sets the fee of the next version, which has a size, and takes the difference from the change. A node accepts a
// replacement that pays as much as all transactions that it replaces, payees' children included, plus the price of its
// own size.
func (t *terms) raise(m market, size int64, want, limit sats) error {
	least := max(sats(t.Fee), m.Fees.All) + m.increment.of(size)
	if least > limit {
		return fmt.Errorf("%w: it would have to be %s BTC, the limit is %s",
			treasury.ErrFeeTooHigh, least.crypto(), limit.crypto())
	}
	fee := min(max(least, want), limit)
	if !t.takeFromChange(int64(fee) - t.Fee) {
		return fmt.Errorf("%w: the change has too little for %s BTC", treasury.ErrFeeTooHigh, fee.crypto())
	}
	t.Fee, t.Height = int64(fee), m.head
	return nil
}

// takeFromChange takes satoshis from the change, the first one first. It reports whether there was enough.
func (t *terms) takeFromChange(satoshis int64) bool {
	rest := make([]change, len(t.Change))
	for i, change := range t.Change {
		part := min(satoshis, change.Sats-leastChange)
		change.Sats -= part
		satoshis -= part
		rest[i] = change
	}
	t.Change = rest
	return satoshis == 0
}

// sameTransaction checks that the signed bytes of a version match its plan.
func (c *Chain) sameTransaction(v treasury.TransferVersion, t terms) error {
	want, err := c.transaction(v.TransferPlan, t)
	if err == nil && checkSigned(v.Raw, want) != nil {
		err = errors.New("its signed bytes do something else than its plan")
	}
	return err
}
