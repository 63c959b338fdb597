// Package action is what a merchant does, whichever way it asks: by the REST API
// or in the dashboard. Storage decides, then Temporal is told; what Temporal
// cannot be told now is left to Reconcile.
package action

import (
	"context"
	"time"

	"example.com/checkout/workflows/runs"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Webhooks acts on registrations, deliveries and bulk replays. Each change is
// noted in the audit log: in the transaction that makes it, or, where a workflow
// makes it, before the workflow is asked, so that none is without its entry.
type Webhooks struct {
	Store     *storage.Store
	Workflows *runs.Client
	// LeftToReconcile is told of an error after which the work is done within a
	// minute all the same.
	LeftToReconcile func(ctx context.Context, err error)
}

// ChangeEndpoint changes a registration and returns it. Once it is enabled, the
// deliveries that waited for that go on. It returns checkout.ErrNotFound and
// *storage.ChangedError.
func (w Webhooks) ChangeEndpoint(ctx context.Context, e webhook.Endpoint, c storage.EndpointChange, by checkout.AuditEntry) (webhook.Endpoint, error) {
	got, err := w.Store.ChangeEndpoint(ctx, e.Ref, c, by)
	if err != nil {
		return webhook.Endpoint{}, err
	}
	if c.Status != nil && got.Status == webhook.EndpointEnabled {
		w.reconcile(ctx)
	}
	return got, nil
}

// DeleteEndpoint deletes a registration; its pending deliveries are canceled. It
// returns checkout.ErrNotFound.
func (w Webhooks) DeleteEndpoint(ctx context.Context, e webhook.Endpoint, by checkout.AuditEntry) error {
	if err := w.Store.DeleteEndpoint(ctx, e.Ref, by); err != nil {
		return err
	}
	w.reconcile(ctx)
	return nil
}

// PublishTest sends an event that only one registration gets, with everything of
// a real one: retries, log, replay. A disabled registration holds it. It returns
// checkout.ErrNotFound.
func (w Webhooks) PublishTest(ctx context.Context, t storage.TestEvent, by checkout.AuditEntry) (webhook.Event, webhook.Delivery, error) {
	event, ref, err := w.Store.PublishTest(ctx, t, by)
	if err != nil {
		return webhook.Event{}, webhook.Delivery{}, err
	}
	w.left(ctx, w.Workflows.StartDelivery(ctx, event, ref))
	d, err := w.Store.Delivery(ctx, t.Owner.Ref(ref.ID))
	return event, d, err
}

// reconcileTimeout is how long a merchant waits for Reconcile to be asked for.
const reconcileTimeout = 500 * time.Millisecond

// reconcile makes Reconcile follow a change at once.
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

// SettleTimeout is how long an answer waits for a workflow to write its row.
const SettleTimeout = 2 * time.Second

// settled asks until done says so, or for SettleTimeout: an answer that shows
// what was asked for is worth a moment.
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
