package bitcoin

import (
	"context"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/treasury"
)

// A market is what decides about the next version of a transfer: the chain, what size costs, and the last version.
type market struct {
	view
	prices
	pooled
}

func (c *Chain) market(ctx context.Context, last treasury.TransferVersion) (m market, err error) {
	if m.view, err = c.view(ctx); err != nil {
		return m, err
	}
	if m.prices, err = c.prices(ctx); err != nil {
		return m, err
	}
	var gone *jsonrpc.Refusal
	err = c.node.Ask(ctx, jsonrpc.Ask(&m.pooled, "getmempoolentry", last.TxHash).In(&gone))
	return m, err
}

// A pooled is a transaction in the node's pool, together with those that spend its outputs there.
type pooled struct {
	Count int   `json:"descendantcount"` // 0 when it is not in the pool
	Size  int64 `json:"descendantsize"`
	Fees  struct {
		All sats `json:"descendant"`
	} `json:"fees"`
}

// pays reports whether all of them together pay a rate, so that miners take them.
func (p pooled) pays(r rate) bool { return p.Count > 0 && p.Fees.All >= r.of(p.Size) }
