package stripe

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
)

// Succeeded goes through the charges whose intents were created at that time or later, youngest first.
// An intent is charged at most a session's life after its creation, so a caller begins that much
// earlier. CreatedAt is the intent's. The currency may be one that is not ours: other systems may charge
// with the same account. It ends after the first error.
func (n *Network) Succeeded(ctx context.Context, since time.Time) iter.Seq2[checkout.Charged, error] {
	params := &stripe.PaymentIntentListParams{
		CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: since.Unix()},
		Expand:       []*string{stripe.String("data.latest_charge.balance_transaction")},
	}
	params.Limit = stripe.Int64(100)
	return func(yield func(checkout.Charged, error) bool) {
		for i, err := range n.api.V1PaymentIntents.List(ctx, params).All(ctx) {
			if err != nil {
				yield(checkout.Charged{}, fmt.Errorf("list intents: %w", publicError(err)))
				return
			}
			if i.Status != stripe.PaymentIntentStatusSucceeded {
				continue
			}
			if !yield(charged(i), nil) {
				return
			}
		}
	}
}

func charged(i *stripe.PaymentIntent) checkout.Charged {
	got := checkout.Charged{
		Reference: i.ID, TransactionID: i.Metadata[metadataTransaction], SessionID: i.Metadata[metadataSession],
		Amount: checkout.Amount(i.AmountReceived), Currency: checkout.Currency(strings.ToUpper(string(i.Currency))),
		CreatedAt: time.Unix(i.Created, 0).UTC(),
	}
	if charge := i.LatestCharge; charge != nil {
		got.Refunded, got.Disputed = checkout.Amount(charge.AmountRefunded), charge.Disputed
		got.Cost = cost(charge.BalanceTransaction)
	}
	return got
}

// cost reads a balance transaction. Stripe makes it with the charge or soon afterwards.
func cost(b *stripe.BalanceTransaction) *checkout.ChargeCost {
	if b == nil || b.Currency == "" {
		return nil
	}
	return &checkout.ChargeCost{
		Currency: checkout.Currency(strings.ToUpper(string(b.Currency))),
		Gross:    checkout.Amount(b.Amount), Cost: checkout.Amount(b.Fee),
	}
}
