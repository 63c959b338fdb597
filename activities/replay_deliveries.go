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

// NextReplayedInput says how far a bulk replay has come.
type NextReplayedInput struct {
	ReplayInput
	After   string `json:"after"` // the last delivery that was started
	Started int    `json:"started"`
	Skipped int    `json:"skipped"`
}

// NextReplayedResult is a part of a bulk replay, as much as may start in a second.
type NextReplayedResult struct {
	Deliveries []storage.ReplayedDelivery `json:"deliveries"`
}

// NextReplayed notes how far a bulk replay has come and returns the deliveries
// that it starts next, none when it is at its end.
func (d *Deliveries) NextReplayed(ctx context.Context, in NextReplayedInput) (NextReplayedResult, error) {
	progress := RecordReplayInput{ReplayInput: in.ReplayInput, Status: webhook.ReplayRunning, Started: in.Started, Skipped: in.Skipped}
	if err := d.RecordReplay(ctx, progress); err != nil {
		return NextReplayedResult{}, err
	}
	r, err := d.Store.Replay(ctx, in.MerchantID, in.Mode, in.ReplayID)
	if err != nil || r.Status != webhook.ReplayRunning {
		return NextReplayedResult{}, asFinal(ctx, err, ErrTypeReplayNotFound)
	}
	found, err := d.Store.ReplayedDeliveries(ctx, r, in.After, r.Rate)
	return NextReplayedResult{found}, asFinal(ctx, err, ErrTypeReplayNotFound)
}

// RecordReplayInput says how far a bulk replay has come.
type RecordReplayInput struct {
	ReplayInput
	Status  webhook.ReplayStatus `json:"status"`
	Started int                  `json:"started"`
	Skipped int                  `json:"skipped"`
}

// RecordReplay notes how far a bulk replay has come.
func (d *Deliveries) RecordReplay(ctx context.Context, in RecordReplayInput) error {
	return asFinal(ctx, d.Store.RecordReplay(ctx, webhook.Replay{
		ID: in.ReplayID, MerchantID: in.MerchantID, Mode: in.Mode, Status: in.Status, Started: in.Started, Skipped: in.Skipped,
	}), ErrTypeReplayNotFound)
}
