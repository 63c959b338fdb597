package rate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// monday is a time at which every market is open.
var monday = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// fakeSource is a source with prices that a test sets.
type fakeSource struct {
	*source
	got   map[pair]reading
	reads atomic.Int64
}

func newFakeSource(name string) *fakeSource {
	f := &fakeSource{got: map[pair]reading{}}
	maxAge := func(pair, time.Time) time.Duration { return time.Minute }
	f.source = newSource(name, nil, maxAge, func(context.Context) map[pair]reading {
		f.reads.Add(1)
		return maps.Clone(f.got)
	})
	return f
}

// A desk is Rates over fake sources, with a clock that a test moves.
type desk struct {
	*Rates
	t       *testing.T
	at      time.Time
	sources map[string]*fakeSource
	log     *bytes.Buffer
}

// newDesk returns a desk whose sources have the prices "BTC/USD" and so on. The test runs beside others.
func newDesk(t *testing.T, names ...string) *desk {
	t.Parallel()
	return newSerialDesk(t, names...)
}

// newSerialDesk is for a test with a clock that synctest moves, where t.Parallel is not allowed.
func newSerialDesk(t *testing.T, names ...string) *desk {
	d := &desk{t: t, at: monday, sources: map[string]*fakeSource{}, log: &bytes.Buffer{}}
	o := Defaults()
	o.Sources = []string{Kraken, Coinbase}
	o.Now = func() time.Time { return d.at }
	o.Log = slog.New(slog.NewTextHandler(d.log, nil))
	r := must.Get(New(o))(t)
	r.sources = nil
	for _, name := range slices.Sorted(slices.Values(names)) {
		d.sources[name] = newFakeSource(name)
		r.sources = append(r.sources, d.sources[name].source)
	}
	d.Rates = r
	return d
}

// set gives a source a price of now; bid and ask are the same.
func (d *desk) set(source string, p pair, value string) {
	d.setBook(source, p, value, value)
}

func (d *desk) setBook(source string, p pair, bid, ask string) {
	got := must.Get(newPrice(p, decimal.RequireFromString(bid), decimal.RequireFromString(ask), d.at, d.at))(d.t)
	d.put(source, p, reading{price: got})
}

func (d *desk) put(source string, p pair, r reading) {
	s := d.sources[source]
	if !slices.Contains(s.pairs, p) {
		s.pairs = append(s.pairs, p)
	}
	s.got[p] = r
}

// after lets time pass.
func (d *desk) after(t time.Duration) *desk {
	d.at = d.at.Add(t)
	return d
}

// both gives both exchanges a price of bitcoin in dollars, and polls.
func (d *desk) both(value string) {
	d.set(Kraken, btcUSD, value)
	d.set(Coinbase, btcUSD, value)
	d.poll()
}

func (d *desk) poll() { d.Rates.poll(d.t.Context()) }

// touch makes all prices prices of now, and polls.
func (d *desk) touch() {
	for _, s := range d.sources {
		for p, r := range s.got {
			r.price.at = d.at
			s.got[p] = r
		}
	}
	d.poll()
}

func (d *desk) quote(from money.Currency, to money.PayoutCurrency) checkout.Quote {
	q := must.Get(d.Quote(d.t.Context(), from, to))(d.t)
	require.Equal(d.t, d.at, q.At)
	return q
}

func (d *desk) rate(from money.Currency, to money.PayoutCurrency) string {
	return d.quote(from, to).Rate.String()
}

// none requires that there is no rate, for this reason.
func (d *desk) none(from money.Currency, to money.PayoutCurrency, reason string) {
	q, err := d.Quote(d.t.Context(), from, to)
	require.ErrorIs(d.t, err, checkout.ErrNoRate)
	require.ErrorContains(d.t, err, reason)
	require.Zero(d.t, q)
}

