package hosted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"example.com/checkout/api/failure"
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

// readPayment reads the form of a payment. It returns false when it has answered the customer
// already; nothing must be charged then. A form with a card for an acquirer is refused unread.
func (s *server) readPayment(w http.ResponseWriter, r *http.Request, v view) (ok bool, err error) {
	var refused []string
	if !v.ownForm() {
		refused = cardFields
	}
	if err := readForm(w, r, refused...); err != nil {
		return false, err
	}
	attempt := r.PostForm.Get(fieldAttempt)
	if isUndecided(v.Session) && (attempt == "" || attempt == strconv.Itoa(v.Session.Attempts)) { // see fieldAttempt
		return true, nil
	}
	return false, s.answerOvertaken(w, r, v)
}

// answerOvertaken answers a form that was shown before another payment began. If the form's own payment was that
// one, the form was sent twice and the page shows the outcome. Otherwise the customer reads that this form
// was not paid.
func (s *server) answerOvertaken(w http.ResponseWriter, r *http.Request, v view) error {
	here := s.path(v.Session.ID)
	sent, err := s.Sessions.HasPayment(r.Context(), v.Session.ID, r.PostForm.Get(fieldPayment))
	switch {
	case err != nil:
		return err
	case sent:
		redirectTo(w, r, here)
		return nil
	case v.Session.PaymentInFlight:
		redirectTo(w, r, here+"?"+paramProcessing)
		return nil
	case v.Session.Status == checkout.StatusCompleted && r.PostForm.Has(fieldPayment):
		redirectTo(w, r, here+"?"+paramOvertaken)
		return nil
	case v.Session.Status.Final():
		redirectTo(w, r, here)
		return nil
	}
	_, shown := parseForm(v.T, r.PostForm, s.now())
	shown.Faults = faults{}
	s.refuse(w, r, http.StatusConflict, *v.showing(shown), v.T.OvertakenHeading, v.T.OvertakenText)
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

// pay serves POST /{id}. It checks the form and asks the session's workflow to charge the card.
func (s *server) pay(w http.ResponseWriter, r *http.Request, v view) error {
	ok, err := s.readPayment(w, r, v)
	if !ok {
		s.giveBackForm(r)
		return err
	}

	if v.Session.Stopped {
		s.giveBackForm(r)
		redirectTo(w, r, s.path(v.Session.ID))
		return nil
	}

	take, acquirer := s.tokenizeCard, checkout.AcquirerSandbox
	if !v.ownForm() {
		take, acquirer = s.readConfirmation, checkout.AcquirerStripe
	}
	token, method, ok := take(w, r, &v)
	if !ok {
		return nil
	}
	// From here on the payment goes on even when the customer leaves.
	outcome, next, err := s.payWith(context.WithoutCancel(r.Context()), r, storage.NewPayment{
		ID: s.paymentID(r, v.Session.ID), SessionID: v.Session.ID, CardToken: token, Method: method,
		CustomerEmail: &v.Form.Email, Language: languageOf(r).tag, Acquirer: acquirer, ChainRef: s.chain(v.Session),
	})
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
	v := s.view(languageOf(r), session, brand)
	if !isUndecided(session) || v.Alert == "" {
		redirectTo(w, r, s.path(session.ID))
		return nil
	}
	s.answerForm(w, r, http.StatusOK, *v.showing(sent.Form))
	return nil
}

// tokenizeCard checks our own form and exchanges its card for a token. It returns false
// when it has answered the customer already.
func (s *server) tokenizeCard(
	w http.ResponseWriter, r *http.Request, v *view,
) (token string, method checkout.PaymentMethod, ok bool) {
	t := textsOf(r)
	card, shown := parseForm(t, r.PostForm, s.now())
	if v.showing(shown).Form.Faults.First() != "" {
		s.giveBackForm(r)
		s.refuse(w, r, http.StatusUnprocessableEntity, *v, t.FixHeading, t.FixErrors)
		return "", method, false
	}
	ctx := context.WithoutCancel(r.Context())
	token, method, err := tokenize(ctx, s.TestCards, card)
	if err != nil {
		s.Log.WarnContext(ctx, "card was not tokenized", "session_id", v.Session.ID, "error_class", classOf(err))
		s.giveBackForm(r)
		s.refuse(w, r, http.StatusServiceUnavailable, *v, t.DeclinedHeading, t.NetworkAway)
		return "", method, false
	}
	return token, method, true
}

// classOf returns the type of the error at the end of err's chain, with PostgreSQL's code if it has one.
// The text itself may quote the card.
func classOf(err error) string {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	class := fmt.Sprintf("%T", err)
	if coded, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		class += " " + coded.SQLState()
	}
	return class
}

