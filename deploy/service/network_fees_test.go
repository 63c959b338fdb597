package service

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// fixedRate is a source of one exchange rate, none when it is "".
type fixedRate string

func (r fixedRate) Quote(_ context.Context, _ checkout.Currency, to checkout.PayoutCurrency) (checkout.Quote, error) {
	if r == "" || to != checkout.ETH {
		return checkout.Quote{}, checkout.ErrNoRate
	}
	return checkout.Quote{Rate: string(r)}, nil
}

func TestNetworkFees_TheLeastPayoutIsTwentyTimesTheFee(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	estimates := map[checkout.PayoutCurrency]string{checkout.ETH: "0.00021", checkout.USDC: "0.0006"}
	f := &networkFees{
		currencies: []checkout.PayoutCurrency{checkout.ETH, checkout.USDC}, rates: fixedRate("0.0003"),
		now: func() time.Time { return now }, fees: map[checkout.PayoutCurrency]networkFee{},
		estimate: func(_ context.Context, c checkout.PayoutCurrency) (string, error) {
			if estimates[c] == "" {
				return "", errors.New("no node answers")
			}
			return estimates[c], nil
		},
	}
	least := func(to checkout.PayoutCurrency) string { return f.leastPayout(t.Context(), checkout.EUR, to).String() }
	require.Equal(t, "0.00", least(checkout.ETH), "nothing is known yet")
	f.refresh(t.Context())
	require.Equal(t, "14.00", least(checkout.ETH), "0.00021 ETH are 0.70 EUR")
	require.Equal(t, "40.00", least(checkout.USDC))

	estimates = map[checkout.PayoutCurrency]string{checkout.USDC: "0.00060001"}
	now = now.Add(feesMaxAge)
	f.refresh(t.Context())
	require.Equal(t, "14.00", least(checkout.ETH), "the last estimate holds for a while")
	require.Equal(t, "40.01", least(checkout.USDC), "rounded up")
	now = now.Add(time.Nanosecond)
	require.Equal(t, "0.00", least(checkout.ETH), "it is too old")
	require.Equal(t, "0.00", f.leastPayout(t.Context(), checkout.EUR, checkout.BTC).String())
	f.rates = fixedRate("")
	require.Equal(t, "0.00", least(checkout.USDC), "without a rate")
}
