package hosted

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

//go:embed templates/*.html
var templateFiles embed.FS

// state is the page that a customer sees. Each state has a template with its name, and stateForm a
// second one for the acquirer's form.
type state string

const (
	stateForm       state = "form"
	stateAction     state = "action"     // the customer must confirm at the bank
	stateProcessing state = "processing" // a payment is being decided
	stateChecking   state = "checking"   // it is unknown whether a payment has begun
	stateCompleted  state = "completed"
	stateFailed     state = "failed"
	stateExpired    state = "expired"
	stateClosed     state = "closed"  // the merchant's payments are suspended
	stateProblem    state = "problem" // an error, without a session
)

// templateLive is the template of stateForm when the acquirer's form takes the card.
const templateLive = "form_live"

var pages = func() map[string]*template.Template {
	layout := template.Must(
		template.New("layout.html").
			Funcs(template.FuncMap{"host": webhook.HostPortOf, "brands": brandLabels}).
			ParseFS(templateFiles, "templates/layout.html", "templates/marks.html", "templates/parts.html"),
	)
	m := map[string]*template.Template{}
	for _, s := range []state{stateForm, templateLive, stateAction, stateProcessing, stateChecking, stateCompleted,
		stateFailed, stateExpired, stateClosed, stateProblem} {
		m[string(s)] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, "templates/"+string(s)+".html"))
	}
	return m
}()

// path returns the path of a session's page.
func (s *server) path(sessionID string) string { return checkout.PageURL(s.base, sessionID) }

// sessionHandler is a web.Handler for an existing session.
type sessionHandler func(w http.ResponseWriter, r *http.Request, v view) error

// session reads the session in the path. It does not look up a text without the shape of an id.
func (s *server) session(next sessionHandler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := mux.Vars(r)["id"]
		if !checkout.IsID(checkout.PrefixSession, id) {
			return failure.NotFound
		}
		session, brand, err := s.Sessions.CustomerSession(r.Context(), id)
		if err != nil {
			return err
		}
		if session.Locale != nil {
			r = inLocale(r, *session.Locale)
		}
		return next(w, r, s.view(languageOf(r), session, brand))
	}
}

// Parameters of the page. They only choose the page that a waiting customer reads.
const (
	paramPayment    = "payment"    // a payment of unknown outcome
	paramProcessing = "processing" // another payment of the session is being decided
	paramOvertaken  = "overtaken"  // the other payment was decided; this customer's card was not tried
	paramForward    = "continue"   // open the bank's page at once

	paramNotPossible = "not_possible" // there was no exchange rate; nothing was charged
)

// queryFor is the query of the page that knows the payment as the one that this customer asked for.
func queryFor(transactionID string) string {
	return "?" + url.Values{paramPayment: {transactionID}}.Encode()
}

// showPage serves GET /{id}.
func (s *server) showPage(w http.ResponseWriter, r *http.Request, v view) error {
	query, id := r.URL.Query(), v.Session.ID
	if v.Overtaken = query.Has(paramProcessing) || query.Has(paramOvertaken); v.Overtaken {
		v.Then = v.Next + "?" + paramOvertaken
	}
	switch {
	case v.Session.Status.Final():
		s.render(w, r, http.StatusOK, v.asEnded())
	case v.Session.PaymentInFlight:
		return s.showInFlight(w, r, v)
	case checkout.IsID(checkout.PrefixTransaction, query.Get(paramPayment)):
		transactionID := query.Get(paramPayment)
		outcome, err := s.askWorkflow(r.Context(), v.Session, transactionID)
		if !errors.Is(err, runs.ErrOutcomeUnknown) {
			to := s.next(r.Context(), id, transactionID, outcome, err)
			http.Redirect(w, r, to, http.StatusSeeOther) // #nosec G710 -- a path of this page, or the bank's on this server
			return nil
		}
		s.render(w, r, http.StatusOK, v.asChecking(transactionID))
	case query.Has(paramProcessing):
		s.render(w, r, http.StatusOK, v.asWaiting())
	case v.Overtaken:
		s.render(w, r, http.StatusOK, v.alerting(v.T.OvertakenHeading, v.T.OvertakenText).asForm())
	case query.Has(paramNotPossible):
		s.render(w, r, http.StatusOK, v.alerting(v.T.NotPossibleHeading, v.T.NotPossible).asForm())
	default:
		s.render(w, r, http.StatusOK, v.asForm())
	}
	return nil
}

