package workflows

import (
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
)

// CheckoutSessionInput holds every time and limit of the session, so that a
// change of configuration never reaches a running one.
type CheckoutSessionInput struct {
	checkout.Ref

	ExpiresAt     time.Time     `json:"expires_at"`
	ActionTimeout time.Duration `json:"action_timeout"` // how long a customer may take over 3-D Secure
	// PaymentID names the payment that was in flight when an earlier run was lost.
	PaymentID string `json:"payment_id,omitempty"`
}

// CheckoutSessionResult says how the session ended.
type CheckoutSessionResult struct {
	Status checkout.Status `json:"status"` // "" when the session was never acknowledged to the merchant
}

// PayInput and CompleteInput name the payment.
type (
	PayInput struct {
		TransactionID string `json:"transaction_id"`
	}
	CompleteInput struct {
		TransactionID string `json:"transaction_id"`
	}
)

// PaymentResult answers pay and complete.
type PaymentResult struct {
	Outcome checkout.PaymentOutcome `json:"outcome"`
	Failure checkout.FailureCode    `json:"failure,omitempty"`
	Status  checkout.Status         `json:"status"` // of the session
}

// SessionState answers the query status and the updates expire and advance.
type SessionState struct {
	Status          checkout.Status `json:"status"`
	PaymentInFlight bool            `json:"payment_in_flight"`
}

// CheckoutSession runs one session from creation to its final status, and carries out what is
// decided meanwhile. Other coroutines decide: the handlers take messages, as far as the table of
// package checkout accepts them; endInTime ends the session; follow settles the payment in
// flight, which may take longer than ExpiresAt. An operator's cancel expires the session.
// Source: interface document, "States and transitions".
func CheckoutSession(ctx workflow.Context, in CheckoutSessionInput) (CheckoutSessionResult, error) {
	s := newSession(ctx, in)
	if in.PaymentID != "" {
		s.adopt(ctx, in.PaymentID, confirm)
	}
	if err := s.listen(ctx); err != nil {
		return CheckoutSessionResult{}, err
	}

	s.startTimer(ctx, in.ExpiresAt.Sub(workflow.Now(ctx)))
	workflow.GoNamed(ctx, "end in time", s.endInTime)
	until := in.ExpiresAt.UTC().Format(time.RFC3339)
	workflow.SetCurrentDetails(ctx, "Waits for the customer to pay until "+until+".")

	ctx, _ = workflow.NewDisconnectedContext(ctx) // a cancel stops nothing that was decided
	for {
		wake := func() bool { return len(s.settled) > 0 || s.phase().Final() }
		if err := workflow.Await(ctx, wake); err != nil {
			return CheckoutSessionResult{}, err
		}
		if len(s.settled) == 0 {
			return s.close(ctx)
		}

		next := s.settled[0]
		s.settled = s.settled[1:]
		if err := s.carryOut(ctx, next); err != nil {
			return CheckoutSessionResult{}, err
		}
	}
}

// session is what one run knows of its session. The phase follows from it.
type session struct {
	in       CheckoutSessionInput
	log      log.Logger
	status   checkout.Status
	orphaned bool                     // PostgreSQL has no row: the creation was rolled back
	payment  *payment                 // in flight; nil when none is
	decided  map[string]PaymentResult // by transaction id
	settled  []activities.Settlement  // decisions that are to be carried out, oldest first
	due      due
	endNow   bool // an expire message waits for the end
}

// due says whether the time of a session is over.
type due int

const (
	notDue due = iota
	onTime     // Temporal's timer has fired; PostgreSQL's clock decides
	early      // the test clock or an operator ended it, whatever the clocks say
)

func newSession(ctx workflow.Context, in CheckoutSessionInput) *session {
	return &session{
		in:      in,
		log:     log.With(workflow.GetLogger(ctx), "session_id", in.ID),
		status:  checkout.StatusPending,
		decided: map[string]PaymentResult{},
	}
}

