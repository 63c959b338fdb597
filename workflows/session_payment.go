package workflows

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// payment is the payment in flight, with the questions to the card network about it. Questions
// are numbered from 1 and asked one at a time.
type payment struct {
	transactionID string
	asked         int                    // number of the last question
	answered      int                    // number of the last answer
	wanted        bool                   // a message waits for the next answer
	watch         bool                   // nobody tells of a decision: see activities.PaymentAnswer
	result        contract.PaymentResult // the last answer
	err           error                  // the last answer, if it is an error
}

// maxQuestions limits the questions that messages can cause about one payment. After that, the
// payment's deadline decides it.
const maxQuestions = 20

// question is one kind of question to the card network.
type question string

const (
	charge  question = "charge"
	confirm question = "confirm"
	giveUp  question = "give up"
)

// chargeCard charges the card. The session does not expire until the payment is decided.
func (s *session) chargeCard(ctx workflow.Context, p *payment) (contract.PaymentResult, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx) // a cancel must not interrupt a payment
	s.putQuestion(ctx, p, charge)
	workflow.GoNamed(ctx, "payment", func(ctx workflow.Context) { s.followPayment(ctx, p) })
	return p.result, p.err
}

// adopt follows a payment that an earlier run began. The earlier run may have learned the outcome
// and lost it, so adopt asks the network first.
func (s *session) adopt(ctx workflow.Context, transactionID string, first question) {
	p := &payment{transactionID: transactionID}
	s.payment = p
	ctx, _ = workflow.NewDisconnectedContext(ctx) // a cancel must not interrupt a payment
	workflow.GoNamed(ctx, "payment", func(ctx workflow.Context) {
		s.putQuestion(ctx, p, first)
		s.followPayment(ctx, p)
	})
}

// followPayment asks about a payment until it is decided. It asks when a message wants an answer. Each
// time ActionTimeout passes without a decision, it asks the network to give the payment up.
func (s *session) followPayment(ctx workflow.Context, p *payment) {
	watching, stop := workflow.WithCancel(ctx)
	defer stop()
	s.watchPayment(watching, p)

	var deadline workflow.Future
	options := workflow.TimerOptions{Summary: "gives the payment up"}
	for s.payment == p {
		if deadline == nil {
			workflow.SetCurrentDetails(ctx, "Waits for the customer's bank or the card network to decide a payment.")
			deadline = workflow.NewTimerWithOptions(ctx, s.in.ActionTimeout, options)
		}
		wake := func() bool { return p.wanted || deadline.IsReady() }
		if err := workflow.Await(ctx, wake); err != nil {
			return
		}
		next := confirm
		if deadline.IsReady() {
			next, deadline = giveUp, nil
		}
		s.putQuestion(ctx, p, next)
	}
}

// watchPayment polls until the card network has an answer. A real card network does not call back when the bank
// approves, and the customer may have closed the window. The sandbox calls back.
func (s *session) watchPayment(ctx workflow.Context, p *payment) {
	if !p.watch && p.err == nil { // without an answer it is not known
		return
	}
	options := workflow.WithActivityOptions(ctx, watchOptions)
	workflow.GoNamed(ctx, "watch", func(ctx workflow.Context) {
		var a *activities.Payments
		for s.payment == p && p.asked < maxQuestions {
			if err := workflow.ExecuteActivity(options, a.WatchPayment, s.paymentRef(p)).Get(ctx, nil); err != nil {
				return // canceled: the payment is decided
			}
			p.wanted = true
			next := p.asked + 1
			asked := func() bool { return p.answered >= next || s.payment != p }
			if err := workflow.Await(ctx, asked); err != nil {
				return
			}
		}
	})
}

// nextAnswer waits for the answer to the next question, or for the decision. Messages that wait
// at the same time share one answer.
func (s *session) nextAnswer(ctx workflow.Context, p *payment) (contract.PaymentResult, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	next := p.asked + 1
	wake := func() bool { return p.answered >= next || s.payment != p }
	if err := workflow.Await(ctx, wake); err != nil {
		return contract.PaymentResult{}, err
	}
	return p.result, p.err
}

