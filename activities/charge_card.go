package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"example.com/checkout/storage"
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

// ChargeCard marks the payment as in flight and charges the card. It charges only once, however
// often it runs: the exchange rate, the network's name of the charge and the number of the
// confirmation are stored before the confirmation is sent, and a repeat asks the network first. It
// fails with SessionNotPending when the session's time is over by PostgreSQL's clock, with
// PaymentInFlight, whose detail is the id of the other payment, with PaymentNotPossible when there is
// no exchange rate, and with PaymentNotFound. After these four, nothing was charged.
func (a *Payments) ChargeCard(ctx context.Context, in PaymentInput) (PaymentAnswer, error) {
	network, err := a.networks(in.Mode)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	c, err := a.charge(ctx, in)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentNotFound)
	}
	if c.Began() {
		return a.goOn(ctx, network, in, c, checkout.PaymentOutcome.Chargeable)
	}

	rate, err := network.Rates.Quote(ctx, c.Currency, c.PayoutCurrency)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	reference, err := network.Cards.Prepare(ctx, c.ChargeRequest)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentUnknownToNetwork)
	}
	first, err := a.Store.BeginPayment(ctx, in.Ref, in.TransactionID, rate, reference)
	if errors.Is(err, checkout.ErrPaymentInFlight) {
		return PaymentAnswer{}, a.otherInFlight(ctx, in.Ref)
	}
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentNotFound)
	}
	if !first { // another execution began it meanwhile, maybe under another reference
		return PaymentAnswer{}, asFinal(ctx, errBegunElsewhere, "")
	}
	c.Reference = reference
	return a.confirm(ctx, network, in, c, 1)
}

// errBegunElsewhere makes Temporal repeat the activity. The repeat reads what was stored.
var errBegunElsewhere = errors.New("another execution has begun or confirmed the payment")

// charge reads a payment's charge.
func (a *Payments) charge(ctx context.Context, in PaymentInput) (storage.Charge, error) {
	c, err := a.Store.Charge(ctx, in.Ref, in.TransactionID)
	c.ReturnURL = checkout.ReturnURL(a.CheckoutURL, in.ID)
	return c, err
}

// goOn asks the network about a payment that has begun. It confirms once more when the outcome is
// one that may be confirmed. Otherwise it records the network's answer.
func (a *Payments) goOn(
	ctx context.Context, network Networks, in PaymentInput, c storage.Charge,
	confirmable func(checkout.PaymentOutcome) bool,
) (PaymentAnswer, error) {
	result, err := network.Cards.Payment(ctx, c.Reference)
	switch {
	case err != nil:
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentUnknownToNetwork)
	case !confirmable(result.Outcome):
		return a.record(ctx, network, in, c, result)
	}
	rate, err := network.Rates.Quote(ctx, c.Currency, c.PayoutCurrency)
	if err != nil {
		return PaymentAnswer{}, asUnavailable(ctx, err)
	}
	number := c.Confirms + 1
	ok, err := a.Store.BeginConfirm(ctx, in.Ref, in.TransactionID, number, rate)
	if err == nil && !ok {
		err = errBegunElsewhere
	}
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	return a.confirm(ctx, network, in, c, number)
}

// confirm sends a confirmation that is stored already.
func (a *Payments) confirm(
	ctx context.Context, network Networks, in PaymentInput, c storage.Charge, number int,
) (PaymentAnswer, error) {
	result, err := network.Cards.Confirm(ctx, c.Reference, number, c.ChargeRequest)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, ErrTypePaymentUnknownToNetwork)
	}
	return a.record(ctx, network, in, c, result)
}

// record stores an answer and returns the answer that counts. It cancels a declined charge first:
// until then, the network would let it be confirmed again.
func (a *Payments) record(
	ctx context.Context, network Networks, in PaymentInput, c storage.Charge, result checkout.ChargeResult,
) (PaymentAnswer, error) {
	if result.Outcome.Chargeable() { // asked too early; the caller asks again, or gives up
		return PaymentAnswer{}, asFinal(ctx, checkout.ErrNotFound, ErrTypePaymentUnknownToNetwork)
	}
	if result.Outcome == checkout.OutcomeFailed {
		canceled, err := network.Cards.Cancel(ctx, c.Reference, result.Failure)
		if err != nil {
			return PaymentAnswer{}, asFinal(ctx, err, "")
		}
		result = canceled
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
