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

// PaymentAnswer is what the card network said; what it said of the card stays
// in PostgreSQL.
type PaymentAnswer struct {
	Outcome checkout.PaymentOutcome `json:"outcome"`
	Failure checkout.FailureCode    `json:"failure,omitempty"`
}

// ChargeCard locks the payment's exchange rate, marks it as in flight and charges
// the card, once however often it runs: the transaction id is the network's
// idempotency key. It fails with SessionNotPending when PostgreSQL's clock says
// that the session's time is over, with PaymentInFlight, whose detail is the other
// payment, and with PaymentNotFound.
func (a *Payments) ChargeCard(ctx context.Context, in PaymentInput) (PaymentAnswer, error) {
	network, err := a.networks(in.Mode)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	// The rate is stored before anything is charged: who finds out that the charge
	// went well may be ConfirmPayment or CancelPayment, after this worker's death.
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

// otherInFlight says which payment is in flight that the run does not know: an
// operator reset it.
func (a *Payments) otherInFlight(ctx context.Context, in checkout.Ref) error {
	transactionID, _, err := a.Store.PaymentAction(ctx, in.ID)
	if err != nil || transactionID == "" { // "": it was decided in this very moment
		return asFinal(ctx, errors.Join(err, checkout.ErrPaymentInFlight), "")
	}
	return temporal.NewNonRetryableApplicationError("another payment is in flight", ErrTypePaymentInFlight, nil, transactionID)
}

// ConfirmPayment asks the card network whether a payment in flight was paid.
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

// ErrTypePaymentUnknownToNetwork: the card network knows no such charge, or no such
// card. The payment is then given up, so that it cannot be charged later either.
const ErrTypePaymentUnknownToNetwork = "PaymentUnknownToNetwork"

// CancelPayment gives an undecided payment up. When the network charged it
// after all, the answer says so: money decides, not the clock. It fails with
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

// recordCharge notes an answer and returns the one that stands.
func (a *Payments) recordCharge(ctx context.Context, in PaymentInput, result checkout.ChargeResult) (PaymentAnswer, error) {
	outcome, failure, err := a.Store.RecordCharge(ctx, in.Ref, in.TransactionID, result)
	if errors.Is(err, checkout.ErrNotFound) {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentNotFound)
	}
	if err != nil { // also when PostgreSQL cannot read what the network said: it is never given up
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	if result.Outcome.Final() && outcome != result.Outcome {
		logger(ctx).ErrorContext(ctx, "the card network contradicts itself; its first answer stands",
			"transaction_id", in.TransactionID, "first", outcome, "now", result.Outcome)
	}
	return PaymentAnswer{Outcome: outcome, Failure: failure}, nil
}
