package hosted

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/runs"
)

const (
	maxForm         = 16 << 10         // bytes
	tokenizeTimeout = 10 * time.Second // nothing is charged meanwhile
	askTimeout      = time.Second      // short: a waiting customer's page asks again soon
)

// answerOvertaken answers a form that was shown before another payment began. If the form's own payment was that
// one, the form was sent twice and the page shows the outcome. Otherwise the customer reads that this form
// was not paid.
func (s *server) answerOvertaken(w http.ResponseWriter, r *http.Request, v view) error {
	to := s.path(v.Session.ID)
	sent, err := s.Sessions.HasPayment(r.Context(), v.Session.ID, r.PostForm.Get(fieldPayment))
	switch {
	case err != nil:
		return err
	case sent:
	case v.Session.PaymentInFlight:
		to += "?" + paramProcessing
	case v.Session.Status == checkout.StatusCompleted && r.PostForm.Has(fieldPayment):
		to += "?" + paramOvertaken
	case v.Session.Status.Final():
	default:
		_, shown := parseForm(v.T, r.PostForm, s.now())
		shown.Faults = faults{}
		s.refuse(w, r, http.StatusConflict, *v.showing(shown), v.T.OvertakenHeading, v.T.OvertakenText)
		return nil
	}
	redirectTo(w, r, to)
	return nil
}

// redirectTo leads the customer to an address of this server, see wantsJSON.
func redirectTo(w http.ResponseWriter, r *http.Request, to string) {
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, formAnswer{Next: to})
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther) // #nosec G710 -- a path of this page
}

// pay serves POST /{id}. It checks the form and asks the session's workflow to charge the card. A form with a card for
// an acquirer is refused unread.
func (s *server) pay(w http.ResponseWriter, r *http.Request, v view) error {
	take, acquirer, unread := s.tokenizeCard, checkout.AcquirerSandbox, []string(nil)
	if !v.ownForm() {
		take, acquirer, unread = s.readConfirmation, checkout.AcquirerStripe, cardFields
	}
	err := readForm(w, r, unread...)
	if err != nil || v.isOvertaken(r.PostForm) {
		s.giveBackForm(r)
		if err == nil {
			err = s.answerOvertaken(w, r, v)
		}
		return err
	}
	if v.Session.Suspended {
		s.giveBackForm(r)
		redirectTo(w, r, s.path(v.Session.ID))
		return nil
	}

	token, method, refused := take(r, &v)
	if refused != nil {
		s.giveBackForm(r)
		s.refuse(w, r, refused.status, v, refused.alert, refused.reason)
		return nil
	}
	// From here on the payment goes on even when the customer leaves.
	outcome, next, err := s.payWith(context.WithoutCancel(r.Context()), r, storage.NewPayment{
		ID: s.paymentID(r, v.Session.ID), SessionID: v.Session.ID, CardToken: token, Method: method,
		CustomerEmail: &v.Form.Email, Language: languageOf(r).tag, Acquirer: acquirer, ChainRef: s.chain(v.Session),
		Address: limit.Address(r),
	})
	if slowed, ok := errors.AsType[*storage.SlowedError](err); ok {
		s.answerSlowed(w, r, v, slowed.Wait)
		return nil
	}
	if err != nil {
		return err
	}
	if outcome == checkout.OutcomeFailed {
		return s.answerDeclined(w, r, v)
	}
	redirectTo(w, r, next)
	return nil
}

// chain returns the chain of the payout of a session's payment, "" for none.
func (s *server) chain(of checkout.Session) string {
	chain := s.Chains[of.Mode][of.PayoutCurrency]
	if chain == "" && of.Mode == checkout.ModeTest {
		return checkout.ChainSandbox
	}
	return chain
}

// answerDeclined answers a payment that the network refused. While the session can be tried again, the form comes
// back with all that the customer typed but the card number and the security code.
func (s *server) answerDeclined(w http.ResponseWriter, r *http.Request, sent view) error {
	session, brand, err := s.Sessions.CustomerSession(r.Context(), sent.Session.ID)
	if err != nil {
		return err
	}
	s.countDecline(r, session)
	v := s.view(languageOf(r), session, brand)
	if !isUndecided(session) || v.Alert == "" {
		redirectTo(w, r, s.path(session.ID))
	} else {
		s.answerForm(w, r, http.StatusOK, *v.showing(sent.Form))
	}
	return nil
}

// payWith adds the payment to the session and asks the workflow to charge it. It returns the
// customer's next address, and the outcome as far as it is known.
func (s *server) payWith(
	ctx context.Context, r *http.Request, p storage.NewPayment,
) (outcome checkout.PaymentOutcome, next string, err error) {
	mine, err := s.createPayment(ctx, p)
	if err != nil || !mine { // the form ends before the charge
		s.giveBackForm(r)
		return "", s.path(p.SessionID) + "?" + paramOvertaken, err
	}
	got, err := s.charge(ctx, p.SessionID, p.ID)
	if (err == nil && got.Outcome != checkout.OutcomeFailed) || errors.Is(err, checkout.ErrPaymentNotPossible) {
		s.giveBackForm(r)
	}
	return got.Outcome, s.next(ctx, p.SessionID, p.ID, got.Outcome, err), nil
}

