// Package ticker is a double of the public price services of Kraken and Coinbase Exchange, in their own formats.
package ticker

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/money"
)

// krakenKeys are the names that Kraken gives to pairs in an answer, by their names in a request.
var krakenKeys = map[string]string{
	"XBTUSD": "XXBTZUSD", "XBTEUR": "XXBTZEUR", "XBTGBP": "XXBTZGBP", "XBTCAD": "XXBTZCAD", "XBTAUD": "XBTAUD",
	"ETHUSD": "XETHZUSD", "ETHEUR": "XETHZEUR", "ETHGBP": "XETHZGBP", "ETHCAD": "XETHZCAD", "ETHAUD": "ETHAUD",
	"USDTUSD": "USDTZUSD", "USDCUSD": "USDCUSD", "EURUSD": "ZEURZUSD", "GBPUSD": "ZGBPZUSD", "AUDUSD": "AUDUSD",
	"USDCAD": "ZUSDZCAD",
}

// testPrices returns the prices of the test mode in US dollars, by currency.
func testPrices() map[string]decimal.Decimal {
	prices := map[string]decimal.Decimal{}
	for _, c := range money.Currencies {
		prices[string(c)] = decimal.RequireFromString(c.TestPrice())
	}
	for _, c := range money.PayoutCurrencies {
		prices[string(c)] = decimal.RequireFromString(c.TestPrice())
	}
	return prices
}

// New returns the double of both sources, each with the paths of the real one. Its prices are those of the test mode.
func New() http.Handler {
	double := book(testPrices())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /0/public/Ticker", double.kraken)
	mux.HandleFunc("GET /products/{product}/ticker", double.coinbase)
	return mux
}

// A book has the prices in US dollars, by currency: "BTC", "EUR".
type book map[string]decimal.Decimal

// sides returns bid and ask of one unit of base in quote: 0.01 % on each side of the price. They are
// empty when a currency is not known.
func (b book) sides(base, quote string) (bid, ask string) {
	if b[quote].IsZero() {
		return "", ""
	}
	price, side, one := b[base].DivRound(b[quote], 10), decimal.New(1, -4), decimal.NewFromInt(1)
	return price.Mul(one.Sub(side)).StringFixed(10), price.Mul(one.Add(side)).StringFixed(10)
}

func (b book) kraken(w http.ResponseWriter, r *http.Request) {
	result := map[string]any{}
	for name := range strings.SplitSeq(r.URL.Query().Get("pair"), ",") {
		key := krakenKeys[name]
		if key == "" {
			write(w, http.StatusOK, map[string]any{"error": []string{"EQuery:Unknown asset pair"}})
			return
		}
		base, quote := strings.Replace(name[:len(name)-3], "XBT", "BTC", 1), name[len(name)-3:]
		bid, ask := b.sides(base, quote)
		result[key] = map[string]any{"a": []string{ask, "1", "1.000"}, "b": []string{bid, "1", "1.000"},
			"c": []string{ask, "0.00067643"}, "t": []int{34619, 38907}, "o": ask}
	}
	write(w, http.StatusOK, map[string]any{"error": []string{}, "result": result})
}

func (b book) coinbase(w http.ResponseWriter, r *http.Request) {
	base, quote, _ := strings.Cut(r.PathValue("product"), "-")
	bid, ask := b.sides(base, quote)
	if bid == "" || r.PathValue("product") == "USDC-USD" { // Coinbase takes one for the other
		write(w, http.StatusNotFound, map[string]any{"message": "NotFound"})
		return
	}
	write(w, http.StatusOK, map[string]any{"trade_id": 86326522, "price": ask, "size": "0.00698254", "bid": bid,
		"ask": ask, "volume": "53602.03940154", "time": time.Now().UTC().Format(time.RFC3339Nano)})
}

func write(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader may be gone
}
