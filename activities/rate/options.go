package rate

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Names of the sources.
const (
	Kraken    = "kraken"
	Coinbase  = "coinbase"
	Chainlink = "chainlink"
)

// Options are the settings of Rates. Start from Defaults: no field may be left out, except those of
// sources that are not chosen. A fraction is a part of one: 0.01 is one percent.
type Options struct {
	Mode         checkout.Mode     // whose payments are priced, for the metrics
	Sources      []string          // names, at least two different ones
	MinSources   int               // how many of them must have a fresh price for a quote; at least two
	KrakenURL    string            // https, or http on this computer; no path
	CoinbaseURL  string            // the same
	Chain        Caller            // a node of the chain that has Feeds
	Feeds        map[string]string // addresses of Chainlink's feeds, by price, such as "BTC/USD"
	MaxAge       time.Duration     // of the prices of Kraken and Coinbase; Chainlink's feeds have their own
	Lock         time.Duration     // how long a quote is locked for its payout
	MaxDeviation decimal.Decimal   // how far apart the rates of the sources may be, as a fraction

	// What the treasury keeps of a rate, as fractions. SpreadWeekend is added at weekends when a customer
	// pays in another currency than US dollars, because the market of fiat currencies rests then.
	SpreadStable  decimal.Decimal // payouts in USDT and USDC
	Spread        decimal.Decimal // payouts in BTC and ETH
	SpreadWeekend decimal.Decimal

	Now func() time.Time
	Log *slog.Logger
}

// Defaults returns options for Ethereum's main network. Chain is missing.
func Defaults() Options {
	return Options{
		Mode:          checkout.ModeLive,
		Sources:       []string{Kraken, Coinbase, Chainlink},
		MinSources:    leastSources,
		KrakenURL:     "https://api.kraken.com",
		CoinbaseURL:   "https://api.exchange.coinbase.com",
		Feeds:         mainnetFeeds(),
		MaxAge:        time.Minute,
		Lock:          24 * time.Hour,
		MaxDeviation:  decimal.RequireFromString("0.01"),
		SpreadStable:  decimal.RequireFromString("0.005"),
		Spread:        decimal.RequireFromString("0.01"),
		SpreadWeekend: decimal.RequireFromString("0.005"),
		Now:           time.Now,
		Log:           slog.Default(),
	}
}

// leastSources is the smallest number of sources of a rate: nothing shows that a single source is wrong.
const leastSources = 2

// Bounds of settings. A spread of a half, or a deviation of a tenth, is a mistake in writing.
var (
	mostSpread    = decimal.RequireFromString("0.2")
	mostDeviation = decimal.RequireFromString("0.1")
)

const (
	leastAge = 2 * pollEvery // one poll may fail
	mostAge  = 10 * time.Minute
)

// maxAge is how old a price of Kraken and Coinbase may be.
func (o Options) maxAge(pair, time.Time) time.Duration { return o.MaxAge }

// spread is the fraction that the treasury keeps in a market at the time now.
func (o Options) spread(m market, now time.Time) decimal.Decimal {
	all := o.Spread
	if m.to.Stable() {
		all = o.SpreadStable
	}
	if m.from != money.USD && weekend(now) {
		all = all.Add(o.SpreadWeekend)
	}
	return all
}

// sources returns the chosen sources, ordered by name. Its error names every wrong option.
func (o Options) sources() ([]*source, error) {
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf("rate: "+format, args...)) }
	names := slices.Compact(slices.Sorted(slices.Values(o.Sources)))
	switch {
	case len(names) != len(o.Sources):
		refuse("a source is named twice")
	case len(names) < leastSources:
		refuse("at least %d sources are needed, of %s, %s and %s", leastSources, Kraken, Coinbase, Chainlink)
	case o.MinSources < leastSources || o.MinSources > len(names):
		refuse("a quote needs from %d to %d sources, not %d", leastSources, len(names), o.MinSources)
	}
	if o.MaxAge < leastAge || o.MaxAge > mostAge {
		refuse("the greatest age of a price must be from %s to %s, not %s", leastAge, mostAge, o.MaxAge)
	}
	if !o.MaxDeviation.IsPositive() || o.MaxDeviation.GreaterThan(mostDeviation) {
		refuse("the greatest deviation must be above 0 %% and at most %s, not %s", percent(mostDeviation),
			percent(o.MaxDeviation))
	}
	for _, s := range []decimal.Decimal{o.SpreadStable, o.Spread, o.SpreadWeekend} {
		if s.IsNegative() || s.GreaterThan(mostSpread) {
			refuse("a spread must be from 0 %% to %s, not %s", percent(mostSpread), percent(s))
		}
	}
	if o.Now == nil || o.Log == nil {
		refuse("there is no clock or no log")
	}
	var all []*source
	for _, name := range names {
		s, err := o.source(name)
		if err != nil {
			refuse("%w", err)
		}
		all = append(all, s)
	}
	return all, errors.Join(faults...)
}

func (o Options) source(name string) (*source, error) {
	switch name {
	case Kraken:
		return newKraken(o), checkBase(name, o.KrakenURL)
	case Coinbase:
		return newCoinbase(o), checkBase(name, o.CoinbaseURL)
	case Chainlink:
		return newChainlink(o), o.checkFeeds()
	}
	return nil, fmt.Errorf("%.40q is no source: there are %s, %s and %s", name, Kraken, Coinbase, Chainlink)
}

// checkBase returns an error if text is not the address of a server. Who can change the answers on their way makes our
// prices, so plain http stays on this computer. The error does not quote the address, which may hold a key.
func checkBase(name, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.Fragment != "" {
		return fmt.Errorf("the address of %s must be https:// and a host", name)
	}
	ip := net.ParseIP(u.Hostname())
	here := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !here) {
		return fmt.Errorf("the address of %s must begin with https:// unless it is on this computer", name)
	}
	return nil
}

var contractAddress = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)

// checkFeeds accepts any part of the known feeds: test networks do not have all of them.
func (o Options) checkFeeds() error {
	if o.Chain == nil {
		return errors.New("chainlink needs a node of its chain")
	}
	if len(o.Feeds) == 0 {
		return errors.New("chainlink needs the addresses of its feeds")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Feeds)) {
		if _, known := mainnetFeeds()[name]; !known {
			return fmt.Errorf("%.40q is no feed of chainlink that is used here", name)
		}
		if !contractAddress.MatchString(o.Feeds[name]) {
			return fmt.Errorf("the address of chainlink's feed %s must be 0x and 40 hexadecimal digits", name)
		}
	}
	return nil
}
