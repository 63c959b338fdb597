package bitcoin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// Look implements treasury.Chain. It returns jsonrpc.ErrNotReady when a coin is spent and the wallet does not show by
// what.
func (c *Chain) Look(
	ctx context.Context, versions []treasury.TransferVersion,
) (_ treasury.TransferSnapshot, err error) {
	defer checkout.Wrap(&err, "bitcoin: look")
	if len(versions) == 0 {
		return treasury.TransferSnapshot{}, errors.New("there is no version to look for")
	}
	v, err := c.view(ctx)
	if err != nil {
		return treasury.TransferSnapshot{}, err
	}
	slot := versions[0].Slot
	known, coins := make([]walletTx, len(versions)), make([]*struct{}, len(slot))
	unknown, unpooled := make([]*jsonrpc.Refusal, len(versions)), make([]*jsonrpc.Refusal, len(versions))
	var questions []jsonrpc.Question
	for i, version := range versions {
		questions = append(questions, jsonrpc.Ask(&known[i], "gettransaction", version.TxHash, true).In(&unknown[i]),
			jsonrpc.Ask(nil, "getmempoolentry", version.TxHash).In(&unpooled[i]))
	}
	for i, unit := range slot {
		spent, err := outpoint(unit)
		if err != nil {
			return treasury.TransferSnapshot{}, err
		}
		questions = append(questions, jsonrpc.Ask(&coins[i], "gettxout", spent.Hash.String(), spent.Index, false))
	}
	if err := c.node.Ask(ctx, questions...); err != nil {
		return treasury.TransferSnapshot{}, err
	}

	for i, version := range versions {
		if unknown[i] == nil && known[i].Confirmations > 0 {
			return c.mined(ctx, known[i], version)
		}
	}
	switch {
	case slices.Contains(coins, nil):
		return c.spent(ctx, v, versions, slot)
	case slices.Contains(unpooled, nil):
		return treasury.TransferSnapshot{State: treasury.TransferStatePending}, nil
	}
	return treasury.TransferSnapshot{State: treasury.TransferStateUnknown}, nil
}

// mined returns the state of a version that the wallet shows in a block.
func (c *Chain) mined(
	ctx context.Context, got walletTx, v treasury.TransferVersion,
) (treasury.TransferSnapshot, error) {
	var canonical string
	if err := c.node.Call(ctx, &canonical, "getblockhash", got.Height); err != nil {
		return treasury.TransferSnapshot{}, err
	}
	if canonical != got.Block {
		return treasury.TransferSnapshot{}, fmt.Errorf("%s: %w: its wallet shows another block at height %d",
			c.node.Name, jsonrpc.ErrNotReady, got.Height)
	}
	t, err := decodeTerms(v.Terms)
	if err != nil {
		return treasury.TransferSnapshot{}, err
	}
	s := treasury.TransferSnapshot{
		State: treasury.TransferStateMined, TxHash: v.TxHash, Height: got.Height, BlockHash: got.Block,
		Depth: uint64(got.Confirmations) - 1, Cost: sats(t.Fee).crypto(), //nolint:gosec // G115: above 0
	}
	switch {
	case s.Depth+1 < c.confirmations:
	case v.Cancels:
		s.State = treasury.TransferStateCanceled
	default:
		s.State = treasury.TransferStateConfirmed
		for _, o := range v.Outputs {
			s.Received = s.Received.Add(o.Amount)
		}
	}
	return s, nil
}

// deepest is more blocks than the chain ever goes back.
const deepest = 100

// spent decides about a transfer whose coin is gone while no version is in a block. That proves nothing until the
// transaction that spent the coin is found, and is final.
func (c *Chain) spent(
	ctx context.Context, v view, versions []treasury.TransferVersion, slot treasury.Slot,
) (treasury.TransferSnapshot, error) {
	t, err := decodeTerms(versions[0].Terms)
	if err != nil {
		return treasury.TransferSnapshot{}, err
	}
	from := min(t.Height, v.final)
	all, err := c.movements(ctx, from-min(from, deepest))
	if err != nil {
		return treasury.TransferSnapshot{}, err
	}
	for _, m := range all {
		isVersion := slices.ContainsFunc(versions, func(v treasury.TransferVersion) bool { return v.TxHash == m.txid })
		switch {
		case m.confirmations < 1 || !slotOf(m.tx).Shares(slot):
		case isVersion:
			return treasury.TransferSnapshot{}, fmt.Errorf("%w: %s was just mined", jsonrpc.ErrNotReady, m.txid)
		case uint64(m.confirmations) < c.confirmations:
			return treasury.TransferSnapshot{State: treasury.TransferStateUnknown}, nil
		default:
			return treasury.TransferSnapshot{
				State: treasury.TransferStateDead, Height: m.height, BlockHash: m.block,
				Depth: uint64(m.confirmations) - 1,
			}, nil
		}
	}
	return c.replacedParent(ctx, v, slot)
}

// replacedParent decides about a coin that is gone although nothing spent it: in a long reorganization another
// transaction may have replaced the coin's parent.
func (c *Chain) replacedParent(ctx context.Context, v view, slot treasury.Slot) (treasury.TransferSnapshot, error) {
	parents, questions := make([]walletTx, len(slot)), make([]jsonrpc.Question, len(slot))
	for i, unit := range slot {
		made, err := outpoint(unit)
		if err != nil {
			return treasury.TransferSnapshot{}, err
		}
		questions[i] = jsonrpc.Ask(&parents[i], "gettransaction", made.Hash.String(), true)
	}
	if err := c.node.Ask(ctx, questions...); err != nil {
		return treasury.TransferSnapshot{}, err
	}
	for _, parent := range parents {
		depth := -parent.Confirmations      // of the transaction that replaced it
		if depth < int64(c.confirmations) { //nolint:gosec // G115: some blocks
			continue
		}
		s := treasury.TransferSnapshot{
			State: treasury.TransferStateDead, Height: v.height(depth),
			Depth: uint64(depth) - 1, //nolint:gosec // G115: above 0
		}
		err := c.node.Call(ctx, &s.BlockHash, "getblockhash", s.Height)
		return s, err
	}
	return treasury.TransferSnapshot{}, fmt.Errorf("%s: %w: a coin is gone, and its wallet does not show why",
		c.node.Name, jsonrpc.ErrNotReady)
}
