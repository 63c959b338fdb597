package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// fixedRates has a rate to each payout currency, none when it is "".
type fixedRates map[checkout.PayoutCurrency]string

func (r fixedRates) Quote(_ context.Context, from checkout.Currency, to checkout.PayoutCurrency) (checkout.Quote, error) {
	switch {
	case r[to] == "":
		return checkout.Quote{}, checkout.ErrNoRate
	case from == checkout.USD && to == checkout.USDC:
		return checkout.Quote{Rate: checkout.MustRate("1")}, nil
	}
	return checkout.Quote{Rate: checkout.MustRate(r[to])}, nil
}

func TestPayoutBounds_TheLeastPayoutIsTwentyTimesTheFee(t *testing.T) {
	t.Parallel()
	estimates := map[checkout.PayoutCurrency]string{checkout.ETH: "0.00021", checkout.USDC: "0.0006"}
	limits := checkout.PayoutLimits{Payout: 1_000_000, MerchantDay: 2_000_000, Day: 2_000_000}
	b := newPayoutBounds(limits, fixedRates{}, lateChains{checkout.Ethereum: {}})
	require.Equal(t, []checkout.PayoutCurrency{checkout.USDT, checkout.USDC, checkout.ETH}, b.currencies)
	b.estimate = func(_ context.Context, c checkout.PayoutCurrency) (checkout.Crypto, error) {
		if estimates[c] == "" {
			return checkout.Crypto{}, errors.New("no node answers")
		}
		return checkout.MustCrypto(estimates[c], checkout.ETH), nil
	}
	find := func(from checkout.Currency, to checkout.PayoutCurrency) (least, most string) {
		got, ok := b.find(from, to)
		if !ok {
			return "unknown", "unknown"
		}
		return got.Least.String(), got.Most.String()
	}
	least := func(to checkout.PayoutCurrency) string { known, _ := find(checkout.EUR, to); return known }

	require.Equal(t, "unknown", least(checkout.ETH), "before the first look")
	b.refresh(t.Context())
	require.Equal(t, "unknown", least(checkout.ETH), "before there are rates")
	b.rates = fixedRates{checkout.ETH: "0.0003", checkout.USDC: "1.08"}
	b.refresh(t.Context())
	require.Equal(t, "14.00", least(checkout.ETH), "0.00021 ETH are 0.70 EUR")
	require.Equal(t, "40.00", least(checkout.USDC))
	require.Equal(t, "unknown", least(checkout.USDT), "its fee was never estimated")
	require.Equal(t, "unknown", least(checkout.BTC), "there is no node of it")
	_, most := find(checkout.EUR, checkout.USDC)
	require.Equal(t, "9167.58", most, "10,000 USD at 1.08, less 1 %")
	_, most = find(checkout.USD, checkout.USDC)
	require.Equal(t, "10000.00", most, "no rate can move between")

	estimates = map[checkout.PayoutCurrency]string{checkout.USDC: "0.00060001"}
	b.refresh(t.Context())
	require.Equal(t, "14.00", least(checkout.ETH), "an old estimate is better than none")
	require.Equal(t, "40.01", least(checkout.USDC), "rounded up")
	b.rates = fixedRates{}
	b.refresh(t.Context())
	require.Equal(t, "40.01", least(checkout.USDC), "without a rate")
}

// A worker that has just started takes no payment before there are prices, and does not wait for them for ever.
func TestPayoutBounds_AreAwaitedForAMoment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		known time.Duration // after the start; 0: never
		want  time.Duration
	}{
		"they come":      {600 * time.Millisecond, 750 * time.Millisecond}, // the third look
		"they stay away": {0, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				rates := fixedRates{checkout.ETH: "0.0003", checkout.USDC: "1.08", checkout.USDT: "1.08"}
				b := newPayoutBounds(checkout.PayoutLimits{Payout: 1_000_000, MerchantDay: 2_000_000, Day: 2_000_000}, rates, lateChains{checkout.Ethereum: {}})
				b.estimate = func(context.Context, checkout.PayoutCurrency) (checkout.Crypto, error) {
					if c.known == 0 || time.Since(begun) < c.known {
						return checkout.Crypto{}, errors.New("no node answers")
					}
					return checkout.MustCrypto("0.0006", checkout.ETH), nil
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go b.run(ctx)
				b.await(ctx)
				require.Equal(t, c.want, time.Since(begun))
			})
		})
	}
}
