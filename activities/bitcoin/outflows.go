package bitcoin

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// Outflows implements treasury.Chain. A transaction has an outflow per payment to others, in the order of its outputs;
// if it pays only the wallet, it has one that moved nothing. Replaced versions are in no block and have none.
func (c *Chain) Outflows(ctx context.Context, first, last uint64) (_ treasury.Outflows, err error) {
	defer checkout.Wrap(&err, "bitcoin: outflows from block %d", first)
	v, err := c.view(ctx)
	if err != nil {
		return treasury.Outflows{}, err
	}
	first = max(first, 1) // the first block of the chain moves nothing
	last = min(last, v.final)
	if first > last {
		return treasury.Outflows{Next: first}, nil
	}
	all, err := c.movements(ctx, first-1)
	if err != nil {
		return treasury.Outflows{}, err
	}
	slices.SortStableFunc(all, func(a, b *movement) int {
		return cmp.Or(cmp.Compare(a.height, b.height), cmp.Compare(a.txid, b.txid))
	})
	out := treasury.Outflows{Next: last + 1}
	for _, m := range all {
		if m.confirmations > 0 && m.height >= first && m.height <= last {
			out.All = append(out.All, m.outflows()...)
		}
	}
	return out, nil
}

// outflows returns the payments of a movement. The first one has its fee.
func (m *movement) outflows() []treasury.Outflow {
	paid := slices.Clone(m.paid)
	slices.SortFunc(paid, func(a, b payment) int { return cmp.Compare(a.vout, b.vout) })
	common := treasury.Outflow{TxHash: m.txid, Slot: slotOf(m.tx), Amount: sats(0).crypto(), Height: m.height}
	all := slices.Repeat([]treasury.Outflow{common}, max(1, len(paid)))
	for i, p := range paid {
		all[i].Output = strconv.FormatUint(uint64(p.vout), 10)
		all[i].Destination, all[i].Amount = p.address, p.amount.crypto()
	}
	all[0].Cost = m.fee.crypto()
	return all
}
