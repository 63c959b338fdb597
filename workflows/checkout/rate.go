package checkout

import (
	"context"
	"errors"
	"time"
)

// ErrNoRate means that no exchange rate can be trusted at present. Nothing must be charged then.
var ErrNoRate = errors.New("no exchange rate is available")

// SourceRate is the price that one source gave.
type SourceRate struct {
	Source string    `json:"source"` // such as "kraken"
	Rate   string    `json:"rate"`   // payout currency for one unit of the fiat currency, decimal
	At     time.Time `json:"at"`     // when the source made the price, not when it was read
}

// Quote is an exchange rate with the prices that it was made of.
type Quote struct {
	Rate    string // payout currency for one unit of the fiat currency, decimal, after the spread
	At      time.Time
	Sources []SourceRate // ordered by name; empty in test mode, whose prices are fixed
}

// RateSource gives exchange rates. Source: api/decisions.md, "exchange rate".
type RateSource interface {
	// Quote returns the rate from a fiat currency to a payout currency. It returns ErrNoRate when
	// too few sources have a fresh price, or when the prices disagree.
	Quote(ctx context.Context, from Currency, to PayoutCurrency) (Quote, error)
}
