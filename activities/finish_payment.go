package activities

import (
	"context"

	"example.com/checkout/workflows/contract"
)

// FinishPayment decides a payment by the recorded answer of the card network, in one transaction
// with everything that follows. A repeat returns the same settlement. It fails with
// SessionNotFound, with PaymentUndecided when no answer is recorded, and with SessionNotPending
// when the session ended without this payment.
func (a *Payments) FinishPayment(ctx context.Context, in PaymentInput) (Settlement, error) {
	got, err := a.Sessions.FinishPayment(ctx, in.Ref, in.TransactionID)
	if err == nil {
		countSession(ctx, in.Mode, got.Status)
	}
	return got, asFinal(ctx, err, contract.ErrTypeSessionNotFound)
}
