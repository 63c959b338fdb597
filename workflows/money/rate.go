package money

import (
	"database/sql/driver"
	"fmt"
	"math/big"
	"strings"
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
