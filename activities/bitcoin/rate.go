package bitcoin

import (
	"context"
	"fmt"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/treasury"
)

// A rate is a price of size: satoshis for 1,000 virtual bytes, as the RPC counts.
type rate int64

const perKilo = 1000

// of returns what a size costs, rounded up.
func (r rate) of(size int64) sats { return sats((int64(r)*size + perKilo - 1) / perKilo) }

func (r rate) String() string { return fmt.Sprintf("%d.%03d sat/vB", r/perKilo, r%perKilo) }

// prices are what size costs now.
type prices struct {
	now       rate // to be mined within the fee target
	increment rate // what a replacement must pay more, at least
}

// prices asks what size costs. It returns treasury.ErrFeeTooHigh when that is above the limit, and jsonrpc.ErrNotReady
// when the node of the main network cannot tell yet.
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
