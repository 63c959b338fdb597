package rate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// ratePlaces is the number of decimals of a rate. One dollar is about 0.00001 BTC, so 18 places leave
// twelve digits or more.
const ratePlaces = 18

// A conversion is what one source makes of one unit of a currency. Its rate is rounded down.
type conversion struct {
	rate  decimal.Decimal
	given money.Rate // the same
	at    time.Time  // of the oldest price in it
}

// convert prices the way from one currency to another: directly, or over US dollars. Each step takes
// the side of the book that is worse for us, because we will have to trade there.
func convert(from, to string, get func(pair) (price, error)) (conversion, error) {
	c, err := along(get, from, to)
	if err == nil || from == usd {
		return c, err
	}
	c, overErr := along(get, from, usd, to)
	if overErr != nil && !errors.Is(err, errNotOffered) {
		return conversion{}, err
	}
	return c, overErr
}

// along prices a path of currencies.
func along(get func(pair) (price, error), path ...string) (conversion, error) {
	won, paid := decimal.NewFromInt(1), decimal.NewFromInt(1)
	var at time.Time
	for i := range len(path) - 1 {
		from, to := path[i], path[i+1]
		p, err := get(pair{to, from})
		if err == nil {
			paid = paid.Mul(p.ask) // buy what we need
		} else if errors.Is(err, errNotOffered) {
			if p, err = get(pair{from, to}); err == nil {
				won = won.Mul(p.bid) // sell what we have
			}
		}
		if err != nil {
			return conversion{}, err
		}
		if at.IsZero() || p.at.Before(at) {
			at = p.at
		}
	}
	rate, _ := won.QuoRem(paid, ratePlaces)
	given, err := money.ParseRate(rate.String())
	return conversion{rate, given, at}, err
}

// A comparison has the sources' rates of one market.
type comparison struct {
	worst   decimal.Decimal // the lowest rate: the merchant gets least
	sources []checkout.SourceRate
}

// compare returns the rates of a market, when enough sources have fresh prices and agree. Its error
// says in plain words why not. The caller holds mu.
func (r *Rates) compare(m market, now time.Time) (comparison, error) {
	if err := r.pegged(m.to, now); err != nil {
		return comparison{}, err
	}
	var c comparison
	var best decimal.Decimal
	var without []string
	for _, s := range r.sources {
		got, err := convert(string(m.from), string(m.to), func(p pair) (price, error) { return s.fresh(p, now) })
		if err != nil {
			without = append(without, fmt.Sprintf("%s: %v", s.name, err))
			continue
		}
		c.sources = append(c.sources, checkout.SourceRate{Source: s.name, Rate: got.given, At: got.at})
		if len(c.sources) == 1 || got.rate.LessThan(c.worst) {
			c.worst = got.rate
		}
		if got.rate.GreaterThan(best) {
			best = got.rate
		}
	}
	if len(c.sources) < r.options.MinSources {
		return comparison{}, fmt.Errorf("%d of %d sources have a fresh price, and %d are needed (%s)",
			len(c.sources), len(r.sources), r.options.MinSources, strings.Join(without, "; "))
	}
	if apart := best.Sub(c.worst); apart.GreaterThan(c.worst.Mul(r.options.MaxDeviation)) {
		return comparison{}, fmt.Errorf("the sources disagree by %s, and %s is allowed (%s)",
			percent(apart.Div(c.worst).RoundUp(4)), percent(r.options.MaxDeviation), listed(c.sources))
	}
	return c, nil
}

func listed(rates []checkout.SourceRate) string {
	var all []string
	for _, s := range rates {
		all = append(all, s.Source+" "+s.Rate.String())
	}
	return strings.Join(all, ", ")
}

// pegged returns an error when a source's price of a stablecoin is too far from a US dollar, or when no
// source has a fresh one. One source is enough to stop the coin. It returns nil for other currencies.
func (r *Rates) pegged(c money.PayoutCurrency, now time.Time) error {
	if !c.Stable() {
		return nil
	}
	dollar := decimal.NewFromInt(1)
	known := false
	for _, s := range r.sources {
		p, err := s.fresh(pair{string(c), usd}, now)
		if err != nil {
			continue
		}
		known = true
		if p.bid.LessThan(dollar.Sub(maxDepeg)) || p.ask.GreaterThan(dollar.Add(maxDepeg)) {
			return fmt.Errorf("%s is off its peg: %s says %s USD, and %s is allowed", c, s.name, p.ask, percent(maxDepeg))
		}
	}
	if !known {
		return fmt.Errorf("no source has a fresh price of %s in USD, so it is unknown whether it holds its peg", c)
	}
	return nil
}
