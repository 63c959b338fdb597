package bitcoin

import (
	"context"
	"fmt"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// TransferFee estimates what a transfer of one payout costs now: one coin, the change, and an output of the largest
// kind. Payouts that are sent together pay less each. It signs nothing and sends nothing. Its errors are those of Plan.
func (c *Chain) TransferFee(ctx context.Context, currency money.PayoutCurrency) (_ money.Crypto, err error) {
	defer checkout.Wrap(&err, "bitcoin: fee of a transfer of %s", currency)
	if currency != money.BTC {
		return money.Crypto{}, fmt.Errorf("it is not of this network")
	}
	if _, err := c.view(ctx); err != nil {
		return money.Crypto{}, err
	}
	price, err := c.prices(ctx)
	if err == nil {
		err = c.affordable(price.now)
	}
	if err != nil {
		return money.Crypto{}, err
	}
	largest := outputWeight(make([]byte, 34)) // P2WSH and P2TR
	weight, _ := inputWeight("0014" + "0000000000000000000000000000000000000000")
	return price.now.of(size([]coin{{Weight: weight}}, largest+changeWeight, 2)).crypto(), nil
}
