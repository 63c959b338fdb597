// Package money holds currencies, exact amounts of them and exchange rates. It does no I/O and imports the standard
// library only.
package money

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// Currency is the fiat currency of a charge, an ISO 4217 code. All five have two decimals.
type Currency string

// Currencies that can be charged. Source: api/interface.md, "Checkout session".
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

// TestPrice returns what one unit costs in US dollars in test mode, "" for an unknown currency. It is fixed,
// so that tests know the amounts.
func (c Currency) TestPrice() string {
	return map[Currency]string{USD: "1", EUR: "1.08", GBP: "1.27", CAD: "0.73", AUD: "0.66"}[c]
}

// PayoutCurrency is the cryptocurrency that a merchant receives.
type PayoutCurrency string

// Payout currencies. Source: api/interface.md, "Checkout session".
const (
	USDT PayoutCurrency = "USDT"
	USDC PayoutCurrency = "USDC"
	BTC  PayoutCurrency = "BTC"
	ETH  PayoutCurrency = "ETH"
)

// Networks of payouts. Package workflows/address knows the shapes of their addresses.
const (
	Ethereum = "ethereum"
	Bitcoin  = "bitcoin"
)

type payoutCurrency struct {
	code      PayoutCurrency
	network   string
	places    int32
	stable    bool   // pegged to the US dollar
	testPrice string // of one unit in US dollars
}

// payoutTerms has a row for each payout currency, in the order of the interface document. Its markets are a row in
// activities/rate.
var payoutTerms = []payoutCurrency{
	{USDT, Ethereum, 6, true, "1"},
	{USDC, Ethereum, 6, true, "1"},
	{BTC, Bitcoin, 8, false, "64000"},
	{ETH, Ethereum, 18, false, "3200"},
}

// PayoutCurrencies lists every payout currency in the order of the interface document.
var PayoutCurrencies = func() (all []PayoutCurrency) {
	for _, row := range payoutTerms {
		all = append(all, row.code)
	}
	return all
}()

func (c PayoutCurrency) terms() (row payoutCurrency) {
	if i := slices.Index(PayoutCurrencies, c); i >= 0 {
		row = payoutTerms[i]
	}
	return row
}

// Valid reports whether c is one of PayoutCurrencies.
func (c PayoutCurrency) Valid() bool { return slices.Contains(PayoutCurrencies, c) }

// Places returns the number of decimal places of a payout in c.
func (c PayoutCurrency) Places() int32 { return c.terms().places }

// Network returns the chain on which c is paid out.
func (c PayoutCurrency) Network() string { return c.terms().network }

// Stable reports whether c is pegged to the US dollar.
func (c PayoutCurrency) Stable() bool { return c.terms().stable }

// TestPrice returns what one unit costs in US dollars in test mode, as Currency.TestPrice does.
func (c PayoutCurrency) TestPrice() string { return c.terms().testPrice }

// NetworkCurrency returns the currency in which a network's fees are paid, "" for an unknown one.
func NetworkCurrency(network string) PayoutCurrency {
	return map[string]PayoutCurrency{Ethereum: ETH, Bitcoin: BTC}[network]
}

// Amount is money in minor units (cents, pence). Always store it with its Currency.
type Amount int64

// Limits of a charge in minor units. Source: api/decisions/sessions.md, "amount".
const (
	MinAmount Amount = 50
	MaxAmount Amount = 99_999_999
)

// ErrAmountFormat describes a valid amount. Merchants see this text.
var ErrAmountFormat = errors.New("must be a number in major units with at most 2 decimals, for example 10.50")

// ParseAmount reads a JSON number token in major units by its value: "10.5", "10.500" and "1.05e1" are 1050. It
// never uses a float and never rounds. Merchants see the text of its error after the name of the field.
func ParseAmount(token string) (Amount, error) { return parseAmount(token, MinAmount) }

// ParseUnitAmount is ParseAmount for the price of one piece, which may be 0.00 too.
func ParseUnitAmount(token string) (Amount, error) { return parseAmount(token, 0) }

// ParsePart is ParseAmount for a part of an amount, which may be as small as 0.01.
func ParsePart(token string) (Amount, error) { return parseAmount(token, 1) }

func parseAmount(token string, least Amount) (Amount, error) {
	number, ok := ParseDecimal(token)
	if !ok {
		return 0, ErrAmountFormat
	}
	if number.places() > 2 {
		return 0, fmt.Errorf("%s has more than 2 decimals", shownToken(token))
	}
	minor, ok := number.cents()
	if a := Amount(minor); ok && a >= least && a <= MaxAmount {
		return a, nil
	}
	return 0, fmt.Errorf("must be between %s and %s, not %s", least, MaxAmount, shownToken(token))
}

// shownToken shortens a number for an error text: a token can be as long as the request body.
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
// decimals. Source: api/interface.md, "Checkout session".
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// Coins returns the number of whole units of a currency, exactly.
func (a Amount) Coins(c Currency) *big.Rat { return big.NewRat(int64(a), coin(c.Places()).Int64()) }

// FloorAmount returns a number of whole units of a currency, rounded down to the minor unit.
func FloorAmount(coins *big.Rat, c Currency) Amount { return Amount(floor(coins, c.Places()).Int64()) }

// CeilAmount returns a number of whole units of a currency, rounded up to the minor unit.
func CeilAmount(coins *big.Rat, c Currency) Amount { return -FloorAmount(new(big.Rat).Neg(coins), c) }

// Percentage returns basisPoints/10,000 of a, rounded half up to a minor unit.
func (a Amount) Percentage(basisPoints int64) Amount {
	return (a*Amount(basisPoints) + 5_000) / 10_000
}
