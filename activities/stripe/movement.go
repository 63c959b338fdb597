package stripe

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/money"
)

// movementKinds are the kinds of Stripe's reporting categories. All others are books.MovementOther.
// Source: docs.stripe.com/reports/reporting-categories.
var movementKinds = map[string]books.MovementKind{
	"charge":           books.MovementCharge,
	"refund":           books.MovementCustomer,
	"refund_failure":   books.MovementCustomer,
	"dispute":          books.MovementCustomer,
	"dispute_reversal": books.MovementCustomer,
	"payout":           books.MovementBank,
	"payout_reversal":  books.MovementBank,
	"fee":              books.MovementFee,
	"network_cost":     books.MovementFee,
	"tax":              books.MovementFee,
}

// Movements goes through the changes of the account's balance in the interval, youngest first. It ends after the first
// error.
func (n *Network) Movements(ctx context.Context, since, until time.Time) iter.Seq2[books.Movement, error] {
	params := &stripe.BalanceTransactionListParams{
		CreatedRange: created(since, until),
	}
	params.Limit = stripe.Int64(100)
	return func(yield func(books.Movement, error) bool) {
		for b, err := range n.api.V1BalanceTransactions.List(ctx, params).All(ctx) {
			if err != nil {
				yield(books.Movement{}, fmt.Errorf("list balance transactions: %w", publicError(err)))
				return
			}
			if !yield(movement(b), nil) {
				return
			}
		}
	}
}

func movement(b *stripe.BalanceTransaction) books.Movement {
	m := books.Movement{
		ID: b.ID, Kind: books.MovementOther, Category: string(b.ReportingCategory), Currency: currency(b.Currency),
		Amount: money.Amount(b.Amount), Fee: money.Amount(b.Fee),
	}
	if kind, known := movementKinds[m.Category]; known {
		m.Kind = kind
	}
	return m
}
