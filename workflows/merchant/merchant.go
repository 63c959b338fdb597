// Package merchant holds merchants with their plans and payout addresses, members, API keys, mails and the audit log.
// It does no I/O.
package merchant

import (
	"fmt"
	"sort"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// DefaultPaymentAttempts is how many failed payments end a session when the merchant chose no number. Source:
// api/decisions/sessions.md, "failed payments".
const DefaultPaymentAttempts = 3

// DefaultFeeBasisPoints is the fee of the standard plan, 1 %.
const DefaultFeeBasisPoints = 100

// Fee is the price of a payment: a part of its amount and a fixed part. Source: api/decisions/sessions.md,
// "fee of a payment".
type Fee struct {
	BasisPoints int64        // of the amount; 100 is 1 %
	Fixed       money.Amount // minor units of the payment's currency, whichever that is
}

// Of returns the fee of a payment. The part of the amount is rounded half up to a minor unit. The fee
// is never more than the amount.
func (f Fee) Of(a money.Amount) money.Amount { return min(a, a.Percentage(f.BasisPoints)+f.Fixed) }

// TakesAll reports whether nothing of a payment would be left because of the fixed part.
func (f Fee) TakesAll(a money.Amount) bool { return f.Fixed > 0 && f.Of(a) >= a }

// LeastFor returns the least amount of which, after the fee, at least net is left. It returns false when
// no amount that can be charged is enough.
func (f Fee) LeastFor(net money.Amount) (money.Amount, bool) {
	least := money.Amount(sort.Search(int(money.MaxAmount)+1, func(a int) bool {
		return money.Amount(a)-f.Of(money.Amount(a)) >= net
	}))
	return least, least <= money.MaxAmount
}

// MostFor returns the largest amount that can be charged and of which, after the fee, no more than net is left.
func (f Fee) MostFor(net money.Amount) money.Amount {
	above, _ := f.LeastFor(net + 1)
	return above - 1
}

// String formats the fee for people: "0.80 %", or "2.90 % + 0.30" with a fixed part.
func (f Fee) String() string {
	percent := fmt.Sprintf("%d.%02d %%", f.BasisPoints/100, f.BasisPoints%100)
	if f.Fixed == 0 {
		return percent
	}
	return percent + " + " + f.Fixed.String()
}

// Plan is a merchant's plan with its fee.
type Plan struct {
	Name           string
	FeeBasisPoints int64        // of the amount; 100 is 1 %
	FeeFixed       money.Amount // minor units of the payment's currency
}

// Fee returns the price of a payment.
func (p Plan) Fee() Fee { return Fee{p.FeeBasisPoints, p.FeeFixed} }

// Plans lists the plans whose fee is known. An operator assigns the plan of a merchant.
var Plans = []Plan{
	{Name: "standard", FeeBasisPoints: DefaultFeeBasisPoints},
	{Name: "growth", FeeBasisPoints: 80},
}

// Limits of PaymentAttempts. Source: api/decisions/sessions.md, "failed payments".
const (
	MinPaymentAttempts = 1
	MaxPaymentAttempts = 10
)

// Merchant accepts payments through the service.
type Merchant struct {
	ID              string
	Name            string
	Plan            string
	FeeBasisPoints  int64        // of the amount; 100 is 1 %
	FeeFixed        money.Amount // minor units of the payment's currency
	PaymentAttempts int          // failed payments that end a session, 1 to 10
	OrderIDGuard    bool         // refuse a second open session for one order id
	Suspended       Suspended    // by an operator
	Terms                        // not set in Caller
	CreatedAt       time.Time    // not set in Caller: requests do not need it
}

// PayoutAddress is the address to which a merchant receives one payout currency in one mode.
type PayoutAddress struct {
	Currency money.PayoutCurrency `json:"currency"`
	Network  string               `json:"network"`
	Address  string               `json:"address"`
}

// AddressChange is the change of a payout address that is announced and not yet in force.
type AddressChange struct {
	PayoutAddress // an empty address removes the merchant's

	At time.Time // from then on it holds
	By string    // the owner's e-mail address
}

// Fee returns the price of a payment.
func (m Merchant) Fee() Fee { return Fee{m.FeeBasisPoints, m.FeeFixed} }

// Owner returns the owner for the merchant in this mode.
func (m Merchant) Owner(mode checkout.Mode) checkout.Owner {
	return checkout.Owner{MerchantID: m.ID, Mode: mode}
}