var (
	btcUSD  = pair{"BTC", "USD"}
	btcEUR  = pair{"BTC", "EUR"}
	usdcUSD = pair{"USDC", "USD"}
	eurUSD  = pair{"EUR", "USD"}
)

func TestQuote_LocksTheWorstRateLessTheSpread(t *testing.T) {
	d := newDesk(t, Chainlink, Kraken, Coinbase)
	d.set(Kraken, btcUSD, "64000")
	d.set(Coinbase, btcUSD, "64128")
	d.set(Chainlink, btcUSD, "64100")
	d.sources[Chainlink].got[btcUSD] = reading{price: price{bid: decimal.NewFromInt(64100),
		ask: decimal.NewFromInt(64100), at: d.at.Add(-30 * time.Second)}}
	d.poll()
	require.Equal(t, checkout.Quote{
		Rate: money.MustRate("0.000015437874251496"), // 1/64128 = 0.000015593812375249…, less 1 %
		At:   monday, Until: monday.Add(24 * time.Hour),
		Sources: []checkout.SourceRate{
			{Source: Chainlink, Rate: money.MustRate("0.00001560062402496"), At: monday.Add(-30 * time.Second)},
			{Source: Coinbase, Rate: money.MustRate("0.000015593812375249"), At: monday},
			{Source: Kraken, Rate: money.MustRate("0.000015625"), At: monday},
		},
	}, d.quote(money.USD, money.BTC))

	d.options.Lock = 36 * time.Hour
	require.Equal(t, monday.Add(36*time.Hour), d.quote(money.USD, money.BTC).Until)
}

// We sell the fiat currency at the bid, and buy the payout's currency at the ask.
func TestQuote_GoesOverDollars(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	for name := range d.sources {
		d.setBook(name, eurUSD, "1.08", "1.09")
		d.setBook(name, pair{"USD", "CAD"}, "1.24", "1.25")
		d.setBook(name, usdcUSD, "0.99", "1")
	}
	d.poll()
	require.Equal(t, "0.995", d.rate(money.USD, money.USDC))      // less the spread of a stablecoin
	require.Equal(t, "1.0746", d.rate(money.EUR, money.USDC))     // 1.08 × 0.995
	require.Equal(t, "0.796", d.rate(money.CAD, money.USDC))      // 1/1.25 × 0.995
	d.none(money.GBP, money.USDC, "kraken: it has no such price") // and no way to it
}

func TestQuote_PrefersADirectPriceAndIsAsOldAsItsOldestOne(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	d.set(Kraken, btcEUR, "50000")
	d.set(Kraken, btcUSD, "54001") // over dollars Kraken's rate would be another one
	d.set(Kraken, eurUSD, "1.08")
	d.set(Coinbase, btcUSD, "54000")
	d.at = d.at.Add(20 * time.Second)
	d.set(Coinbase, eurUSD, "1.08")
	d.poll()
	require.Equal(t, []checkout.SourceRate{
		{Source: Coinbase, Rate: money.MustRate("0.00002"), At: monday}, {Source: Kraken, Rate: money.MustRate("0.00002"), At: monday},
	}, d.quote(money.EUR, money.BTC).Sources)

	d.put(Kraken, btcEUR, reading{err: errNotJSON})
	d.poll()
	kraken := d.quote(money.EUR, money.BTC).Sources[1]
	require.Equal(t, "0.000019999629636488", kraken.Rate.String(), "Kraken still has prices over dollars")
}

func TestQuote_OneSourceIsNone(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	d.none(money.USD, money.BTC, "0 of 2 sources have a fresh price, and 2 are needed")
	d.set(Kraken, btcUSD, "64000")
	d.put(Coinbase, btcUSD, reading{err: errNotJSON})
	d.poll()
	d.none(money.USD, money.BTC, "1 of 2 sources have a fresh price, and 2 are needed "+
		"(coinbase: BTC/USD: its answer is not JSON of the documented form)")
	d.put(Coinbase, btcEUR, reading{err: errNotJSON})
	d.poll()
	d.none(money.EUR, money.BTC, "(coinbase: BTC/EUR: its answer is not JSON of the documented form; "+
		"kraken: it has no such price)") // and not that there is no way over dollars
	d.none("JPY", money.BTC, "there are no such currencies")
	d.none(money.USD, "DOGE", "there are no such currencies")
}

