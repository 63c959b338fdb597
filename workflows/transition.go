package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
)

// transition is the one way in which a session changes. The first message that
// is accepted wins; every later one is told the truth. It returns an
// application error of type SessionNotPending, PaymentInFlight or
// PaymentNotFound, with the session's status as detail.
func (s *session) transition(ctx workflow.Context, m message) (PaymentResult, error) {
	if err := s.refuses(m); err != nil {
		return PaymentResult{}, err
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx) // money is followed to its end, whoever cancels
	switch m.op {
	case opPay:
		return s.pay(ctx, m.transactionID)
	case opComplete:
		return s.complete(ctx, m.transactionID)
	default:
		_, err := s.expire(ctx, false)
		return PaymentResult{}, err
	}
}

// refuses says why a message cannot be accepted now, or nil. It changes
// nothing, so that updates are refused before they leave a trace. Repeating a
// message that took effect is not refused.
func (s *session) refuses(m message) error {
	_, known := s.decided[m.transactionID]
	switch {
	case (m.op == opPay || m.op == opComplete) && !checkout.IsID(checkout.PrefixTransaction, m.transactionID):
		return refusal(ErrTypePaymentNotFound, s.status)
	case m.op == opComplete && known:
		return nil
	case (m.op == opExpire || m.op == opAdvance) && (s.status == checkout.StatusExpired || s.expiring):
		return nil
	case s.status.Final():
		return refusal(ErrTypeSessionNotPending, s.status)
	case s.expiring:
		return refusal(ErrTypeSessionNotPending, checkout.StatusExpired)
	case m.op == opComplete && (s.payment == nil || s.payment.transactionID != m.transactionID):
		return refusal(ErrTypePaymentNotFound, s.status)
	case m.op == opAdvance && s.due && s.payment != nil: // what it asks for comes already
		return refusal(ErrTypePaymentInFlight, s.status)
	case m.op == opComplete, m.op == opAdvance:
		return nil
	case s.payment != nil:
		return refusal(ErrTypePaymentInFlight, s.status)
	case m.op == opPay && s.due: // before that, PostgreSQL's clock decides when the payment begins
		return refusal(ErrTypeSessionNotPending, checkout.StatusExpired)
	}
	return nil
}

// expire ends the session without a payment; onTime, only when PostgreSQL's clock
// says that its time is over. It returns how much of it is left.
func (s *session) expire(ctx workflow.Context, onTime bool) (left time.Duration, err error) {
	if err := workflow.Await(ctx, func() bool { return !s.expiring }); err != nil { // somebody else's wish is being written
		return 0, err
	}
	if s.status == checkout.StatusExpired {
		return 0, nil
	}
	s.expiring = true
	var a *activities.Payments
	var got activities.ExpireSessionResult
	in := activities.ExpireSessionInput{Ref: s.in.Ref, ExpiresAt: s.in.ExpiresAt, OnTime: onTime}
	err = workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, decideOptions), a.ExpireSession, in).Get(ctx, &got)
	s.expiring = false
	switch {
	case isType(err, activities.ErrTypeSessionNotFound):
		s.orphaned = true
		return 0, refusal(ErrTypeSessionNotPending, checkout.StatusExpired)
	case err != nil:
		return 0, err
	case got.InFlight != "":
		// Only after an operator's reset: the row knows a payment that this run
		// does not. It is settled first.
		if _, err := s.ask(ctx, &payment{transactionID: got.InFlight}, giveUp); err != nil {
			s.log.Warn("payment not given up", "transaction_id", got.InFlight, "error", err)
		}
		return 0, refusal(ErrTypePaymentInFlight, s.status)
	case got.Left > 0:
		return got.Left, nil
	}
	s.status = got.Status
	if s.status != checkout.StatusExpired {
		return 0, refusal(ErrTypeSessionNotPending, s.status)
	}
	return 0, nil
}

// pay has the card charged. From here until the payment is decided the session
// does not expire.
func (s *session) pay(ctx workflow.Context, transactionID string) (PaymentResult, error) {
	workflow.SetCurrentDetails(ctx, "A payment is in flight.")
	return s.ask(ctx, &payment{transactionID: transactionID}, charge)
}

// complete asks the card network whether a payment in flight was really paid: a
// message alone moves no money.
func (s *session) complete(ctx workflow.Context, transactionID string) (PaymentResult, error) {
	if got, ok := s.decided[transactionID]; ok {
		return got, nil
	}
	p, asked := s.payment, s.payment.asked
	p.queued = p.asking
	err := workflow.Await(ctx, func() bool { return !p.asking })
	p.queued = false
	if err != nil {
		return PaymentResult{}, err
	}
	if got, ok := s.decided[transactionID]; ok { // a duplicate: the first one decided it
		return got, nil
	}
	if s.payment != p {
		return PaymentResult{}, refusal(ErrTypePaymentNotFound, s.status)
	}
	switch {
	case p.asked == asked && p.asked < maxQuestions, workflow.GetVersion(ctx, changeShareAnswers, workflow.DefaultVersion, 1) == workflow.DefaultVersion:
		return s.ask(ctx, p, confirm)
	case p.asked == asked:
		return PaymentResult{}, refusal(ErrTypePaymentInFlight, s.status)
	}
	return PaymentResult{Outcome: p.outcome, Status: s.status}, nil // somebody has asked since this message came
}

// maxQuestions bounds what is asked about one payment, whoever sends how many
// messages: its deadline settles it in any case.
const maxQuestions = 20

// question is what the card network can be asked about a payment.
type question string

const (
	charge  question = "charge"
	confirm question = "confirm"
	giveUp  question = "give up"
)