// phase is where the session stands in the table of messages.
func (s *session) phase() checkout.Phase {
	switch {
	case s.payment != nil && s.due == notDue:
		return checkout.PhasePaying
	case s.payment != nil:
		return checkout.PhaseDue
	case s.orphaned:
		return checkout.PhaseOrphaned
	case s.status == checkout.StatusExpired:
		return checkout.PhaseExpired
	case s.status.Final():
		return checkout.PhaseEnded
	case s.due != notDue || s.endNow:
		return checkout.PhaseExpiring
	}
	return checkout.PhaseOpen
}

// startTimer makes the session due after left, or when an operator cancels. ExpiresAt
// is absolute: a timer of one hour would begin with the first workflow task, however
// late a worker picks it up.
func (s *session) startTimer(ctx workflow.Context, left time.Duration) {
	timer := workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{
		Summary: "session expires " + s.in.ExpiresAt.UTC().Format("15:04:05Z"),
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := timer.Get(ctx, nil); err != nil { // canceled with the workflow
			s.due = early
		}
		s.due = max(s.due, onTime)
	})
}

// endInTime ends the session without a payment as soon as it is expiring, and again when it
// was open once more.
func (s *session) endInTime(cancelable workflow.Context) {
	ctx, _ := workflow.NewDisconnectedContext(cancelable)
	expiring := func() bool { return s.phase() == checkout.PhaseExpiring }
	for workflow.Await(ctx, expiring) == nil {
		left := s.expire(ctx)
		if left > 0 && s.due == onTime { // Temporal's clock is ahead of PostgreSQL's
			s.due = notDue
			s.startTimer(cancelable, max(left, time.Second))
		}
	}
}

// expire writes the session's end and applies what PostgreSQL says. When nobody asked for the
// end but the timer, that may be that the session has time left.
func (s *session) expire(ctx workflow.Context) (left time.Duration) {
	var (
		a   *activities.Payments
		got activities.ExpireSessionResult
	)
	onlyTimer := s.due == onTime && !s.endNow
	in := activities.ExpireSessionInput{Ref: s.in.Ref, ExpiresAt: s.in.ExpiresAt, OnTime: onlyTimer}
	options := workflow.WithLocalActivityOptions(ctx, decideOptions)
	err := workflow.ExecuteLocalActivity(options, a.ExpireSession, in).Get(ctx, &got)

	switch {
	case isType(err, activities.ErrTypeSessionNotFound):
		s.orphaned = true
	case err != nil:
		s.log.Error("not expired", "error", err)
	case got.InFlight != "": // of which this run does not know: an operator reset it
		s.log.Info("not expired: a payment is in flight", "transaction_id", got.InFlight)
		s.endNow = false
		s.adopt(ctx, got.InFlight, giveUp)
	case got.Left > 0:
		return got.Left
	default:
		s.status = got.Status
	}
	return 0
}

// carryOut does what a decision asks for: it tells the merchant, then sends the payout.
func (s *session) carryOut(ctx workflow.Context, decision activities.Settlement) error {
	telling := startDeliveries(ctx, s.in.Owner, decision.EventType, decision.Deliveries)
	if err := awaitStarts(ctx, telling); err != nil { // meanwhile the customer gets the answer
		return err
	}
	if decision.PayoutID == "" {
		return nil
	}
	in := PayoutInput{Ref: s.in.Owner.Ref(decision.PayoutID)}
	return awaitStarts(ctx, sendPayout(ctx, in, len(telling) > 0))
}

// close answers the messages that are still open and ends the run.
func (s *session) close(ctx workflow.Context) (CheckoutSessionResult, error) {
	s.drain(ctx)
	answered := func() bool { return workflow.AllHandlersFinished(ctx) }
	if err := workflow.Await(ctx, answered); err != nil {
		return CheckoutSessionResult{}, err
	}

	if s.orphaned {
		s.log.Info("session was never created: closing")
		return CheckoutSessionResult{}, nil
	}
	workflow.SetCurrentDetails(ctx, "The session is "+string(s.status)+".")
	// Within the run's last workflow task Temporal writes it together with the end.
	status := SearchAttributeSessionStatus.ValueSet(string(s.status))
	return CheckoutSessionResult{s.status}, workflow.UpsertTypedSearchAttributes(ctx, status)
}
