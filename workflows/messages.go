package workflows

import (
	"go.temporal.io/sdk/workflow"
)

// message is what somebody wants of a session, whichever way it came.
type message struct {
	op            op
	transactionID string
}

type op string

const (
	opPay      op = "pay"
	opComplete op = "complete"
	opExpire   op = "expire"
	opAdvance  op = "advance"
)

// listen registers the updates, signals and the query of a session. All of the
// messages are thin adapters to transition.
func (s *session) listen(ctx workflow.Context) error {
	err := workflow.SetQueryHandler(ctx, QueryStatus, func() (SessionState, error) { return s.state(), nil })
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, UpdatePay, func(ctx workflow.Context, in PayInput) (PaymentResult, error) {
		return s.transition(ctx, message{opPay, in.TransactionID})
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in PayInput) error {
		return s.refuses(message{opPay, in.TransactionID})
	}})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, UpdateComplete, func(ctx workflow.Context, in CompleteInput) (PaymentResult, error) {
		return s.transition(ctx, message{opComplete, in.TransactionID})
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in CompleteInput) error {
		if p := s.payment; p != nil && p.transactionID == in.TransactionID && p.asked >= maxQuestions {
			return refusal(ErrTypePaymentInFlight, s.status)
		}
		return s.refuses(message{opComplete, in.TransactionID})
	}})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, UpdateExpire, func(ctx workflow.Context) (SessionState, error) {
		_, err := s.transition(ctx, message{op: opExpire})
		return s.state(), err
	}, workflow.UpdateHandlerOptions{Validator: func(workflow.Context) error {
		return s.refuses(message{op: opExpire})
	}})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, UpdateAdvance, s.advance, workflow.UpdateHandlerOptions{Validator: func(workflow.Context) error {
		return s.refuses(message{op: opAdvance})
	}})
	if err != nil {
		return err
	}
	workflow.GoNamed(ctx, "signal expire", func(ctx workflow.Context) {
		for {
			workflow.GetSignalChannel(ctx, SignalExpire).Receive(ctx, nil)
			s.signal(ctx, message{op: opExpire})
		}
	})
	workflow.GoNamed(ctx, "signal complete", func(ctx workflow.Context) {
		for {
			var in CompleteInput
			workflow.GetSignalChannel(ctx, SignalComplete).Receive(ctx, &in)
			s.signal(ctx, message{opComplete, in.TransactionID})
		}
	})
	return nil
}

// advance makes the session due as its timer would: it expires now, or once the
// payment in flight is decided.
func (s *session) advance(ctx workflow.Context) (SessionState, error) {
	s.due, s.early = true, true
	err := workflow.Await(ctx, func() bool { return s.status.Final() || s.orphaned || s.payment != nil })
	return s.state(), err
}

func (s *session) state() SessionState {
	return SessionState{Status: s.status, PaymentInFlight: s.payment != nil}
}

// signal acts on a message nobody waits for. A signal cannot be refused, so one
// that comes late or makes no sense is logged and ignored.
func (s *session) signal(ctx workflow.Context, m message) {
	if p := s.payment; m.op == opComplete && p != nil && p.queued && p.transactionID == m.transactionID &&
		workflow.GetVersion(ctx, changeShareAnswers, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		s.log.Info("signal ignored", "op", m.op, "reason", "another one asks the card network next")
		return
	}
	s.handling++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.handling-- }()
		if _, err := s.transition(ctx, m); err != nil {
			s.log.Info("signal ignored", "op", m.op, "reason", err)
		}
	})
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
