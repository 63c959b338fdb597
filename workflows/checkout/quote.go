package checkout

import (
	"context"
	"errors"
	"time"

	"example.com/checkout/workflows/money"
)

// ErrNoRate means that no exchange rate can be trusted at present. Nothing must be charged then, and payouts wait.
var ErrNoRate error = HeldError{HoldRate, errors.New("no exchange rate is available")}

// SourceRate is the price that one source gave.
type SourceRate struct {
	Source string     `json:"source"` // such as "kraken"
	Rate   money.Rate `json:"rate"`   // payout currency for one unit of the fiat currency
	At     time.Time  `json:"at"`     // when the source made the price, not when it was read
}

// Quote is an exchange rate with the prices that it was made of.
type Quote struct {
	Rate    money.Rate // payout currency for one unit of the fiat currency, after the spread
	At      time.Time
	Until   time.Time    // when its lock for a payout ends: see Payout.RateHolds; zero: never
	Sources []SourceRate // ordered by name; empty in test mode, whose prices are fixed
}

// RateSource gives exchange rates. Source: api/decisions/objects.md, "exchange rate".
type RateSource interface {
	// Quote returns the rate from a fiat currency to a payout currency. It returns ErrNoRate when
	// too few sources have a fresh price, or when the prices disagree.
	Quote(ctx context.Context, from money.Currency, to money.PayoutCurrency) (Quote, error)
}
