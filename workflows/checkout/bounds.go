package checkout

import "example.com/checkout/workflows/money"

// PayoutBounds are the least and the most of a payment, after our fee, that can be paid out at present. They are in
// minor units of the payment's currency. The network's fee sets Least, and the treasury's limits set Most.
type PayoutBounds struct{ Least, Most money.Amount }

// Hold reports whether a payment of which net is left can be paid out.
func (b PayoutBounds) Hold(net money.Amount) bool { return b.Least <= net && net <= b.Most }

// FindBounds returns the bounds of payments in one currency that are paid out in another, and false when they
// were never known since the process started.
type FindBounds func(from money.Currency, to money.PayoutCurrency) (PayoutBounds, bool)
