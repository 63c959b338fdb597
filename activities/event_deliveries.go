package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// EventInput names an event and who owns it.
type EventInput struct {
	MerchantID string        `json:"merchant_id"`
	Mode       checkout.Mode `json:"mode"`
	EventID    string        `json:"event_id"`
}

// EventDeliveries returns the deliveries of an event, none when nobody gets it.
func (a *Payments) EventDeliveries(ctx context.Context, in EventInput) ([]webhook.DeliveryRef, error) {
	refs, err := a.Store.EventDeliveries(ctx, in.MerchantID, in.Mode, in.EventID)
	return refs, asFinal(ctx, err, "")
}
