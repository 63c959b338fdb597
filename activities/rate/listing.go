package rate

import (
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/money"
)

// A pair names a price: units of quote for one unit of base.
type pair struct{ base, quote string }

func (p pair) String() string { return p.base + "/" + p.quote }

const usd = "USD"

// An asset is a currency. Its bounds are what one unit can be worth in US dollars. They are wide and do not follow the
// market: they find a pair the wrong way round, or a number with another count of decimals.
type asset struct {
	code        string
	least, most decimal.Decimal
	heartbeat   time.Duration // how often Chainlink's feed of the price in US dollars is updated at least
	feed        string        // its address on Ethereum's main network; "": there is none
}

// assets has a row for each currency.
var assets = []asset{
	{"BTC", decimal.New(1_000, 0), decimal.New(100_000_000, 0), time.Hour, "0xF4030086522a5bEEa4988F8cA5B36dbC97BeE88c"},
	{"ETH", decimal.New(50, 0), decimal.New(10_000_000, 0), time.Hour, "0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419"},
	{"USDT", decimal.New(1, -1), decimal.New(2, 0), 24 * time.Hour, "0x3E7d1eAB13ad0104d2750B8863b489D65364e32D"},
	{"USDC", decimal.New(1, -1), decimal.New(2, 0), 24 * time.Hour, "0x8fFfFfd4AfB6115b954Bd326cbe7B4BA576818f6"},
	{"EUR", decimal.New(3, -1), decimal.New(3, 0), 24 * time.Hour, "0xb49f677943BC038e9857d61E7d053CaA2C1734C1"},
	{"GBP", decimal.New(3, -1), decimal.New(3, 0), 24 * time.Hour, "0x5c0Ab2d9b5a7ed9f470386e82BB36A3613cDd4b5"},
	{"AUD", decimal.New(3, -1), decimal.New(3, 0), 24 * time.Hour, "0x77F9710E7d0A19669A13c055F62cd80d313dF022"},
	{"CAD", decimal.New(3, -1), decimal.New(3, 0), 24 * time.Hour, "0xa34317DB73e77d453b1B8d04550c44D10e981C8e"},
	{"USD", decimal.New(1, 0), decimal.New(1, 0), 0, ""},
}

// A listing is a price with its names at the exchanges. A name is "" at an exchange without that price.
type listing struct {
	pair
	kraken    string // in a request to Kraken
	krakenKey string // in Kraken's answer, where older pairs have other names
	coinbase  string // Coinbase's product
}

// listings lists every price. A market without its own price is priced over US dollars.
//
// Coinbase Exchange has no books in Canadian and Australian dollars, and takes USDC for US dollars. So
// those markets need Kraken and Chainlink. Kraken's names are those of its AssetPairs.
var listings = []listing{
	{pair{"BTC", "USD"}, "XBTUSD", "XXBTZUSD", "BTC-USD"},
	{pair{"BTC", "EUR"}, "XBTEUR", "XXBTZEUR", "BTC-EUR"},
	{pair{"BTC", "GBP"}, "XBTGBP", "XXBTZGBP", "BTC-GBP"},
	{pair{"BTC", "CAD"}, "XBTCAD", "XXBTZCAD", ""},
	{pair{"BTC", "AUD"}, "XBTAUD", "XBTAUD", ""},
	{pair{"ETH", "USD"}, "ETHUSD", "XETHZUSD", "ETH-USD"},
	{pair{"ETH", "EUR"}, "ETHEUR", "XETHZEUR", "ETH-EUR"},
	{pair{"ETH", "GBP"}, "ETHGBP", "XETHZGBP", "ETH-GBP"},
	{pair{"ETH", "CAD"}, "ETHCAD", "XETHZCAD", ""},
	{pair{"ETH", "AUD"}, "ETHAUD", "ETHAUD", ""},
	{pair{"USDT", "USD"}, "USDTUSD", "USDTZUSD", "USDT-USD"},
	{pair{"USDT", "EUR"}, "", "", "USDT-EUR"},
	{pair{"USDT", "GBP"}, "", "", "USDT-GBP"},
	{pair{"USDC", "USD"}, "USDCUSD", "USDCUSD", ""},
	{pair{"USDC", "EUR"}, "", "", "USDC-EUR"},
	{pair{"USDC", "GBP"}, "", "", "USDC-GBP"},
	{pair{"EUR", "USD"}, "EURUSD", "ZEURZUSD", ""},
	{pair{"GBP", "USD"}, "GBPUSD", "ZGBPZUSD", ""},
	{pair{"AUD", "USD"}, "AUDUSD", "AUDUSD", ""},
	{pair{"CAD", "USD"}, "", "", ""}, // Chainlink's alone
	{pair{"USD", "CAD"}, "USDCAD", "ZUSDZCAD", ""},
}

// namedBy returns the prices for which a source has a name, with the names.
func namedBy(name func(listing) string) (pairs []pair, names map[pair]string) {
	names = map[pair]string{}
	for _, of := range listings {
		if text := name(of); text != "" {
			pairs, names[of.pair] = append(pairs, of.pair), text
		}
	}
	return pairs, names
}

// mainnetFeeds returns the addresses of Chainlink's feeds on Ethereum's main network, by price.
func mainnetFeeds() map[string]string {
	feeds := map[string]string{}
	for _, a := range assets {
		if a.feed != "" {
			feeds[pair{a.code, usd}.String()] = a.feed
		}
	}
	return feeds
}

// plausible reports whether a price of p can be d at all.
func (p pair) plausible(d decimal.Decimal) bool {
	base, quote := assetOf(p.base), assetOf(p.quote)
	return d.Mul(quote.most).GreaterThanOrEqual(base.least) && d.Mul(quote.least).LessThanOrEqual(base.most)
}

// assetOf returns a row of assets, an empty one for an unknown currency.
func assetOf(code string) (a asset) {
	if i := slices.IndexFunc(assets, func(a asset) bool { return a.code == code }); i >= 0 {
		a = assets[i]
	}
	return a
}

// fiat reports whether p is a price of one fiat currency in another. Their market rests at weekends.
func (p pair) fiat() bool {
	return money.Currency(p.base).Valid() && money.Currency(p.quote).Valid()
}

// weekend reports whether the market of fiat currencies may rest at the time t: from Friday, 21:00 UTC,
// to Sunday's end. The market itself closes and opens at 21:00 UTC in summer and at 22:00 in winter.
// Feeds need some time after it has opened.
func weekend(t time.Time) bool {
	const closes = 21
	t = t.UTC()
	switch t.Weekday() {
	case time.Friday:
		return t.Hour() >= closes
	case time.Saturday, time.Sunday:
		return true
	}
	return false
}
