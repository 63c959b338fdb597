package activities

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// Progress counts the deliveries that a bulk replay has handled.
type Progress struct {
	After   string `json:"after,omitempty"` // the last delivery that was started
	Started int    `json:"started"`
	Skipped int    `json:"skipped"`
}

// NextReplayedInput is the progress to store.
type NextReplayedInput struct {
	checkout.Ref

	Progress
}

// ReplayedDelivery is a delivery that a bulk replay starts again.
type ReplayedDelivery = storage.ReplayedDelivery

// NextReplayedResult holds the deliveries that a bulk replay starts in one second.
type NextReplayedResult struct {
	Progress   Progress           `json:"progress"` // before Deliveries
	Deliveries []ReplayedDelivery `json:"deliveries"`
}

// NextReplayed stores the progress of a bulk replay and returns the deliveries to start next. It
// returns none at the end. A new run passes no progress and continues after the stored one, because
// the run before it may have been terminated. It fails with ReplayNotFound.
func (d *Deliveries) NextReplayed(ctx context.Context, in NextReplayedInput) (NextReplayedResult, error) {
	if in.Progress != (Progress{}) {
		if err := d.RecordReplay(ctx, RecordReplayInput{in.Ref, webhook.ReplayRunning, in.Progress}); err != nil {
			return NextReplayedResult{}, err
		}
	}
	r, err := d.Webhooks.Replay(ctx, in.Ref)
	got := NextReplayedResult{Progress: Progress{r.After, r.Started, r.Skipped}}
	if err != nil || r.Status != webhook.ReplayRunning {
		return got, asFinal(ctx, err, contract.ErrTypeReplayNotFound)
	}
	got.Deliveries, err = d.Webhooks.ReplayedDeliveries(ctx, r, r.Rate)
	return got, asFinal(ctx, err, contract.ErrTypeReplayNotFound)
}

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