// readConfirmation checks the form of an acquirer and returns its confirmation token. What card it
// stands for is known when the acquirer has answered the charge. It returns false when it has
// answered the customer already.
func (s *server) readConfirmation(
	w http.ResponseWriter, r *http.Request, v *view,
) (token string, method checkout.PaymentMethod, ok bool) {
	t := textsOf(r)
	token, shown := parseLiveForm(t, r.PostForm)
	status, alert, reason := http.StatusUnprocessableEntity, t.FixHeading, t.FixLive
	switch fault := v.showing(shown).Form.Faults.First(); {
	case v.Acquirer == nil:
		status, alert, reason = http.StatusServiceUnavailable, t.NotPossibleHeading, t.NotReady
	case fault != "":
	case token == "":
		alert, reason = t.DeclinedHeading, t.CardFault
	default:
		return token, checkout.PaymentMethod{Type: "card"}, true
	}
	s.giveBackForm(r)
	s.refuse(w, r, status, *v, alert, reason)
	return "", method, false
}

// showing puts what the customer sent into the form to show, under the form's own numbers.
func (v *view) showing(sent form) *view {
	sent.Attempt, sent.Payment = v.Form.Attempt, v.Form.Payment
	v.Form = sent
	return v
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

// tokenize exchanges a card for a token. Never log its error: it may quote the card.
func tokenize(ctx context.Context, cards TestCards, card checkout.Card) (string, checkout.PaymentMethod, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenizeTimeout)
	defer cancel()
	return cards.Tokenize(ctx, card)
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

// bankPage returns the address where a customer confirms the payment in flight. A form must not
// lead to another origin (see web.Policy). So the address is a page of this server, and that page
// goes on to the bank by itself.
func (s *server) bankPage(ctx context.Context, sessionID string) string {
	here := s.path(sessionID)
	payment, err := s.Sessions.PaymentInFlight(ctx, sessionID)
	if err != nil {
		s.Log.ErrorContext(ctx, "bank page not read", "session_id", sessionID, "error", err)
		return here
	}
	if _, ok := linkTo(payment.ActionURL); ok && strings.HasPrefix(payment.ActionURL, s.origin+"/") {
		return payment.ActionURL
	}
	return here + "?" + paramForward
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

// isDecided reports whether it is worth asking the workflow about the payment. The sandbox is asked first:
// every question adds to the workflow's history, and a customer may come back many times. For another
// network this process has no key to ask with; the workflow answers a bounded number of questions.
func (s *server) isDecided(ctx context.Context, p storage.PaymentInFlight) bool {
	if p.Acquirer != checkout.AcquirerSandbox {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	got, err := s.TestCards.Payment(ctx, p.ID)
	return err == nil && got.Outcome.Final()
}

// returnFromBank serves GET and POST /{id}/return. The bank sends the customer there. Nothing in the
// request is trusted.
func (s *server) returnFromBank(w http.ResponseWriter, r *http.Request, v view) error {
	ctx, id := r.Context(), v.Session.ID
	payment, err := s.Sessions.PaymentInFlight(ctx, id)
	if err != nil {
		return err
	}
	if payment.ID != "" && s.isDecided(ctx, payment) {
		got, err := s.Runs.Complete(context.WithoutCancel(ctx), id, payment.ID)
		s.Log.InfoContext(
			ctx, "customer came back", "session_id", id, "transaction_id", payment.ID, "outcome",
			got.Outcome, "error", err,
		)
	}
	http.Redirect(w, r, s.path(id), http.StatusSeeOther)
	return nil
}

// readForm reads r.PostForm. It refuses a form that has one of the refused fields, and reads only the
// names of its fields then. It returns only the kind of an error, because the parser's errors quote
// the form.
func readForm(w http.ResponseWriter, r *http.Request, refused ...string) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return failure.UnsupportedMedia
	}

	sent, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return failure.TooLarge
	}
	if err != nil {
		return failure.Invalid
	}
	for field := range strings.SplitSeq(string(sent), "&") {
		name, _, _ := strings.Cut(field, "=")
		if name, err = url.QueryUnescape(name); err != nil || slices.Contains(refused, name) {
			return failure.Invalid
		}
	}
	if r.PostForm, err = url.ParseQuery(string(sent)); err != nil {
		return failure.Invalid
	}
	return nil
}
