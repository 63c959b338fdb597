package rate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// coinbase reads the tickers of Coinbase Exchange, one request for each price. Their time is that of
// the last trade, so a quiet book counts as old although its bid and ask are of now. That costs a
// source, and never gives a wrong price.
type coinbase struct {
	ticker
	age      time.Duration
	now      func() time.Time
	products map[pair]string
	offered  []pair
}

func newCoinbase(o Options) *coinbase {
	c := &coinbase{ticker: newTicker(o.CoinbaseURL), age: o.MaxAge, now: o.Now, products: map[pair]string{}}
	for _, of := range listings {
		if of.coinbase != "" {
			c.products[of.pair] = of.coinbase
			c.offered = append(c.offered, of.pair)
		}
	}
	return c
}

func (c *coinbase) name() string                         { return Coinbase }
func (c *coinbase) pairs() []pair                        { return c.offered }
func (c *coinbase) maxAge(pair, time.Time) time.Duration { return c.age }

func (c *coinbase) read(ctx context.Context) map[pair]reading {
	return readEach(c.offered, func(p pair) (price, error) {
		body, err := c.get(ctx, "/products/"+c.products[p]+"/ticker")
		if err != nil {
			return price{}, err
		}
		return parseCoinbase(p, body, c.now())
	})
}

// parseCoinbase reads a ticker of p at the time now. The answer does not name its product.
// Source: Coinbase Exchange's REST API, "Get product ticker".
func parseCoinbase(p pair, body []byte, now time.Time) (price, error) {
	var answer struct {
		Bid  string `json:"bid"`
		Ask  string `json:"ask"`
		Time string `json:"time"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return price{}, errNotJSON
	}
	at, err := time.Parse(time.RFC3339Nano, answer.Time)
	if err != nil {
		return price{}, fmt.Errorf("%.40q is not a time", answer.Time)
	}
	return parseBook(p, answer.Bid, answer.Ask, at, now)
}
