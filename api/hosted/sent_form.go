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

	"example.com/checkout/api/failure"
	"example.com/checkout/workflows/checkout"
)

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

// isOvertaken reports whether another payment began after the form was shown, see fieldAttempt.
func (v view) isOvertaken(sent url.Values) bool {
	attempt := sent.Get(fieldAttempt)
	return !isUndecided(v.Session) || (attempt != "" && attempt != strconv.Itoa(v.Session.Attempts))
}

// refusedForm is the answer to a form that nothing was charged for.
type refusedForm struct {
	status        int
	alert, reason string
}

// tokenizeCard checks our own form and exchanges its card for a token. The form goes into v.
func (s *server) tokenizeCard(r *http.Request, v *view) (token string, method checkout.PaymentMethod, no *refusedForm) {
	t := textsOf(r)
	card, shown := parseForm(t, r.PostForm, s.now())
	if v.showing(shown).Form.Faults.First() != "" {
		return "", method, &refusedForm{http.StatusUnprocessableEntity, t.FixHeading, t.FixErrors}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), tokenizeTimeout)
	defer cancel()
	token, method, err := s.TestCards.Tokenize(ctx, card)
	if err != nil { // never log it: it may quote the card
		s.Log.WarnContext(ctx, "card was not tokenized", "session_id", v.Session.ID, "error_class", classOf(err))
		return "", method, &refusedForm{http.StatusServiceUnavailable, t.DeclinedHeading, t.NetworkAway}
	}
	return token, method, nil
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
// stands for is known when the acquirer has answered the charge. The form goes into v.
func (s *server) readConfirmation(
	r *http.Request, v *view,
) (token string, method checkout.PaymentMethod, no *refusedForm) {
	t := textsOf(r)
	token, shown := parseLiveForm(t, r.PostForm)
	switch fault := v.showing(shown).Form.Faults.First(); {
	case v.Acquirer == nil:
		no = &refusedForm{http.StatusServiceUnavailable, t.NotPossibleHeading, t.NotReady}
	case fault != "":
		no = &refusedForm{http.StatusUnprocessableEntity, t.FixHeading, t.FixLive}
	case token == "":
		no = &refusedForm{http.StatusUnprocessableEntity, t.DeclinedHeading, t.CardFault}
	}
	return token, checkout.PaymentMethod{Type: "card"}, no
}

// showing puts what the customer sent into the form to show, under the form's own numbers.
func (v *view) showing(sent form) *view {
	sent.Attempt, sent.Payment = v.Form.Attempt, v.Form.Payment
	v.Form = sent
	return v
}

// formAnswer is what checkout.js reads after it has sent the form: an address to go to, or a message about
// the form that stays open. It holds nothing that the customer typed.
type formAnswer struct {
	Next    string   `json:"next,omitempty"`
	Alert   string   `json:"alert,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Faults  []fault  `json:"faults,omitempty"`
	Empty   []string `json:"empty,omitempty"` // fields that the customer fills in again
	Attempt int      `json:"attempt"`
	Payment string   `json:"payment,omitempty"`
}

// wantsJSON reports whether checkout.js sent the form. A browser without JavaScript gets a page.
func wantsJSON(r *http.Request) bool { return r.Header.Get("Accept") == "application/json" }

// refuse shows the form again, without any card data.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, v view, alert, reason string) {
	s.answerForm(w, r, status, v.alerting(alert, reason))
}

// answerForm shows the form of v with its message. A script gets 200 always: browsers complain about
// another status as if something were broken.
func (s *server) answerForm(w http.ResponseWriter, r *http.Request, status int, v view) {
	if !wantsJSON(r) {
		s.render(w, r, status, v.asForm())
		return
	}
	a := formAnswer{
		Alert: v.Alert, Reason: strings.TrimSpace(v.Reason + " " + v.Attempts), Faults: v.Form.Faults.All(),
		Attempt: v.Form.Attempt, Payment: v.Form.Payment,
	}
	switch {
	case len(a.Faults) > 0: // the rest stays as it is
	case v.onlyCVCWrong():
		a.Empty = []string{fieldCVC}
	default:
		a.Empty = []string{fieldCardNumber, fieldCVC}
	}
	writeJSON(w, http.StatusOK, a)
}

// onlyCVCWrong reports whether the message is about the security code alone. The card number then stays in
// the customer's open page. No server and no storage of the browser keeps it.
func (v view) onlyCVCWrong() bool {
	t := v.Session.Transaction()
	return t != nil && t.Failure == checkout.FailureIncorrectCVC && v.Reason == v.T.IncorrectCVC
}
