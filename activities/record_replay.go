package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// RecordReplayInput is the progress of a bulk replay, or its end.
type RecordReplayInput struct {
	checkout.Ref

	Status   webhook.ReplayStatus `json:"status"`
	Progress Progress             `json:"progress"`
}

// RecordReplay stores the progress of a bulk replay, or its end.
func (d *Deliveries) RecordReplay(ctx context.Context, in RecordReplayInput) error {
	return asFinal(ctx, d.Webhooks.RecordReplay(ctx, webhook.Replay{
		Ref: in.Ref, Status: in.Status,
		After: in.Progress.After, Started: in.Progress.Started, Skipped: in.Progress.Skipped,
	}), contract.ErrTypeReplayNotFound)
}
