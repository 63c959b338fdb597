package action

import (
	"context"
	"errors"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// Steering changes a delivery and returns the changed delivery.
type Steering func(ctx context.Context, d webhook.Delivery, by By) (webhook.Delivery, error)

// ReplayDelivery starts a new run of a delivery that has ended. The run's first attempt makes the
// delivery pending again. It returns the changed delivery. Errors: checkout.ErrNotFound,
// webhook.ErrDeliveryInProgress, webhook.ErrEndpointDeleted and runs.ErrOutcomeUnknown.
func (a Actions) ReplayDelivery(ctx context.Context, d webhook.Delivery, by By) (webhook.Delivery, error) {
	switch {
	case d.Status == webhook.DeliveryPending:
		return d, webhook.ErrDeliveryInProgress
	case d.EndpointDeleted:
		return d, webhook.ErrEndpointDeleted
	}
	if err := a.Store.AuditLog.Audit(ctx, deliveryEntry(d, "delivery.replay_requested", by)); err != nil {
		return d, err
	}
	before := d.Run
	if err := a.startRun(ctx, d); err != nil {
		return d, err
	}
	err := awaitSettled(ctx, func() (begun bool, err error) {
		d, err = a.Store.Webhooks.Delivery(ctx, d.Ref)
		return d.Run > before, err
	})
	return d, err
}

// startRun starts a new run of a delivery whose row has ended. The previous run writes the row and
// closes a moment later. In that moment Temporal still reports a run in progress, so startRun tries
// again: a merchant who read in the log that the delivery has ended must not get
// webhook.ErrDeliveryInProgress. It returns that error when another replay has started a run.
func (a Actions) startRun(ctx context.Context, d webhook.Delivery) error {
	var started error
	err := awaitSettled(ctx, func() (bool, error) {
		started = a.Runs.ReplayDelivery(ctx, d)
		if !errors.Is(started, webhook.ErrDeliveryInProgress) {
			return true, nil
		}
		now, err := a.Store.Webhooks.Delivery(ctx, d.Ref)
		return now.Run > d.Run, err
	})
	if err != nil {
		return err
	}
	return started
}

// RetryDelivery makes the next attempt of a pending delivery at once. If the delivery has no run,
// Reconcile starts one. It returns the errors of storage.Webhooks.HurryDelivery and
// runs.ErrOutcomeUnknown.
func (a Actions) RetryDelivery(ctx context.Context, d webhook.Delivery, by By) (webhook.Delivery, error) {
	d, err := a.steer(ctx, d, deliveryEntry(d, "delivery.retried", by), a.Store.Webhooks.HurryDelivery)
	if err != nil {
		return d, err
	}
	if err := a.Runs.RetryNow(ctx, d.ID); err != nil && !errors.Is(err, checkout.ErrNotFound) {
		return d, err
	}
	return d, nil
}

// HoldDelivery puts a pending delivery on hold; see storage.Webhooks.HoldDelivery.
func (a Actions) HoldDelivery(ctx context.Context, d webhook.Delivery, by By) (webhook.Delivery, error) {
	return a.steer(ctx, d, deliveryEntry(d, "delivery.held", by), a.Store.Webhooks.HoldDelivery)
}

// ResumeDelivery ends a hold and wakes a waiting run. If the run cannot be reached now, Reconcile
// wakes it.
func (a Actions) ResumeDelivery(ctx context.Context, d webhook.Delivery, by By) (webhook.Delivery, error) {
	d, err := a.steer(ctx, d, deliveryEntry(d, "delivery.resumed", by), a.Store.Webhooks.ResumeDelivery)
	if err != nil {
		return d, err
	}
	// Signal only a waiting run, because each signal stays in the run's history.
	waits, err := a.Store.Webhooks.Parked(ctx, d.Ref)
	a.logLeftover(ctx, err)
	if waits {
		if err := a.Runs.ResumeDelivery(ctx, d.ID); !errors.Is(err, checkout.ErrNotFound) {
			a.logLeftover(ctx, err)
		}
	}
	return d, nil
}

// steer applies do to a delivery and returns the changed delivery.
func (a Actions) steer(ctx context.Context, d webhook.Delivery, by merchant.AuditEntry,
	do func(context.Context, checkout.Ref, ...merchant.AuditEntry) error) (webhook.Delivery, error) {
	if err := do(ctx, d.Ref, by); err != nil {
		return webhook.Delivery{}, err
	}
	return a.Store.Webhooks.Delivery(ctx, d.Ref)
}

// deliveryEntry names the event's type and the receiver's host. It leaves out the path, which may
// be a secret.
func deliveryEntry(d webhook.Delivery, what string, by By) merchant.AuditEntry {
	return by.Entry(d.Ref, what, string(d.EventType)+" to "+webhook.HostPortOf(d.URL))
}
