package hosted

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"example.com/checkout/storage"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

//go:embed templates/*.html
var templateFiles embed.FS

// state is which page the customer sees. Each has a template of its name.
type state string

const (
	stateForm       state = "form"
	stateAction     state = "action"     // the customer's bank asks
	stateProcessing state = "processing" // a payment is being decided
	stateChecking   state = "checking"   // it is not known whether a payment has begun
	stateCompleted  state = "completed"
	stateFailed     state = "failed"
	stateExpired    state = "expired"
	stateProblem    state = "problem" // no session to show
)

var pages = func() map[state]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{"host": hostOf}).ParseFS(templateFiles, "templates/layout.html"))
	m := map[state]*template.Template{}
	for _, s := range []state{stateForm, stateAction, stateProcessing, stateChecking, stateCompleted, stateFailed, stateExpired, stateProblem} {
		m[s] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, "templates/"+string(s)+".html"))
	}
	return m
}()

// view is what the templates know.
type view struct {
	T           any // text
	State       state
	Title       string
	Heading     string
	Explanation string
	Base        string
	Style       string // address of the style sheet
	Script      string
	Icon        string

	Session     checkout.Session
	Merchant    string
	Initial     string
	Amount      string
	Test        bool
	Expires     string // RFC 3339
	ExpiresText string // "15:04 UTC"
	Now         string // RFC 3339

	Form       form
	Alert      string // what the customer must know first, "" for nothing
	Reason     string // why that is so
	Attempts   string // how many more the customer has
	ScriptText string // messages for checkout.js, JSON

	Poll    string // address of status to ask until something happens
	Next    string // where to go then
	Refresh string // the same without JavaScript; "" for never
	Every   int    // seconds between refreshes
	Forward bool   // follow Action at once

	Action   template.HTMLAttr // href of the bank's page
	Payment  string            // txn_… that is being checked
	Card     string            // "Visa •••• 4242"
	PaidAt   string
	Redirect string            // where the merchant wants the customer after the payment
	Link     template.HTMLAttr // href of Redirect
	Meta     template.HTMLAttr // content of a meta refresh to Redirect
}

// path is where the session's pages are.
func (s *server) path(sessionID string) string { return checkout.PageURL(s.base, sessionID) }

// sessionHandler serves something of a session that exists.
type sessionHandler func(w http.ResponseWriter, r *http.Request, v view)

// session reads the session of the path. What has not the shape of an id is
// never looked up.
func (s *server) session(next sessionHandler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := mux.Vars(r)["id"]
		if !checkout.IsID(checkout.PrefixSession, id) {
			s.router.NotFoundHandler.ServeHTTP(w, r)
			return
		}
		session, merchant, err := s.Store.CustomerSession(r.Context(), id)
		switch {
		case errors.Is(err, checkout.ErrNotFound):
			s.problem(http.StatusNotFound, text.UnknownTitle, text.UnknownText).ServeHTTP(w, r)
		case err != nil:
			s.unavailable(w, r, id, err)
		default:
			next(w, r, s.view(session, merchant))
		}
	})
}

// knownEmail is what the customer typed for the last payment, else what the
// merchant supplied, else "".
func knownEmail(session checkout.Session) string {
	if t := session.Transaction(); t != nil && t.CustomerEmail != nil {
		return *t.CustomerEmail
	}
	if session.CustomerEmail != nil {
		return *session.CustomerEmail
	}
	return ""
}

