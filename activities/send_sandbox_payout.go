package activities

import (
	"context"

	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// SendSandboxPayout calls BroadcastPayout and FinishPayout for a payout of the sandbox, which never waits. It
// fails with their errors. After an error it may be repeated, and so may each of the two. It fails with
// PayoutTakesLonger for a payout on a real chain, and sends nothing.
func (a *Payments) SendSandboxPayout(ctx context.Context, in checkout.Ref) (Settlement, error) {
	p, err := a.Payouts.PayoutToSend(ctx, in)
	if err != nil {
		return Settlement{}, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
	}
	if p.Chain != checkout.ChainSandbox {
		return Settlement{}, temporal.NewNonRetryableApplicationError(
			"the payout is on a real chain", contract.ErrTypePayoutTakesLonger, nil)
	}
	sent, err := a.broadcast(ctx, p)
	if err != nil {
		return Settlement{}, err
	}
	return a.FinishPayout(ctx, FinishPayoutInput{Ref: in, Failure: sent.Failure, Generation: sent.Generation})
}
