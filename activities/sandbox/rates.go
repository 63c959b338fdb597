package sandbox

import (
	"context"
	"fmt"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
)

// Rates implements checkout.RateSource for test mode.
type Rates struct{}

// Prices in US dollars. They are fixed, so that tests know the amounts.
var (
	fiatInUSD = map[checkout.Currency]string{
		checkout.USD: "1", checkout.EUR: "1.08", checkout.GBP: "1.27", checkout.CAD: "0.73",
		checkout.AUD: "0.66",
	}
	cryptoInUSD = map[checkout.PayoutCurrency]string{
		checkout.USDT: "1", checkout.USDC: "1", checkout.BTC: "64000", checkout.ETH: "3200",
	}
)

// Quote implements checkout.RateSource.
func (Rates) Quote(_ context.Context, from checkout.Currency, to checkout.PayoutCurrency) (checkout.Quote, error) {
	fiat, crypto := fiatInUSD[from], cryptoInUSD[to]
	if fiat == "" || crypto == "" {
		return checkout.Quote{}, fmt.Errorf("sandbox: no rate from %s to %s", from, to)
	}
	rate := decimal.RequireFromString(fiat).DivRound(decimal.RequireFromString(crypto), 18)
	return checkout.Quote{Rate: checkout.MustRate(rate.String())}, nil
}
