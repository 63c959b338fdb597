package ethereum

import (
	"context"
	"math/big"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// TransferFee estimates what a transfer of the currency costs now: the gas of the smallest transfer, at
// the present base fee and tip. It is in ether. It signs nothing and sends nothing. Its errors
// are those of Plan.
func (c *Chain) TransferFee(ctx context.Context, currency money.PayoutCurrency) (_ money.Crypto, err error) {
	defer checkout.Wrap(&err, "ethereum: fee of a transfer of %s", currency)
	n, v, err := c.healthy(ctx)
	if err != nil {
		return money.Crypto{}, err
	}
	t, err := c.price(ctx, n, v, control, money.NewCrypto(big.NewInt(1), currency))
	if err != nil {
		return money.Crypto{}, err
	}
	now := new(big.Int).Add(v.head.BaseFee.ToInt(), t.TipWei)
	return ether(cost(t.Estimate, now)), nil
}
