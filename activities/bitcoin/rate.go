package bitcoin

import (
	"context"
	"fmt"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// A rate is a price of size: satoshis for 1,000 virtual bytes, as the RPC counts.
type rate int64

const perKilo = 1000

// of returns the price of a size, rounded up.
func (r rate) of(size int64) sats { return sats((int64(r)*size + perKilo - 1) / perKilo) }

func (r rate) String() string { return fmt.Sprintf("%d.%03d sat/vB", r/perKilo, r%perKilo) }

// prices are the node's current fee rates.
type prices struct {
	now       rate // to be mined within the fee target
	increment rate // what a replacement must pay more, at least
}

// prices reads the price of size. It returns treasury.ErrFeeTooHigh when that is above the limit, and
// jsonrpc.ErrNotReady when the node of the main network has no estimate yet.
func (c *Chain) prices(ctx context.Context) (prices, error) {
	var (
		estimate struct {
			Rate *sats `json:"feerate"` // nil: it saw too few blocks
		}
		pool struct {
			Least     sats `json:"mempoolminfee"`
			Relay     sats `json:"minrelaytxfee"`
			Increment sats `json:"incrementalrelayfee"`
		}
	)
	err := c.node.Ask(ctx,
		jsonrpc.Ask(&estimate, "estimatesmartfee", c.feeTarget, "economical"), jsonrpc.Ask(&pool, "getmempoolinfo"))
	if err != nil {
		return prices{}, err
	}
	p := prices{now: max(rate(pool.Least), rate(pool.Relay), perKilo), increment: max(rate(pool.Increment), perKilo)}
	switch {
	case estimate.Rate != nil:
		p.now = max(p.now, rate(*estimate.Rate))
	case c.network.name == "main":
		return prices{}, fmt.Errorf("%s: %w: it cannot estimate a fee yet", c.node.Name, jsonrpc.ErrNotReady)
	}
	return p, nil
}

// affordable returns treasury.ErrFeeTooHigh when size costs more than the limit.
func (c *Chain) affordable(r rate) error {
	if r > c.maxRate {
		return fmt.Errorf("%w: a transfer costs %s, the limit is %s", treasury.ErrFeeTooHigh, r, c.maxRate)
	}
	return nil
}

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

// TransferFee estimates the present fee of a transfer of one payout: one coin, the change, and an output of the largest
// kind. Payouts in a batch pay less each. It signs nothing and sends nothing. Its errors are those of Plan.
func (c *Chain) TransferFee(ctx context.Context, currency money.PayoutCurrency) (_ money.Crypto, err error) {
	defer checkout.Wrap(&err, "bitcoin: fee of a transfer of %s", currency)
	if currency != money.BTC {
		return money.Crypto{}, fmt.Errorf("it is not of this network")
	}
	if _, err := c.view(ctx); err != nil {
		return money.Crypto{}, err
	}
	price, err := c.prices(ctx)
	if err == nil {
		err = c.affordable(price.now)
	}
	if err != nil {
		return money.Crypto{}, err
	}
	largest := outputWeight(make([]byte, 34)) // P2WSH and P2TR
	weight, _ := inputWeight("0014" + "0000000000000000000000000000000000000000")
	return price.now.of(size([]coin{{Weight: weight}}, largest+changeWeight, 2)).crypto(), nil
}
