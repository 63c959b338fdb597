package money

import (
	"regexp"
	"strconv"
	"strings"
)

// Decimal is a JSON number exactly as written; it never passes through a float. Two Decimals of the
// same value are equal.
type Decimal struct {
	negative bool
	digits   string // without leading and trailing zeros; "" for zero
	exponent int    // the value is digits × 10^exponent
}

var jsonNumber = regexp.MustCompile(`^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)

// maxExponent is larger than every exponent that matters. It is small enough that adding a length does not overflow.
const maxExponent = 1 << 40

// ParseDecimal reads a JSON number token, however large or small. It returns false for other text.
func ParseDecimal(token string) (Decimal, bool) {
	part := jsonNumber.FindStringSubmatch(token)
	if part == nil {
		return Decimal{}, false
	}
	sign, whole, fraction, exponent := part[1], part[2], part[3], part[4]
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return Decimal{}, true
	}
	e, _ := strconv.Atoi(exponent) // beyond int, Atoi returns the largest or smallest int
	e = min(max(e, -maxExponent), maxExponent) - len(fraction)
	trailing := len(whole+fraction) - len(strings.TrimRight(whole+fraction, "0"))
	return Decimal{sign == "-", digits, e + trailing}, true
}

// Exponent returns the exponent with which a JSON number token is written, 0 for none. It is at most the largest int.
func Exponent(token string) int {
	part := jsonNumber.FindStringSubmatch(token)
	if part == nil {
		return 0
	}
	e, _ := strconv.Atoi(part[4]) // beyond int, Atoi returns the largest or smallest int
	return e
}

// Double returns the float64 nearest to d, in the shortest notation without an exponent. same
// reports whether that float64 equals d. fits is false when it is infinite.
func (d Decimal) Double() (next string, same, fits bool) {
	sign := ""
	if d.negative {
		sign = "-"
	}
	f, err := strconv.ParseFloat(sign+"0"+d.digits+"e"+strconv.Itoa(d.exponent), 64)
	if err != nil {
		return "", false, false
	}
	next = strconv.FormatFloat(f, 'f', -1, 64)
	if f == 0 {
		next = "0"
	}
	got, _ := ParseDecimal(next)
	return next, got == d, true
}

// places returns the number of decimal places that d needs, negative for a multiple of ten.
func (d Decimal) places() int { return -d.exponent }

// cents returns d in hundredths, for a d of at most two places. It returns false when d is negative or its hundredths
// have more digits than an int64 always holds.
func (d Decimal) cents() (int64, bool) {
	const most = 18
	zeros := 2 - d.places()
	if d.negative || len(d.digits)+zeros > most {
		return 0, false
	}
	n, err := strconv.ParseInt("0"+d.digits+strings.Repeat("0", zeros), 10, 64)
	return n, err == nil
}
