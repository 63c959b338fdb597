package merchant

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Terms are what a merchant's plan says beside the fee, from its next payment on. An operator sets them.
type Terms struct {
	DebtLimit          *money.Amount // that it may owe after its refunds, in minor units of any currency; nil: the default
	RecoveryPercent    int           // of a payout that pays what the merchant owes, 1 to 100
	ReserveBasisPoints int64         // of each payment's net, kept for ReserveDays; 100 is 1 %
	ReserveDays        int
	PayoutDelayHours   *int // from a payment to the signature of its payout; nil: the installation's
}

// Limits of Terms.
const (
	MaxReserveBasisPoints = 50_00
	MaxReserveDays        = 365
	MaxPayoutDelayHours   = 30 * 24
)

// Check returns an error that names what is out of range.
func (t Terms) Check() error {
	outside := func(what string, n, least, most int64) error {
		if n < least || n > most {
			return fmt.Errorf("the %s must be from %d to %d", what, least, most)
		}
		return nil
	}
	var delay, debt int64
	if t.PayoutDelayHours != nil {
		delay = int64(*t.PayoutDelayHours)
	}
	if t.DebtLimit != nil {
		debt = int64(*t.DebtLimit)
	}
	reserved := errors.New("a reserve needs a percentage and days")
	if (t.ReserveBasisPoints > 0) == (t.ReserveDays > 0) {
		reserved = nil
	}
	return cmp.Or(
		outside("recovery percentage", int64(t.RecoveryPercent), 1, 100),
		outside("reserve in basis points", t.ReserveBasisPoints, 0, MaxReserveBasisPoints),
		outside("days of the reserve", int64(t.ReserveDays), 0, MaxReserveDays),
		outside("payout delay in hours", delay, 0, MaxPayoutDelayHours),
		outside("debt limit in minor units", debt, 0, int64(money.MaxAmount)), reserved)
}

// Words formats the terms for people.
func (t Terms) Words() string {
	debt, delay, reserve := "default", "default", "none"
	if t.DebtLimit != nil {
		debt = t.DebtLimit.String()
	}
	if t.PayoutDelayHours != nil {
		delay = fmt.Sprintf("%d h", *t.PayoutDelayHours)
	}
	if t.ReserveBasisPoints > 0 {
		reserve = fmt.Sprintf("%d.%02d %% for %d days", t.ReserveBasisPoints/100, t.ReserveBasisPoints%100, t.ReserveDays)
	}
	return strings.Join([]string{
		"reserve " + reserve, "payout delay " + delay, "debt limit " + debt, fmt.Sprintf("recovery %d %%", t.RecoveryPercent),
	}, ", ")
}

// DefaultDebtLimit returns how much a merchant may owe in each fiat currency after a refund that it orders, in minor
// units, when an operator has set nothing else. Refunds in test mode must not depend on an operator.
func DefaultDebtLimit(mode checkout.Mode) money.Amount {
	if mode.Live() {
		return 0
	}
	return 1000_00
}
