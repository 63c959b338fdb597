package sandbox

import (
	"context"
	"fmt"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Rates implements checkout.RateSource for test mode, with fixed prices.
type Rates struct{}

// Quote implements checkout.RateSource.
func (Rates) Quote(_ context.Context, from money.Currency, to money.PayoutCurrency) (checkout.Quote, error) {
	fiat, crypto := from.TestPrice(), to.TestPrice()
	if fiat == "" || crypto == "" {
		return checkout.Quote{}, fmt.Errorf("sandbox: no rate from %s to %s", from, to)
	}
	rate := decimal.RequireFromString(fiat).DivRound(decimal.RequireFromString(crypto), 18)
	return checkout.Quote{Rate: money.MustRate(rate.String())}, nil
}