func TestQuote_MoreSourcesCanBeAskedFor(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase, Chainlink)
	d.both("64000")
	d.rate(money.USD, money.BTC)
	d.options.MinSources = 3
	d.none(money.USD, money.BTC, "2 of 3 sources have a fresh price, and 3 are needed")
}

func TestQuote_AStalePriceIsNone(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	d.both("64000")
	d.at = monday.Add(time.Minute)
	d.rate(money.USD, money.BTC) // exactly as old as is allowed
	d.at = d.at.Add(time.Second)
	d.set(Kraken, btcUSD, "64000")
	d.poll()
	d.none(money.USD, money.BTC, "coinbase: BTC/USD is 1m1s old, older than 1m0s")
}

func TestQuote_ThePriceOfASourceThatIsAwayStaysUntilItIsOld(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	d.both("64000")
	d.at = monday.Add(50 * time.Second)
	d.set(Kraken, btcUSD, "64001")
	d.put(Coinbase, btcUSD, reading{err: away(errors.New("connection refused"))})
	d.poll()
	d.rate(money.USD, money.BTC)
	require.Contains(t, d.log.String(), "prices of an exchange rate source are missing")

	d.at = monday.Add(70 * time.Second)
	d.none(money.USD, money.BTC, "coinbase: BTC/USD is 1m10s old, older than 1m0s: not reachable: connection refused")

	d.set(Coinbase, btcUSD, "64002")
	d.poll()
	d.rate(money.USD, money.BTC) // and back
	require.Contains(t, d.log.String(), "all prices of an exchange rate source are there again")
}

func TestQuote_AWrongAnswerTakesTheLastPriceAwayAtOnce(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	for _, wrong := range []reading{{err: errNotJSON}, {}} { // {}: the pair is not in the answer
		d.both("64000")
		d.rate(money.USD, money.BTC)
		d.put(Kraken, btcUSD, wrong)
		d.poll()
		d.none(money.USD, money.BTC, "1 of 2 sources have a fresh price")
	}
}

func TestQuote_SourcesMustAgree(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase, Chainlink)
	for name, eur := range map[string]string{Kraken: "1.01", Coinbase: "1", Chainlink: "1"} {
		d.set(name, eurUSD, eur)
		d.set(name, usdcUSD, "1")
		d.set(name, btcUSD, "64000")
	}
	d.poll()
	require.Equal(t, "0.995", d.rate(money.EUR, money.USDC)) // exactly 1 % apart

	d.set(Kraken, eurUSD, "1.0101")
	d.poll()
	d.none(money.EUR, money.USDC, "the sources disagree by 1.01 %, and 1 % is allowed "+
		"(chainlink 1, coinbase 1, kraken 1.0101)")

	d.set(Coinbase, btcUSD, "32000") // two against one are not enough: nobody knows which one is right
	d.poll()
	d.none(money.USD, money.BTC, "the sources disagree by 100 %")
}

func TestQuote_AStablecoinOffItsPegStops(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase, Chainlink)
	eth := pair{"ETH", "USD"}
	for name := range d.sources {
		d.set(name, usdcUSD, "0.985")
		d.set(name, eth, "3200")
	}
	d.set(Chainlink, usdcUSD, "0.98")
	d.poll()
	d.rate(money.USD, money.USDC) // exactly at the limit

	d.set(Chainlink, usdcUSD, "0.9799")
	d.poll()
	d.none(money.USD, money.USDC, "USDC is off its peg: chainlink says 0.9799 USD, and 2 % is allowed")
	d.rate(money.USD, money.ETH) // the others go on

	for name := range d.sources {
		d.set(name, usdcUSD, "1.0201")
	}
	d.poll()
	d.none(money.USD, money.USDC, "USDC is off its peg")

	// A peg that nobody knows is not believed, though there are prices in euros.
	for name := range d.sources {
		d.put(name, usdcUSD, reading{err: errNotJSON})
		d.set(name, pair{"USDC", "EUR"}, "0.92")
	}
	d.poll()
	d.none(money.EUR, money.USDC, "no source has a fresh price of USDC in USD")
}

