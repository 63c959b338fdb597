package stripe

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
)

// movementKinds are the kinds of Stripe's reporting categories. All others are checkout.MovementOther.
// Source: docs.stripe.com/reports/reporting-categories.
var movementKinds = map[string]checkout.MovementKind{
	"charge":           checkout.MovementCharge,
	"refund":           checkout.MovementCustomer,
	"refund_failure":   checkout.MovementCustomer,
	"dispute":          checkout.MovementCustomer,
	"dispute_reversal": checkout.MovementCustomer,
	"payout":           checkout.MovementBank,
	"payout_reversal":  checkout.MovementBank,
	"fee":              checkout.MovementFee,
	"network_cost":     checkout.MovementFee,
	"tax":              checkout.MovementFee,
}

// Movements goes through the changes of the account's balance in the interval, youngest first. It ends after the first
// error.
func (n *Network) Movements(ctx context.Context, since, until time.Time) iter.Seq2[checkout.Movement, error] {
	params := &stripe.BalanceTransactionListParams{
		CreatedRange: created(since, until),
	}
	params.Limit = stripe.Int64(100)
	return func(yield func(checkout.Movement, error) bool) {
		for b, err := range n.api.V1BalanceTransactions.List(ctx, params).All(ctx) {
			if err != nil {
				yield(checkout.Movement{}, fmt.Errorf("list balance transactions: %w", publicError(err)))
				return
			}
			if !yield(movement(b), nil) {
				return
			}
		}
	}
}

func movement(b *stripe.BalanceTransaction) checkout.Movement {
	m := checkout.Movement{
		ID: b.ID, Kind: checkout.MovementOther, Category: string(b.ReportingCategory), Currency: currency(b.Currency),
		Amount: checkout.Amount(b.Amount), Fee: checkout.Amount(b.Fee),
	}
	if kind, known := movementKinds[m.Category]; known {
		m.Kind = kind
	}
	return m
}
