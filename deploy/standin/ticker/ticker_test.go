package ticker_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

func TestServer_IsControlledOverHTTP(t *testing.T) {
	t.Parallel()
	double := ticker.New()
	server := httptest.NewServer(double)
	t.Cleanup(server.Close)
	control := func(status int, body string) {
		t.Helper()
		res, err := http.Post(server.URL+"/control", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, status, res.StatusCode)
	}
	get := func(path string) string {
		t.Helper()
		res, err := http.Get(server.URL + path)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.Status + " " + string(body)
	}
	const kraken, coinbase = "/kraken/0/public/Ticker?pair=XBTUSD", "/coinbase/products/BTC-USD/ticker"

	control(http.StatusNoContent, `{"source": "kraken", "currency": "BTC", "usd": "50000"}`)
	require.Contains(t, get(kraken), `"XXBTZUSD":{"a":["50005.0000000000"`)
	require.Contains(t, get(coinbase), `"ask":"64006.4000000000"`)
	control(http.StatusNoContent, `{"currency": "BTC", "usd": "70000"}`)
	require.Contains(t, get(kraken), `["70007.0000000000"`)
	require.Contains(t, get(coinbase), `"ask":"70007.0000000000"`)

	control(http.StatusNoContent, `{"source": "coinbase", "fault": "away"}`)
	require.Contains(t, get(coinbase), "503")
	require.Contains(t, get(kraken), "200")
	control(http.StatusNoContent, `{"source": "coinbase", "fault": ""}`)
	require.Contains(t, get(coinbase), "200")

	require.Contains(t, get("/kraken/0/public/Ticker?pair=XBTUSD,XBTJPY"), "EQuery:Unknown asset pair")
	require.Contains(t, get("/coinbase/products/USDC-USD/ticker"), "404")
	for _, wrong := range []string{``, `{}`, `{"source": "x", "fault": "away"}`, `{"fault": "x"}`, `{"currency": "X", "usd": "1"}`,
		`{"currency": "BTC", "usd": "1", "fault": "away"}`} {
		control(http.StatusBadRequest, wrong)
	}
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
