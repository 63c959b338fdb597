package rate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

// krakenAnswer is an answer of Kraken's Ticker, shortened to two pairs.
const krakenAnswer = `{"error":[],"result":{
	"XXBTZUSD":{"a":["64010.10000","1","1.000"],"b":["64000.00000","2","2.000"],"c":["64003.20000","0.00067643"],
		"v":["1.2","3.4"],"p":["6.1","6.2"],"t":[34619,38907],"l":["1","2"],"h":["3","4"],"o":"63502.80000"},
	"ZUSDZCAD":{"a":["1.42715","500","500.000"],"b":["1.42708","12302","12302.000"],"c":["1.42717","34.5"]}}}`

// coinbaseAnswer is an answer of Coinbase Exchange's product ticker.
const coinbaseAnswer = `{"ask":"64010.1","bid":"64000","volume":"53602.03940154","trade_id":86326522,"price":"64008.48",
	"size":"0.00698254","time":"2026-11-16T11:59:57.833897Z","rfq_volume":"12.5"}`

// serve returns options whose tickers are a server that answers with h.
func serve(t *testing.T, h http.HandlerFunc) Options {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	o := Defaults()
	o.KrakenURL, o.CoinbaseURL = server.URL, server.URL
	o.Now = func() time.Time { return monday }
	return o
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// refused requires that a reading has no price, for a short reason that does not pass by itself.
func refused(t *testing.T, got reading, reason string) {
	require.ErrorContains(t, got.err, reason)
	require.Less(t, len(got.err.Error()), 130)
	require.NotErrorIs(t, got.err, errAway)
	require.Zero(t, got.price)
}

func number(text string) decimal.Decimal { return decimal.RequireFromString(text) }

func TestKraken_AsksForAllPricesAtOnce(t *testing.T) {
	t.Parallel()
	k := newKraken(serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/0/public/Ticker", r.URL.Path)
		require.Equal(t, "XBTUSD,XBTEUR,XBTGBP,XBTCAD,XBTAUD,ETHUSD,ETHEUR,ETHGBP,ETHCAD,ETHAUD,USDTUSD,USDCUSD,EURUSD,"+
			"GBPUSD,AUDUSD,USDCAD", r.URL.Query().Get("pair"))
		_, _ = w.Write([]byte(krakenAnswer))
	}))
	got := k.read(t.Context())
	require.Len(t, got, 16)
	require.Equal(t, reading{price: price{number("64000.00000"), number("64010.10000"), monday}}, got[btcUSD])
	require.Equal(t, reading{price: price{number("1.42708"), number("1.42715"), monday}}, got[pair{"USD", "CAD"}])
	require.ErrorIs(t, got[eurUSD].err, errNotAnswered)
	require.Equal(t, time.Minute, k.maxAge(btcUSD, monday))
}

func TestKraken_BadBooksAreNoPrices(t *testing.T) {
	t.Parallel()
	for book, want := range map[string]string{
		`{"a":["0","1","1"],"b":["0","1","1"]}`:                 "the price is not above zero",
		`{"a":["-64000","1","1"],"b":["-64000","1","1"]}`:       `"-64000" is not a price`,
		`{"a":["64000","1","1"],"b":["64001","1","1"]}`:         "the bid 64001 is above the ask 64000",
		`{"a":["64000","1","1"],"b":["60000","1","1"]}`:         "the bid 60000 is more than 2 % below the ask 64000",
		`{"a":["0.000015","1","1"],"b":["0.000015","1","1"]}`:   "0.000015 for BTC/USD cannot be: it is out of all proportion",
		`{"a":["6400000000000","1","1"],"b":["64000","1","1"]}`: `"6400000000000" is not a price`,
		`{"a":["640000000000","1","1"],"b":["640000000000"]}`:   "640000000000 for BTC/USD cannot be",
		`{"a":["1e9999999","1","1"],"b":["64000","1","1"]}`:     `"1e9999999" is not a price`,
		`{}`:                                 `"" is not a price`,
		`{"a":[64000,1,1],"b":[64000,1,1]}`:  "not JSON of the documented form",
		`"` + strings.Repeat("x", 100) + `"`: "not JSON of the documented form",
		`{"a":["` + strings.Repeat("9", 200) + `"],"b":["64000"]}`: `"64000" is not`,
	} {
		if strings.Contains(book, "999999999999") {
			want = "is not a price" // and is not quoted whole
		}
		k := newKraken(serve(t, answer(http.StatusOK, `{"error":[],"result":{"XXBTZUSD":`+book+`}}`)))
		refused(t, k.read(t.Context())[btcUSD], want)
	}
}

