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

// An asset is a currency: what its prices can be, and who has them.
type asset struct {
	code string

	// What one unit can be worth in US dollars. The bounds are wide: they do not follow the market. They find a
	// pair the wrong way round, or a number with another count of decimals.
	least, most decimal.Decimal

	// The address of Chainlink's feed of the price in US dollars on Ethereum's main network, and how often the
	// feed is updated at least. "" is none.
	feed      string
	heartbeat time.Duration

	books []book
}

// A book has the exchanges' names of a price. A name is "" at an exchange without that price.
type book struct {
	in        string // the other currency
	kraken    string // in a request to Kraken
	krakenKey string // in Kraken's answer, where older pairs have other names
	coinbase  string // Coinbase's product
}

// assets has a row for each currency. A market without its own price is priced over US dollars.
//
// Coinbase Exchange has no books in Canadian and Australian dollars, and takes USDC for US dollars. So
// those markets need Kraken and Chainlink. Kraken's names are those of its AssetPairs.
var assets = []asset{
	{
		code: "BTC", least: decimal.NewFromInt(1_000), most: decimal.NewFromInt(100_000_000),
		feed: "0xF4030086522a5bEEa4988F8cA5B36dbC97BeE88c", heartbeat: time.Hour,
		books: []book{
			{"USD", "XBTUSD", "XXBTZUSD", "BTC-USD"},
			{"EUR", "XBTEUR", "XXBTZEUR", "BTC-EUR"},
			{"GBP", "XBTGBP", "XXBTZGBP", "BTC-GBP"},
			{"CAD", "XBTCAD", "XXBTZCAD", ""},
			{"AUD", "XBTAUD", "XBTAUD", ""},
		},
	},
	{
		code: "ETH", least: decimal.NewFromInt(50), most: decimal.NewFromInt(10_000_000),
		feed: "0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419", heartbeat: time.Hour,
		books: []book{
			{"USD", "ETHUSD", "XETHZUSD", "ETH-USD"},
			{"EUR", "ETHEUR", "XETHZEUR", "ETH-EUR"},
			{"GBP", "ETHGBP", "XETHZGBP", "ETH-GBP"},
			{"CAD", "ETHCAD", "XETHZCAD", ""},
			{"AUD", "ETHAUD", "ETHAUD", ""},
		},
	},
	{
		code: "USDT", least: decimal.New(1, -1), most: decimal.NewFromInt(2),
		feed: "0x3E7d1eAB13ad0104d2750B8863b489D65364e32D", heartbeat: 24 * time.Hour,
		books: []book{
			{"USD", "USDTUSD", "USDTZUSD", "USDT-USD"},
			{"EUR", "", "", "USDT-EUR"},
			{"GBP", "", "", "USDT-GBP"},
		},
	},
	{
		code: "USDC", least: decimal.New(1, -1), most: decimal.NewFromInt(2),
		feed: "0x8fFfFfd4AfB6115b954Bd326cbe7B4BA576818f6", heartbeat: 24 * time.Hour,
		books: []book{
			{"USD", "USDCUSD", "USDCUSD", ""},
			{"EUR", "", "", "USDC-EUR"},
			{"GBP", "", "", "USDC-GBP"},
		},
	},
	{
		code: "EUR", least: decimal.New(3, -1), most: decimal.NewFromInt(3),
		feed: "0xb49f677943BC038e9857d61E7d053CaA2C1734C1", heartbeat: 24 * time.Hour,
		books: []book{{"USD", "EURUSD", "ZEURZUSD", ""}},
	},
	{
		code: "GBP", least: decimal.New(3, -1), most: decimal.NewFromInt(3),
		feed: "0x5c0Ab2d9b5a7ed9f470386e82BB36A3613cDd4b5", heartbeat: 24 * time.Hour,
		books: []book{{"USD", "GBPUSD", "ZGBPZUSD", ""}},
	},
	{
		code: "AUD", least: decimal.New(3, -1), most: decimal.NewFromInt(3),
		feed: "0x77F9710E7d0A19669A13c055F62cd80d313dF022", heartbeat: 24 * time.Hour,
		books: []book{{"USD", "AUDUSD", "AUDUSD", ""}},
	},
	{
		code: "CAD", least: decimal.New(3, -1), most: decimal.NewFromInt(3),
		feed: "0xa34317DB73e77d453b1B8d04550c44D10e981C8e", heartbeat: 24 * time.Hour,
		books: []book{{"USD", "", "", ""}},
	},
	{
		code: "USD", least: decimal.NewFromInt(1), most: decimal.NewFromInt(1),
		books: []book{{"CAD", "USDCAD", "ZUSDZCAD", ""}},
	},
}

// A listing is a price and who has it.
type listing struct {
	pair
	book
	feed      string
	heartbeat time.Duration // of a feed; 0 when there can be none
}

// listings lists every price.
var listings = func() (all []listing) {
	for _, a := range assets {
		for _, b := range a.books {
			l := listing{pair: pair{a.code, b.in}, book: b}
			if b.in == usd {
				l.feed, l.heartbeat = a.feed, a.heartbeat
			}
			all = append(all, l)
		}
	}
	return all
}()

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
	for _, of := range listings {
		if of.feed != "" {
			feeds[of.String()] = of.feed
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