// showInFlight leads to the bank when the bank waits for the customer, else shows that the payment
// is being decided. A page whose customer asked for this payment goes on to the bank at once.
func (s *server) showInFlight(w http.ResponseWriter, r *http.Request, v view) error {
	payment, err := s.Sessions.PaymentInFlight(r.Context(), v.Session.ID)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	asked := payment.ID != "" && query.Get(paramPayment) == payment.ID
	if href, ok := linkTo(payment.ActionURL); ok {
		s.render(w, r, http.StatusOK, v.asAction(href, asked || query.Has(paramForward)))
		return nil
	}
	if asked {
		v.Then = v.Next + queryFor(payment.ID)
	}
	s.render(w, r, http.StatusOK, v.asWaiting())
	return nil
}

// render writes a whole page. If the template fails, it writes an error instead.
func (s *server) render(w http.ResponseWriter, r *http.Request, status int, v view) {
	v.Language = languageOf(r)
	v.Lang = v.Language.tag
	v.T, v.Base, v.Languages = &v.Language.Texts, s.base, choices(v.Language, v.Next, r.URL.Query())
	v.Style, v.Icon = s.asset("checkout.css"), s.asset("icon.svg")
	v.Scripts = []string{s.asset("checkout.js")}
	switch {
	case v.Template == templateLive && v.Acquirer != nil:
		v.Scripts = append(v.Scripts, s.asset("live.js"))
		w.Header().Set("Content-Security-Policy", v.Acquirer.policy())
	case v.Template == string(stateForm):
		v.Scripts = append(v.Scripts, s.asset("card.js"))
	}

	var page bytes.Buffer
	if err := pages[v.Template].Execute(&page, v); err != nil {
		s.Log.ErrorContext(r.Context(), "render page", "state", v.State, "error", err)
		http.Error(w, v.T.AwayText, http.StatusInternalServerError)
		return
	}

	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Language", v.Language.tag)
	w.Header().Add("Vary", "Accept-Language, Cookie")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // an error means that the customer has gone
}

// paramColor is the query parameter of a preview with a color that is not saved, six hex digits.
const paramColor = "color"

// preview serves GET /preview/{merchant}: the form in the merchant's looks, for a session that does not
// exist. It takes no payment. The address of a session shows the merchant's id too, so the page
// discloses nothing new.
func (s *server) preview(w http.ResponseWriter, r *http.Request) error {
	id := mux.Vars(r)["merchant"]
	if !checkout.IsID(checkout.PrefixMerchant, id) {
		return failure.NotFound
	}
	brand, err := s.People.Brand(r.Context(), id)
	if err != nil {
		return err
	}
	if c, ok := parseRGB(r.URL.Query().Get(paramColor)); ok {
		brand.Color = c.String()
	}
	const amount, lasts = 4990, 30 * time.Minute
	v := s.view(languageOf(r), checkout.Session{
		Ref:    checkout.Ref{Owner: checkout.Owner{MerchantID: id, Mode: checkout.ModeTest}},
		Amount: amount, Currency: money.EUR, Status: checkout.StatusPending, ExpiresAt: s.now().Add(lasts),
	}, brand)
	v.Acquirer, v.Next, v.Preview = nil, checkout.PreviewURL(s.base, id), true
	v = v.asForm()
	v.Poll = ""
	s.render(w, r, http.StatusOK, v)
	return nil
}