func TestKraken_AnotherPairIsNotBelieved(t *testing.T) {
	t.Parallel()
	k := newKraken(serve(t, answer(http.StatusOK, strings.Replace(krakenAnswer, `"XXBTZUSD"`,
		`"":{"a":["1"],"b":["1"]},"XXBTZJPY"`, 1))))
	got := k.read(t.Context())
	require.ErrorIs(t, got[btcUSD].err, errNotAnswered)
	require.NoError(t, got[pair{"USD", "CAD"}].err)
	require.Len(t, got, 16)
}

func TestKraken_TellsErrorsThatPassFromThoseThatDoNot(t *testing.T) {
	t.Parallel()
	for text, passes := range map[string]bool{
		"EService:Unavailable": true, "EAPI:Rate limit exceeded": true, "EGeneral:Too many requests": true,
		"EQuery:Unknown asset pair": false, "EGeneral:Internal error": false,
	} {
		k := newKraken(serve(t, answer(http.StatusOK, `{"error":["`+text+`"]}`)))
		err := k.read(t.Context())[btcUSD].err
		require.ErrorContains(t, err, text)
		require.Equal(t, passes, errors.Is(err, errAway), text)
	}
}

func TestCoinbase_AsksForEachProduct(t *testing.T) {
	t.Parallel()
	c := newCoinbase(serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/products/BTC-USD/ticker" {
			http.Error(w, `{"message":"NotFound"}`, http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(coinbaseAnswer))
	}))
	got := c.read(t.Context())
	require.Len(t, got, 11)
	require.Equal(t, reading{price: price{number("64000"), number("64010.1"),
		time.Date(2026, 11, 16, 11, 59, 57, 833897000, time.UTC)}}, got[btcUSD])
	require.EqualError(t, got[btcEUR].err, "it answers 404")
	require.NotContains(t, c.pairs, usdcUSD)
}

func TestCoinbase_BadAnswersAreNoPrices(t *testing.T) {
	t.Parallel()
	ticker := func(bid, ask, at string) string {
		return fmt.Sprintf(`{"bid":%q,"ask":%q,"time":%q}`, bid, ask, at)
	}
	for body, want := range map[string]string{
		ticker("0", "0", "2026-11-16T12:00:00Z"):                  "the price is not above zero",
		ticker("-1", "1", "2026-11-16T12:00:00Z"):                 `"-1" is not a price`,
		ticker("64000", "64000", "2026-11-16T12:01:01Z"):          "is in the future",
		ticker("64000", "64000", ""):                              `"" is not a time`,
		ticker("64000", "64000", "yesterday"):                     `"yesterday" is not a time`,
		ticker("0.5", "0.5", "2026-11-16T12:00:00Z"):              "cannot be: it is out of all proportion",
		`<html>maintenance</html>`:                                "not JSON of the documented form",
		`{"bid":64000,"ask":64000,"time":"2026-11-16T12:00:00Z"}`: "not JSON of the documented form",
		coinbaseAnswer + coinbaseAnswer:                           "not JSON of the documented form",
		`{"x":"` + strings.Repeat("x", maxBody) + `"}`:            "its answer is longer than 65536 bytes",
	} {
		c := newCoinbase(serve(t, answer(http.StatusOK, body)))
		refused(t, c.read(t.Context())[btcUSD], want)
	}
}

func TestTicker_StatusSaysWhetherItPasses(t *testing.T) {
	t.Parallel()
	for status, passes := range map[int]bool{
		429: true, 500: true, 503: true, 400: false, 401: false, 403: false, 404: false, 204: false, 302: false,
	} {
		o := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				_, _ = w.Write([]byte(krakenAnswer)) // a redirect is not followed
				return
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})
		err := newKraken(o).read(t.Context())[btcUSD].err
		require.ErrorContains(t, err, fmt.Sprintf("it answers %d", status))
		require.Equal(t, passes, errors.Is(err, errAway), status)
	}
}

func TestTicker_ASlowServerIsAwayAndErrorsHaveNoAddress(t *testing.T) {
	t.Parallel()
	o := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	require.EqualError(t, newKraken(o).read(ctx)[btcUSD].err, "not reachable: no answer in 5s")

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	o.KrakenURL = gone.URL
	err := newKraken(o).read(t.Context())[btcUSD].err
	require.ErrorIs(t, err, errAway)
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "Ticker")
	require.NotContains(t, err.Error(), "http://")
}

