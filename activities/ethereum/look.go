package ethereum

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// A receipt is a node's record of a mined transaction. It proves nothing alone: after a reorganization nodes show
// receipts of blocks that are gone.
type receipt struct {
	TxHash    common.Hash    `json:"transactionHash"`
	BlockHash common.Hash    `json:"blockHash"`
	Height    hexutil.Uint64 `json:"blockNumber"`
	Status    hexutil.Uint64 `json:"status"`
	GasUsed   hexutil.Uint64 `json:"gasUsed"`
	GasPrice  hexutil.Big    `json:"effectiveGasPrice"`
	Logs      []logEntry     `json:"logs"`
}

// cost returns the fee that the network took, in ether.
func (r receipt) cost() money.Crypto { return ether(cost(uint64(r.GasUsed), r.GasPrice.ToInt())) }

// A logEntry is an event of a contract.
type logEntry struct {
	Contract common.Address `json:"address"`
	Topics   []common.Hash  `json:"topics"`
	Data     hexutil.Bytes  `json:"data"`
	TxHash   common.Hash    `json:"transactionHash"`
	Height   hexutil.Uint64 `json:"blockNumber"`
}

// A pooled is a node's record of a transaction.
type pooled struct {
	BlockHash *common.Hash `json:"blockHash"` // nil while it waits in the pool
}

// Look implements treasury.Chain. It reads the state at every node. All nodes must agree on a final state: it returns
// ErrWitnessesDisagree when their final states differ, and jsonrpc.ErrNotReady when a node is not ready.
func (c *Chain) Look(
	ctx context.Context, versions []treasury.TransferVersion,
) (_ treasury.TransferSnapshot, err error) {
	if len(versions) == 0 {
		return treasury.TransferSnapshot{}, errors.New("ethereum: there is no version to look for")
	}
	defer checkout.Wrap(&err, "ethereum: look at %s", versions[0].Slot.Name())
	nonce, err := nonceOf(versions[0].Slot)
	if err != nil {
		return treasury.TransferSnapshot{}, err
	}
	views, err := c.views(ctx)
	if err != nil {
		return treasury.TransferSnapshot{}, err
	}
	seen := make([]treasury.TransferSnapshot, len(c.nodes))
	for i, n := range c.nodes {
		w := witness{c, n, views[i], nonce, versions}
		if seen[i], err = w.transferState(ctx); err != nil {
			return treasury.TransferSnapshot{}, err
		}
	}
	if len(seen) == 1 {
		return seen[0], nil
	}
	return combineSnapshots(seen[0], seen[1])
}

// certainty orders the states. The final ones are equal.
var certainty = map[treasury.TransferState]int{
	treasury.TransferStateUnknown: 0, treasury.TransferStatePending: 1, treasury.TransferStateMined: 2,
	treasury.TransferStateConfirmed: finally, treasury.TransferStateReverted: finally, treasury.TransferStateDead: finally,
	treasury.TransferStateCanceled: finally,
}

const finally = 3

// combineSnapshots combines the states of two nodes. While one of them is behind, nothing is final.
func combineSnapshots(a, b treasury.TransferSnapshot) (treasury.TransferSnapshot, error) {
	low, high := a, b
	if certainty[a.State] > certainty[b.State] {
		low, high = b, a
	}
	switch {
	case certainty[high.State] < finally && low.State == treasury.TransferStateMined && high.Depth < low.Depth:
		return high, nil // both are mined: the one that is less deep
	case certainty[high.State] < finally && low.State != treasury.TransferStateMined:
		return high, nil
	case certainty[low.State] < finally:
		return low, nil
	case low.State != high.State || low.TxHash != high.TxHash || low.BlockHash != high.BlockHash:
		return treasury.TransferSnapshot{}, fmt.Errorf("%w: one says that the transfer is %s, the other says %s",
			ErrWitnessesDisagree, low.State, high.State)
	}
	low.Depth = min(low.Depth, high.Depth)
	return low, nil
}

// A witness reads the state of one transfer at one node.
type witness struct {
	*Chain

	node     *jsonrpc.Node
	view     view
	nonce    uint64
	versions []treasury.TransferVersion
}

