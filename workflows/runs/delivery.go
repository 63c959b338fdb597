package runs

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// ReplayDelivery starts a new run of a delivery that has ended. It returns
// webhook.ErrDeliveryInProgress and ErrOutcomeUnknown.
func (c *Client) ReplayDelivery(ctx context.Context, d webhook.Delivery) error {
	started, err := c.StartRun(ctx, runOfDelivery(d.Owner, d.EventType, d.Dispatch()), true)
	if err == nil && !started {
		return webhook.ErrDeliveryInProgress
	}
	return err
}

// StartDelivery starts the first run of a delivery. A repeat changes nothing. It returns ErrOutcomeUnknown.
func (c *Client) StartDelivery(ctx context.Context, e webhook.Event, ref webhook.Dispatch) error {
	_, err := c.StartRun(ctx, runOfDelivery(e.Owner, e.Type, ref), false)
	return err
}

func runOfDelivery(owner checkout.Owner, typ webhook.EventType, to webhook.Dispatch) contract.RunRequest {
	return contract.RunRequest{Ref: owner.Ref(to.ID), EventType: typ, EndpointID: to.EndpointID, Host: to.Host}
}

// RetryNow makes the next attempt of a waiting delivery at once. It returns checkout.ErrNotFound
// when the delivery has no run, and ErrOutcomeUnknown.
func (c *Client) RetryNow(ctx context.Context, deliveryID string) error {
	return c.signal(ctx, deliveryID, contract.SignalRetryNow, nil)
}

// ResumeDelivery wakes a parked delivery; a delivery that is not parked ignores it. It returns the errors of RetryNow.
func (c *Client) ResumeDelivery(ctx context.Context, deliveryID string) error {
	return c.signal(ctx, deliveryID, contract.SignalResume, nil)
}

// CancelDelivery cancels a delivery's run, and the run ends the row. It returns the errors of RetryNow.
func (c *Client) CancelDelivery(ctx context.Context, deliveryID string) error {
	return c.cancel(ctx, deliveryID)
}