// Half a body is never read as a whole one.
func TestTicker_AnAnswerThatStopsInTheMiddleIsAway(t *testing.T) {
	t.Parallel()
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(krakenAnswer[:100]))
	})
	require.ErrorIs(t, newKraken(o).read(t.Context())[btcUSD].err, errAway)
}

// feeds is a node of a chain with feeds, which answers by contract and call.
type feeds map[string]func() ([]byte, error)

func (f feeds) CallContract(_ context.Context, to string, data []byte) ([]byte, error) {
	if do := f[fmt.Sprintf("%s %x", to, data)]; do != nil {
		return do()
	}
	return nil, nil // what a node answers for an address without a contract
}

const (
	feedBTC = "0xF4030086522a5bEEa4988F8cA5B36dbC97BeE88c"
	feedEUR = "0xb49f677943BC038e9857d61E7d053CaA2C1734C1"
)

// words is the ABI encoding of numbers.
func words(numbers ...int64) []byte {
	var all []byte
	for _, n := range numbers {
		w := make([]byte, word)
		if n < 0 {
			for i := range w {
				w[i] = 0xff
			}
		}
		binary.BigEndian.PutUint64(w[word-8:], uint64(n))
		all = append(all, w...)
	}
	return all
}

func round(answer int64, at time.Time) []byte {
	return words(0x7fff, answer, at.Unix()-12, at.Unix(), 0x7fff)
}

// set gives a feed decimals and a round.
func (f feeds) set(address string, decimals, data []byte) {
	f[address+" 313ce567"] = func() ([]byte, error) { return decimals, nil }
	f[address+" feaf968c"] = func() ([]byte, error) { return data, nil }
}

func readFeeds(f feeds, at time.Time) (*source, map[pair]reading) {
	o := Defaults()
	o.Chain, o.Now = f, func() time.Time { return at }
	c := newChainlink(o)
	prices := c.read(context.Background())
	return c, prices
}

func TestChainlink_ReadsTheABI(t *testing.T) {
	t.Parallel()
	f := feeds{}
	f.set(feedBTC, words(8), round(6400012345678, monday.Add(-time.Hour)))
	c, got := readFeeds(f, monday)
	require.Len(t, got, 8)
	require.Equal(t, reading{price: price{number("64000.12345678"), number("64000.12345678"), monday.Add(-time.Hour)}},
		got[btcUSD])
	require.EqualError(t, got[eurUSD].err, "its contract is no feed of 8 decimals", "an address without a contract")

	// Decimals are asked for once.
	delete(f, feedBTC+" 313ce567")
	require.NoError(t, c.read(t.Context())[btcUSD].err)
}

func TestChainlink_BadRoundsAreNoPrices(t *testing.T) {
	t.Parallel()
	good := round(6400000000000, monday)
	changed := func(at int, b byte) []byte {
		data := append([]byte(nil), good...)
		data[at] = b
		return data
	}
	for _, c := range map[string]struct {
		decimals, data []byte
		want           string
	}{
		"zero":              {words(8), round(0, monday), "the price is not above zero"},
		"negative":          {words(8), round(-6400000000000, monday), "the price is not above zero"},
		"18 decimals":       {words(18), round(6400000000000, monday), "its contract is no feed of 8 decimals"},
		"decimals too long": {words(8, 8), good, "its contract is no feed of 8 decimals"},
		"decimals of 256+8": {append(append(make([]byte, 30), 1), 8), good, "its contract is no feed of 8 decimals"},
		"absurd":            {words(8), changed(word+1, 1), "cannot be: it is out of all proportion"},
		"too small":         {words(8), round(64000, monday), "cannot be: it is out of all proportion"},
		"not complete":      {words(8), words(1, 6400000000000, 1, 0, 0), "its time is not a time"},
		"time too large":    {words(8), changed(3*word, 1), "its time is not a time"},
		"time of far away":  {words(8), changed(3*word+24, 1), "its time is not a time"},
		"future":            {words(8), round(6400000000000, monday.Add(2*time.Minute)), "is in the future"},
		"four words":        {words(8), words(1, 6400000000000, 1, 1), "its answer has 128 bytes, not 160"},
		"six words":         {words(8), words(1, 6400000000000, 1, 1, 1, 1), "its answer has 192 bytes, not 160"},
		"no contract":       {words(8), nil, "its answer has 0 bytes, not 160"},
	} {
		f := feeds{}
		f.set(feedBTC, c.decimals, c.data)
		_, got := readFeeds(f, monday)
		refused(t, got[btcUSD], c.want)
	}
}

