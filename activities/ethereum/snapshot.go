package ethereum

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Snapshot implements treasury.Chain. The nonces between the final one and the next one are in use. Of two nodes the
// higher next nonce counts, because either may have a transaction that the other lacks, and the lower final one.
// Balances are the first node's; those of the final block must be the same on both, else it returns
// ErrWitnessesDisagree.
func (c *Chain) Snapshot(ctx context.Context) (_ treasury.AccountSnapshot, err error) {
	defer checkout.Wrap(&err, "ethereum: snapshot")
	views, err := c.views(ctx)
	if err != nil {
		return treasury.AccountSnapshot{}, err
	}
	final := slices.MinFunc(views, func(a, b view) int { return cmp.Compare(a.final.Number, b.final.Number) }).final
	s := treasury.AccountSnapshot{Height: uint64(views[0].head.Number), FinalHeight: uint64(final.Number)}
	used := uint64(0) // nonces, at the final block
	for i, n := range c.nodes {
		var waiting, latest, atFinal hexutil.Uint64
		err := n.Ask(ctx, c.nonceAt("pending", &waiting), c.nonceAt(views[i].head.at(), &latest),
			c.nonceAt(final.at(), &atFinal))
		if err != nil {
			return treasury.AccountSnapshot{}, err
		}
		balances, err := c.balances(ctx, n, final.at())
		if err != nil {
			return treasury.AccountSnapshot{}, err
		}
		if i > 0 && (uint64(atFinal) != used || !maps.EqualFunc(balances, s.FinalBalances, money.Crypto.Is)) {
			return treasury.AccountSnapshot{}, fmt.Errorf("%w: about the account at block %d",
				ErrWitnessesDisagree, s.FinalHeight)
		}
		pooled, err := c.afterPooled(ctx, n)
		if err != nil {
			return treasury.AccountSnapshot{}, err
		}
		s.Next = max(s.Next, uint64(waiting), uint64(latest), pooled)
		used, s.FinalBalances = uint64(atFinal), balances
	}
	for nonce := used; nonce < s.Next; nonce++ {
		s.Using = append(s.Using, treasury.NumberSlot(nonce)...)
	}
	s.Used = func(slot treasury.Slot) bool {
		nonce, ok := slot.Number()
		return ok && nonce < used
	}
	s.Balances, err = c.balances(ctx, c.nodes[0], views[0].head.at())
	return s, err
}

// balances returns the account's balances at a block.
func (c *Chain) balances(ctx context.Context, n *jsonrpc.Node, at any) (all money.Purse, err error) {
	all = money.Purse{}
	for _, currency := range slices.AppendSeq([]money.PayoutCurrency{money.ETH}, maps.Keys(c.tokens)) {
		all[currency], err = c.balance(ctx, n, currency, at)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// smallPool is a pool that is read whole.
const smallPool = 2_000 // transactions

// afterPooled returns the nonce after the account's last one in the node's pool, also behind an unused nonce: the
// pending nonce ends before such a gap. After the restore of an old backup these may be payments that PostgreSQL lacks.
// It returns 0 for a node that does not show its pool.
func (c *Chain) afterPooled(ctx context.Context, n *jsonrpc.Node) (uint64, error) {
	type byNonce map[string]json.RawMessage
	var (
		mine map[string]byNonce // by "pending" and "queued"
		all  map[string]map[common.Address]byNonce
		size map[string]hexutil.Uint64
	)
	err := n.Call(ctx, &mine, "txpool_contentFrom", c.treasury)
	if unserved(err) {
		err = n.Call(ctx, &size, "txpool_status")
		if err == nil && size["pending"]+size["queued"] <= smallPool {
			err = n.Call(ctx, &all, "txpool_content")
			mine = map[string]byNonce{"pending": all["pending"][c.treasury], "queued": all["queued"][c.treasury]}
		}
	}
	if err != nil && !unserved(err) {
		return 0, err
	}
	next := uint64(0)
	for _, state := range mine {
		for text := range state {
			if nonce, err := strconv.ParseUint(text, 10, 64); err == nil {
				next = max(next, nonce+1)
			}
		}
	}
	return next, nil
}

// unserved reports whether a node does not serve a method: providers answer so in JSON-RPC, or with an HTTP status. A
// status that passes, such as that of too many requests, does not count.
func unserved(err error) bool {
	var (
		refused *jsonrpc.Refusal
		status  jsonrpc.HTTPStatus
	)
	switch {
	case errors.As(err, &refused):
		return true
	case !errors.As(err, &status):
		return false
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500 || status == http.StatusNotImplemented
}
