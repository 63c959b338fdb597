package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// FinishPayoutInput says how the payout ended.
type FinishPayoutInput struct {
	checkout.Ref

	Failure    checkout.PayoutFailure `json:"failure,omitempty"`
	Generation int                    `json:"generation,omitempty"` // as in TransferOutcome; 0 is the present one
}

// FinishPayout decides the payout, in one transaction with its event and deliveries. It fails with
// PayoutNotFound.
func (a *Payments) FinishPayout(ctx context.Context, in FinishPayoutInput) (Settlement, error) {
	got, err := a.Payouts.FinishPayout(ctx, in.Ref, in.Generation, in.Failure)
	return got, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
}