// ask asks the card network, one question at a time, and applies the answer.
// Whatever comes of it, a payment that stays in flight is followed.
func (s *session) ask(ctx workflow.Context, p *payment, q question) (PaymentResult, error) {
	s.payment, p.asking = p, true
	p.asked++
	got, err := s.decide(ctx, p, q)
	p.asking, p.outcome = false, got.Outcome
	var inFlight string
	switch {
	case err == nil:
	case isType(err, activities.ErrTypePaymentNotFound): // PostgreSQL does not know it: nothing was charged
		s.payment, err = nil, refusal(ErrTypePaymentNotFound, s.status)
	case isType(err, activities.ErrTypeSessionNotPending), isType(err, activities.ErrTypeSessionNotFound):
		// PostgreSQL's clock says that the time is over, or the session has ended
		// otherwise. Expiring it reads how it stands.
		s.payment, s.due, err = nil, true, refusal(ErrTypeSessionNotPending, checkout.StatusExpired)
	case isType(err, activities.ErrTypePaymentInFlight): // one that this run does not know, after an operator's reset
		s.payment = nil
		if details(err, &inFlight) {
			s.adopt(ctx, inFlight)
		}
		err = refusal(ErrTypePaymentInFlight, s.status)
	default:
		s.log.Error("the payment stays in flight", "transaction_id", p.transactionID, "question", q, "error", err)
	}
	if s.payment == p && !p.followed && (err == nil || followsErrors(ctx)) {
		p.followed = true
		s.waitForDecision(ctx, p)
	}
	return got, err
}

// followsErrors is false in a run that had such an error before errors were followed.
func followsErrors(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, changeFollowErrors, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// decide asks the question and writes the decision, if the answer is one. One that
// was lost before it was written, with the database, is asked for again.
func (s *session) decide(ctx workflow.Context, p *payment, q question) (PaymentResult, error) {
	for {
		answer, err := s.askNetwork(ctx, p, q)
		if err != nil || !answer.Outcome.Final() {
			return PaymentResult{Outcome: answer.Outcome, Status: s.status}, err
		}
		got, err := s.finishPayment(ctx, p, answer)
		if !isType(err, activities.ErrTypePaymentUndecided) {
			return got, err
		}
		q = giveUp
	}
}

// askNetwork runs the activity of the question. A charge whose outcome stays
// unknown is given up: the network then says for good whether money moved.
func (s *session) askNetwork(ctx workflow.Context, p *payment, q question) (activities.PaymentAnswer, error) {
	var (
		a       *activities.Payments
		answer  activities.PaymentAnswer
		options = chargeOptions
		in      = activities.PaymentInput{Ref: s.in.Ref, TransactionID: p.transactionID}
		run     any
	)
	switch q {
	case charge:
		run, options.Summary = a.ChargeCard, "charge the card"
	case confirm:
		run, options.Summary = a.ConfirmPayment, "ask the card network whether it was paid"
	case giveUp:
		run, options = a.CancelPayment, cancelOptions
		options.Summary = "give the payment up, unless it was paid"
	}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), run, in).Get(ctx, &answer)
	if err != nil && q != giveUp && !isType(err, activities.ErrTypePaymentNotFound) && !isType(err, activities.ErrTypeSessionNotPending) &&
		!isType(err, activities.ErrTypePaymentInFlight) {
		s.log.Warn("the card network's answer stays unknown", "transaction_id", p.transactionID, "question", q, "error", err)
		return s.askNetwork(ctx, p, giveUp)
	}
	return answer, err
}

// waitForDecision gives the customer or the network until the deadline, and then
// gives the payment up, again and again until it is decided.
func (s *session) waitForDecision(ctx workflow.Context, p *payment) {
	workflow.SetCurrentDetails(ctx, "Waits for the customer's bank or the card network to decide a payment.")
	workflow.Go(ctx, func(ctx workflow.Context) {
		over := func() bool { return s.payment != p }
		for {
			decided, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
				Timeout:      s.in.ActionTimeout,
				TimerOptions: workflow.TimerOptions{Summary: "gives the payment up"},
			}, over)
			if err != nil || decided {
				return
			}
			if err := workflow.Await(ctx, func() bool { return over() || !p.asking }); err != nil || over() {
				return
			}
			if _, err := s.ask(ctx, p, giveUp); err != nil {
				s.log.Error("payment not given up", "transaction_id", p.transactionID, "error", err)
			}
			if over() || !followsErrors(ctx) {
				return
			}
		}
	})
}

// finishPayment writes the decision and lets the main story start what follows.
func (s *session) finishPayment(ctx workflow.Context, p *payment, answer activities.PaymentAnswer) (PaymentResult, error) {
	var a *activities.Payments
	var settled activities.Settlement
	in := activities.PaymentInput{Ref: s.in.Ref, TransactionID: p.transactionID}
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, decideOptions), a.FinishPayment, in).Get(ctx, &settled)
	if err != nil {
		return PaymentResult{}, err
	}
	s.payment, s.status = nil, settled.Status
	s.settled = append(s.settled, settled)
	got := PaymentResult{Outcome: answer.Outcome, Failure: answer.Failure, Status: s.status}
	s.decided[p.transactionID] = got
	if !s.status.Final() {
		workflow.SetCurrentDetails(ctx, "A payment failed; the customer may try again.")
	}
	return got, nil
}

// details reads the details of an application error.
func details(err error, into ...any) bool {
	var failure *temporal.ApplicationError
	return errors.As(err, &failure) && failure.Details(into...) == nil
}

func isType(err error, errType string) bool {
	var failure *temporal.ApplicationError
	return errors.As(err, &failure) && failure.Type() == errType
}