// view fills in what every page of the session shows.
func (s *server) view(session checkout.Session, merchant string) view {
	now := s.now().UTC()
	v := view{
		Session: session, Merchant: oneLine(merchant), Amount: formatAmount(session.Amount, session.Currency),
		Test:    !session.Mode.Live(),
		Expires: checkout.FormatTime(session.ExpiresAt), ExpiresText: session.ExpiresAt.UTC().Format("15:04 MST"),
		Now:  checkout.FormatTime(now),
		Next: s.path(session.ID),
	}
	first, _ := utf8.DecodeRuneInString(v.Merchant)
	v.Initial = string(unicode.ToUpper(first))
	if t := session.Transaction(); t != nil {
		v.Card = cardLabel(t.PaymentMethod)
		if t.CompletedAt != nil {
			v.PaidAt = t.CompletedAt.UTC().Format("2 January 2006, 15:04 MST")
		}
		if t.Status == checkout.TransactionFailed {
			v.Alert, v.Reason = text.DeclinedHeading, t.Failure.Message()
			switch n := t.AttemptsRemaining; {
			case n == 1:
				v.Attempts = text.LastAttempt
			case n > 1:
				v.Attempts = fmt.Sprintf(text.AttemptsLeft, n)
			}
		}
	}
	v.Form.Attempt = session.Attempts
	v.Form.Email = knownEmail(session)
	if session.RedirectURL != nil {
		if attr, ok := linkTo(*session.RedirectURL); ok {
			v.Redirect, v.Link = *session.RedirectURL, attr
			v.Meta = template.HTMLAttr(`content="5;url=` + html.EscapeString(v.Redirect) + `"`) // #nosec G203 -- escaped, and http(s) by linkTo
		}
	}
	return v
}

// linkTo returns address as an href, character for character as it was stored;
// the template's own escaping would encode some of them anew. It reports false
// for anything but an absolute http or https address.
func linkTo(address string) (template.HTMLAttr, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", false
	}
	return template.HTMLAttr(`href="` + html.EscapeString(address) + `"`), true // #nosec G203 -- escaped just here
}

// hostOf is the part of an address that tells a customer whose it is.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// oneLine makes a merchant's name fit for a title: no control characters and no
// marks that turn the direction of what follows.
func oneLine(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, name))
}

// as makes the view one of a state.
func (v view) as(st state, heading, explanation string) view {
	v.State, v.Heading, v.Explanation = st, heading, explanation
	v.Title = fmt.Sprintf(text.TitleState, heading, v.Merchant)
	if st == stateForm {
		v.Title = heading
	}
	return v
}

// asForm shows the form.
func (v view) asForm() view {
	v = v.as(stateForm, fmt.Sprintf(text.TitlePay, v.Merchant), "")
	v.Poll = v.Next + "/status"
	v.ScriptText = scriptText
	return v
}

// asWaiting shows a page that waits for a payment in flight.
func (v view) asWaiting() view {
	v = v.as(stateProcessing, text.ProcessingHeading, text.ProcessingText)
	v.Poll, v.Refresh, v.Every = v.Next+"/status", v.Next, 3
	return v
}

// asChecking shows that it is not known whether the payment has begun. It never
// offers to pay again; it offers to make this payment impossible.
func (v view) asChecking(transactionID string) view {
	v = v.as(stateChecking, text.CheckingHeading, text.CheckingText)
	query := "?" + url.Values{paramPayment: {transactionID}}.Encode()
	v.Payment = transactionID
	v.Poll, v.Refresh, v.Every = v.Next+"/status"+query, v.Next+query, 3
	return v
}

// asAction sends the customer to the bank; forward does so at once.
func (v view) asAction(href template.HTMLAttr, forward bool) view {
	v = v.as(stateAction, text.ActionHeading, text.ActionText)
	v.Action, v.Forward = href, forward
	v.Poll, v.Refresh, v.Every = v.Next+"/status", v.Next, 15
	return v
}

// asEnded shows a session that has ended.
func (v view) asEnded() view {
	switch v.Session.Status {
	case checkout.StatusCompleted:
		return v.as(stateCompleted, text.CompletedHeading, fmt.Sprintf(text.CompletedText, v.Merchant))
	case checkout.StatusFailed:
		return v.as(stateFailed, text.FailedHeading, fmt.Sprintf(text.FailedText, v.Merchant))
	default:
		return v.as(stateExpired, text.ExpiredHeading, fmt.Sprintf(text.ExpiredText, v.Merchant))
	}
}

