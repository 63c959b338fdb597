package runs

import (
	"context"

	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// StartReplay starts a bulk replay. A repeat changes nothing. It returns ErrOutcomeUnknown.
func (c *Client) StartReplay(ctx context.Context, r webhook.Replay) error {
	_, err := c.StartRun(ctx, contract.RunRequest{Ref: r.Ref, EndpointID: r.EndpointID}, false)
	return err
}

// CancelReplay stops a bulk replay; started deliveries go on. It returns the errors of RetryNow.
func (c *Client) CancelReplay(ctx context.Context, replayID string) error {
	return c.cancel(ctx, replayID)
}
