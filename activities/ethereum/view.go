package ethereum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
)

// ErrWitnessesDisagree means that two nodes have different final states. Nothing is decided then.
var ErrWitnessesDisagree = errors.New("the Ethereum nodes disagree")

// A block is what this package reads of a block. The hash is the node's own: a network whose blocks
// get more fields needs no new version of this program.
type block struct {
	Number       hexutil.Uint64 `json:"number"`
	Hash         common.Hash    `json:"hash"`
	Timestamp    hexutil.Uint64 `json:"timestamp"`
	BaseFee      *hexutil.Big   `json:"baseFeePerGas"`
	Transactions []common.Hash  `json:"transactions"`
}

// at names the block to a node. It never means another block that took its place.
func (b block) at() any { return map[string]any{"blockHash": b.Hash} }

// A view is a node's state of the chain at one moment.
type view struct {
	head  block
	final block // the last one that never goes away, by Options.Confirmations
}

// view returns the node's state of the chain. It returns an error when the node is on another chain, and
// jsonrpc.ErrNotReady when it is syncing or behind.
func (c *Chain) view(ctx context.Context, n *jsonrpc.Node) (view, error) {
	var (
		id          hexutil.Uint64
		syncing     json.RawMessage
		head, final *block
	)
	questions := []jsonrpc.Question{
		jsonrpc.Ask(&id, "eth_chainId"), jsonrpc.Ask(&syncing, "eth_syncing"),
		jsonrpc.Ask(&head, "eth_getBlockByNumber", "latest", false),
	}
	if c.confirmations == 0 {
		questions = append(questions, jsonrpc.Ask(&final, "eth_getBlockByNumber", "finalized", false))
	}
	if err := n.Ask(ctx, questions...); err != nil {
		return view{}, err
	}

	switch {
	case uint64(id) != c.chainID:
		return view{}, fmt.Errorf("%s: its chain id is %d, not %d", n.Name, id, c.chainID)
	case string(syncing) != "false":
		return view{}, fmt.Errorf("%s: %w: it is syncing", n.Name, jsonrpc.ErrNotReady)
	case head == nil || head.BaseFee == nil:
		return view{}, fmt.Errorf("%s: %w: it has no block with a base fee", n.Name, jsonrpc.ErrNotReady)
	}
	if age := time.Since(time.Unix(int64(head.Timestamp), 0)); age > c.maxHeadAge { //nolint:gosec // G115: seconds
		return view{}, fmt.Errorf("%s: %w: its last block is %v old", n.Name, jsonrpc.ErrNotReady, age.Round(time.Second))
	}
	if c.confirmations > 0 {
		height := uint64(0)
		if number := uint64(head.Number); number+1 > c.confirmations {
			height = number + 1 - c.confirmations
		}
		b, err := blockAt(ctx, n, height)
		return view{*head, b}, err
	}
	if final == nil {
		return view{}, fmt.Errorf("%s: %w: it has no finalized block", n.Name, jsonrpc.ErrNotReady)
	}
	return view{*head, *final}, nil
}

// blockAt returns the block at a height of the node's chain.
func blockAt(ctx context.Context, n *jsonrpc.Node, height uint64) (block, error) {
	var b *block
	if err := n.Call(ctx, &b, "eth_getBlockByNumber", hexutil.Uint64(height), false); err != nil {
		return block{}, err
	}
	if b == nil {
		return block{}, fmt.Errorf("%s: %w: it has no block %d", n.Name, jsonrpc.ErrNotReady, height)
	}
	return *b, nil
}

// healthy returns the first node that is ready, with its view.
func (c *Chain) healthy(ctx context.Context) (*jsonrpc.Node, view, error) {
	var faults []error
	for _, n := range c.nodes {
		v, err := c.view(ctx, n)
		if err == nil {
			return n, v, nil
		}
		faults = append(faults, err)
	}
	return nil, view{}, errors.Join(faults...)
}

// views returns the views of all nodes, in their order. It returns ErrWitnessesDisagree when their
// final blocks are not on one chain.
func (c *Chain) views(ctx context.Context) ([]view, error) {
	views := make([]view, len(c.nodes))
	for i, n := range c.nodes {
		var err error
		if views[i], err = c.view(ctx, n); err != nil {
			return nil, err
		}
	}
	if len(views) == 1 {
		return views, nil
	}

	height := min(views[0].final.Number, views[1].final.Number)
	var hashes [2]common.Hash
	for i, n := range c.nodes {
		b := views[i].final
		if b.Number != height {
			var err error
			if b, err = blockAt(ctx, n, uint64(height)); err != nil {
				return nil, err
			}
		}
		hashes[i] = b.Hash
	}
	if hashes[0] != hashes[1] {
		return nil, fmt.Errorf("%w: their final blocks at height %d differ", ErrWitnessesDisagree, height)
	}
	return views, nil
}

// nonceAt reads the number of transactions of the treasury's account up to a block.
func (c *Chain) nonceAt(at any, into *hexutil.Uint64) jsonrpc.Question {
	return jsonrpc.Ask(into, "eth_getTransactionCount", c.treasury, at)
}
