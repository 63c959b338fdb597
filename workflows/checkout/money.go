package checkout

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Currency is the fiat currency of a charge, ISO 4217. All five have two
// decimals.
type Currency string

// Currencies that can be charged. Source: interface document, "Checkout session".
const (
	USD Currency = "USD"
	EUR Currency = "EUR"
	GBP Currency = "GBP"
	CAD Currency = "CAD"
	AUD Currency = "AUD"
)

// Currencies lists every fiat currency in the order of the interface document.
var Currencies = []Currency{USD, EUR, GBP, CAD, AUD}

// Valid reports whether c is one of Currencies.
func (c Currency) Valid() bool { return slices.Contains(Currencies, c) }

// Places is the number of decimal places of c's minor unit.
func (c Currency) Places() int32 { return 2 }

// PayoutCurrency is the cryptocurrency that a merchant receives.
type PayoutCurrency string

// Payout currencies. Source: interface document, "Checkout session".
const (
	USDT PayoutCurrency = "USDT"
	USDC PayoutCurrency = "USDC"
	BTC  PayoutCurrency = "BTC"
	ETH  PayoutCurrency = "ETH"
)

// PayoutCurrencies lists every payout currency in the order of the interface
// document.
var PayoutCurrencies = []PayoutCurrency{USDT, USDC, BTC, ETH}

// Valid reports whether c is one of PayoutCurrencies.
func (c PayoutCurrency) Valid() bool { return slices.Contains(PayoutCurrencies, c) }

// Places is the number of decimal places in which c is paid out.
func (c PayoutCurrency) Places() int32 {
	switch c {
	case BTC:
		return 8
	case ETH:
		return 18
	default:
		return 6
	}
}

// Network is the chain on which c is paid out.
func (c PayoutCurrency) Network() string {
	if c == BTC {
		return "bitcoin"
	}
	return "ethereum"
}

// Amount is money in minor units (cents, pence). It always travels with a
// Currency.
type Amount int64

// Limits of a charge in minor units. Source: api/decisions.md, "amount".
const (
	MinAmount Amount = 50
	MaxAmount Amount = 99_999_999
)

// ErrAmountFormat says what an amount looks like, for merchants.
var ErrAmountFormat = errors.New("must be a number in major units with at most 2 decimals, for example 10.50")

// ParseAmount reads a JSON number token in major units ("10.5" is 1050) and
// never goes through a float. It accepts digits with at most two decimals, no
// exponent. The text of its error reads on from a field's name, is shown to
// merchants, and says how to mend the token when that can be told.
func ParseAmount(token string) (Amount, error) {
	if !plainAmount.MatchString(token) {
		return 0, explainAmount(token)
	}
	whole, cents, _ := strings.Cut(token, ".")
	minor, err := strconv.ParseInt(whole+(cents + "00")[:2], 10, 64)
	if a := Amount(minor); err == nil && a.inRange() {
		return a, nil
	}
	return 0, errAmountRange(token)
}

// plainAmount is how an amount must be written.
var plainAmount = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]{1,2})?$`)

func (a Amount) inRange() bool { return a >= MinAmount && a <= MaxAmount }

// explainAmount says why a token that is not a plainAmount is refused, and what
// to send instead.
func explainAmount(token string) error {
	number, ok := ParseDecimal(token)
	if !ok {
		return ErrAmountFormat
	}
	const maxWhole = 6 // digits before the point that MaxAmount has
	minor, ok := number.cents(maxWhole)
	rounded := Amount(minor)
	switch {
	case !ok || !rounded.inRange():
		return errAmountRange(token)
	case strings.ContainsAny(token, "eE"):
		return fmt.Errorf("%s has an exponent; send %s", shownToken(token), rounded)
	}
	return fmt.Errorf("%s has more than 2 decimals; send %s", shownToken(token), rounded)
}

func errAmountRange(token string) error {
	return fmt.Errorf("must be between %s and %s, not %s", MinAmount, MaxAmount, shownToken(token))
}

// shownToken cuts a number that may be as long as the body.
func shownToken(token string) string {
	const most = 40
	if len(token) <= most {
		return token
	}
	return token[:most] + "…"
}

// String returns the amount in major units with two decimals, such as "10.50".
func (a Amount) String() string {
	if a < 0 {
		return "-" + (-a).String()
	}
	return fmt.Sprintf("%d.%02d", a/100, a%100)
}

// MarshalJSON writes the amount as a JSON number in major units with two
// decimals. Source: interface document, "amount".
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// Percentage returns basisPoints/10,000 of a, rounded half up to a minor unit.
func (a Amount) Percentage(basisPoints int64) Amount {
	return (a*Amount(basisPoints) + 5_000) / 10_000
}
