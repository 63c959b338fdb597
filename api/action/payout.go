package action

import (
	"context"

	"example.com/checkout/workflows/checkout"
)

// RetryPayout makes a failed payout pending again and starts its run. It returns the payout as it was made pending.
// Errors: those of storage.Payouts.RetryPayout.
func (a Actions) RetryPayout(ctx context.Context, p checkout.Payout, by By) (checkout.Payout, error) {
	detail := "of " + p.SessionID + ", after " + string(p.Failure)
	got, err := a.Store.Payouts.RetryPayout(ctx, p.Ref, by.Entry(p.Ref, "payout.retried", detail))
	if err != nil {
		return got, err
	}
	a.logLeftover(ctx, a.Runs.StartPayout(ctx, p.Ref))
	return got, nil
}
