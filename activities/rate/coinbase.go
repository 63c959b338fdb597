package rate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// newCoinbase returns a source that reads the tickers of Coinbase Exchange, one request per price. A price has the time
// of the last trade, so a quiet book counts as old although its bid and ask are present ones. That can cost a source,
// and never gives a wrong price.
func newCoinbase(o Options) *source {
	from := newTicker(o.CoinbaseURL)
	pairs, products := namedBy(func(of listing) string { return of.coinbase })
	return newSource(Coinbase, pairs, o.maxAge, func(ctx context.Context) map[pair]reading {
		return readEach(pairs, func(p pair) (price, error) {
			body, err := from.get(ctx, "/products/"+products[p]+"/ticker")
			if err != nil {
				return price{}, err
			}
			return parseCoinbase(p, body, o.Now())
		})
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
