package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// listen registers the query, the updates and the signals of a session. The validators refuse
// early, because an update that a validator refuses is not written to the history.
func (s *session) listen(ctx workflow.Context) error {
	validatePay := func(_ workflow.Context, in contract.PayInput) error {
		return s.refuses(checkout.MessagePay, in.TransactionID)
	}
	validateComplete := func(_ workflow.Context, in contract.CompleteInput) error {
		return s.refuses(checkout.MessageComplete, in.TransactionID)
	}
	validateEnd := func(m checkout.Message) func(workflow.Context) error {
		return func(workflow.Context) error { return s.refuses(m, "") }
	}

	err := errors.Join(
		workflow.SetQueryHandler(ctx, contract.QueryStatus, func() (contract.SessionState, error) { return s.state(), nil }),
		setUpdateHandler(ctx, contract.UpdatePay, s.pay, validatePay),
		setUpdateHandler(ctx, contract.UpdateComplete, s.complete, validateComplete),
		setUpdateHandler(ctx, contract.UpdateExpire, s.end(checkout.MessageExpire), validateEnd(checkout.MessageExpire)),
		setUpdateHandler(ctx, contract.UpdateAdvance, s.end(checkout.MessageAdvance), validateEnd(checkout.MessageAdvance)),
	)

	workflow.GoNamed(ctx, "signal expire", func(ctx workflow.Context) {
		for {
			workflow.GetSignalChannel(ctx, contract.SignalExpire).Receive(ctx, nil)
			s.signal(checkout.MessageExpire, "")
		}
	})
	workflow.GoNamed(ctx, "signal complete", func(ctx workflow.Context) {
		for {
			var in contract.CompleteInput
			workflow.GetSignalChannel(ctx, contract.SignalComplete).Receive(ctx, &in)
			s.signal(checkout.MessageComplete, in.TransactionID)
		}
	})
	return err
}

func setUpdateHandler(ctx workflow.Context, name string, handler, validator any) error {
	options := workflow.UpdateHandlerOptions{Validator: validator}
	return workflow.SetUpdateHandlerWithOptions(ctx, name, handler, options)
}

// refuses looks up in the table whether the session accepts a message now. It changes nothing. It returns nil, or an
// application error of type SessionNotPending, PaymentInFlight or PaymentNotFound with the session's status as detail.
func (s *session) refuses(m checkout.Message, transactionID string) error {
	answer := s.phase().Answer(m, s.about(transactionID))
	if answer == checkout.Accepted {
		return nil
	}
	return s.refusal(answer)
}

// about says how the session knows the payment with this transaction id.
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

// refusal returns the application error for a refused message.
func (s *session) refusal(answer checkout.Answer) error {
	status := s.status
	if answer == checkout.RefusedNotPending && !status.Final() { // the end is being written now
		status = checkout.StatusExpired
	}
	options := temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{status}, Category: temporal.ApplicationErrorCategoryBenign,
	}
	return temporal.NewApplicationErrorWithOptions("session is "+string(status), string(answer), options)
}

// accept notes the wish of a message in the state; endInTime and followPayment act on it. If the
// message is refused, accept returns the error of refuses.
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

// pay charges the card and answers with the outcome.
func (s *session) pay(ctx workflow.Context, in contract.PayInput) (contract.PaymentResult, error) {
	if err := s.accept(checkout.MessagePay, in.TransactionID); err != nil {
		return contract.PaymentResult{}, err
	}
	workflow.SetCurrentDetails(ctx, "A payment is in flight.")
	return s.chargeCard(ctx, s.payment)
}

// complete asks the card network whether the payment was paid and returns the network's answer.
// The message alone never marks a payment as paid.
func (s *session) complete(ctx workflow.Context, in contract.CompleteInput) (contract.PaymentResult, error) {
	if err := s.accept(checkout.MessageComplete, in.TransactionID); err != nil {
		return contract.PaymentResult{}, err
	}
	if got, ok := s.decided[in.TransactionID]; ok {
		return got, nil
	}
	return s.nextAnswer(ctx, s.payment)
}

// end returns the handler of expire or advance. It answers with the state of the session, as
// soon as the end is written or a payment turns out to be in flight.
func (s *session) end(m checkout.Message) func(workflow.Context) (contract.SessionState, error) {
	return func(ctx workflow.Context) (contract.SessionState, error) {
		if err := s.accept(m, ""); err != nil {
			return contract.SessionState{}, err
		}
		ctx, _ = workflow.NewDisconnectedContext(ctx) // a cancel ends the session too: keep waiting for the end
		err := workflow.Await(ctx, func() bool { return s.phase() != checkout.PhaseExpiring })
		if err == nil && m == checkout.MessageExpire {
			err = s.refuses(m, "") // the session may be paid, or have no row
		}
		return s.state(), err
	}
}

func (s *session) state() contract.SessionState {
	return contract.SessionState{Status: s.status, PaymentInFlight: s.payment != nil}
}

// signal handles a message whose sender gets no answer. A message that the table refuses is logged and ignored.
func (s *session) signal(m checkout.Message, transactionID string) {
	if err := s.accept(m, transactionID); err != nil {
		s.log.Info("signal ignored", "op", m, "reason", err)
	}
}

// drain reads and logs the signals that came after the end. With unread signals, the server
// would refuse to close the run.
func (s *session) drain(ctx workflow.Context) {
	for _, name := range []string{contract.SignalExpire, contract.SignalComplete} {
		for workflow.GetSignalChannel(ctx, name).ReceiveAsync(nil) {
			s.log.Info("signal ignored", "op", name, "reason", "the session has ended")
		}
	}
}
