package runs

import (
	"context"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// closing is how long StartPayout waits for an open run of the payout. A run that has written the
// payout's failure closes a moment later.
const closing = time.Second

// StartPayout starts a run of a payout that was retried. When the payout keeps an open run, it starts none: Reconcile
// starts one if the payout is still pending after that run. It returns ErrOutcomeUnknown.
func (c *Client) StartPayout(ctx context.Context, ref checkout.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	until := time.Now().Add(closing)
	for {
		started, err := c.StartRun(ctx, contract.RunRequest{Ref: ref}, true)
		if err != nil || started || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return answer("start payout", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