// A provider's address holds a key.
func TestChainlink_ErrorsHaveNoAddressOfTheNode(t *testing.T) {
	t.Parallel()
	away := func() ([]byte, error) {
		return nil, fmt.Errorf("eth_call: %w", &url.Error{Op: "Post", URL: "https://node.example/v3/secret", Err: errors.New("EOF")})
	}
	for _, call := range []string{" 313ce567", " feaf968c"} {
		f := feeds{}
		f.set(feedBTC, words(8), round(6400000000000, monday))
		f[feedBTC+call] = away
		_, got := readFeeds(f, monday)
		require.EqualError(t, got[btcUSD].err, "not reachable: EOF")
		require.ErrorIs(t, got[btcUSD].err, errAway)
	}
}

func TestChainlink_EachFeedHasItsOwnAge(t *testing.T) {
	t.Parallel()
	c, _ := readFeeds(feeds{}, monday)
	saturday := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const day = 26*time.Hour + 24*time.Minute
	for base, want := range map[string][2]time.Duration{
		"BTC": {66 * time.Minute, 66 * time.Minute}, "ETH": {66 * time.Minute, 66 * time.Minute},
		"USDC": {day, day}, "USDT": {day, day},
		"EUR": {day, 72 * time.Hour}, "GBP": {day, 72 * time.Hour}, "CAD": {day, 72 * time.Hour}, "AUD": {day, 72 * time.Hour},
	} {
		p := pair{base, "USD"}
		require.Equal(t, want, [2]time.Duration{c.maxAge(p, monday), c.maxAge(p, saturday)}, base)
	}
}

// Friday's last price holds until Sunday's end.
func TestChainlink_FiatFeedsRestAtWeekends(t *testing.T) {
	t.Parallel()
	friday := time.Date(2026, 11, 20, 20, 55, 0, 0, time.UTC)
	f := feeds{}
	f.set(feedEUR, words(8), round(108000000, friday))
	_, got := readFeeds(f, monday)
	require.ErrorContains(t, got[eurUSD].err, "is in the future")
	s, got := readFeeds(f, friday)
	require.NoError(t, s.put(eurUSD, got[eurUSD]))
	for text, want := range map[string]string{
		"2026-11-20T21:00:00Z": "", "2026-11-22T23:59:59Z": "",
		"2026-11-23T00:00:00Z": "EUR/USD is 51h5m0s old, older than 26h24m0s",
	} {
		now, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		if _, err = s.fresh(eurUSD, now); want == "" {
			require.NoError(t, err, text)
		} else {
			require.EqualError(t, err, want)
		}
	}
}

// FuzzParsers: whatever a source answers, there is no panic, and a price is a possible one.
func FuzzParsers(f *testing.F) {
	f.Add([]byte(krakenAnswer))
	f.Add([]byte(coinbaseAnswer))
	f.Add(round(6400000000000, monday))
	f.Add(words(-1, -1, -1, -1, -1))
	f.Add([]byte(`{"error":["EService:Busy"],"result":{"XXBTZUSD":{"a":["1e9"],"b":null}}}`))
	k := newKraken(Defaults())
	f.Fuzz(func(t *testing.T, body []byte) {
		got := parseKraken(k.pairs, body, monday)
		require.Len(t, got, len(k.pairs))
		c, err := parseCoinbase(btcUSD, body, monday)
		got[pair{"BTC", "coinbase"}] = reading{c, err}
		r, err := parseRound(btcUSD, body, monday)
		got[pair{"BTC", "chainlink"}] = reading{r, err}
		for p, g := range got {
			if g.err != nil {
				require.Zero(t, g.price)
				require.Less(t, len(g.err.Error()), 400)
				continue
			}
			require.True(t, g.price.bid.IsPositive() && g.price.bid.LessThanOrEqual(g.price.ask), p)
			require.True(t, g.price.ask.LessThan(decimal.NewFromBigInt(big.NewInt(1), 12)), p)
			require.False(t, g.price.at.After(monday.Add(maxSkew)), p)
		}
	})
}
