package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// CancelPayment gives up an undecided payment. When the network has charged the card after all, the
// answer says so, and the payment succeeds although its time is over. It fails with
// PaymentNotFound.
func (a *Payments) CancelPayment(ctx context.Context, in PaymentInput) (PaymentAnswer, error) {
	c, err := a.charge(ctx, in)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, contract.ErrTypePaymentNotFound)
	}
	reason := checkout.FailureProcessingError
	if c.ActionURL != "" {
		reason = checkout.FailureThreeDSAbandoned
	}

	if c.Reference == "" { // it may begin at this moment; the row decides
		ended, err := a.Sessions.GiveUpPayment(ctx, in.Ref, in.TransactionID, reason)
		switch {
		case err != nil:
			return PaymentAnswer{}, asFinal(ctx, err, contract.ErrTypePaymentNotFound)
		case !ended:
			return PaymentAnswer{}, asFinal(ctx, errBegunElsewhere, "")
		}
		return PaymentAnswer{Outcome: checkout.OutcomeFailed, Failure: reason}, nil
	}

	p, err := a.onNetworks(in.Mode, c)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	result, err := p.cards.Cancel(ctx, p.Reference, reason)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	return a.recordCharge(ctx, in, p.Acquirer, result)
}
