package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// EventDeliveries returns the deliveries of an event. It returns none when no registration gets the
// event.
func (a *Payments) EventDeliveries(ctx context.Context, in checkout.Ref) ([]webhook.Dispatch, error) {
	refs, err := a.Webhooks.EventDeliveries(ctx, in)
	return refs, asFinal(ctx, err, "")
}
