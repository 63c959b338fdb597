package money

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// Crypto is an amount of a payout currency, a whole number of its smallest unit. It never changes. The zero
// value is no amount: it is "" as text, null in JSON, and it adds nothing.
type Crypto struct {
	currency PayoutCurrency
	units    big.Int
}

// NewCrypto returns a number of smallest units of a currency.
func NewCrypto(units *big.Int, c PayoutCurrency) Crypto {
	a := Crypto{currency: c}
	if units.Sign() != 0 { // zero has one form, so that equal amounts are deeply equal
		a.units.Set(units)
	}
	return a
}

// ParseCrypto reads a decimal, as ParseUnits does.
func ParseCrypto(decimal string, c PayoutCurrency) (Crypto, error) {
	units, err := ParseUnits(decimal, c.Places())
	if err == nil && !c.Valid() {
		err = fmt.Errorf("%q is no payout currency", c)
	}
	if err != nil {
		return Crypto{}, err
	}
	return NewCrypto(units, c), nil
}

// MustCrypto is ParseCrypto for a constant. It panics.
func MustCrypto(decimal string, c PayoutCurrency) Crypto {
	a, err := ParseCrypto(decimal, c)
	if err != nil {
		panic(err)
	}
	return a
}

// FloorCrypto returns a number of whole coins, rounded down to the smallest unit.
func FloorCrypto(coins *big.Rat, c PayoutCurrency) Crypto {
	return NewCrypto(floor(coins, c.Places()), c)
}

// CeilCrypto returns a number of whole coins, rounded up to the smallest unit.
func CeilCrypto(coins *big.Rat, c PayoutCurrency) Crypto {
	return FloorCrypto(new(big.Rat).Neg(coins), c).Neg()
}

// Currency returns the currency, "" when there is no amount.
func (a Crypto) Currency() PayoutCurrency { return a.currency }

// Known reports whether there is an amount. It may be 0.
func (a Crypto) Known() bool { return a.currency != "" }

// Units returns the number of smallest units.
func (a Crypto) Units() *big.Int { return new(big.Int).Set(&a.units) }

// Coins returns the number of whole coins, exactly.
func (a Crypto) Coins() *big.Rat { return new(big.Rat).SetFrac(&a.units, coin(a.currency.Places())) }

// Sign is -1, 0 or 1.
func (a Crypto) Sign() int { return a.units.Sign() }

// Add returns a + b. Like Sub and Cmp it panics when the currencies differ.
func (a Crypto) Add(b Crypto) Crypto {
	return NewCrypto(new(big.Int).Add(&a.units, &b.units), a.with(b))
}

// Sub returns a - b.
func (a Crypto) Sub(b Crypto) Crypto {
	return NewCrypto(new(big.Int).Sub(&a.units, &b.units), a.with(b))
}

// Neg returns -a.
func (a Crypto) Neg() Crypto { return Crypto{}.Sub(a) }

// Cmp is -1 when a is below b, 0 when both are equal, and 1 when a is above b.
func (a Crypto) Cmp(b Crypto) int {
	_ = a.with(b)
	return a.units.Cmp(&b.units)
}

// Is reports whether both are the same amount of the same currency.
func (a Crypto) Is(b Crypto) bool { return a.currency == b.currency && a.units.Cmp(&b.units) == 0 }

// with returns the currency of an amount and another one.
func (a Crypto) with(b Crypto) PayoutCurrency {
	if a.Known() && b.Known() && a.currency != b.currency {
		panic(fmt.Sprintf("%s and %s have no sum", a.currency, b.currency))
	}
	return max(a.currency, b.currency)
}

// String returns the decimal with all its places.
func (a Crypto) String() string {
	if !a.Known() {
		return ""
	}
	return FormatUnits(&a.units, a.currency.Places())
}

// Named returns the decimal with the currency, such as "1.500000 USDC".
func (a Crypto) Named() string { return a.String() + " " + string(a.currency) }

// MarshalJSON writes the decimal as a string.
func (a Crypto) MarshalJSON() ([]byte, error) {
	if !a.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(a.String())
}

// Value writes the decimal.
func (a Crypto) Value() (driver.Value, error) { return a.String(), nil }

// Scan reads a decimal, a space and the currency, such as "1.5 ETH": `amount || ' ' || currency` in SQL.
// Without a decimal there is no amount.
func (a *Crypto) Scan(column any) (err error) {
	text, _ := column.(string)
	decimal, currency, ok := strings.Cut(text, " ")
	c := PayoutCurrency(currency)
	switch {
	case !ok:
		return fmt.Errorf("%v is not an amount with its currency", column)
	case decimal == "":
		*a = Crypto{}
	default:
		*a, err = ParseCrypto(decimal, c)
	}
	return err
}

// Purse holds amounts by their currency.
type Purse map[PayoutCurrency]Crypto

// PurseOf adds up amounts.
func PurseOf(amounts ...Crypto) Purse {
	p := Purse{}
	for _, a := range amounts {
		p[a.currency] = p[a.currency].Add(a)
	}
	return p
}

// UnmarshalJSON reads decimals by their currency.
func (p *Purse) UnmarshalJSON(data []byte) error {
	var decimals map[PayoutCurrency]string
	if err := json.Unmarshal(data, &decimals); err != nil {
		return err
	}
	*p = Purse{}
	for c, decimal := range decimals {
		a, err := ParseCrypto(decimal, c)
		if err != nil {
			return err
		}
		(*p)[c] = a
	}
	return nil
}
