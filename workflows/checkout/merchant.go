package checkout

import (
	"fmt"
	"time"
)

// Mode separates test from live. Every row, query and key has one.
type Mode string

// The two modes. Source: interface document, "Authentication".
const (
	ModeTest Mode = "test"
	ModeLive Mode = "live"
)

// Live reports whether real money moves.
func (m Mode) Live() bool { return m == ModeLive }

// Other returns the other mode.
func (m Mode) Other() Mode {
	if m == ModeLive {
		return ModeTest
	}
	return ModeLive
}

// DefaultPaymentAttempts is how many failed payments end a session when the merchant chose no
// number. Source: api/decisions.md, "failed payments".
const DefaultPaymentAttempts = 3

// DefaultFeeBasisPoints is the fee of the standard plan, 1 %.
const DefaultFeeBasisPoints = 100

// Plan is a merchant's plan with its fee.
type Plan struct {
	Name           string
	FeeBasisPoints int64 // of the amount; 100 is 1 %
}

// FeePercent formats a fee in basis points for people: 80 is "0.80 %".
func FeePercent(basisPoints int64) string {
	return fmt.Sprintf("%d.%02d %%", basisPoints/100, basisPoints%100)
}

// Plans lists the plans with a fixed fee. An operator assigns the plan of a merchant.
var Plans = []Plan{{"standard", DefaultFeeBasisPoints}, {"growth", 80}}

// Limits of PaymentAttempts. Source: api/decisions.md, "failed payments".
const (
	MinPaymentAttempts = 1
	MaxPaymentAttempts = 10
)

// Merchant accepts payments through the service.
type Merchant struct {
	ID              string
	Name            string
	Plan            string
	FeeBasisPoints  int64     // of the amount; 100 is 1 %
	PaymentAttempts int       // failed payments that end a session, 1 to 10
	OrderIDGuard    bool      // refuse a second open session for one order id
	CreatedAt       time.Time // not set in Caller: requests do not need it
}

// PayoutAddress is the address to which a merchant receives one payout currency in one mode.
type PayoutAddress struct {
	Currency PayoutCurrency `json:"currency"`
	Network  string         `json:"network"`
	Address  string         `json:"address"`
}

// Owner returns the owner for the merchant in this mode.
func (m Merchant) Owner(mode Mode) Owner { return Owner{MerchantID: m.ID, Mode: mode} }
