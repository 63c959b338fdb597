package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// PaymentInput names one payment of a session.
type PaymentInput struct {
	checkout.Ref

	TransactionID string `json:"transaction_id"`
}

// PaymentAnswer is the card network's decision. PostgreSQL keeps the network's details of the card.
type PaymentAnswer struct {
	Outcome checkout.PaymentOutcome `json:"outcome"`
	Failure checkout.FailureCode    `json:"failure,omitempty"`
	// Watch means that the network reports the decision to nobody: the session must poll. See checkout.Acquirer.
	Watch bool `json:"watch,omitempty"`
}

// ChargeCard marks the payment as in flight and charges the card. It charges only once, however often it runs: the
// exchange rate, the network's name of the charge and the number of the confirmation are stored before the confirmation
// is sent, and a repeat asks the network first. It fails with SessionNotPending when the session's time is over by
// PostgreSQL's clock, with PaymentInFlight, whose detail is the id of the other payment, with PaymentNotPossible when
// there is no exchange rate or the payment could not be paid out, and with PaymentNotFound. After these four, nothing
// was charged.
func (a *Payments) ChargeCard(ctx context.Context, in PaymentInput) (PaymentAnswer, error) {
	p, err := a.payment(ctx, in)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, contract.ErrTypePaymentNotFound)
	}
	if p.Began() {
		return a.goOn(ctx, in, p, checkout.PaymentOutcome.Chargeable)
	}

	rate, err := p.route.Rates.Quote(ctx, p.Currency, p.PayoutCurrency)
	if err == nil {
		err = p.checkBounds(ctx)
	}
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	reference, err := p.cards.Prepare(ctx, p.ChargeRequest)
	if errors.Is(err, checkout.ErrChargeRefused) {
		raiseAlarm(ctx, in.Mode, alarmCharge, "the card network refuses to begin the charge of "+in.TransactionID)
	}
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, contract.ErrTypePaymentUnknownToNetwork)
	}
	first, err := a.Sessions.BeginPayment(ctx, in.Ref, in.TransactionID, rate, reference)
	if errors.Is(err, checkout.ErrPaymentInFlight) {
		return PaymentAnswer{}, a.otherInFlight(ctx, in.Ref)
	}
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, contract.ErrTypePaymentNotFound)
	}
	if !first { // another execution began it meanwhile, maybe under another reference
		return PaymentAnswer{}, asFinal(ctx, errBegunElsewhere, "")
	}
	p.Reference = reference
	return a.confirm(ctx, in, p, 1)
}

// checkBounds returns checkout.ErrPaymentNotPossible when the payment could not be paid out. The bounds
// may have changed since the session was created.
func (p payment) checkBounds(ctx context.Context) error {
	if p.route.Bounds == nil {
		return nil
	}
	bounds, known := p.route.Bounds(p.Currency, p.PayoutCurrency)
	net := p.Amount - p.Fee.Of(p.Amount)
	if known && bounds.Hold(net) {
		return nil
	}
	logger(ctx).WarnContext(ctx, "payment refused: it could not be paid out", "transaction_id", p.TransactionID,
		"net", net, "currency", p.Currency, "known", known, "least", bounds.Least, "most", bounds.Most)
	return checkout.ErrPaymentNotPossible
}

// errBegunElsewhere makes Temporal repeat the activity. The repeat reads what was stored.
var errBegunElsewhere = errors.New("another execution has begun or confirmed the payment")

// readCharge reads a payment's charge.
func (a *Payments) readCharge(ctx context.Context, in PaymentInput) (storage.Charge, error) {
	c, err := a.Sessions.Charge(ctx, in.Ref, in.TransactionID)
	c.ReturnURL = checkout.ReturnURL(a.CheckoutURL, in.ID)
	return c, err
}

// goOn continues a payment that has begun: it reads the network's outcome, and confirms once more if that outcome
// allows it. Otherwise it records the outcome.
func (a *Payments) goOn(
	ctx context.Context, in PaymentInput, p payment, confirmable func(checkout.PaymentOutcome) bool,
) (PaymentAnswer, error) {
	result, err := p.cards.Payment(ctx, p.Reference)
	switch {
	case err != nil:
		return PaymentAnswer{}, asFinal(ctx, err, contract.ErrTypePaymentUnknownToNetwork)
	case !confirmable(result.Outcome):
		return a.record(ctx, in, p, result)
	}
	rate, err := p.route.Rates.Quote(ctx, p.Currency, p.PayoutCurrency)
	if err != nil {
		return PaymentAnswer{}, asUnavailable(ctx, err)
	}
	number := p.Confirms + 1
	ok, err := a.Sessions.BeginConfirm(ctx, in.Ref, in.TransactionID, number, rate)
	if err == nil && !ok {
		err = errBegunElsewhere
	}
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, "")
	}
	return a.confirm(ctx, in, p, number)
}

