package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/treasury"
)

// HoldPayout notes that a payout waits, because BroadcastPayout got no answer for some minutes. It
// decides nothing. The result is that of BroadcastPayout when the payout is decided by now. It fails
// with PayoutNotFound.
func (a *Payments) HoldPayout(ctx context.Context, in checkout.Ref) (treasury.TransferOutcome, error) {
	got, err := a.Payouts.HoldAwayPayout(ctx, in)
	return got, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
}
