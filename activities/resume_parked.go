package activities

import (
	"context"
	"errors"

	"example.com/checkout/workflows/checkout"
)

// ResumeParked wakes the deliveries that came due while on hold and are no longer on hold. It
// returns their number.
func (h *Housekeeping) ResumeParked(ctx context.Context) (int, error) {
	return h.steer(ctx, "resumed", h.Webhooks.ParkedDeliveries, func(ref checkout.Ref) error {
		err := h.Runs.ResumeDelivery(ctx, ref.ID)
		if errors.Is(err, checkout.ErrNotFound) {
			return h.Webhooks.UnparkDelivery(ctx, ref) // the next RestartOrphans finds it
		}
		return err
	})
}
