package ethereum

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/treasury"
)

// deadState is asked when the nonce is used up at finality and the node has no true receipt of a version.
// That a node has no receipt proves nothing: it may have lost it. So deadState looks for the block that
// used up the nonce, and returns an error unless it finds that block without a version in it.
func (w witness) deadState(ctx context.Context) (treasury.TransferSnapshot, error) {
	height, err := w.heightUsedUp(ctx)
	if err != nil {
		return treasury.TransferSnapshot{}, fmt.Errorf("the nonce is used up by an unknown transaction: %w", err)
	}
	b, err := blockAt(ctx, w.node, height)
	if err != nil {
		return treasury.TransferSnapshot{}, err
	}
	for _, v := range w.versions {
		if slices.Contains(b.Transactions, common.HexToHash(v.TxHash)) {
			return treasury.TransferSnapshot{}, fmt.Errorf("%s: %w: it has no receipt of %s, which is in block %d",
				w.node.Name, jsonrpc.ErrNotReady, v.TxHash, height)
		}
	}
	return treasury.TransferSnapshot{
		State: treasury.TransferStateDead, Height: height, BlockHash: b.Hash.Hex(),
		Depth: uint64(w.view.head.Number) - height,
	}, nil
}

// heightUsedUp returns the height of the block after which the account's nonce was above w.nonce for the
// first time. Ordinary nodes know the state of the last 128 blocks only, so it begins at the last
// final block and goes back in steps that double.
func (w witness) heightUsedUp(ctx context.Context) (uint64, error) {
	isUsed := func(height uint64) (bool, error) {
		var nonce hexutil.Uint64
		err := w.node.Ask(ctx, w.nonceAt(hexutil.Uint64(height), &nonce))
		return uint64(nonce) > w.nonce, err
	}

	used := uint64(w.view.final.Number) // a height at which the nonce is used up
	free := used                        // a height at which it is not, after the loop
	for step := uint64(1); ; step *= 2 {
		if free == 0 {
			return 0, errors.New("it was used up in the first block")
		}
		free -= min(step, free)
		yes, err := isUsed(free)
		if err != nil {
			return 0, err
		}
		if !yes {
			break
		}
		used = free
	}
	for used-free > 1 {
		middle := free + (used-free)/2
		yes, err := isUsed(middle)
		if err != nil {
			return 0, err
		}
		if yes {
			used = middle
		} else {
			free = middle
		}
	}
	return used, nil
}
