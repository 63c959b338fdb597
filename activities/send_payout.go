package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
)

// SendPayout calls BroadcastPayout and FinishPayout. It fails with their errors. After an error it
// may be repeated, and so may each of the two. It is for test mode, whose payouts never wait.
func (a *Payments) SendPayout(ctx context.Context, in checkout.Ref) (Settlement, error) {
	sent, err := a.BroadcastPayout(ctx, in)
	if err != nil {
		return Settlement{}, err
	}
	return a.FinishPayout(ctx, FinishPayoutInput{Ref: in, Failure: sent.Failure, Generation: sent.Generation})
}
