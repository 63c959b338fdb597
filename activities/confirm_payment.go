package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// ConfirmPayment asks the card network for the outcome of a payment in flight. When the customer's
// bank has agreed, it charges the card. It does not begin a charge that was never tried: the customer
// may have gone long ago.
func (a *Payments) ConfirmPayment(ctx context.Context, in PaymentInput) (PaymentAnswer, error) {
	p, err := a.payment(ctx, in)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, contract.ErrTypePaymentNotFound)
	}
	if p.Reference == "" {
		return PaymentAnswer{}, asFinal(ctx, checkout.ErrNotFound, contract.ErrTypePaymentUnknownToNetwork)
	}
	agreed := func(o checkout.PaymentOutcome) bool { return o == checkout.OutcomeAgreed }
	return a.goOn(ctx, in, p, agreed)
}
