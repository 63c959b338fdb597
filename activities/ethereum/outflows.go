package ethereum

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

const (
	blocksAtOnce   = 500 // of one call of Outflows: nodes refuse longer ranges of logs
	blocksInFull   = 100 // of them that are read with all their transactions
	receiptsAtOnce = 50  // of one request: nodes refuse longer batches
)

// Outflows implements treasury.Chain. It returns every transfer of the tokens out of the account, also by another
// account with an allowance, but no transfer of nothing by another account: tokens let everybody do that. It returns
// every other transaction of the account as ETH, with the amount 0 when it moved nothing, such as a reverted one. A
// nonce that no transaction of the account used has no hash: the key signed something else. It reads at most 500
// blocks, of the first node that is ready, and fewer when the node refuses their logs.
func (c *Chain) Outflows(ctx context.Context, first, last uint64) (_ treasury.Outflows, err error) {
	defer checkout.Wrap(&err, "ethereum: outflows from block %d", first)
	n, v, err := c.healthy(ctx)
	if err != nil {
		return treasury.Outflows{}, err
	}
	last = min(last, uint64(v.final.Number), first+blocksAtOnce-1)
	if first > last {
		return treasury.Outflows{Next: first}, nil
	}
	s := search{Chain: c, node: n, sent: map[common.Hash]sentTransaction{}}
	logs, last, err := s.logsIn(ctx, first, last)
	if err != nil {
		return treasury.Outflows{}, err
	}
	if last, err = s.sentIn(ctx, first, last); err != nil {
		return treasury.Outflows{}, err
	}
	all, err := s.transactions(ctx, s.tokenOutflows(logs, last))
	if err != nil {
		return treasury.Outflows{}, err
	}
	all = append(all, s.unexplained...)
	nonce := func(o treasury.Outflow) uint64 { n, _ := o.Slot.Number(); return n }
	slices.SortStableFunc(all, func(a, b treasury.Outflow) int {
		return cmp.Or(cmp.Compare(a.Height, b.Height), cmp.Compare(nonce(a), nonce(b)))
	})
	return treasury.Outflows{All: all, Next: last + 1}, nil
}

// A sentTransaction is a transaction of a block.
type sentTransaction struct {
	Hash   common.Hash     `json:"hash"`
	From   common.Address  `json:"from"`
	To     *common.Address `json:"to"`
	Nonce  hexutil.Uint64  `json:"nonce"`
	Value  hexutil.Big     `json:"value"`
	Height hexutil.Uint64  `json:"blockNumber"`
}

// A search looks for outflows in a range of blocks.
type search struct {
	*Chain

	node        *jsonrpc.Node
	sent        map[common.Hash]sentTransaction // the account's transactions
	unexplained []treasury.Outflow
	inFull      int // blocks that were read
}

// sentIn finds the account's transactions in the blocks from first to last. It returns the last block
// that it looked at: it stops after blocksInFull of them.
func (s *search) sentIn(ctx context.Context, first, last uint64) (uint64, error) {
	before := nonceKnown{}
	if first > 0 {
		var err error
		if before, err = s.nonceAfter(ctx, first-1); err != nil {
			return 0, err
		}
	}
	for at := first; at <= last; {
		end, after, err := s.unchangedUntil(ctx, at, last, before)
		if err != nil {
			return 0, err
		}
		if end == 0 { // the block at is not known to leave the nonce as it was
			if s.inFull == blocksInFull {
				return at - 1, nil
			}
			if after, err = s.readBlock(ctx, at, before); err != nil {
				return 0, err
			}
			end = at
		}
		before, at = after, end+1
	}
	return last, nil
}

// A nonceKnown is the account's nonce after a block, unless the node forgot that state.
type nonceKnown struct {
	nonce uint64
	known bool
}

// nonceAfter returns the account's nonce after a block.
func (s *search) nonceAfter(ctx context.Context, height uint64) (nonceKnown, error) {
	var (
		nonce   hexutil.Uint64
		refused *jsonrpc.Refusal
	)
	err := s.node.Ask(ctx, s.nonceAt(hexutil.Uint64(height), &nonce).In(&refused))
	return nonceKnown{uint64(nonce), err == nil && refused == nil}, err
}

// unchangedUntil halves the range to find the last block of the longest range from at on without a transaction of the
// account; 0 when at itself may have one.
func (s *search) unchangedUntil(ctx context.Context, at, last uint64, before nonceKnown) (uint64, nonceKnown, error) {
	if !before.known {
		return 0, nonceKnown{}, nil
	}
	for end := last; ; end = at + (end-at)/2 {
		after, err := s.nonceAfter(ctx, end)
		if err != nil {
			return 0, nonceKnown{}, err
		}
		if after == before {
			return end, after, nil
		}
		if end == at {
			return 0, nonceKnown{}, nil
		}
	}
}