// Parameters of the page. They choose what a waiting customer reads and decide
// nothing.
const (
	paramPayment    = "payment"    // a payment of unknown outcome
	paramProcessing = "processing" // another payment of the session is being decided
	paramForward    = "continue"   // go on to the bank at once
)

// showPage serves GET /{id}.
func (s *server) showPage(w http.ResponseWriter, r *http.Request, v view) {
	query, id := r.URL.Query(), v.Session.ID
	switch {
	case v.Session.Status.Final():
		s.render(w, r, http.StatusOK, v.asEnded())
	case v.Session.PaymentInFlight:
		_, address, err := s.Store.PaymentAction(r.Context(), id)
		if err != nil {
			s.unavailable(w, r, id, err)
			return
		}
		if href, ok := linkTo(address); ok {
			s.render(w, r, http.StatusOK, v.asAction(href, query.Has(paramForward)))
			return
		}
		s.render(w, r, http.StatusOK, v.asWaiting())
	case checkout.IsID(checkout.PrefixTransaction, query.Get(paramPayment)):
		transactionID := query.Get(paramPayment)
		if err := s.ask(r.Context(), v.Session, transactionID); !errors.Is(err, workflows.ErrOutcomeUnknown) {
			http.Redirect(w, r, s.after(id, transactionID, err), http.StatusSeeOther)
			return
		}
		s.render(w, r, http.StatusOK, v.asChecking(transactionID))
	case query.Has(paramProcessing):
		s.render(w, r, http.StatusOK, v.asWaiting())
	default:
		s.render(w, r, http.StatusOK, v.asForm())
	}
}

// problem serves a page that is about no session.
func (s *server) problem(status int, heading, explanation string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.render(w, r, status, view{State: stateProblem, Title: heading, Heading: heading, Explanation: explanation})
	}
}

// unavailable answers what went wrong on our side. Only the log gets the error.
func (s *server) unavailable(w http.ResponseWriter, r *http.Request, sessionID string, err error) {
	if r.Context().Err() != nil {
		return // the customer has gone
	}
	s.Log.ErrorContext(r.Context(), "hosted page", "session_id", sessionID, "error", err)
	status := http.StatusInternalServerError
	if storage.Unavailable(err) {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "5")
	}
	s.render(w, r, status, view{
		State: stateProblem, Title: text.AwayTitle, Heading: text.AwayTitle, Explanation: text.AwayText, Next: s.path(sessionID),
	})
}

// render writes a whole page or, when its template fails, none of it.
func (s *server) render(w http.ResponseWriter, r *http.Request, status int, v view) {
	v.T, v.Base = text, s.base
	v.Style, v.Script, v.Icon = s.asset("checkout.css"), s.asset("checkout.js"), s.asset("icon.svg")
	var page bytes.Buffer
	if err := pages[v.State].Execute(&page, v); err != nil {
		s.Log.ErrorContext(r.Context(), "render page", "state", v.State, "error", err)
		http.Error(w, text.AwayText, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Language", text.Language)
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // an error means that the customer has gone
}

// scriptText is what checkout.js says, so that all texts are in one place.
var scriptText = func() string {
	b, err := json.Marshal(map[string]string{
		"paying": text.Paying, "expired": text.ExpiredHeading, "fiveMinutes": text.FiveMinutes, "oneMinute": text.OneMinute,
		"numberMissing": text.NumberMissing, "numberDigits": text.NumberDigits, "numberShort": text.NumberShort,
		"numberLong": text.NumberLong, "numberBad": text.NumberBad,
		"expMissing": text.ExpMissing, "expFormat": text.ExpFormat, "expMonth": text.ExpMonth, "expPast": text.ExpPast,
		"cvcMissing": text.CVCMissing, "cvcThree": text.CVCThree, "cvcFour": text.CVCFour, "cvcEither": text.CVCEither,
		"cvcHint": text.CVCHint, "cvcHintAmex": text.CVCHintAmex,
		"emailMissing": text.EmailMissing, "emailBad": text.EmailBad,
	})
	if err != nil {
		panic(err) // a map of strings always has a JSON form
	}
	return string(b)
}()
