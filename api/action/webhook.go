package action

import (
	"context"
	"fmt"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// CreateEndpoint stores a registration; see storage.Webhooks.CreateEndpoint.
func (a Actions) CreateEndpoint(ctx context.Context, e webhook.Endpoint, by By) (webhook.Endpoint, error) {
	return a.Store.Webhooks.CreateEndpoint(ctx, e, by.Entry(e.Ref, "webhook.created", "for "+webhook.HostPortOf(e.URL)))
}

// ChangeEndpoint changes a registration and returns it. When the change enables the registration,
// its waiting deliveries go on. Errors: checkout.ErrNotFound and *pg.ChangedError.
func (a Actions) ChangeEndpoint(
	ctx context.Context, ref checkout.Ref, c storage.EndpointChange, by By,
) (webhook.Endpoint, error) {
	return a.changeEndpoint(ctx, ref, c, by.Entry(ref, "webhook.changed", ""))
}

// SetEndpointStatus holds or resumes a registration; see ChangeEndpoint. Error: checkout.ErrNotFound.
func (a Actions) SetEndpointStatus(
	ctx context.Context, ref checkout.Ref, status webhook.EndpointStatus, by By,
) (webhook.Endpoint, error) {
	what := "webhook.held"
	if status == webhook.EndpointEnabled {
		what = "webhook.resumed"
	}
	return a.changeEndpoint(ctx, ref, storage.EndpointChange{Status: &status}, by.Entry(ref, what, ""))
}

func (a Actions) changeEndpoint(
	ctx context.Context, ref checkout.Ref, c storage.EndpointChange, by merchant.AuditEntry,
) (webhook.Endpoint, error) {
	got, err := a.Store.Webhooks.ChangeEndpoint(ctx, ref, c, by)
	if err != nil {
		return webhook.Endpoint{}, err
	}
	if c.Status != nil && got.Status == webhook.EndpointEnabled {
		a.reconcile(ctx)
	}
	return got, nil
}

// DeleteEndpoint deletes a registration and cancels its pending deliveries. Error:
// checkout.ErrNotFound.
func (a Actions) DeleteEndpoint(ctx context.Context, e webhook.Endpoint, by By) error {
	entry := by.Entry(e.Ref, "webhook.deleted", "for "+webhook.HostPortOf(e.URL))
	if err := a.Store.Webhooks.DeleteEndpoint(ctx, e.Ref, entry); err != nil {
		return err
	}
	a.reconcile(ctx)
	return nil
}

// RotateSecret gives a registration a new secret and returns the registration with it. The previous secret also signs
// for overlap, whole hours up to webhook.MaxRotationOverlap. Error: checkout.ErrNotFound.
func (a Actions) RotateSecret(
	ctx context.Context, ref checkout.Ref, secret string, overlap time.Duration, by By,
) (webhook.Endpoint, error) {
	detail := "the previous secret stops at once"
	if overlap > 0 {
		detail = fmt.Sprintf("the previous secret signs for %d h more, unless another rotation ends it", overlap/time.Hour)
	}
	return a.Store.Webhooks.RotateSecret(ctx, ref, secret, overlap, by.Entry(ref, "webhook.secret_rotated", detail))
}

// PublishTest sends a test event to one registration. The event has retries, a log and replays like
// a real event. A disabled registration holds it. Error: checkout.ErrNotFound.
func (a Actions) PublishTest(ctx context.Context, t storage.TestEvent, by By) (webhook.Event, webhook.Delivery, error) {
	entry := by.Entry(t.Owner.Ref(t.EndpointID), "webhook.tested", string(t.Type))
	event, ref, err := a.Store.Webhooks.PublishTest(ctx, t, entry)
	if err != nil {
		return webhook.Event{}, webhook.Delivery{}, err
	}
	a.logLeftover(ctx, a.Runs.StartDelivery(ctx, event, ref))
	d, err := a.Store.Webhooks.Delivery(ctx, t.Owner.Ref(ref.ID))
	return event, d, err
}
