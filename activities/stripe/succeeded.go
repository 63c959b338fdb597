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

// A Charged is a card that Stripe has charged, as reconciliation compares it with our transactions.
type Charged struct {
	Reference     string // of the intent
	TransactionID string // "" when the charge was not made by this service
	SessionID     string
	Amount        checkout.Amount
	Currency      string          // as Stripe has it, in capitals; may be one that is not ours
	Refunded      checkout.Amount // how much of it went back
	Disputed      bool
	CreatedAt     time.Time // of the intent, which is before the charge
}

// Succeeded goes through the charges whose intents were created at that time or later, youngest first.
// An intent is charged at most a session's life after its creation, so a caller begins that much
// earlier. It ends after the first error.
func (n *Network) Succeeded(ctx context.Context, since time.Time) iter.Seq2[Charged, error] {
	params := &stripe.PaymentIntentListParams{
		CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: since.Unix()},
		Expand:       []*string{stripe.String("data.latest_charge")},
	}
	params.Limit = stripe.Int64(100)
	return func(yield func(Charged, error) bool) {
		for i, err := range n.api.V1PaymentIntents.List(ctx, params).All(ctx) {
			if err != nil {
				yield(Charged{}, fmt.Errorf("list intents: %w", publicError(err)))
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

func charged(i *stripe.PaymentIntent) Charged {
	got := Charged{
		Reference: i.ID, TransactionID: i.Metadata[metadataTransaction], SessionID: i.Metadata[metadataSession],
		Amount: checkout.Amount(i.AmountReceived), Currency: strings.ToUpper(string(i.Currency)),
		CreatedAt: time.Unix(i.Created, 0).UTC(),
	}
	if charge := i.LatestCharge; charge != nil {
		got.Refunded, got.Disputed = checkout.Amount(charge.AmountRefunded), charge.Disputed
	}
	return got
}