func TestQuote_WeekendsHaveAWiderSpread(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	for name := range d.sources {
		d.set(name, eurUSD, "1.25")
		d.set(name, usdcUSD, "1")
		d.set(name, pair{"ETH", "EUR"}, "2000")
	}
	d.poll()
	require.Equal(t, "1.24375", d.rate(money.EUR, money.USDC)) // less 0.5 %
	require.Equal(t, "0.000495", d.rate(money.EUR, money.ETH)) // less 1 %

	d.at = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) // a Saturday
	d.touch()
	require.Equal(t, "1.2375", d.rate(money.EUR, money.USDC))   // less 1 %
	require.Equal(t, "0.0004925", d.rate(money.EUR, money.ETH)) // less 1.5 %
	require.Equal(t, "0.995", d.rate(money.USD, money.USDC))    // no fiat market in it
}

func TestQuote_AJumpMustHoldForTenMinutes(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	d.both("50000")
	d.both("62500") // the rate falls by exactly 20 %
	d.rate(money.USD, money.BTC)
	last := d.at

	d.after(10 * time.Second).both("100000") // and falls again
	d.none(money.USD, money.BTC, "the rate is 0.00001, more than 20 % from 0.000016 at 2026-11-16T12:00:00Z")
	require.Equal(t, last, d.NoQuoteSince(money.USD, money.BTC))
	for range 59 {
		d.after(10 * time.Second).both("101000")
	}
	d.none(money.USD, money.BTC, "more than 20 % from 0.000016") // 9 min 50 s
	d.after(10 * time.Second).both("101000")
	require.Equal(t, "0.000009801980198018", d.rate(money.USD, money.BTC)) // 10 min
	require.Zero(t, d.NoQuoteSince(money.USD, money.BTC))

	// From here on the new level is the last good one.
	d.after(10 * time.Second).both("50000")
	d.none(money.USD, money.BTC, "more than 20 % from 0.000009900990099009")
	d.after(10 * time.Second).both("100000")
	d.rate(money.USD, money.BTC) // and back at once
	d.after(jumpHold).both("50000")
	d.none(money.USD, money.BTC, "more than 20 % from 0.00001") // the earlier visit does not count
}

// A level counts only if the sources keep agreeing on it.
func TestQuote_AJumpThatDoesNotHoldBeginsAgain(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(d *desk){
		"the sources disagree": func(d *desk) { d.set(Kraken, btcUSD, "90000") },
		"one is wrong":         func(d *desk) { d.put(Kraken, btcUSD, reading{err: errNotJSON}) },
		"another level": func(d *desk) {
			d.set(Kraken, btcUSD, "200000")
			d.set(Coinbase, btcUSD, "200000")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, Kraken, Coinbase)
			both := func(value string) { d.after(jumpHold - time.Second).both(value) }
			both("50000")
			both("100000")
			disturb(d)
			d.poll()
			both("100000")
			d.none(money.USD, money.BTC, "more than 20 % from")
			both("100000")
			d.none(money.USD, money.BTC, "more than 20 % from")
			both("100000")
			d.rate(money.USD, money.BTC)
		})
	}
}

