package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/workflows/checkout"
)

// watchInterval is how often WatchPayment asks the card network.
const watchInterval = 5 * time.Second

// WatchPayment returns when the card network has news about a payment: a final outcome, or the
// agreement of the customer's bank. It decides and stores nothing. It runs until its workflow cancels
// it.
func (a *Payments) WatchPayment(ctx context.Context, in PaymentInput) error {
	p, err := a.payment(ctx, in)
	if err != nil {
		return asFinal(ctx, err, "")
	}

	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		// After an error the next question may be answered.
		got, err := p.cards.Payment(ctx, p.Reference)
		if err == nil && (got.Outcome.Final() || got.Outcome == checkout.OutcomeAgreed) {
			return nil
		}
		activity.RecordHeartbeat(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
