package ethereum

import (
	"context"
	"fmt"
	"math/big"

	"example.com/checkout/workflows/checkout"
)

// TransferFee estimates what a transfer of the currency costs now: the gas of the smallest transfer, at
// the present base fee and tip. It is a decimal in ether. It signs nothing and sends nothing. Its errors
// are those of Plan.
func (c *Chain) TransferFee(ctx context.Context, currency checkout.PayoutCurrency) (string, error) {
	fee, err := c.transferFee(ctx, currency)
	if err != nil {
		return "", fmt.Errorf("ethereum: fee of a transfer of %s: %w", currency, err)
	}
	return fee, nil
}

func (c *Chain) transferFee(ctx context.Context, currency checkout.PayoutCurrency) (string, error) {
	n, v, err := c.healthy(ctx)
	if err != nil {
		return "", err
	}
	t, err := c.price(ctx, n, v, currency, control, big.NewInt(1))
	if err != nil {
		return "", err
	}
	now := new(big.Int).Add(v.head.BaseFee.ToInt(), t.TipWei)
	return amountOf(cost(t.Estimate, now), checkout.ETH), nil
}
