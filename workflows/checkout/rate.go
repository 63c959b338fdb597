package checkout

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// ratePlaces are the decimals that a rate has at most.
const ratePlaces = 30

// Rate is an exchange rate, an exact decimal above zero. It never changes. The zero value is no rate, "" as text.
type Rate struct{ decimal string } // as it was read, so that it is written the same

// ParseRate reads a decimal, as ParseUnits does. It refuses zero.
func ParseRate(decimal string) (Rate, error) {
	units, err := ParseUnits(decimal, ratePlaces)
	if err == nil && units.Sign() == 0 {
		err = fmt.Errorf("%q is not above zero", decimal)
	}
	if err != nil {
		return Rate{}, fmt.Errorf("exchange rate: %w", err)
	}
	return Rate{decimal}, nil
}

// MustRate is ParseRate for a constant. It panics.
func MustRate(decimal string) Rate {
	r, err := ParseRate(decimal)
	if err != nil {
		panic(err)
	}
	return r
}

// CeilRate returns a number above zero, rounded up to 30 decimals.
func CeilRate(number *big.Rat) Rate {
	units := floor(new(big.Rat).Neg(number), ratePlaces)
	return MustRate(strings.TrimRight(strings.TrimRight(FormatUnits(units.Neg(units), ratePlaces), "0"), "."))
}

// Known reports whether there is a rate.
func (r Rate) Known() bool { return r != Rate{} }

// Rat returns the rate, exactly. It panics when there is none.
func (r Rate) Rat() *big.Rat {
	rat, ok := new(big.Rat).SetString(r.decimal)
	if !ok {
		panic("there is no exchange rate")
	}
	return rat
}

// String returns the decimal.
func (r Rate) String() string { return r.decimal }

// MarshalText writes the decimal.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.decimal), nil }

// UnmarshalText reads a decimal. Without one there is no rate.
func (r *Rate) UnmarshalText(decimal []byte) (err error) {
	*r = Rate{}
	if len(decimal) > 0 {
		*r, err = ParseRate(string(decimal))
	}
	return err
}

// Value writes the decimal.
func (r Rate) Value() (driver.Value, error) { return r.decimal, nil }

// Scan reads a column of text, as UnmarshalText does.
func (r *Rate) Scan(column any) error {
	text, ok := column.(string)
	if !ok {
		return fmt.Errorf("%v is not an exchange rate", column)
	}
	return r.UnmarshalText([]byte(text))
}

// ErrNoRate means that no exchange rate can be trusted at present. Nothing must be charged then, and payouts
// wait.
var ErrNoRate error = HeldError{HoldRate, errors.New("no exchange rate is available")}

// SourceRate is the price that one source gave.
type SourceRate struct {
	Source string    `json:"source"` // such as "kraken"
	Rate   Rate      `json:"rate"`   // payout currency for one unit of the fiat currency
	At     time.Time `json:"at"`     // when the source made the price, not when it was read
}

// Quote is an exchange rate with the prices that it was made of.
type Quote struct {
	Rate    Rate // payout currency for one unit of the fiat currency, after the spread
	At      time.Time
	Until   time.Time    // when its lock for a payout ends: see Payout.RateHolds; zero: never
	Sources []SourceRate // ordered by name; empty in test mode, whose prices are fixed
}

// RateSource gives exchange rates. Source: api/decisions/objects.md, "exchange rate".
type RateSource interface {
	// Quote returns the rate from a fiat currency to a payout currency. It returns ErrNoRate when
	// too few sources have a fresh price, or when the prices disagree.
	Quote(ctx context.Context, from Currency, to PayoutCurrency) (Quote, error)
}
