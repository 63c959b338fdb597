package action

import (
	"context"
	"errors"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Steering changes a delivery, writes the entry to the audit log and returns the changed delivery.
type Steering func(ctx context.Context, ref checkout.Ref, by checkout.AuditEntry) (webhook.Delivery, error)

// ReplayDelivery starts a new run of a delivery that has ended. The run's first attempt makes the
// delivery pending again. It returns the changed delivery. Errors: checkout.ErrNotFound,
// webhook.ErrDeliveryInProgress, webhook.ErrEndpointDeleted and runs.ErrOutcomeUnknown.
func (w Webhooks) ReplayDelivery(
	ctx context.Context, ref checkout.Ref, by checkout.AuditEntry,
) (webhook.Delivery, error) {
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

// startRun starts a new run of a delivery whose row has ended. The previous run writes the row and
// closes a moment later. In that moment Temporal still reports a run in progress, so startRun tries
// again: a merchant who read in the log that the delivery has ended must not get
// webhook.ErrDeliveryInProgress. It returns that error when another replay has started a run.
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

// RetryDelivery makes the next attempt of a pending delivery at once. If the delivery has no run,
// Reconcile starts one. It returns the errors of storage.Store.HurryDelivery and
// runs.ErrOutcomeUnknown.
func (w Webhooks) RetryDelivery(
	ctx context.Context, ref checkout.Ref, by checkout.AuditEntry,
) (webhook.Delivery, error) {
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
func (w Webhooks) HoldDelivery(
	ctx context.Context, ref checkout.Ref, by checkout.AuditEntry,
) (webhook.Delivery, error) {
	return w.steer(ctx, ref, by, w.Store.HoldDelivery)
}

// ResumeDelivery ends a hold and wakes a waiting run. If the run cannot be reached now, Reconcile
// wakes it.
func (w Webhooks) ResumeDelivery(
	ctx context.Context, ref checkout.Ref, by checkout.AuditEntry,
) (webhook.Delivery, error) {
	d, err := w.steer(ctx, ref, by, w.Store.ResumeDelivery)
	if err != nil {
		return d, err
	}
	// Signal only a waiting run, because each signal stays in the run's history.
	waits, err := w.Store.Parked(ctx, ref)
	w.left(ctx, err)
	if waits {
		if err := w.Workflows.ResumeDelivery(ctx, d.ID); !errors.Is(err, checkout.ErrNotFound) {
			w.left(ctx, err)
		}
	}
	return d, nil
}

// steer applies do to a delivery and returns the changed delivery.
func (w Webhooks) steer(ctx context.Context, ref checkout.Ref, by checkout.AuditEntry,
	do func(context.Context, checkout.Ref, ...checkout.AuditEntry) error) (webhook.Delivery, error) {
	if err := do(ctx, ref, by); err != nil {
		return webhook.Delivery{}, err
	}
	return w.Store.Delivery(ctx, ref)
}
