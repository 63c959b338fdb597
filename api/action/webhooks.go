// Package action holds a merchant's actions on webhooks and payouts. The REST API and the dashboard share them.
// An action first changes storage, then informs Temporal. If Temporal does not answer, Reconcile
// does that step later.
package action

import (
	"context"
	"time"

	"example.com/checkout/workflows/runs"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Webhooks acts on registrations, deliveries and bulk replays. The audit log has an entry for each
// change. The transaction of the change writes it. If a workflow makes the change, the entry is
// written before the workflow is asked, so that no change is without an entry.
type Webhooks struct {
	Store     *storage.Store
	Workflows *runs.Client
	// LeftToReconcile receives an error of a step that Reconcile repeats within a minute.
	LeftToReconcile func(ctx context.Context, err error)
}

// ChangeEndpoint changes a registration and returns it. When the change enables the registration,
// its waiting deliveries go on. Errors: checkout.ErrNotFound and *storage.ChangedError.
func (w Webhooks) ChangeEndpoint(
	ctx context.Context, e webhook.Endpoint, c storage.EndpointChange, by checkout.AuditEntry,
) (webhook.Endpoint, error) {
	got, err := w.Store.ChangeEndpoint(ctx, e.Ref, c, by)
	if err != nil {
		return webhook.Endpoint{}, err
	}
	if c.Status != nil && got.Status == webhook.EndpointEnabled {
		w.reconcile(ctx)
	}
	return got, nil
}

// DeleteEndpoint deletes a registration and cancels its pending deliveries. Error:
// checkout.ErrNotFound.
func (w Webhooks) DeleteEndpoint(ctx context.Context, e webhook.Endpoint, by checkout.AuditEntry) error {
	if err := w.Store.DeleteEndpoint(ctx, e.Ref, by); err != nil {
		return err
	}
	w.reconcile(ctx)
	return nil
}

// PublishTest sends a test event to one registration. The event has retries, a log and replays like
// a real event. A disabled registration holds it. Error: checkout.ErrNotFound.
func (w Webhooks) PublishTest(
	ctx context.Context, t storage.TestEvent, by checkout.AuditEntry,
) (webhook.Event, webhook.Delivery, error) {
	event, ref, err := w.Store.PublishTest(ctx, t, by)
	if err != nil {
		return webhook.Event{}, webhook.Delivery{}, err
	}
	w.left(ctx, w.Workflows.StartDelivery(ctx, event, ref))
	d, err := w.Store.Delivery(ctx, t.Owner.Ref(ref.ID))
	return event, d, err
}

// reconcileTimeout bounds the wait for starting Reconcile.
const reconcileTimeout = 500 * time.Millisecond

// reconcile starts Reconcile now, so that it follows a change at once.
func (w Webhooks) reconcile(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	w.left(ctx, w.Workflows.ReconcileNow(ctx))
}

func (w Webhooks) left(ctx context.Context, err error) {
	if err != nil {
		w.LeftToReconcile(ctx, err)
	}
}

// SettleTimeout is how long an answer waits until the workflow has written its row.
const SettleTimeout = 2 * time.Second

// settled calls done until it returns true or an error, for SettleTimeout at most. The short wait
// lets the answer show the requested change.
func settled(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, SettleTimeout)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
