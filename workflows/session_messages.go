package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/workflows/checkout"
)

// listen registers the query, the updates and the signals of a session. A validator refuses
// what the table refuses, so that it leaves no trace in the history.
func (s *session) listen(ctx workflow.Context) error {
	validatePay := func(_ workflow.Context, in PayInput) error {
		return s.refuses(checkout.MessagePay, in.TransactionID)
	}
	validateComplete := func(_ workflow.Context, in CompleteInput) error {
		return s.refuses(checkout.MessageComplete, in.TransactionID)
	}
	validateEnd := func(m checkout.Message) func(workflow.Context) error {
		return func(workflow.Context) error { return s.refuses(m, "") }
	}

	err := errors.Join(
		workflow.SetQueryHandler(ctx, QueryStatus, func() (SessionState, error) { return s.state(), nil }),
		setUpdateHandler(ctx, UpdatePay, s.pay, validatePay),
		setUpdateHandler(ctx, UpdateComplete, s.complete, validateComplete),
		setUpdateHandler(ctx, UpdateExpire, s.end(checkout.MessageExpire), validateEnd(checkout.MessageExpire)),
		setUpdateHandler(ctx, UpdateAdvance, s.end(checkout.MessageAdvance), validateEnd(checkout.MessageAdvance)),
	)

	workflow.GoNamed(ctx, "signal expire", func(ctx workflow.Context) {
		for {
			workflow.GetSignalChannel(ctx, SignalExpire).Receive(ctx, nil)
			s.signal(checkout.MessageExpire, "")
		}
	})
	workflow.GoNamed(ctx, "signal complete", func(ctx workflow.Context) {
		for {
			var in CompleteInput
			workflow.GetSignalChannel(ctx, SignalComplete).Receive(ctx, &in)
			s.signal(checkout.MessageComplete, in.TransactionID)
		}
	})
	return err
}

func setUpdateHandler(ctx workflow.Context, name string, handler, validator any) error {
	options := workflow.UpdateHandlerOptions{Validator: validator}
	return workflow.SetUpdateHandlerWithOptions(ctx, name, handler, options)
}

// refuses asks the table whether the session accepts a message now, and changes nothing. It
// returns nil or an application error of type SessionNotPending, PaymentInFlight or
// PaymentNotFound, with the session's status as detail.
func (s *session) refuses(m checkout.Message, transactionID string) error {
	answer := s.phase().Answer(m, s.about(transactionID))
	if answer == checkout.Accepted {
		return nil
	}
	return s.refusal(answer)
}

// about says which payment a transaction id names.
func (s *session) about(transactionID string) checkout.About {
	_, decided := s.decided[transactionID]
	switch p := s.payment; {
	case !checkout.IsID(checkout.PrefixTransaction, transactionID):
		return checkout.AboutNone
	case decided:
		return checkout.AboutDecided
	case p == nil || p.transactionID != transactionID:
		return checkout.AboutUnknown
	case p.asked >= maxQuestions:
		return checkout.AboutAskedEnough
	}
	return checkout.AboutInFlight
}

// refusal is the error that a refused message gets.
func (s *session) refusal(answer checkout.Answer) error {
	status := s.status
	if answer == checkout.RefusedNotPending && !status.Final() { // its end is being written
		status = checkout.StatusExpired
	}
	options := temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{status}, Category: temporal.ApplicationErrorCategoryBenign,
	}
	return temporal.NewApplicationErrorWithOptions("session is "+string(status), string(answer), options)
}

// accept notes what a message asks for, or returns an error as refuses does. endInTime and
// follow act on it.
func (s *session) accept(m checkout.Message, transactionID string) error {
	if err := s.refuses(m, transactionID); err != nil {
		return err
	}
	switch m {
	case checkout.MessagePay:
		s.payment = &payment{transactionID: transactionID}
	case checkout.MessageComplete:
		if s.about(transactionID) == checkout.AboutInFlight {
			s.payment.wanted = true
		}
	case checkout.MessageExpire:
		s.endNow = true
	case checkout.MessageAdvance:
		s.due = early
	}
	return nil
}

// pay has the card charged and answers with the outcome.
func (s *session) pay(ctx workflow.Context, in PayInput) (PaymentResult, error) {
	if err := s.accept(checkout.MessagePay, in.TransactionID); err != nil {
		return PaymentResult{}, err
	}
	workflow.SetCurrentDetails(ctx, "A payment is in flight.")
	return s.chargeCard(ctx, s.payment)
}

// complete answers whether a payment was paid, as the card network says: a message alone moves
// no money.
func (s *session) complete(ctx workflow.Context, in CompleteInput) (PaymentResult, error) {
	if err := s.accept(checkout.MessageComplete, in.TransactionID); err != nil {
		return PaymentResult{}, err
	}
	if got, ok := s.decided[in.TransactionID]; ok {
		return got, nil
	}
	return s.nextAnswer(ctx, s.payment)
}

// end answers expire and advance with the state of the session, once its end is written or a
// payment turned out to be in flight.
func (s *session) end(m checkout.Message) func(workflow.Context) (SessionState, error) {
	return func(ctx workflow.Context) (SessionState, error) {
		if err := s.accept(m, ""); err != nil {
			return SessionState{}, err
		}
		ctx, _ = workflow.NewDisconnectedContext(ctx) // a cancel brings the end, too
		err := workflow.Await(ctx, func() bool { return s.phase() != checkout.PhaseExpiring })
		if err == nil && m == checkout.MessageExpire {
			err = s.refuses(m, "") // it may have been paid, or have no row
		}
		return s.state(), err
	}
}

func (s *session) state() SessionState {
	return SessionState{Status: s.status, PaymentInFlight: s.payment != nil}
}

// signal acts on a message nobody waits for. A signal cannot be refused, so one
// that comes late or makes no sense is logged and ignored.
func (s *session) signal(m checkout.Message, transactionID string) {
	if err := s.accept(m, transactionID); err != nil {
		s.log.Info("signal ignored", "op", m, "reason", err)
	}
}

// drain reads the signals that came after the end, so that they are seen in the
// log and do not make the server refuse the close.
func (s *session) drain(ctx workflow.Context) {
	for _, name := range []string{SignalExpire, SignalComplete} {
		for workflow.GetSignalChannel(ctx, name).ReceiveAsync(nil) {
			s.log.Info("signal ignored", "op", name, "reason", "the session has ended")
		}
	}
}
