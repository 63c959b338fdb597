package activities

import (
	"context"
)

// ErrTypePaymentUnknownToNetwork: the card network does not know the charge or the card. The
// workflow then cancels the payment, so that it cannot be charged later.
const ErrTypePaymentUnknownToNetwork = "PaymentUnknownToNetwork"

// ConfirmPayment asks the card network for the outcome of a payment in flight.
func (a *Payments) ConfirmPayment(ctx context.Context, in PaymentInput) (PaymentAnswer, error) {
	network, err := a.networks(in.Mode)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	result, err := network.Cards.Payment(ctx, in.TransactionID)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentUnknownToNetwork)
	}
	return a.recordCharge(ctx, in, result)
}
