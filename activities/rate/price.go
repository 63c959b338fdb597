package rate

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/shopspring/decimal"
)

// A price is what buyers and sellers offer. A source with one number has it twice.
type price struct {
	bid decimal.Decimal // what we get for one unit of base
	ask decimal.Decimal // what we pay for one
	at  time.Time       // UTC
}

// maxBookSpread is the greatest distance of bid and ask, as a fraction of the bid: in a wider book nobody trades.
var maxBookSpread = decimal.RequireFromString("0.02")

// maxSkew is how far in the future a source's time may be: clocks differ a little.
const maxSkew = time.Minute

// newPrice returns an error when the numbers cannot be a price of p at the time now.
func newPrice(p pair, bid, ask decimal.Decimal, at, now time.Time) (price, error) {
	switch {
	case !bid.IsPositive() || !ask.IsPositive():
		return price{}, errors.New("the price is not above zero")
	case !p.plausible(bid) || !p.plausible(ask):
		return price{}, fmt.Errorf("%s for %s cannot be: it is out of all proportion", ask, p)
	case bid.GreaterThan(ask):
		return price{}, fmt.Errorf("the bid %s is above the ask %s", bid, ask)
	case ask.Sub(bid).GreaterThan(bid.Mul(maxBookSpread)):
		return price{}, fmt.Errorf("the bid %s is more than %s below the ask %s", bid, percent(maxBookSpread), ask)
	case at.After(now.Add(maxSkew)):
		return price{}, fmt.Errorf("its time %s is in the future", at.UTC().Format(time.RFC3339))
	}
	return price{bid, ask, at.UTC()}, nil
}

// plainNumber is how sources write a price. An exponent could stand for a number with a million digits.
var plainNumber = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,18})?$`)

func parseNumber(text string) (decimal.Decimal, error) {
	if !plainNumber.MatchString(text) {
		return decimal.Decimal{}, fmt.Errorf("%.40q is not a price", text)
	}
	return decimal.NewFromString(text)
}

// parseBook reads the two sides of an order book.
func parseBook(p pair, bidText, askText string, at, now time.Time) (price, error) {
	bid, err := parseNumber(bidText)
	if err != nil {
		return price{}, err
	}
	ask, err := parseNumber(askText)
	if err != nil {
		return price{}, err
	}
	return newPrice(p, bid, ask, at, now)
}

// percent writes a fraction for people: 0.005 is "0.5 %".
func percent(fraction decimal.Decimal) string { return fraction.Shift(2).Round(2).String() + " %" }
