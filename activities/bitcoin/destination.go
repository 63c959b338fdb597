package bitcoin

import (
	"context"
	"fmt"

	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Check implements treasury.Chain. What is sent to the wallet itself reaches no merchant.
func (c *Chain) Check(
	ctx context.Context, currency money.PayoutCurrency, destination string,
) (checkout.PayoutFailure, error) {
	if currency != money.BTC {
		return "", fmt.Errorf("bitcoin: check: %s is not of this network", currency)
	}
	got, err := address.Bitcoin(destination, c.network.params)
	if err != nil {
		return checkout.PayoutInvalidAddress, nil //nolint:nilerr // the fault of the address is the answer
	}
	own := got.EncodeAddress()
	mine, err := c.ownAddresses(ctx, own)
	if err != nil {
		return "", fmt.Errorf("bitcoin: check %s: %w", destination, err)
	}
	if mine[own] {
		return checkout.PayoutInvalidAddress, nil
	}
	return "", nil
}
