package rate

import (
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

var _ checkout.RateSource = (*Rates)(nil)

func TestNew_RefusesWithClearWords(t *testing.T) {
	t.Parallel()
	negative := decimal.RequireFromString("-0.001")
	for want, spoil := range map[string]func(o *Options){
		"rate: at least 2 sources are needed, of kraken, coinbase and chainlink":               func(o *Options) { o.Sources = []string{Kraken} },
		"rate: a source is named twice":                                                        func(o *Options) { o.Sources = []string{Kraken, Kraken} },
		`rate: "binance" is no source: there are kraken, coinbase and chainlink`:               func(o *Options) { o.Sources = []string{Kraken, "binance"} },
		"rate: a quote needs from 2 to 3 sources, not 1":                                       func(o *Options) { o.MinSources = 1 },
		"rate: a quote needs from 2 to 3 sources, not 4":                                       func(o *Options) { o.MinSources = 4 },
		"rate: a spread must be from 0 % to 20 %, not -0.1 %":                                  func(o *Options) { o.Spread = negative },
		"rate: a spread must be from 0 % to 20 %, not 50 %":                                    func(o *Options) { o.SpreadStable = decimal.RequireFromString("0.5") },
		"rate: a spread must be from 0 % to 20 %, not 100 %":                                   func(o *Options) { o.SpreadWeekend = decimal.NewFromInt(1) },
		"rate: the greatest deviation must be above 0 % and at most 10 %, not 0 %":             func(o *Options) { o.MaxDeviation = decimal.Zero },
		"rate: the greatest deviation must be above 0 % and at most 10 %, not 11 %":            func(o *Options) { o.MaxDeviation = decimal.RequireFromString("0.11") },
		"rate: the greatest age of a price must be from 20s to 10m0s, not 10s":                 func(o *Options) { o.MaxAge = 10 * time.Second },
		"rate: the greatest age of a price must be from 20s to 10m0s, not 1h0m0s":              func(o *Options) { o.MaxAge = time.Hour },
		"rate: the address of kraken must be https:// and a host":                              func(o *Options) { o.KrakenURL = "https://user:secret@kraken.example" },
		"rate: the address of coinbase must be https:// and a host":                            func(o *Options) { o.CoinbaseURL = "https://coinbase.example/v1?key=secret" },
		"rate: the address of kraken must begin with https:// unless it is on this computer":   func(o *Options) { o.KrakenURL = "http://kraken.example" },
		"rate: the address of coinbase must begin with https:// unless it is on this computer": func(o *Options) { o.CoinbaseURL = "ftp://127.0.0.1" },
		"rate: chainlink needs a node of its chain":                                            func(o *Options) { o.Chain = nil },
		"rate: chainlink needs the addresses of its feeds":                                     func(o *Options) { o.Feeds = nil },
		`rate: "BTC/EUR" is no feed of chainlink that is used here`:                            func(o *Options) { o.Feeds["BTC/EUR"] = o.Feeds["BTC/USD"] },
		"rate: the address of chainlink's feed ETH/USD must be 0x and 40 hexadecimal digits":   func(o *Options) { o.Feeds["ETH/USD"] = "0x12" },
		"rate: there is no clock or no log":                                                    func(o *Options) { o.Now = nil },
	} {
		o := Defaults()
		o.Chain = feeds{}
		spoil(&o)
		_, err := New(o)
		require.EqualError(t, err, want)
	}
}

func TestNew_NamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Sources: []string{"x"}})
	for _, want := range []string{"at least 2 sources", "greatest age", "greatest deviation", "no clock", `"x" is no source`} {
		require.ErrorContains(t, err, want)
	}
}

func TestNew_TakesSourcesOnThisComputerWithoutTLS(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"http://127.0.0.1:4711", "http://localhost:4711/", "http://[::1]:4711"} {
		o := Defaults()
		o.Sources, o.KrakenURL = []string{Coinbase, Kraken}, base
		must.Get(New(o))(t)
	}
}

// Each currency has bounds and a feed, and no name belongs to two prices.
func TestListings_AreWhole(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, of := range listings {
		require.True(t, assetOf(of.base).least.IsPositive(), of)
		require.True(t, assetOf(of.quote).least.IsPositive(), of)
		require.Equal(t, of.kraken == "", of.krakenKey == "")
		for _, name := range []string{of.String(), of.krakenKey, of.coinbase} {
			require.False(t, name != "" && seen[name], name)
			seen[name] = true
		}
	}
	for _, c := range money.PayoutCurrencies {
		require.Contains(t, mainnetFeeds(), string(c)+"/USD")
		require.False(t, pair{string(c), "EUR"}.fiat(), c)
	}
	for _, c := range money.Currencies[1:] {
		require.Contains(t, mainnetFeeds(), string(c)+"/USD")
		require.True(t, pair{string(c), "USD"}.fiat(), c)
	}
	require.False(t, pair{"DAI", "USD"}.fiat(), "an unknown coin is no fiat currency")
}

func TestWeekend(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"2026-11-20T20:59:59Z": false, "2026-11-20T21:00:00Z": true, "2026-11-21T12:00:00Z": true,
		"2026-11-22T23:59:59Z": true, "2026-11-23T00:00:00Z": false, "2026-11-23T01:00:00+02:00": true,
		"2026-11-25T22:00:00Z": false,
	} {
		at := must.Get(time.Parse(time.RFC3339, text))(t)
		require.Equal(t, want, weekend(at), text)
	}
}
