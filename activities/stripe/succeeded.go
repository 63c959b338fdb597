package stripe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/stripe/stripe-go/v85"
	"go.temporal.io/sdk/activity"

	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Succeeded goes through the charges whose intents were created in the interval, youngest first. Stripe lists an intent
// at any age. CreatedAt is the intent's. The currency may be one that is not ours: other systems may charge
// with the same account. It ends after the first error.
func (n *Network) Succeeded(ctx context.Context, since, until time.Time) iter.Seq2[books.Charged, error] {
	params := &stripe.PaymentIntentListParams{
		CreatedRange: created(since, until),
		Expand:       []*string{stripe.String("data.latest_charge.balance_transaction")},
	}
	params.Limit = stripe.Int64(100)
	return func(yield func(books.Charged, error) bool) {
		for i, err := range n.api.V1PaymentIntents.List(ctx, params).All(ctx) {
			if err != nil {
				yield(books.Charged{}, fmt.Errorf("list intents: %w", publicError(err)))
				return
			}
			keepAlive(ctx)
			if i.Status != stripe.PaymentIntentStatusSucceeded {
				continue
			}
			if !yield(charged(i), nil) {
				return
			}
		}
	}
}

// keepAlive records a heartbeat of an activity that reads a list, also while it reads foreign charges.
func keepAlive(ctx context.Context) {
	if activity.IsActivity(ctx) {
		activity.RecordHeartbeat(ctx)
	}
}

// created selects the seconds from since on and before that of until.
func created(since, until time.Time) *stripe.RangeQueryParams {
	return &stripe.RangeQueryParams{GreaterThanOrEqual: since.Unix(), LesserThanOrEqual: until.Unix() - 1}
}

// Charged reads one charge, as Succeeded reads many. It returns checkout.ErrNotFound when Stripe has no intent of this
// id.
func (n *Network) Charged(ctx context.Context, reference string) (books.Charged, error) {
	if !isReference(reference) {
		return books.Charged{}, fmt.Errorf("%w: %q is not the id of a payment intent", checkout.ErrNotFound, reference)
	}
	params := &stripe.PaymentIntentRetrieveParams{}
	params.AddExpand("latest_charge.balance_transaction")
	i, err := n.api.V1PaymentIntents.Retrieve(ctx, reference, params)
	if refusal, ok := errors.AsType[*stripe.Error](err); ok && refusal.HTTPStatusCode == http.StatusNotFound {
		return books.Charged{}, checkout.ErrNotFound
	}
	if err != nil {
		return books.Charged{}, fmt.Errorf("charge %s: %w", reference, publicError(err))
	}
	return charged(i), nil
}

func charged(i *stripe.PaymentIntent) books.Charged {
	got := books.Charged{
		Reference: i.ID, TransactionID: i.Metadata[metadataTransaction], SessionID: i.Metadata[metadataSession],
		Amount: money.Amount(i.AmountReceived), Currency: currency(i.Currency),
		CreatedAt: time.Unix(i.Created, 0).UTC(),
	}
	if charge := i.LatestCharge; charge != nil {
		got.Refunded, got.Disputed = money.Amount(charge.AmountRefunded), charge.Disputed
		got.Cost = cost(charge.BalanceTransaction)
	}
	return got
}

// cost reads a balance transaction. Stripe makes it with the charge or soon afterwards.
func cost(b *stripe.BalanceTransaction) *books.ChargeCost {
	if b == nil || b.Currency == "" {
		return nil
	}
	return &books.ChargeCost{
		Currency: currency(b.Currency), Gross: money.Amount(b.Amount), Cost: money.Amount(b.Fee),
		AvailableAt: unixTime(b.AvailableOn),
	}
}

// unixTime returns the zero time for 0, which is Stripe's unknown time.
func unixTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
