package checkout

import (
	"context"
	"errors"
	"math/big"

	"example.com/checkout/workflows/money"
)

// FiatRates returns the price of one unit of each currency in the currency to, over the price of USDC. It has none for
// the currency itself, and for one that has no rate at present.
func FiatRates(
	ctx context.Context, source RateSource, to money.Currency, all []money.Currency,
) (map[money.Currency]*big.Rat, error) {
	rates := map[money.Currency]*big.Rat{}
	for _, from := range all {
		if from == to {
			continue
		}
		over, err := source.Quote(ctx, from, money.USDC)
		if err != nil && !errors.Is(err, ErrNoRate) {
			return nil, err
		}
		under, more := source.Quote(ctx, to, money.USDC)
		if more != nil && !errors.Is(more, ErrNoRate) {
			return nil, more
		}
		if err != nil || more != nil {
			continue
		}
		rates[from] = new(big.Rat).Quo(over.Rate.Rat(), under.Rate.Rat())
	}
	return rates, nil
}
