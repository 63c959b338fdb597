package ticker_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/rate"
	"example.com/checkout/deploy/standin/ticker"
	"example.com/checkout/workflows/money"
)

// TestServer_SpeaksLikeItsSources: activities/rate reads every price that it looks for.
func TestServer_SpeaksLikeItsSources(t *testing.T) {
	t.Parallel()
	o := rate.Defaults()
	o.Sources = []string{rate.Kraken, rate.Coinbase}
	o.Log = slog.New(slog.DiscardHandler)
	server := httptest.NewServer(ticker.New())
	t.Cleanup(server.Close)
	o.KrakenURL, o.CoinbaseURL = server.URL, server.URL
	rates, err := rate.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var run sync.WaitGroup
	run.Go(func() { rates.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	never := rates.NeverQuoted()
	for _, from := range money.Currencies {
		for _, to := range money.PayoutCurrencies {
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
	q, err := rates.Quote(t.Context(), money.USD, money.BTC)
	require.NoError(t, err)
	require.Equal(t, "0.000015467203279671", q.Rate.String()) // one dollar at 64000 and 0.01 %, less 1 %
}
