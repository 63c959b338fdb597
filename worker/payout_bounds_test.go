package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// fixedRates has a rate to each payout currency, none when it is "".
type fixedRates map[money.PayoutCurrency]string

func (r fixedRates) Quote(_ context.Context, from money.Currency, to money.PayoutCurrency) (checkout.Quote, error) {
	switch {
	case r[to] == "":
		return checkout.Quote{}, checkout.ErrNoRate
	case from == money.USD && to == money.USDC:
		return checkout.Quote{Rate: money.MustRate("1")}, nil
	}
	return checkout.Quote{Rate: money.MustRate(r[to])}, nil
}

func TestPayoutBounds_TheLeastPayoutIsTwentyTimesTheFee(t *testing.T) {
	t.Parallel()
	estimates := map[money.PayoutCurrency]string{money.ETH: "0.00021", money.USDC: "0.0006"}
	limits := treasury.PayoutLimits{Payout: 1_000_000, MerchantDay: 2_000_000, Day: 2_000_000}
	b := NewPayoutBounds(limits, fixedRates{}, Chains{money.Ethereum: {}})
	require.Equal(t, []money.PayoutCurrency{money.USDT, money.USDC, money.ETH}, b.Currencies)
	b.estimate = func(_ context.Context, c money.PayoutCurrency) (money.Crypto, error) {
		if estimates[c] == "" {
			return money.Crypto{}, errors.New("no node answers")
		}
		return money.MustCrypto(estimates[c], money.ETH), nil
	}
	find := func(from money.Currency, to money.PayoutCurrency) (least, most string) {
		got, ok := b.Find(from, to)
		if !ok {
			return "unknown", "unknown"
		}
		return got.Least.String(), got.Most.String()
	}
	least := func(to money.PayoutCurrency) string { known, _ := find(money.EUR, to); return known }

	require.Equal(t, "unknown", least(money.ETH), "before the first look")
	b.refresh(t.Context())
	require.Equal(t, "unknown", least(money.ETH), "before there are rates")
	b.rates = fixedRates{money.ETH: "0.0003", money.USDC: "1.08"}
	b.refresh(t.Context())
	require.Equal(t, "14.00", least(money.ETH), "0.00021 ETH are 0.70 EUR")
	require.Equal(t, "40.00", least(money.USDC))
	require.Equal(t, "unknown", least(money.USDT), "its fee was never estimated")
	require.Equal(t, "unknown", least(money.BTC), "there is no node of it")
	_, most := find(money.EUR, money.USDC)
	require.Equal(t, "9167.58", most, "10,000 USD at 1.08, less 1 %")
	_, most = find(money.USD, money.USDC)
	require.Equal(t, "10000.00", most, "no rate can move between")

	estimates = map[money.PayoutCurrency]string{money.USDC: "0.00060001"}
	b.refresh(t.Context())
	require.Equal(t, "14.00", least(money.ETH), "an old estimate is better than none")
	require.Equal(t, "40.01", least(money.USDC), "rounded up")
	b.rates = fixedRates{}
	b.refresh(t.Context())
	require.Equal(t, "40.01", least(money.USDC), "without a rate")
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
				rates := fixedRates{money.ETH: "0.0003", money.USDC: "1.08", money.USDT: "1.08"}
				b := NewPayoutBounds(treasury.PayoutLimits{Payout: 1_000_000, MerchantDay: 2_000_000, Day: 2_000_000}, rates, Chains{money.Ethereum: {}})
				b.estimate = func(context.Context, money.PayoutCurrency) (money.Crypto, error) {
					if c.known == 0 || time.Since(begun) < c.known {
						return money.Crypto{}, errors.New("no node answers")
					}
					return money.MustCrypto("0.0006", money.ETH), nil
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go b.Run(ctx)
				b.await(ctx)
				require.Equal(t, c.want, time.Since(begun))
			})
		})
	}
}
