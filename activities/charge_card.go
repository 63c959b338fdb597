package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
)

// PaymentInput names one payment of a session.
type PaymentInput struct {
	checkout.Ref

	TransactionID string `json:"transaction_id"`
}

// PaymentAnswer is the card network's decision. PostgreSQL keeps what the network said about the
// card.
type PaymentAnswer struct {
	Outcome checkout.PaymentOutcome `json:"outcome"`
	Failure checkout.FailureCode    `json:"failure,omitempty"`
}

// ChargeCard locks the payment's exchange rate, marks the payment as in flight and charges the
// card. It charges only once, however often it runs: the transaction id is the network's
// idempotency key. It fails with SessionNotPending when the session's time is over by PostgreSQL's
// clock, with PaymentInFlight, whose detail is the id of the other payment, and with
// PaymentNotFound.
func (a *Payments) ChargeCard(ctx context.Context, in PaymentInput) (PaymentAnswer, error) {
	network, err := a.networks(in.Mode)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}

	// Store the rate before the charge: after this worker's death, ConfirmPayment or CancelPayment
	// may learn of the charge instead.
	from, to, err := a.Store.PaymentCurrencies(ctx, in.Ref, in.TransactionID)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentNotFound)
	}

	rate, err := network.Payouts.Rate(ctx, from, to)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}

	req, err := a.Store.BeginPayment(ctx, in.Ref, in.TransactionID, rate)
	if errors.Is(err, checkout.ErrPaymentInFlight) {
		return PaymentAnswer{}, a.otherInFlight(ctx, in.Ref)
	}
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentNotFound)
	}

	req.ReturnURL = checkout.ReturnURL(a.CheckoutURL, in.ID)
	result, err := network.Cards.Charge(ctx, req)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentUnknownToNetwork)
	}
	return a.recordCharge(ctx, in, result)
}

// otherInFlight returns an error with the id of a payment in flight that the run does not know.
// This happens after an operator reset the run.
func (a *Payments) otherInFlight(ctx context.Context, in checkout.Ref) error {
	transactionID, _, err := a.Store.PaymentAction(ctx, in.ID)
	if err != nil || transactionID == "" { // "": it was decided just now
		return asFinal(ctx, errors.Join(err, checkout.ErrPaymentInFlight), "")
	}
	return temporal.NewNonRetryableApplicationError("another payment is in flight",
		ErrTypePaymentInFlight, nil, transactionID)
}

// recordCharge stores an answer and returns the answer that counts.
func (a *Payments) recordCharge(
	ctx context.Context, in PaymentInput, result checkout.ChargeResult,
) (PaymentAnswer, error) {
	outcome, failure, err := a.Store.RecordCharge(ctx, in.Ref, in.TransactionID, result)
	if errors.Is(err, checkout.ErrNotFound) {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentNotFound)
	}
	if err != nil {
		// Also when PostgreSQL cannot read the network's answer: the activity is retried forever.
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	if result.Outcome.Final() && outcome != result.Outcome {
		logger(ctx).ErrorContext(ctx,
			"the card network contradicts itself; its first answer stands",
			"transaction_id", in.TransactionID, "first", outcome, "now", result.Outcome)
	}
	return PaymentAnswer{Outcome: outcome, Failure: failure}, nil
}
