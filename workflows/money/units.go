package money

import (
	"fmt"
	"math/big"
	"strings"
)

// ParseUnits converts a decimal to the smallest unit: "1.5" with 6 places is 1500000. It accepts
// digits with at most one point, as chains and PostgreSQL write them. It refuses a sign, an
// exponent, and a number that the places cannot hold.
func ParseUnits(decimal string, places int32) (*big.Int, error) {
	whole, fraction, _ := strings.Cut(decimal, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil, fmt.Errorf("%q is not a decimal", decimal)
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > int(places) {
		return nil, fmt.Errorf("%q has more than %d decimals", decimal, places)
	}
	units, _ := new(big.Int).SetString(whole+fraction+strings.Repeat("0", int(places)-len(fraction)), 10)
	return units, nil
}

// FormatUnits writes a number of smallest units as a decimal with all its places: 1500000 with 6 places is "1.500000".
func FormatUnits(units *big.Int, places int32) string {
	if units.Sign() < 0 {
		return "-" + FormatUnits(new(big.Int).Neg(units), places)
	}
	digits := units.String()
	if places == 0 {
		return digits
	}
	if missing := int(places) + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - int(places)
	return digits[:point] + "." + digits[point:]
}

// coin returns one whole coin in smallest units.
func coin(places int32) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
}

// floor returns a number of whole coins in smallest units, rounded down.
func floor(coins *big.Rat, places int32) *big.Int {
	units := new(big.Rat).Mul(coins, new(big.Rat).SetInt(coin(places)))
	return new(big.Int).Div(units.Num(), units.Denom()) // Div rounds down
}
