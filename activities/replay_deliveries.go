package activities

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// ErrTypeReplayNotFound: there is no such bulk replay.
const ErrTypeReplayNotFound = "ReplayNotFound"

// ReplayInput names a bulk replay and who owns it.
type ReplayInput struct {
	MerchantID string        `json:"merchant_id"`
	Mode       checkout.Mode `json:"mode"`
	ReplayID   string        `json:"replay_id"`
}

// Progress says how far a bulk replay has come.
type Progress struct {
	After   string `json:"after,omitempty"` // the last delivery that was started
	Started int    `json:"started"`
	Skipped int    `json:"skipped"`
}

// NextReplayedInput notes how far a bulk replay has come.
type NextReplayedInput struct {
	ReplayInput
	Progress
}

// ReplayedDelivery is one delivery that a bulk replay starts again.
type ReplayedDelivery = storage.ReplayedDelivery

// NextReplayedResult is a part of a bulk replay, as much as may start in a second.
type NextReplayedResult struct {
	Progress   Progress           `json:"progress"` // before Deliveries
	Deliveries []ReplayedDelivery `json:"deliveries"`
}

// NextReplayed notes how far a bulk replay has come and returns the deliveries
// that it starts next, none when it is at its end. A run that begins knows
// nothing and goes on where the one before it, should it have been terminated,
// left off.
func (d *Deliveries) NextReplayed(ctx context.Context, in NextReplayedInput) (NextReplayedResult, error) {
	if in.Progress != (Progress{}) {
		if err := d.RecordReplay(ctx, RecordReplayInput{in.ReplayInput, webhook.ReplayRunning, in.Progress}); err != nil {
			return NextReplayedResult{}, err
		}
	}
	r, err := d.Store.Replay(ctx, in.MerchantID, in.Mode, in.ReplayID)
	got := NextReplayedResult{Progress: Progress{r.After, r.Started, r.Skipped}}
	if err != nil || r.Status != webhook.ReplayRunning {
		return got, asFinal(ctx, err, ErrTypeReplayNotFound)
	}
	got.Deliveries, err = d.Store.ReplayedDeliveries(ctx, r, r.Rate)
	return got, asFinal(ctx, err, ErrTypeReplayNotFound)
}

// RecordReplayInput says how far a bulk replay has come, or how it ended.
type RecordReplayInput struct {
	ReplayInput
	Status   webhook.ReplayStatus `json:"status"`
	Progress Progress             `json:"progress"`
}

// RecordReplay notes how far a bulk replay has come.
func (d *Deliveries) RecordReplay(ctx context.Context, in RecordReplayInput) error {
	return asFinal(ctx, d.Store.RecordReplay(ctx, webhook.Replay{
		ID: in.ReplayID, MerchantID: in.MerchantID, Mode: in.Mode, Status: in.Status,
		After: in.Progress.After, Started: in.Progress.Started, Skipped: in.Progress.Skipped,
	}), ErrTypeReplayNotFound)
}
