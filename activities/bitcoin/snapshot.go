package bitcoin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Snapshot implements treasury.Chain. A coin counts as spent as soon as any transaction spends it, final or not.
func (c *Chain) Snapshot(ctx context.Context) (_ treasury.AccountSnapshot, err error) {
	defer checkout.Wrap(&err, "bitcoin: snapshot")
	const tries = 3 // a block may come meanwhile
	for range tries {
		switch s, err := c.snapshot(ctx); {
		case err != nil:
			return treasury.AccountSnapshot{}, err
		case s != nil:
			return *s, nil
		}
	}
	return treasury.AccountSnapshot{}, fmt.Errorf("%w: its chain changed all the time", jsonrpc.ErrNotReady)
}

// snapshot returns nil when the chain changed meanwhile.
func (c *Chain) snapshot(ctx context.Context) (*treasury.AccountSnapshot, error) {
	v, err := c.view(ctx)
	if err != nil {
		return nil, err
	}
	// The coins first: what is sent from here on spends coins that are among them.
	var there []unspent
	if err := c.node.Call(ctx, &there, "listunspent", 1, 9_999_999, []string{}, true); err != nil {
		return nil, err
	}
	all, err := c.movements(ctx, v.final)
	if err != nil {
		return nil, err
	}
	h := holdings{now: map[string]sats{}, final: map[string]sats{}}
	for _, u := range there {
		h.add(u.unit(), u.Amount, true, u.Confirmations >= int64(c.confirmations)) //nolint:gosec // G115: some blocks
	}
	using, err := c.addSpent(ctx, &h, all)
	if err != nil {
		return nil, err
	}
	var head string
	if err := c.node.Call(ctx, &head, "getbestblockhash"); err != nil || head != v.hash {
		return nil, err
	}
	return &treasury.AccountSnapshot{
		Using: using, Balances: purse(h.now), Height: v.head, FinalBalances: purse(h.final), FinalHeight: v.final,
		Used: func(slot treasury.Slot) bool {
			return slices.ContainsFunc(slot, func(unit string) bool { _, there := h.final[unit]; return !there })
		},
	}, nil
}

// holdings are the wallet's coins by their unit: after the last block, and after the last final one.
type holdings struct{ now, final map[string]sats }

func (h holdings) add(unit string, amount sats, isThere, wasThere bool) {
	if isThere {
		h.now[unit] = amount
	}
	if wasThere {
		h.final[unit] = amount
	}
}

func purse(coins map[string]sats) money.Purse {
	total := sats(0)
	for _, amount := range coins {
		total += amount
	}
	return money.PurseOf(total.crypto())
}

// addSpent adds the coins that movements spend which are not final: the node lists no coin that waits to be spent. It
// returns all these coins.
func (c *Chain) addSpent(ctx context.Context, h *holdings, all []*movement) (using treasury.Slot, err error) {
	mined := map[string]bool{} // coins: whether a block has what spends it
	for _, m := range all {
		if m.confirmations < 0 {
			continue
		}
		for _, unit := range slotOf(m.tx) {
			mined[unit] = mined[unit] || m.confirmations > 0
		}
	}
	using = slices.Sorted(maps.Keys(mined))
	parents, foreign := make([]walletTx, len(using)), make([]*jsonrpc.Refusal, len(using))
	there := make([]*struct{}, len(using))
	var questions []jsonrpc.Question
	for i, unit := range using {
		spent, err := outpoint(unit)
		if err != nil {
			return nil, err
		}
		questions = append(questions, jsonrpc.Ask(&parents[i], "gettransaction", spent.Hash.String(), true).In(&foreign[i]),
			jsonrpc.Ask(&there[i], "gettxout", spent.Hash.String(), spent.Index, false))
	}
	if err := c.node.Ask(ctx, questions...); err != nil {
		return nil, err
	}
	for i, unit := range using {
		if foreign[i] != nil {
			continue // another wallet's coin in one transaction with ours
		}
		amount, ours, err := c.output(ctx, parents[i], unit)
		if err != nil {
			return nil, err
		}
		isThere := there[i] != nil
		wasFinal := parents[i].Confirmations >= int64(c.confirmations) //nolint:gosec // G115: some blocks
		if ours {
			h.add(unit, amount, isThere, wasFinal && (isThere || mined[unit]))
		}
	}
	return using, nil
}

// output returns the amount of an output of a transaction, and whether it is the wallet's.
func (c *Chain) output(ctx context.Context, of walletTx, unit string) (sats, bool, error) {
	tx, _, err := parseHex(of.Hex)
	if err != nil {
		return 0, false, fmt.Errorf("%s: gettransaction: %w", c.node.Name, err)
	}
	spent, err := outpoint(unit)
	if err != nil || int(spent.Index) >= len(tx.TxOut) {
		return 0, false, fmt.Errorf("%s: it has no output %s", c.node.Name, unit)
	}
	out := tx.TxOut[spent.Index]
	address, err := c.addressOf(out.PkScript)
	if err != nil {
		return 0, false, nil //nolint:nilerr // what has no address is not the wallet's
	}
	mine, err := c.ownAddresses(ctx, address)
	return sats(out.Value), mine[address], err
}
