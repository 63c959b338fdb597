package activities

import (
	"context"
	"errors"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// CancelOrphaned cancels the pending deliveries of deleted registrations. It returns their number.
func (h *Housekeeping) CancelOrphaned(ctx context.Context) (int, error) {
	return h.steer(ctx, "canceled", h.Webhooks.OrphanedDeliveries, func(ref checkout.Ref) error {
		err := h.Runs.CancelDelivery(ctx, ref.ID) // the run ends the row
		if errors.Is(err, checkout.ErrNotFound) {
			_, err := h.Webhooks.EndDelivery(ctx, ref, "", webhook.DeliveryCanceled)
			return err
		}
		return err
	})
}
