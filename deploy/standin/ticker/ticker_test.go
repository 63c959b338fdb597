package ticker_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/rate"
	"example.com/checkout/deploy/standin/ticker"
	"example.com/checkout/workflows/checkout"
)

// TestServer_SpeaksLikeItsSources: activities/rate reads every price that it looks for.
func TestServer_SpeaksLikeItsSources(t *testing.T) {
	t.Parallel()
	double := ticker.New()
	rates := start(t, double)
	never := rates.NeverQuoted()
	for _, from := range checkout.Currencies {
		for _, to := range checkout.PayoutCurrencies {
			market := string(from) + " to " + string(to)
			if slices.Contains(never, market) {
				continue
			}
			require.Eventually(t, func() bool {
				_, err := rates.Quote(t.Context(), from, to)
				return err == nil
			}, time.Minute, 10*time.Millisecond, market)
		}
	}
	q, err := rates.Quote(t.Context(), checkout.USD, checkout.BTC)
	require.NoError(t, err)
	require.Equal(t, "0.000015467203279671", q.Rate.String()) // one dollar at 64000 and 0.01 %, less 1 %
}

func TestServer_Faults(t *testing.T) {
	t.Parallel()
	for fault, reason := range map[ticker.Fault]string{
		ticker.Stale: "coinbase: BTC/USD is 1h0m0s old",
		ticker.Wrong: "coinbase: BTC/USD: its answer is not JSON",
		ticker.Slow:  "coinbase: BTC/USD: not reachable: no answer in 5s",
		ticker.Away:  "coinbase: BTC/USD: not reachable: it answers 503",
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			double := ticker.New()
			double.SetFault(ticker.Coinbase, fault)
			rates := start(t, double)
			require.Eventually(t, func() bool {
				_, err := rates.Quote(t.Context(), checkout.USD, checkout.BTC)
				require.ErrorIs(t, err, checkout.ErrNoRate)
				return strings.Contains(err.Error(), reason)
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

func TestServer_SetsPricesAndFaultsOfOneSourceOrBoth(t *testing.T) {
	t.Parallel()
	double := ticker.New()
	kraken, coinbase := double.Handler(ticker.Kraken), double.Handler(ticker.Coinbase)
	get := func(from http.Handler, path string) string {
		t.Helper()
		answer := httptest.NewRecorder()
		from.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return strconv.Itoa(answer.Code) + " " + answer.Body.String()
	}
	const pair, product = "/0/public/Ticker?pair=XBTUSD", "/products/BTC-USD/ticker"

	double.SetPrice(ticker.Kraken, "BTC", decimal.NewFromInt(50000))
	require.Contains(t, get(kraken, pair), `"XXBTZUSD":{"a":["50005.0000000000"`)
	require.Contains(t, get(coinbase, product), `"ask":"64006.4000000000"`)
	double.SetPrice("", "BTC", decimal.NewFromInt(70000))
	require.Contains(t, get(kraken, pair), `["70007.0000000000"`)
	require.Contains(t, get(coinbase, product), `"ask":"70007.0000000000"`)

	double.SetFault(ticker.Coinbase, ticker.Away)
	require.Contains(t, get(coinbase, product), "503")
	require.Contains(t, get(kraken, pair), "200")
	double.SetFault(ticker.Coinbase, "")
	require.Contains(t, get(coinbase, product), "200")

	require.Contains(t, get(kraken, "/0/public/Ticker?pair=XBTUSD,XBTJPY"), "EQuery:Unknown asset pair")
	require.Contains(t, get(coinbase, "/products/USDC-USD/ticker"), "404")
}

// start returns rates of the double, which are asked for in the background until the test ends.
func start(t *testing.T, double *ticker.Server) *rate.Rates {
	t.Helper()
	o := rate.Defaults()
	o.Sources = []string{rate.Kraken, rate.Coinbase}
	o.Log = slog.New(slog.DiscardHandler)
	for source, address := range map[string]*string{ticker.Kraken: &o.KrakenURL, ticker.Coinbase: &o.CoinbaseURL} {
		server := httptest.NewServer(double.Handler(source))
		t.Cleanup(server.Close)
		*address = server.URL
	}
	rates, err := rate.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var run sync.WaitGroup
	run.Go(func() { rates.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return rates
}