// putQuestion asks the card network one question and applies the answer. A payment leaves the state "in
// flight" when it is decided, or when nothing was charged.
func (s *session) putQuestion(ctx workflow.Context, p *payment, q question) {
	p.wanted = false
	p.asked++
	p.result, p.err = s.decidePayment(ctx, p, q)
	p.answered = p.asked

	var other string
	switch {
	case p.err == nil:
	case isType(p.err, contract.ErrTypePaymentNotFound): // no row: nothing was charged
		s.payment = nil
		p.err = s.refusal(checkout.RefusedPaymentNotFound)
	case isType(p.err, contract.ErrTypePaymentNotPossible): // the payment never began
		s.payment = nil
		p.err = s.refusal(checkout.RefusedNotPossible)
	case isType(p.err, contract.ErrTypeSessionNotPending, contract.ErrTypeSessionNotFound):
		// By PostgreSQL's clock the time is over, or the session has already ended.
		// endInTime reads the status when it expires the session.
		s.payment, s.due = nil, max(s.due, onTime)
		p.err = s.refusal(checkout.RefusedNotPending)
	case isType(p.err, contract.ErrTypePaymentInFlight):
		// Another payment is in flight. An operator reset the run, so it does not know it.
		s.payment = nil
		if details(p.err, &other) {
			s.adopt(ctx, other, confirm)
		}
		p.err = s.refusal(checkout.RefusedPaymentInFlight)
	default:
		s.log.Error("the payment stays in flight", "transaction_id", p.transactionID, "question", q, "error", p.err)
	}
}

// decidePayment asks the question. If the answer is final, decidePayment writes it. If PostgreSQL lost the
// answer (ErrTypePaymentUndecided), decidePayment asks again with giveUp.
func (s *session) decidePayment(ctx workflow.Context, p *payment, q question) (contract.PaymentResult, error) {
	for {
		answer, err := s.askNetwork(ctx, p, q)
		p.watch = p.watch || answer.Watch
		if err != nil || !answer.Outcome.Final() {
			return contract.PaymentResult{Outcome: answer.Outcome, Status: s.status}, err
		}
		got, err := s.finishPayment(ctx, p, answer)
		if !isType(err, contract.ErrTypePaymentUndecided) {
			return got, err
		}
		q = giveUp
	}
}

// askNetwork runs the activity of the question. If the outcome stays unknown, it gives the payment
// up: the network then answers finally whether money moved.
func (s *session) askNetwork(ctx workflow.Context, p *payment, q question) (activities.PaymentAnswer, error) {
	var (
		a       *activities.Payments
		answer  activities.PaymentAnswer
		run     any
		options = chargeOptions
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

	ctx = workflow.WithActivityOptions(ctx, options)
	err := workflow.ExecuteActivity(ctx, run, s.paymentRef(p)).Get(ctx, &answer)
	refused := isType(err, contract.ErrTypePaymentNotFound, contract.ErrTypeSessionNotPending,
		contract.ErrTypePaymentInFlight, contract.ErrTypePaymentNotPossible)
	if err != nil && !refused && q != giveUp {
		s.log.Warn("the card network's answer stays unknown", "transaction_id", p.transactionID, "question", q, "error", err)
		return s.askNetwork(ctx, p, giveUp)
	}
	return answer, err
}

// finishPayment writes the decision and queues it for CheckoutSession to carry out.
func (s *session) finishPayment(
	ctx workflow.Context, p *payment, answer activities.PaymentAnswer,
) (contract.PaymentResult, error) {
	var (
		a        *activities.Payments
		decision activities.FollowUp
	)
	options := workflow.WithLocalActivityOptions(ctx, decideOptions)
	err := workflow.ExecuteLocalActivity(options, a.FinishPayment, s.paymentRef(p)).Get(ctx, &decision)
	if err != nil {
		return contract.PaymentResult{}, err
	}
	s.payment, s.status = nil, decision.Status
	s.followUps = append(s.followUps, decision)
	got := contract.PaymentResult{Outcome: answer.Outcome, Failure: answer.Failure, Status: s.status}
	s.decided[p.transactionID] = got
	if !s.status.Final() {
		workflow.SetCurrentDetails(ctx, "A payment failed; the customer may try again.")
	}
	return got, nil
}

func (s *session) paymentRef(p *payment) activities.PaymentInput {
	return activities.PaymentInput{Ref: s.in.Ref, TransactionID: p.transactionID}
}

// details reads the details of an application error into the given pointers. It returns false
// when err is another error or the details do not fit.
func details(err error, into ...any) bool {
	var failure *temporal.ApplicationError
	return errors.As(err, &failure) && failure.Details(into...) == nil
}

// isType reports whether err is an application error of one of the types.
func isType(err error, types ...string) bool {
	var failure *temporal.ApplicationError
	return errors.As(err, &failure) && slices.Contains(types, failure.Type())
}
