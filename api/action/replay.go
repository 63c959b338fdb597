package action

import (
	"context"
	"errors"
	"fmt"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// StartReplay stores a bulk replay and starts its workflow. If the workflow cannot be started now,
// Reconcile starts it. Errors: checkout.ErrNotFound, webhook.ErrReplayRunning and
// webhook.ErrReplayRate.
func (a Actions) StartReplay(ctx context.Context, r webhook.Replay, by By) (webhook.Replay, error) {
	detail := fmt.Sprintf("%s deliveries of %s, %s to %s", // a reader sees their number before this text
		r.Filter, r.EndpointID, checkout.FormatTime(r.Since), checkout.FormatTime(r.Until))
	r, err := a.Store.Webhooks.CreateReplay(ctx, r, by.Entry(r.Ref, "replay.started", detail))
	if err != nil {
		return r, err
	}
	a.logLeftover(ctx, a.Runs.StartReplay(ctx, r))
	return r, nil
}

// CancelReplay stops a bulk replay and returns the changed replay. Deliveries that it has started
// go on. A replay that has ended stays as it is. Error: runs.ErrOutcomeUnknown.
func (a Actions) CancelReplay(ctx context.Context, r webhook.Replay, by By) (webhook.Replay, error) {
	if r.Status != webhook.ReplayRunning {
		return r, nil
	}
	entry := by.Entry(r.Ref, "replay.cancel_requested", fmt.Sprintf("%d of %d done", r.Started+r.Skipped, r.Total))
	if err := a.Store.AuditLog.Audit(ctx, entry); err != nil {
		return r, err
	}
	if err := a.stopReplay(ctx, r); err != nil {
		return r, err
	}
	var err error
	err = awaitSettled(ctx, func() (bool, error) {
		r, err = a.Store.Webhooks.Replay(ctx, r.Ref)
		return r.Status != webhook.ReplayRunning, err
	})
	return r, err
}

// stopReplay cancels the workflow, and the workflow writes the row. If the workflow was never
// started, stopReplay writes the row, so that nothing starts the workflow later.
func (a Actions) stopReplay(ctx context.Context, r webhook.Replay) error {
	err := a.Runs.CancelReplay(ctx, r.ID)
	if errors.Is(err, checkout.ErrNotFound) {
		r.Status = webhook.ReplayCanceled
		return a.Store.Webhooks.RecordReplay(ctx, r)
	}
	return err
}
