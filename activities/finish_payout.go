package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
)

// FinishPayoutInput says how the payout ended.
type FinishPayoutInput struct {
	checkout.Ref

	Failure checkout.PayoutFailure `json:"failure,omitempty"`
}

// FinishPayout decides the payout, in one transaction with its event and deliveries. It fails with
// PayoutNotFound.
func (a *Payments) FinishPayout(ctx context.Context, in FinishPayoutInput) (Settlement, error) {
	got, err := a.Store.FinishPayout(ctx, in.Ref, in.Failure)
	return Settlement(got), asFinal(ctx, err, ErrTypePayoutNotFound)
}