func TestNoQuoteSince(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	d.at = monday.Add(time.Hour)
	require.Equal(t, monday, d.NoQuoteSince(money.USD, money.BTC), "since it was made")
	d.both("64000")
	require.Zero(t, d.NoQuoteSince(money.USD, money.BTC))
	require.Equal(t, monday, d.NoQuoteSince(money.USD, money.ETH), "each market for itself")
	good := d.at
	d.at = d.at.Add(2 * time.Minute) // the polls stand still
	require.Equal(t, good, d.NoQuoteSince(money.USD, money.BTC))
	d.poll()
	require.Equal(t, good, d.NoQuoteSince(money.USD, money.BTC))
	require.Contains(t, d.log.String(), `msg="exchange rates are not available" markets="USD to BTC" reason_of_the_last=`)
	d.touch()
	require.Zero(t, d.NoQuoteSince(money.USD, money.BTC))
	require.Contains(t, d.log.String(), `msg="exchange rates are available again" markets="USD to BTC"`)
	require.Zero(t, d.NoQuoteSince("JPY", money.BTC), "no such market")
}

func TestRun_AsksEveryTenSecondsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newSerialDesk(t, Kraken, Coinbase)
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { d.Run(ctx) })
		synctest.Wait()
		require.EqualValues(t, 1, d.sources[Kraken].reads.Load(), "at once")
		time.Sleep(31 * time.Second) // of the test's own clock: it takes no time
		cancel()
		run.Wait()
		require.EqualValues(t, 4, d.sources[Kraken].reads.Load())
		require.EqualValues(t, 4, d.sources[Coinbase].reads.Load())
	})
}

// Readings that the end of the process cut short do not count.
func TestPoll_AStopIsNoFault(t *testing.T) {
	d := newDesk(t, Kraken, Coinbase)
	d.both("64000")
	d.log.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.put(Kraken, btcUSD, reading{err: away(context.Canceled)})
	d.Rates.poll(ctx)
	require.Empty(t, d.log.String())
}

func TestNeverQuoted(t *testing.T) {
	t.Parallel()
	o := Defaults()
	o.Chain = feeds{}
	missing := []string{"USD to USDC", "CAD to USDT", "CAD to USDC", "CAD to BTC", "CAD to ETH",
		"AUD to USDT", "AUD to USDC", "AUD to BTC", "AUD to ETH"}
	for _, c := range []struct{ sources, never []string }{
		{[]string{Kraken, Coinbase, Chainlink}, nil},
		{[]string{Kraken, Chainlink}, nil},
		{[]string{Kraken, Coinbase}, missing},
		{[]string{Coinbase, Chainlink}, missing},
	} {
		o.Sources = c.sources
		r := must.Get(New(o))(t)
		require.Equal(t, c.never, r.NeverQuoted(), "%v", c.sources)
	}
}

// collect returns the reader of this process's metrics. The global meter can be set once only.
var collect = sync.OnceValue(func() *metric.ManualReader {
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	return reader
})

func TestMetrics(t *testing.T) {
	reader := collect()
	d := newDesk(t, "one", "two", "three")
	d.set("one", btcUSD, "64000")
	d.set("two", btcUSD, "64000")
	d.put("three", btcUSD, reading{err: errNotJSON})
	d.put("three", eurUSD, reading{err: errAway})
	d.poll()

	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	prices, markets := map[string]bool{}, map[string]bool{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					source, _ := p.Attributes.Value(sourceKey)
					kind, _ := p.Attributes.Value("error.type")
					prices[source.AsString()+" "+kind.AsString()] = true
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					from, _ := p.Attributes.Value(fromKey)
					to, _ := p.Attributes.Value(toKey)
					markets[from.AsString()+" "+to.AsString()] = true
				}
			}
		}
	}
	for name, want := range map[string]bool{"one ": true, "two ": true, "three wrong": true, "three away": true,
		"one wrong": false, "one away": false, "three ": false} {
		require.Equal(t, want, prices[name], name)
	}
	require.Len(t, markets, len(money.Currencies)*len(money.PayoutCurrencies))
}
