package merchant

import (
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// DefaultDebtLimit returns how much a merchant may owe in each fiat currency after a refund that it orders, in minor
// units, when an operator has set nothing else. Refunds in test mode must not depend on an operator.
func DefaultDebtLimit(mode checkout.Mode) money.Amount {
	if mode.Live() {
		return 0
	}
	return 1000_00
}
