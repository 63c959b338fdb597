package workflows

import (
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
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
	// PaymentID is of a payment that was in flight when an earlier run was lost.
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

// CheckoutSession runs one session from creation to its final status. It sleeps
// toward ExpiresAt and takes the messages pay, expire, complete and advance; a
// payment that was accepted in time may finish after it. An operator's cancel expires
// the session. Source: interface document, "States and transitions".
func CheckoutSession(ctx workflow.Context, in CheckoutSessionInput) (CheckoutSessionResult, error) {
	s := &session{in: in, status: checkout.StatusPending, decided: map[string]PaymentResult{}, log: log.With(workflow.GetLogger(ctx), "session_id", in.ID)}
	if in.PaymentID != "" {
		s.adopt(ctx, in.PaymentID)
	}
	if err := s.listen(ctx); err != nil {
		return CheckoutSessionResult{}, err
	}
	s.sleep(ctx, s.in.ExpiresAt.Sub(workflow.Now(ctx)))
	workflow.SetCurrentDetails(ctx, "Waits for the customer to pay until "+s.in.ExpiresAt.UTC().Format(time.RFC3339)+".")
	cancelable := ctx
	ctx, _ = workflow.NewDisconnectedContext(ctx) // money is followed to its end, whoever cancels
	for !s.done() {
		if err := workflow.Await(ctx, s.hasWork); err != nil {
			return CheckoutSessionResult{}, err
		}
		if s.due && s.free() && !s.status.Final() {
			left, err := s.expire(ctx, !s.early)
			if err != nil {
				s.log.Info("not expired", "reason", err)
			}
			if left > 0 && !s.early { // Temporal's clock is ahead of PostgreSQL's, which decides
				s.due = false
				s.sleep(cancelable, max(left, time.Second))
			}
		}
		if err := s.follow(ctx); err != nil {
			return CheckoutSessionResult{}, err
		}
	}
	return s.close(ctx)
}

// session is the state of one run.
type session struct {
	in       CheckoutSessionInput
	log      log.Logger
	status   checkout.Status
	payment  *payment                 // in flight; nil when none is
	decided  map[string]PaymentResult // by transaction id
	expiring bool                     // the decision to expire is being written
	due      bool                     // the time is over as far as Temporal knows, or the session ends early
	early    bool                     // somebody asked for its end, whatever the time: the test clock, or an operator who canceled
	orphaned bool                     // PostgreSQL does not know the session: its creation was rolled back
	handling int                      // signals being acted upon
	settled  []activities.Settlement  // decisions of which nothing has followed yet
}

// payment is the payment in flight.
type payment struct {
	transactionID string
	asking        bool                    // an activity is asking the card network
	queued        bool                    // somebody waits for that, to ask next
	asked         int                     // questions so far
	outcome       checkout.PaymentOutcome // the last answer
	followed      bool                    // it waits for the customer or the network, with a deadline
}

func (s *session) free() bool { return s.payment == nil && !s.expiring }

// done reports whether everything has followed: a payment may be decided while
// the children of an earlier one start.
func (s *session) done() bool {
	return (s.orphaned || s.status.Final()) && len(s.settled) == 0
}

func (s *session) hasWork() bool {
	return s.status.Final() || s.orphaned || len(s.settled) > 0 || (s.due && s.free())
}

// sleep makes the session due after left, or when an operator cancels. ExpiresAt
// is absolute: a timer of one hour would begin with the first workflow task, however
// late a worker picks it up.
func (s *session) sleep(ctx workflow.Context, left time.Duration) {
	expiry := workflow.NewTimerWithOptions(ctx, left, workflow.TimerOptions{
		Summary: "session expires " + s.in.ExpiresAt.UTC().Format("15:04:05Z"),
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := expiry.Get(ctx, nil); err != nil { // canceled with the workflow
			s.early = true
		}
		s.due = true
	})
}

// adopt follows a payment to its end that an earlier run has begun. Whoever told
// the session meanwhile that it was paid told nobody, so the network is asked.
func (s *session) adopt(ctx workflow.Context, transactionID string) {
	p := &payment{transactionID: transactionID, asking: true}
	s.payment = p
	ctx, _ = workflow.NewDisconnectedContext(ctx) // money is followed to its end, whoever cancels
	workflow.Go(ctx, func(ctx workflow.Context) {
		if _, err := s.ask(ctx, p, confirm); err != nil {
			s.log.Error("payment not followed", "transaction_id", p.transactionID, "error", err)
		}
	})
}

// follow does what earlier decisions ask for: it tells the merchant, then sends
// the payout.
func (s *session) follow(ctx workflow.Context) error {
	settled := s.settled
	s.settled = nil
	for _, d := range settled {
		// While these start, whoever paid gets the answer.
		telling := startDeliveries(ctx, s.in.Owner, d.EventType, d.Deliveries)
		if err := awaitStarts(ctx, telling); err != nil {
			return err
		}
		if d.PayoutID == "" {
			continue
		}
		in := PayoutInput{Ref: s.in.Owner.Ref(d.PayoutID)}
		if err := awaitStarts(ctx, sendPayout(ctx, in, len(telling) > 0)); err != nil {
			return err
		}
	}
	return nil
}

// close answers what is still open and ends the run.
func (s *session) close(ctx workflow.Context) (CheckoutSessionResult, error) {
	if s.orphaned {
		s.log.Info("session was never created: closing")
		return CheckoutSessionResult{}, nil
	}
	workflow.SetCurrentDetails(ctx, "The session is "+string(s.status)+".")
	s.drain(ctx)
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) && s.handling == 0 }); err != nil {
		return CheckoutSessionResult{}, err
	}
	// Within the run's last workflow task Temporal writes it together with the end.
	return CheckoutSessionResult{s.status}, workflow.UpsertTypedSearchAttributes(ctx, SearchAttributeSessionStatus.ValueSet(string(s.status)))
}

// refusal is the answer to a message that the session cannot accept now.
func refusal(errType string, status checkout.Status) error {
	return temporal.NewApplicationErrorWithOptions("session is "+string(status), errType, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{status}, Category: temporal.ApplicationErrorCategoryBenign,
	})
}
