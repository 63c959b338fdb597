package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
)

// CancelPayment gives up an undecided payment. When the network has charged the card after all, the
// answer says so, and the payment succeeds although its time is over. It fails with
// PaymentNotFound.
func (a *Payments) CancelPayment(ctx context.Context, in PaymentInput) (PaymentAnswer, error) {
	network, err := a.networks(in.Mode)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	_, actionURL, err := a.Store.PaymentAction(ctx, in.ID)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	reason := checkout.FailureProcessingError
	if actionURL != "" {
		reason = checkout.FailureThreeDSAbandoned
	}
	result, err := network.Cards.Cancel(ctx, in.TransactionID, reason)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	return a.recordCharge(ctx, in, result)
}