// readBlock notes the account's transactions in a block.
func (s *search) readBlock(ctx context.Context, height uint64, before nonceKnown) (nonceKnown, error) {
	s.inFull++
	var b *struct {
		Transactions []sentTransaction `json:"transactions"`
	}
	if err := s.node.Call(ctx, &b, "eth_getBlockByNumber", hexutil.Uint64(height), true); err != nil {
		return nonceKnown{}, err
	}
	if b == nil {
		return nonceKnown{}, fmt.Errorf("%s: %w: it has no block %d", s.node.Name, jsonrpc.ErrNotReady, height)
	}
	nonces := map[uint64]bool{}
	for _, tx := range b.Transactions {
		if tx.From == s.treasury {
			s.sent[tx.Hash] = tx
			nonces[uint64(tx.Nonce)] = true
		}
	}
	after, err := s.nonceAfter(ctx, height)
	if err != nil || !before.known || !after.known {
		return after, err
	}
	for nonce := before.nonce; nonce < after.nonce; nonce++ {
		if !nonces[nonce] {
			s.unexplained = append(s.unexplained, treasury.Outflow{
				Slot: treasury.NumberSlot(nonce), Amount: ether(new(big.Int)), Height: height,
			})
		}
	}
	return after, nil
}

// logsIn returns the tokens' logs of transfers out of the account in the blocks from first to last. It
// returns the last block that it looked at: half as many blocks, and again, while the node refuses.
func (s *search) logsIn(ctx context.Context, first, last uint64) ([]logEntry, uint64, error) {
	if len(s.tokens) == 0 {
		return nil, last, nil
	}
	for ; ; last = first + (last-first)/2 {
		var logs []logEntry
		err := s.node.Call(ctx, &logs, "eth_getLogs", map[string]any{
			"fromBlock": hexutil.Uint64(first), "toBlock": hexutil.Uint64(last),
			"address": slices.Collect(maps.Values(s.tokens)),
			"topics":  []any{transferTopic, common.BytesToHash(s.treasury.Bytes())},
		})
		if err == nil || last == first || ctx.Err() != nil {
			return logs, last, err
		}
	}
}

// tokenOutflows returns the transfers out of the account in the logs up to the block last.
func (s *search) tokenOutflows(logs []logEntry, last uint64) []treasury.Outflow {
	var all []treasury.Outflow
	for _, entry := range logs {
		t, ok := entry.transfer()
		if !ok || t.from != s.treasury || t.amount.Sign() == 0 || uint64(entry.Height) > last {
			continue
		}
		amount := money.NewCrypto(t.amount, s.currencyOf(entry.Contract))
		o := treasury.Outflow{
			TxHash: entry.TxHash.Hex(), Destination: t.to.Hex(), Amount: amount, Height: uint64(entry.Height)}
		if tx, ours := s.sent[entry.TxHash]; ours {
			o.Slot = treasury.NumberSlot(uint64(tx.Nonce))
		}
		all = append(all, o)
	}
	return all
}

func (s *search) currencyOf(contract common.Address) money.PayoutCurrency {
	for currency, token := range s.tokens {
		if token == contract {
			return currency
		}
	}
	return ""
}

// transactions returns the tokens' outflows, and the account's transactions that moved ether or no token. The first
// outflow of each of the account's transactions has its cost.
func (s *search) transactions(ctx context.Context, tokens []treasury.Outflow) ([]treasury.Outflow, error) {
	receipts, err := s.receipts(ctx)
	if err != nil {
		return nil, err
	}
	all, movesTokens := tokens, map[common.Hash]bool{}
	for i, o := range tokens {
		hash := common.HexToHash(o.TxHash)
		if r := receipts[hash]; r != nil && !movesTokens[hash] {
			all[i].Cost = r.cost()
		}
		movesTokens[hash] = true
	}
	for hash, tx := range s.sent {
		r, value := receipts[hash], tx.Value.ToInt()
		if r != nil && r.Status != 1 {
			value = new(big.Int)
		}
		if movesTokens[hash] && value.Sign() == 0 {
			continue
		}
		o := treasury.Outflow{
			TxHash: hash.Hex(), Slot: treasury.NumberSlot(uint64(tx.Nonce)), Amount: ether(value), Height: uint64(tx.Height)}
		if r != nil && !movesTokens[hash] {
			o.Cost = r.cost()
		}
		if tx.To != nil {
			o.Destination = tx.To.Hex()
		}
		all = append(all, o)
	}
	return all, nil
}

// receipts returns the receipts of the account's transactions; nil for a transaction that the node lacks.
func (s *search) receipts(ctx context.Context) (map[common.Hash]*receipt, error) {
	all := map[common.Hash]*receipt{}
	for hashes := range slices.Chunk(slices.Collect(maps.Keys(s.sent)), receiptsAtOnce) {
		got, questions := make([]*receipt, len(hashes)), make([]jsonrpc.Question, len(hashes))
		for i, hash := range hashes {
			questions[i] = jsonrpc.Ask(&got[i], "eth_getTransactionReceipt", hash)
		}
		if err := s.node.Ask(ctx, questions...); err != nil {
			return nil, err
		}
		for i, hash := range hashes {
			all[hash] = got[i]
		}
	}
	return all, nil
}