// paymentID returns the payment id in the form, else a new one. The browser sends the id back, so the customer may have
// chosen it. Lists are sorted by id and find a time by it, so an id is used only when it could be one of now: a live
// session is over before the id of its form is older than checkout.ClockSkew.
func (s *server) paymentID(r *http.Request, sessionID string) string {
	id := r.PostForm.Get(fieldPayment)
	made, ok := checkout.IDTime(checkout.PrefixTransaction, id)
	cell, _ := checkout.CellOf(id)
	if ours, _ := checkout.CellOf(sessionID); ok && cell == ours && s.now().Sub(made).Abs() <= checkout.ClockSkew {
		return id
	}
	return checkout.NewID(checkout.PrefixTransaction)
}

// createPayment stores the payment. It returns true when the session has this payment. If the form
// was sent twice, the payment exists, and the second request asks for the outcome of the first.
func (s *server) createPayment(ctx context.Context, p storage.NewPayment) (bool, error) {
	err := s.Sessions.CreatePayment(ctx, p)
	switch {
	case errors.Is(err, checkout.ErrPaymentExists):
		// A customer may invent an id, and another session may have it.
		return s.Sessions.HasPayment(ctx, p.SessionID, p.ID)
	case errors.Is(err, checkout.ErrNotPending):
		return false, nil
	}
	return err == nil, err
}

// unknownPayments counts what only a run that reads something else than was stored answers: the payment has a row.
var unknownPayments, _ = otel.Meter("example.com/checkout/api/hosted").Int64Counter("checkout.payment.unknown",
	metric.WithUnit("{payment}"), metric.WithDescription("Stored payments that the run of their session did not find."))

// charge asks the workflow to charge the payment. Its errors are the errors of runs.Client.Pay. A
// repeat for the same payment returns the first answer, so a repeat after runs.ErrOutcomeUnknown
// cannot charge twice. charge drops a payment that the workflow refused, so that it can never be
// charged.
func (s *server) charge(ctx context.Context, sessionID, transactionID string) (contract.PaymentResult, error) {
	got, err := s.Runs.Pay(ctx, sessionID, transactionID)
	log := s.Log.With("session_id", sessionID, "transaction_id", transactionID)
	switch {
	case err == nil:
		log.InfoContext(ctx, "payment answered", "outcome", got.Outcome)
	case errors.Is(err, runs.ErrOutcomeUnknown):
		log.WarnContext(ctx, "payment of unknown outcome", "error", err)
	default:
		log.InfoContext(ctx, "payment refused", "reason", err)
		if errors.Is(err, runs.ErrPaymentNotFound) {
			unknownPayments.Add(ctx, 1)
		}
		if err := s.Sessions.DropPayment(context.WithoutCancel(ctx), sessionID, transactionID); err != nil {
			log.ErrorContext(ctx, "refused payment not dropped", "error", err)
		}
	}
	return got, err
}

// next returns the customer's next address, after charge has returned outcome and err.
func (s *server) next(
	ctx context.Context, sessionID, transactionID string, outcome checkout.PaymentOutcome, err error,
) string {
	if err == nil && outcome == checkout.OutcomeActionRequired {
		return s.bankPage(ctx, sessionID)
	}
	return s.after(sessionID, transactionID, err)
}

// after returns the customer's next address, after charge has returned err.
func (s *server) after(sessionID, transactionID string, err error) string {
	here := s.path(sessionID)
	switch {
	case errors.Is(err, runs.ErrOutcomeUnknown):
		return here + queryFor(transactionID)
	case errors.Is(err, checkout.ErrPaymentInFlight):
		return here + "?" + paramProcessing
	case errors.Is(err, checkout.ErrNotPending):
		return here + "?" + paramOvertaken
	case errors.Is(err, checkout.ErrPaymentNotPossible):
		return here + "?" + paramNotPossible
	}
	return here
}

// askWorkflow asks for the outcome of a payment. It returns runs.ErrOutcomeUnknown while the outcome is
// unknown, and no outcome of a payment that is decided or that the session does not have.
func (s *server) askWorkflow(
	ctx context.Context, session checkout.Session, transactionID string,
) (checkout.PaymentOutcome, error) {
	if t := session.Transaction(); t != nil && t.ID == transactionID { // decided
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// An invented payment must not reach the workflow: each question adds an update to
	// the workflow's history, and the number of updates is limited.
	there, err := s.Sessions.HasPayment(ctx, session.ID, transactionID)
	if err != nil {
		return "", fmt.Errorf("%w: %w", runs.ErrOutcomeUnknown, err) // a slow database must not lead to a new form
	}
	if !there {
		return "", nil
	}
	got, err := s.charge(ctx, session.ID, transactionID)
	return got.Outcome, err
}

// cancel serves POST /{id}/cancel. The customer does not want to wait for a payment of unknown
// outcome. If the payment has not begun, it never can now. If it has begun, the page says so.
func (s *server) cancel(w http.ResponseWriter, r *http.Request, v view) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	s.giveBackForm(r)
	if id := r.PostForm.Get(paramPayment); checkout.IsID(checkout.PrefixTransaction, id) {
		if err := s.Sessions.DropPayment(r.Context(), v.Session.ID, id); err != nil {
			return err
		}
	}
	http.Redirect(w, r, s.path(v.Session.ID), http.StatusSeeOther)
	return nil
}
