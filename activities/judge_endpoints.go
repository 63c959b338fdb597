package activities

import (
	"context"
)

// judgeEndpoints marks the webhook registrations that fail, and puts on hold those that failed for too long. One
// that cannot be judged holds up no other.
func (h *Housekeeping) judgeEndpoints(ctx context.Context) error {
	due, err := h.Webhooks.FailingEndpoints(ctx, h.Failure, housekeepingPage)
	if err != nil {
		return err
	}
	var failed failures
	for _, ref := range due {
		if err := failed.pass(ctx, ref.ID, h.Webhooks.JudgeEndpoint(ctx, ref, h.Failure)); err != nil {
			return err
		}
	}
	return nil
}
