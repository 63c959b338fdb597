package rate

import (
	"time"

	"github.com/shopspring/decimal"
)

// A pair names a price: units of quote for one unit of base.
type pair struct{ base, quote string }

func (p pair) String() string { return p.base + "/" + p.quote }

const usd = "USD"

// A listing is what the sources call one price. A source that does not have it has no name for it.
type listing struct {
	pair
	kraken    string        // in a request to Kraken
	krakenKey string        // in Kraken's answer, where older pairs have other names
	coinbase  string        // Coinbase's product
	heartbeat time.Duration // Chainlink's feed is updated at least this often
}

// listings lists every price and who has it. A market without its own price is priced over US dollars.
//
// Coinbase Exchange has no books in Canadian and Australian dollars, and takes USDC for US dollars. So
// those markets need Kraken and Chainlink. Kraken's names are those of its AssetPairs; the heartbeats
// are Chainlink's on Ethereum's main network.
var listings = []listing{
	{pair{"BTC", "USD"}, "XBTUSD", "XXBTZUSD", "BTC-USD", time.Hour},
	{pair{"BTC", "EUR"}, "XBTEUR", "XXBTZEUR", "BTC-EUR", 0},
	{pair{"BTC", "GBP"}, "XBTGBP", "XXBTZGBP", "BTC-GBP", 0},
	{pair{"BTC", "CAD"}, "XBTCAD", "XXBTZCAD", "", 0},
	{pair{"BTC", "AUD"}, "XBTAUD", "XBTAUD", "", 0},
	{pair{"ETH", "USD"}, "ETHUSD", "XETHZUSD", "ETH-USD", time.Hour},
	{pair{"ETH", "EUR"}, "ETHEUR", "XETHZEUR", "ETH-EUR", 0},
	{pair{"ETH", "GBP"}, "ETHGBP", "XETHZGBP", "ETH-GBP", 0},
	{pair{"ETH", "CAD"}, "ETHCAD", "XETHZCAD", "", 0},
	{pair{"ETH", "AUD"}, "ETHAUD", "ETHAUD", "", 0},
	{pair{"USDT", "USD"}, "USDTUSD", "USDTZUSD", "USDT-USD", 24 * time.Hour},
	{pair{"USDT", "EUR"}, "", "", "USDT-EUR", 0},
	{pair{"USDT", "GBP"}, "", "", "USDT-GBP", 0},
	{pair{"USDC", "USD"}, "USDCUSD", "USDCUSD", "", 24 * time.Hour},
	{pair{"USDC", "EUR"}, "", "", "USDC-EUR", 0},
	{pair{"USDC", "GBP"}, "", "", "USDC-GBP", 0},
	{pair{"EUR", "USD"}, "EURUSD", "ZEURZUSD", "", 24 * time.Hour},
	{pair{"GBP", "USD"}, "GBPUSD", "ZGBPZUSD", "", 24 * time.Hour},
	{pair{"AUD", "USD"}, "AUDUSD", "AUDUSD", "", 24 * time.Hour},
	{pair{"CAD", "USD"}, "", "", "", 24 * time.Hour},
	{pair{"USD", "CAD"}, "USDCAD", "ZUSDZCAD", "", 0},
}

// MainnetFeeds returns the addresses of Chainlink's feeds on Ethereum's main network, by price.
func MainnetFeeds() map[string]string {
	return map[string]string{
		"BTC/USD":  "0xF4030086522a5bEEa4988F8cA5B36dbC97BeE88c",
		"ETH/USD":  "0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419",
		"USDT/USD": "0x3E7d1eAB13ad0104d2750B8863b489D65364e32D",
		"USDC/USD": "0x8fFfFfd4AfB6115b954Bd326cbe7B4BA576818f6",
		"EUR/USD":  "0xb49f677943BC038e9857d61E7d053CaA2C1734C1",
		"GBP/USD":  "0x5c0Ab2d9b5a7ed9f470386e82BB36A3613cDd4b5",
		"AUD/USD":  "0x77F9710E7d0A19669A13c055F62cd80d313dF022",
		"CAD/USD":  "0xa34317DB73e77d453b1B8d04550c44D10e981C8e",
	}
}

// usdBounds is what one unit can be worth in US dollars. The bounds are wide: they do not follow the
// market. They find a pair the wrong way round, or a number with another count of decimals.
var usdBounds = map[string]struct{ least, most decimal.Decimal }{
	"USD":  {decimal.NewFromInt(1), decimal.NewFromInt(1)},
	"EUR":  {decimal.New(3, -1), decimal.NewFromInt(3)},
	"GBP":  {decimal.New(3, -1), decimal.NewFromInt(3)},
	"CAD":  {decimal.New(3, -1), decimal.NewFromInt(3)},
	"AUD":  {decimal.New(3, -1), decimal.NewFromInt(3)},
	"USDT": {decimal.New(1, -1), decimal.NewFromInt(2)},
	"USDC": {decimal.New(1, -1), decimal.NewFromInt(2)},
	"BTC":  {decimal.NewFromInt(1_000), decimal.NewFromInt(100_000_000)},
	"ETH":  {decimal.NewFromInt(50), decimal.NewFromInt(10_000_000)},
}

// plausible reports whether a price of p can be d at all.
func (p pair) plausible(d decimal.Decimal) bool {
	base, quote := usdBounds[p.base], usdBounds[p.quote]
	return d.Mul(quote.most).GreaterThanOrEqual(base.least) && d.Mul(quote.least).LessThanOrEqual(base.most)
}

// fiat reports whether p is a price of one fiat currency in another. Their market rests at weekends.
func (p pair) fiat() bool {
	switch p.base {
	case "USDT", "USDC", "BTC", "ETH":
		return false
	}
	return true
}
