package action

import (
	"context"
	"errors"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// StartReplay stores a bulk replay and starts its workflow. If the workflow cannot be started now,
// Reconcile starts it. Errors: checkout.ErrNotFound, webhook.ErrReplayRunning and
// webhook.ErrReplayRate.
func (w Webhooks) StartReplay(ctx context.Context, r webhook.Replay, by checkout.AuditEntry) (webhook.Replay, error) {
	r, err := w.Store.CreateReplay(ctx, r, by)
	if err != nil {
		return r, err
	}
	w.left(ctx, w.Workflows.StartReplay(ctx, r))
	return r, nil
}

// CancelReplay stops a bulk replay and returns the changed replay. Deliveries that it has started
// go on. A replay that has ended stays as it is. Error: runs.ErrOutcomeUnknown.
func (w Webhooks) CancelReplay(ctx context.Context, r webhook.Replay, by checkout.AuditEntry) (webhook.Replay, error) {
	if r.Status != webhook.ReplayRunning {
		return r, nil
	}
	if err := w.Store.Audit(ctx, by); err != nil {
		return r, err
	}
	if err := w.stopReplay(ctx, r); err != nil {
		return r, err
	}
	var err error
	err = settled(ctx, func() (bool, error) {
		r, err = w.Store.Replay(ctx, r.Ref)
		return r.Status != webhook.ReplayRunning, err
	})
	return r, err
}

// stopReplay cancels the workflow, and the workflow writes the row. If the workflow was never
// started, stopReplay writes the row, so that nothing starts the workflow later.
func (w Webhooks) stopReplay(ctx context.Context, r webhook.Replay) error {
	err := w.Workflows.CancelReplay(ctx, r.ID)
	if errors.Is(err, checkout.ErrNotFound) {
		r.Status = webhook.ReplayCanceled
		return w.Store.RecordReplay(ctx, r)
	}
	return err
}