// confirm sends a confirmation that is stored already.
func (a *Payments) confirm(ctx context.Context, in PaymentInput, p payment, number int) (PaymentAnswer, error) {
	result, err := p.cards.Confirm(ctx, p.Reference, number, p.ChargeRequest)
	if err != nil {
		return PaymentAnswer{}, asFinal(ctx, err, contract.ErrTypePaymentUnknownToNetwork)
	}
	return a.record(ctx, in, p, result)
}

// record stores an answer and returns the answer that counts. It cancels a declined charge first:
// until then, the network would let it be confirmed again.
func (a *Payments) record(
	ctx context.Context, in PaymentInput, p payment, result checkout.ChargeResult,
) (PaymentAnswer, error) {
	if result.Outcome.Chargeable() { // asked too early; the caller asks again, or gives up
		return PaymentAnswer{}, asFinal(ctx, checkout.ErrNotFound, contract.ErrTypePaymentUnknownToNetwork)
	}
	if result.Outcome == checkout.OutcomeFailed {
		canceled, err := p.cards.Cancel(ctx, p.Reference, result.Failure)
		if err != nil {
			return PaymentAnswer{}, asFinal(ctx, err, "")
		}
		result = canceled
	}
	return a.recordCharge(ctx, in, p.Acquirer, result)
}

// otherInFlight returns an error with the id of a payment in flight that is not the run's, as after an operator's
// reset.
func (a *Payments) otherInFlight(ctx context.Context, in checkout.Ref) error {
	other, err := a.Sessions.PaymentInFlight(ctx, in.ID)
	if err != nil || other.ID == "" { // "": it was decided just now
		return asFinal(ctx, errors.Join(err, checkout.ErrPaymentInFlight), "")
	}
	return temporal.NewNonRetryableApplicationError("another payment is in flight",
		contract.ErrTypePaymentInFlight, nil, other.ID)
}

// recordCharge stores an answer and returns the answer that counts.
func (a *Payments) recordCharge(
	ctx context.Context, in PaymentInput, by checkout.Acquirer, result checkout.ChargeResult,
) (PaymentAnswer, error) {
	outcome, failure, err := a.Sessions.RecordCharge(ctx, in.Ref, in.TransactionID, result)
	if errors.Is(err, checkout.ErrNotFound) {
		return PaymentAnswer{}, asFinal(ctx, err, contract.ErrTypePaymentNotFound)
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
	return PaymentAnswer{Outcome: outcome, Failure: failure, Watch: !outcome.Final() && !by.Tells()}, nil
}

// ConfirmPayment asks the card network for the outcome of a payment in flight. When the customer's bank has agreed, it
// charges the card. It does not begin a charge that was never tried: the customer may have gone long ago.
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

// CancelPayment gives up an undecided payment. When the network has charged the card after all, the answer says so, and
// the payment succeeds although its time is over. It fails with PaymentNotFound.
func (a *Payments) CancelPayment(ctx context.Context, in PaymentInput) (PaymentAnswer, error) {
	c, err := a.readCharge(ctx, in)
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

// watchInterval is the time between two requests of WatchPayment to the card network.
const watchInterval = 5 * time.Second

// WatchPayment returns when the card network has news about a payment: a final outcome, or the agreement of the
// customer's bank. It decides and stores nothing. It runs until its workflow cancels it.
func (a *Payments) WatchPayment(ctx context.Context, in PaymentInput) error {
	p, err := a.payment(ctx, in)
	if err != nil {
		return asFinal(ctx, err, "")
	}

	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		// After an error the next question may be answered.
		got, err := p.cards.Payment(ctx, p.Reference)
		if err == nil && (got.Outcome.Final() || got.Outcome == checkout.OutcomeAgreed) {
			return nil
		}
		activity.RecordHeartbeat(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
