package action

import (
	"context"
	"errors"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// StartReplay stores a bulk replay and starts it. One whose workflow cannot be
// started now is started by Reconcile. It returns checkout.ErrNotFound,
// webhook.ErrReplayRunning and webhook.ErrReplayRate.
func (w Webhooks) StartReplay(ctx context.Context, r webhook.Replay, by checkout.AuditEntry) (webhook.Replay, error) {
	r, err := w.Store.CreateReplay(ctx, r, by)
	if err != nil {
		return r, err
	}
	w.left(ctx, w.Workflows.StartReplay(ctx, r))
	return r, nil
}

// CancelReplay stops a bulk replay and returns what it is then. What it has
// started goes on; one that has ended stays as it is. It returns
// runs.ErrOutcomeUnknown.
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

// stopReplay cancels the workflow, which writes the row. Without one, because it
// was never started, the row alone says that none is to be started.
func (w Webhooks) stopReplay(ctx context.Context, r webhook.Replay) error {
	err := w.Workflows.CancelReplay(ctx, r.ID)
	if errors.Is(err, checkout.ErrNotFound) {
		r.Status = webhook.ReplayCanceled
		return w.Store.RecordReplay(ctx, r)
	}
	return err
}
