package action

import (
	"context"
	"errors"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Steering does something with a delivery, notes it and returns what the delivery
// is then.
type Steering func(ctx context.Context, ref checkout.Ref, by checkout.AuditEntry) (webhook.Delivery, error)

// ReplayDelivery starts a new run of a delivery that has ended, whose first
// attempt makes it pending again, and returns what the delivery is then. It
// returns checkout.ErrNotFound, webhook.ErrDeliveryInProgress,
// webhook.ErrEndpointDeleted and runs.ErrOutcomeUnknown.
func (w Webhooks) ReplayDelivery(ctx context.Context, ref checkout.Ref, by checkout.AuditEntry) (webhook.Delivery, error) {
	d, err := w.Store.Delivery(ctx, ref)
	switch {
	case err != nil:
		return d, err
	case d.Status == webhook.DeliveryPending:
		return d, webhook.ErrDeliveryInProgress
	case d.EndpointDeleted:
		return d, webhook.ErrEndpointDeleted
	}
	if err := w.Store.Audit(ctx, by); err != nil {
		return d, err
	}
	before := d.Run
	if err := w.startRun(ctx, ref, d); err != nil {
		return d, err
	}
	err = settled(ctx, func() (bool, error) {
		d, err = w.Store.Delivery(ctx, ref)
		return d.Run > before, err
	})
	return d, err
}

// startRun starts a new run of a delivery whose row has ended. The run that
// ended it closes a moment later: a merchant who acts on what the log says must
// not be told that the delivery is in progress. Another replay's run is.
func (w Webhooks) startRun(ctx context.Context, ref checkout.Ref, d webhook.Delivery) error {
	var started error
	err := settled(ctx, func() (bool, error) {
		started = w.Workflows.ReplayDelivery(ctx, d)
		if !errors.Is(started, webhook.ErrDeliveryInProgress) {
			return true, nil
		}
		now, err := w.Store.Delivery(ctx, ref)
		return now.Run > d.Run, err
	})
	if err != nil {
		return err
	}
	return started
}

// RetryDelivery makes the next attempt of a pending delivery at once. One whose
// run is gone is started by Reconcile. It returns the errors of
// storage.Store.HurryDelivery and runs.ErrOutcomeUnknown.
func (w Webhooks) RetryDelivery(ctx context.Context, ref checkout.Ref, by checkout.AuditEntry) (webhook.Delivery, error) {
	d, err := w.steer(ctx, ref, by, w.Store.HurryDelivery)
	if err != nil {
		return d, err
	}
	if err := w.Workflows.RetryNow(ctx, d.ID); err != nil && !errors.Is(err, checkout.ErrNotFound) {
		return d, err
	}
	return d, nil
}

// HoldDelivery puts a pending delivery on hold; see storage.Store.HoldDelivery.
func (w Webhooks) HoldDelivery(ctx context.Context, ref checkout.Ref, by checkout.AuditEntry) (webhook.Delivery, error) {
	return w.steer(ctx, ref, by, w.Store.HoldDelivery)
}

// ResumeDelivery ends HoldDelivery. A run that waits is woken; one that cannot
// be reached now is woken by Reconcile.
func (w Webhooks) ResumeDelivery(ctx context.Context, ref checkout.Ref, by checkout.AuditEntry) (webhook.Delivery, error) {
	d, err := w.steer(ctx, ref, by, w.Store.ResumeDelivery)
	if err != nil {
		return d, err
	}
	// Each signal stays in the run's history, so only a run that waits gets one.
	waits, err := w.Store.Parked(ctx, ref)
	w.left(ctx, err)
	if waits {
		if err := w.Workflows.ResumeDelivery(ctx, d.ID); !errors.Is(err, checkout.ErrNotFound) {
			w.left(ctx, err)
		}
	}
	return d, nil
}

// steer does something with a delivery and returns what it is then.
func (w Webhooks) steer(ctx context.Context, ref checkout.Ref, by checkout.AuditEntry,
	do func(context.Context, checkout.Ref, ...checkout.AuditEntry) error) (webhook.Delivery, error) {
	if err := do(ctx, ref, by); err != nil {
		return webhook.Delivery{}, err
	}
	return w.Store.Delivery(ctx, ref)
}
