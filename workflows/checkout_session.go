package workflows

import (
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// CheckoutSession runs one session from creation to its final status. Its loop carries out each
// decision: it starts the deliveries and the payout. Other coroutines decide:
//   - the handlers take the messages that the table in package checkout accepts;
//   - endInTime expires the session;
//   - followPayment decides the payment in flight, which may take longer than ExpiresAt.
//
// When an operator cancels the workflow, the session expires. Source: api/interface.md, "States and transitions".
func CheckoutSession(ctx workflow.Context, in contract.CheckoutSessionInput) (contract.CheckoutSessionResult, error) {
	s := newSession(ctx, in)
	if in.PaymentID != "" {
		s.adopt(ctx, in.PaymentID, confirm)
	}
	if err := s.listen(ctx); err != nil {
		return contract.CheckoutSessionResult{}, err
	}
	s.startTimer(ctx, in.ExpiresAt.Sub(workflow.Now(ctx)))
	workflow.GoNamed(ctx, "end in time", s.endInTime)
	until := in.ExpiresAt.UTC().Format(time.RFC3339)
	workflow.SetCurrentDetails(ctx, "Waits for the customer to pay until "+until+".")

	ctx, _ = workflow.NewDisconnectedContext(ctx) // decisions are carried out even after a cancel
	for {
		wake := func() bool { return len(s.followUps) > 0 || s.phase().Final() }
		if err := workflow.Await(ctx, wake); err != nil {
			return contract.CheckoutSessionResult{}, err
		}
		if len(s.followUps) == 0 {
			return s.close(ctx)
		}
		next := s.followUps[0]
		s.followUps = s.followUps[1:]
		if err := s.carryOut(ctx, next); err != nil {
			return contract.CheckoutSessionResult{}, err
		}
	}
}

// session is the state of one run. phase derives the phase from it.
type session struct {
	in        contract.CheckoutSessionInput
	log       log.Logger
	status    checkout.Status
	orphaned  bool                              // PostgreSQL has no row: the creation was rolled back
	payment   *payment                          // the payment in flight, or nil
	decided   map[string]contract.PaymentResult // by transaction id
	followUps []activities.FollowUp             // decisions still to carry out, oldest first
	due       due
	endNow    bool // an expire message was accepted
}

// due says whether the session's time is over, and why.
type due int

const (
	notDue due = iota
	onTime     // Temporal's timer fired; PostgreSQL's clock has the last word
	early      // the test clock or an operator ended it; no clock is asked
)

func newSession(ctx workflow.Context, in contract.CheckoutSessionInput) *session {
	return &session{
		in:      in,
		log:     log.With(workflow.GetLogger(ctx), "session_id", in.ID),
		status:  checkout.StatusPending,
		decided: map[string]contract.PaymentResult{},
	}
}

// phase returns the session's phase in the table of messages.
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

// startTimer makes the session due after left, or when an operator cancels. The caller computes left from ExpiresAt, an
// absolute time: a worker may start the run late, and the session must not expire later for it.
func (s *session) startTimer(ctx workflow.Context, left time.Duration) {
	timer := workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{
		Summary: "session expires " + s.in.ExpiresAt.UTC().Format("15:04:05Z"),
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := timer.Get(ctx, nil); err != nil { // an operator canceled the workflow
			s.due = early
		}
		s.due = max(s.due, onTime)
	})
}

// endInTime expires the session each time it enters PhaseExpiring. When PostgreSQL's clock says
// that time is left, the session is open again and a new timer starts.
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

// expire writes the session's end and applies PostgreSQL's answer. If only the timer asked for
// the end, the answer may be that the session has time left; expire returns that time.
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
	case isType(err, contract.ErrTypeSessionNotFound):
		s.orphaned = true
	case err != nil:
		s.log.Error("not expired", "error", err)
	case got.InFlight != "": // an operator reset the run, so it does not know this payment
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

// carryOut starts the deliveries of a decision and sends its payout, all in the workflow task that decided: another
// task would cost Temporal three state transitions.
func (s *session) carryOut(ctx workflow.Context, decision activities.FollowUp) error {
	started := startDeliveries(ctx, s.in.Owner, decision.EventType, decision.Deliveries)
	if decision.PayoutID != "" {
		started = append(started, sendPayout(ctx, s.in.Owner.Ref(decision.PayoutID))...)
	}
	return awaitStarts(ctx, started)
}

// close waits until the open messages are answered and ends the run.
func (s *session) close(ctx workflow.Context) (contract.CheckoutSessionResult, error) {
	s.drain(ctx)
	answered := func() bool { return workflow.AllHandlersFinished(ctx) }
	if err := workflow.Await(ctx, answered); err != nil {
		return contract.CheckoutSessionResult{}, err
	}
	if s.orphaned {
		s.log.Info("session was never created: closing")
		return contract.CheckoutSessionResult{}, nil
	}
	workflow.SetCurrentDetails(ctx, "The session is "+string(s.status)+".")
	// In the run's last workflow task, Temporal writes the attribute together with the end.
	status := contract.SearchAttributeSessionStatus.ValueSet(string(s.status))
	return contract.CheckoutSessionResult{Status: s.status}, workflow.UpsertTypedSearchAttributes(ctx, status)
}
