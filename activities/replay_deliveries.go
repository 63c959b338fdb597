package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// ErrTypeReplayNotFound: there is no such bulk replay.
const ErrTypeReplayNotFound = "ReplayNotFound"

// Progress says how far a bulk replay has come.
type Progress struct {
	After   string `json:"after,omitempty"` // the last delivery that was started
	Started int    `json:"started"`
	Skipped int    `json:"skipped"`
}

// NextReplayedInput notes how far a bulk replay has come.
type NextReplayedInput struct {
	checkout.Ref

	Progress
}

// ReplayedDelivery is one delivery that a bulk replay starts again.
type ReplayedDelivery struct {
	webhook.Dispatch
	EventType webhook.EventType `json:"event_type"`
}

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
		if err := d.RecordReplay(ctx, RecordReplayInput{in.Ref, webhook.ReplayRunning, in.Progress}); err != nil {
			return NextReplayedResult{}, err
		}
	}
	r, err := d.Store.Replay(ctx, in.Ref)
	got := NextReplayedResult{Progress: Progress{r.After, r.Started, r.Skipped}}
	if err != nil || r.Status != webhook.ReplayRunning {
		return got, asFinal(ctx, err, ErrTypeReplayNotFound)
	}
	found, err := d.Store.ReplayedDeliveries(ctx, r, r.Rate)
	for _, f := range found {
		got.Deliveries = append(got.Deliveries, ReplayedDelivery(f))
	}
	return got, asFinal(ctx, err, ErrTypeReplayNotFound)
}

// RecordReplayInput says how far a bulk replay has come, or how it ended.
type RecordReplayInput struct {
	checkout.Ref

	Status   webhook.ReplayStatus `json:"status"`
	Progress Progress             `json:"progress"`
}

// RecordReplay notes how far a bulk replay has come.
func (d *Deliveries) RecordReplay(ctx context.Context, in RecordReplayInput) error {
	return asFinal(ctx, d.Store.RecordReplay(ctx, webhook.Replay{
		Ref: in.Ref, Status: in.Status,
		After: in.Progress.After, Started: in.Progress.Started, Skipped: in.Progress.Skipped,
	}), ErrTypeReplayNotFound)
}