// transferState returns the node's state of the transfer.
func (w witness) transferState(ctx context.Context) (treasury.TransferSnapshot, error) {
	var finalNonce, headNonce hexutil.Uint64
	receipts, waits := make([]*receipt, len(w.versions)), make([]*pooled, len(w.versions))
	questions := []jsonrpc.Question{w.nonceAt(w.view.final.at(), &finalNonce), w.nonceAt(w.view.head.at(), &headNonce)}
	for i, v := range w.versions {
		questions = append(questions, jsonrpc.Ask(&receipts[i], "eth_getTransactionReceipt", v.TxHash),
			jsonrpc.Ask(&waits[i], "eth_getTransactionByHash", v.TxHash))
	}
	if err := w.node.Ask(ctx, questions...); err != nil {
		return treasury.TransferSnapshot{}, err
	}

	if headNonce < finalNonce {
		return treasury.TransferSnapshot{}, fmt.Errorf(
			"%s contradicts itself: the nonce is %d at block %d and %d at block %d",
			w.node.Name, finalNonce, w.view.final.Number, headNonce, w.view.head.Number)
	}

	isFinal := uint64(finalNonce) > w.nonce
	var mined []treasury.TransferSnapshot
	for i, r := range receipts {
		if r == nil || uint64(headNonce) <= w.nonce { // with the nonce free, no receipt is true
			continue
		}
		s, err := w.minedState(ctx, *r, w.versions[i], isFinal)
		if err != nil {
			return treasury.TransferSnapshot{}, err
		}
		if s.State != "" {
			mined = append(mined, s)
		}
	}
	switch {
	case len(mined) > 1:
		return treasury.TransferSnapshot{}, fmt.Errorf(
			"%s contradicts itself: it has two transactions of one nonce", w.node.Name)
	case len(mined) == 1:
		return mined[0], nil
	case isFinal:
		return w.deadState(ctx)
	case slices.ContainsFunc(waits, func(p *pooled) bool { return p != nil && p.BlockHash == nil }):
		return treasury.TransferSnapshot{State: treasury.TransferStatePending}, nil
	}
	return treasury.TransferSnapshot{State: treasury.TransferStateUnknown}, nil
}

// minedState returns the state of a version with a receipt. The state is "" when the receipt is not true:
// its block is not in the chain, does not hold the transaction, or left the account's nonce free.
func (w witness) minedState(
	ctx context.Context, r receipt, v treasury.TransferVersion, isFinal bool,
) (treasury.TransferSnapshot, error) {
	hash := common.HexToHash(v.TxHash)
	if r.TxHash != hash || r.Height > w.view.head.Number {
		return treasury.TransferSnapshot{}, nil
	}
	b, err := blockAt(ctx, w.node, uint64(r.Height))
	if err != nil {
		return treasury.TransferSnapshot{}, err
	}
	if b.Hash != r.BlockHash || !slices.Contains(b.Transactions, hash) {
		return treasury.TransferSnapshot{}, nil
	}
	var after hexutil.Uint64
	var refused *jsonrpc.Refusal // the node forgot the state of an old block; the final one's is known
	switch err := w.node.Ask(ctx, w.nonceAt(b.at(), &after).In(&refused)); {
	case err != nil:
		return treasury.TransferSnapshot{}, err
	case refused == nil && uint64(after) <= w.nonce:
		return treasury.TransferSnapshot{}, nil
	}

	s := treasury.TransferSnapshot{
		State: treasury.TransferStateMined, TxHash: v.TxHash, Height: uint64(b.Number), BlockHash: b.Hash.Hex(),
		Depth: uint64(w.view.head.Number - b.Number),
		Cost:  r.cost(),
	}
	if isFinal && b.Number <= w.view.final.Number {
		s.State, s.Received, err = w.outcome(r, v)
	}
	return s, err
}

// outcome returns the effect of a final receipt: the destination received the amount, another amount, or nothing.
func (w witness) outcome(r receipt, v treasury.TransferVersion) (treasury.TransferState, money.Crypto, error) {
	nothing := money.Crypto{}
	if v.Cancels {
		return treasury.TransferStateCanceled, nothing, nil
	}
	if r.Status != 1 {
		return treasury.TransferStateReverted, nothing, nil
	}
	pays := v.Outputs[0]
	if v.Currency() == money.ETH {
		return treasury.TransferStateConfirmed, pays.Amount, nil
	}
	token, ok := w.tokens[v.Currency()]
	if !ok {
		return "", nothing, fmt.Errorf("no token is configured for %s", v.Currency())
	}
	received := new(big.Int)
	for _, entry := range r.Logs {
		t, ok := entry.transfer()
		if ok && entry.Contract == token && t.from == w.treasury && strings.EqualFold(t.to.Hex(), pays.Destination) {
			received.Add(received, t.amount)
		}
	}
	if received.Sign() == 0 {
		return treasury.TransferStateReverted, nothing, nil
	}
	return treasury.TransferStateConfirmed, money.NewCrypto(received, v.Currency()), nil
}

// A tokenTransfer is a token's log of a transfer. Its amount is in the token's smallest unit.
type tokenTransfer struct {
	from, to common.Address
	amount   *big.Int
}

// transfer reads a log of a transfer; ok is false for another log.
func (l logEntry) transfer() (t tokenTransfer, ok bool) {
	if len(l.Topics) != 3 || l.Topics[0] != transferTopic || len(l.Data) != wordSize {
		return t, false
	}
	from, to := common.BytesToAddress(l.Topics[1][:]), common.BytesToAddress(l.Topics[2][:])
	return tokenTransfer{from, to, new(big.Int).SetBytes(l.Data)}, true
}

// deadState decides about a nonce that is used at finality while the node has no true receipt of a version. The node
// may have lost the receipt. So deadState finds the block that used the nonce, and returns an error unless it finds
// that block without a version in it.
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

// heightUsedUp returns the first height at which the account's nonce was above w.nonce. Ordinary nodes keep the state
// of the last 128 blocks only, so it goes back from the last final block in steps that double.
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
