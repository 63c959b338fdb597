package merchant

import (
	"cmp"
	"strings"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// RiskDays is how many days the counts of a Risk go back.
const RiskDays = 30

// Risk is what an operator judges a merchant by in one mode: counts of the last RiskDays, and what is owed now.
type Risk struct {
	Merchant

	Payments int // completed sessions
	Refunded int // payments with a refund that has not failed
	Disputed int // payments with a dispute, whatever its result; an inquiry is none
	Volume   []Sum
	Balances []checkout.Balance // by currency
}

// Sum is the volume of a merchant's payments in a currency.
type Sum struct {
	Currency money.Currency `json:"currency"`
	Amount   money.Amount   `json:"amount"`
}

// DisputedPercent is how many of a hundred payments are disputed. A merchant without payments counts as one with one.
func (r Risk) DisputedPercent() float64 { return percentOf(r.Disputed, r.Payments) }

// RefundedPercent is how many of a hundred payments are refunded.
func (r Risk) RefundedPercent() float64 { return percentOf(r.Refunded, r.Payments) }

func percentOf(part, all int) float64 { return float64(100*part) / float64(max(all, 1)) }

// Owed is the largest amount that the merchant owes in a currency.
func (r Risk) Owed() (most money.Amount) {
	for _, b := range r.Balances {
		most = max(most, b.Owed)
	}
	return most
}

// CompareRisk sorts the highest share of disputes first, then the largest debt, the most payments and the newest
// merchant.
func CompareRisk(a, b Risk) int {
	return cmp.Or(
		cmp.Compare(b.DisputedPercent(), a.DisputedPercent()), cmp.Compare(b.Owed(), a.Owed()),
		cmp.Compare(b.Payments, a.Payments), strings.Compare(b.ID, a.ID),
	)
}
