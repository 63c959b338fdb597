package sandbox

import (
	"context"
	"fmt"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
)

// Rates implements checkout.RateSource for test mode, with fixed prices.
type Rates struct{}

// Quote implements checkout.RateSource.
func (Rates) Quote(_ context.Context, from checkout.Currency, to checkout.PayoutCurrency) (checkout.Quote, error) {
	fiat, crypto := from.TestPrice(), to.TestPrice()
	if fiat == "" || crypto == "" {
		return checkout.Quote{}, fmt.Errorf("sandbox: no rate from %s to %s", from, to)
	}
	rate := decimal.RequireFromString(fiat).DivRound(decimal.RequireFromString(crypto), 18)
	return checkout.Quote{Rate: checkout.MustRate(rate.String())}, nil
}
