package bitcoin

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/checkout"
)

// patience is how many blocks more than the fee target a version has before its fee is raised.
const patience = 3

// Bump implements checkout.Chain. The next version spends the same coins and pays the same outputs; the change pays
// the higher fee. It returns checkout.ErrNotStuck when blocks may still take the last version, and
// checkout.ErrFeeTooHigh when the fee would be above the limit or the transfer's budget.
func (c *Chain) Bump(ctx context.Context, last checkout.TransferVersion) (_ checkout.TransferPlan, err error) {
	defer checkout.Wrap(&err, "bitcoin: bump %s", last.TxHash)
	t, err := decodeTerms(last.Terms)
	if err != nil {
		return checkout.TransferPlan{}, err
	}
	if err := c.sameTransaction(last, t); err != nil {
		return checkout.TransferPlan{}, err
	}
	weights, err := c.outputWeights(last.Outputs)
	if err != nil {
		return checkout.TransferPlan{}, err
	}
	v, err := c.view(ctx)
	if err != nil {
		return checkout.TransferPlan{}, err
	}
	price, err := c.prices(ctx)
	if err != nil {
		return checkout.TransferPlan{}, err
	}
	size := t.size(weights)
	if v.head < t.Height+c.feeTarget+patience || sats(t.Fee) >= price.now.of(size) && c.isPooled(ctx, last) {
		return checkout.TransferPlan{}, checkout.ErrNotStuck
	}
	limit := sats(t.Budget)
	if !last.Cancels {
		limit = min(limit, c.maxRate.of(size))
	}
	if err := c.raise(ctx, last, &t, price, size, limit); err != nil {
		return checkout.TransferPlan{}, err
	}
	return next(last.TransferPlan, t)
}

// next returns the plan of the next version.
func next(plan checkout.TransferPlan, t terms) (checkout.TransferPlan, error) {
	var err error
	plan.MaxCost = sats(t.Fee).crypto()
	plan.Terms, err = t.encode()
	return plan, err
}

// raise sets the fee of the next version, and takes the difference from the change. A node takes a replacement when it
// pays what all the transactions pay that it replaces, those of payees who spend their coin already too, and its own
// size once more.
func (c *Chain) raise(
	ctx context.Context, last checkout.TransferVersion, t *terms, price prices, size int64, limit sats,
) error {
	replaced := sats(t.Fee)
	var (
		pooled struct {
			Fees struct {
				Descendants sats `json:"descendant"`
			} `json:"fees"`
		}
		gone *jsonrpc.Refusal
	)
	if err := c.node.Ask(ctx, jsonrpc.Ask(&pooled, "getmempoolentry", last.TxHash).In(&gone)); err != nil {
		return err
	}
	replaced = max(replaced, pooled.Fees.Descendants)
	least := replaced + price.increment.of(size)
	if least > limit {
		return fmt.Errorf("%w: it would have to be %s BTC, the limit is %s",
			checkout.ErrFeeTooHigh, least.crypto(), limit.crypto())
	}
	fee := min(max(least, price.now.of(size)), limit)
	if !t.take(int64(fee) - t.Fee) {
		return fmt.Errorf("%w: the change has too little for %s BTC", checkout.ErrFeeTooHigh, fee.crypto())
	}
	t.Fee = int64(fee)
	return nil
}

// take takes satoshis from the change, the first one first. It reports whether there was enough.
func (t *terms) take(satoshis int64) bool {
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

// isPooled reports whether a version waits in the node's pool.
func (c *Chain) isPooled(ctx context.Context, v checkout.TransferVersion) bool {
	return c.node.Call(ctx, nil, "getmempoolentry", v.TxHash) == nil
}

// sameTransaction checks that the signed bytes of a version do what its plan says.
func (c *Chain) sameTransaction(v checkout.TransferVersion, t terms) error {
	signed, err := parse(v.Raw)
	if err != nil {
		return err
	}
	want, err := c.transaction(v.TransferPlan, t)
	if err != nil {
		return err
	}
	for _, in := range signed.TxIn {
		in.Witness = nil
	}
	var a, b bytes.Buffer
	if err := errors.Join(signed.Serialize(&a), want.Serialize(&b)); err != nil {
		return err
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		return errors.New("its signed bytes do something else than its plan")
	}
	return nil
}
