package hosted

import (
	"bytes"
	"cmp"
	"embed"
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

	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/storage/people"
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

// view is the data of the templates.
type view struct {
	T           *texts
	Language    *language
	Lang        string // the language's tag
	Languages   []choice
	State       state
	Template    string
	Title       string
	Heading     string
	Explanation string
	Base        string
	Style       string // address of the style sheet
	Color       string // address of the style sheet with the merchant's color, "" for none
	Logo        string // address of the merchant's logo, "" for none
	Scripts     []string
	Icon        string

	Session     checkout.Session
	Merchant    string
	Initial     string
	Amount      string
	Test        bool
	Acquirer    *Acquirer // takes the card; nil when the sandbox or nobody does
	Expires     string    // RFC 3339
	ExpiresText string    // "15:04 UTC"
	Now         string    // RFC 3339
	Brands      []brand

	Preview    bool // a merchant looks at the page; it cannot be paid
	Form       form
	Alert      string // the page's first message, "" for none
	Reason     string // the reason for Alert
	Attempts   string // how many attempts are left
	ScriptText string // messages for checkout.js, JSON

	Poll    string // address of the status that the page polls
	Next    string // address of the page
	Then    string // address to open after a change; "" for Next
	Refresh string // address to reload without JavaScript; "" for never
	Every   int    // seconds between refreshes
	// Overtaken: another tab was faster, and the card of this customer's form was not tried.
	Overtaken bool
	Forward   bool // follow Action at once

	Action   template.HTMLAttr // href of the bank's page
	Payment  string            // id (txn_…) of the payment being checked
	Card     string            // "Visa •••• 4242"
	PaidAt   string            // written out
	PaidTime string            // RFC 3339
	Links    []link            // of the footer
	Back     template.HTMLAttr // href back to the merchant without a payment, "" for none
	Items    []item
	Pictures bool              // some items have one
	Redirect string            // the merchant's address for the customer after the payment
	Link     template.HTMLAttr // href of Redirect
	Meta     template.HTMLAttr // content of a meta refresh to Redirect
}

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

// knownEmail returns the e-mail address of the last payment, else the merchant's, else "".
func knownEmail(session checkout.Session) string {
	if t := session.Transaction(); t != nil && t.CustomerEmail != nil {
		return *t.CustomerEmail
	}
	if session.CustomerEmail != nil {
		return *session.CustomerEmail
	}
	return ""
}

// view fills in the data that every page of the session shows.
func (s *server) view(l *language, session checkout.Session, b people.Brand) view {
	now := s.now().UTC()
	v := view{
		T: &l.Texts, Language: l, Color: s.colorAsset(b.Color), Logo: s.logoAsset(b),
		Session: session, Merchant: oneLine(b.Name), Amount: l.Money.amount(session.Amount, session.Currency),
		Test:    !session.Mode.Live(),
		Expires: checkout.FormatTime(session.ExpiresAt), ExpiresText: session.ExpiresAt.UTC().Format("15:04 MST"),
		Now:  checkout.FormatTime(now),
		Next: s.path(session.ID),
	}

	first, _ := utf8.DecodeRuneInString(v.Merchant)
	v.Initial = string(unicode.ToUpper(first))

	if s.chain(session) != "" { // otherwise its proceeds could not be paid out
		v.Acquirer = s.Acquirers[session.Mode]
	}

	if t := session.Transaction(); t != nil {
		v.Card = cardLabel(v.T, t.PaymentMethod)
		if t.CompletedAt != nil {
			v.PaidAt, v.PaidTime = v.T.date(*t.CompletedAt), checkout.FormatTime(*t.CompletedAt)
		}
		if t.Status == checkout.TransactionFailed {
			v.Alert, v.Reason = v.T.DeclinedHeading, v.T.failure(t.Failure)
			switch n := t.AttemptsRemaining; {
			case n == 1:
				v.Attempts = v.T.LastAttempt
			case n > 1:
				v.Attempts = fmt.Sprintf(v.T.AttemptsLeft, n)
			}
		}
	}

	v.Form.Attempt, v.Form.Payment = session.Attempts, checkout.NewID(checkout.PrefixTransaction)
	v.Form.Email = knownEmail(session)

	v.Pictures = len(session.Pictures) > 0
	for _, i := range session.LineItems {
		shown := newItem(l.Money, i, session.Currency)
		shown.Picture = s.pictureOf(session, i)
		v.Items = append(v.Items, shown)
	}
	v.Back, v.Links = wayBack(session), footer(v.T, b.Contact)
	if session.RedirectURL != nil {
		address := fillIn(*session.RedirectURL, session.ID)
		if attr, ok := linkTo(address); ok {
			v.Redirect, v.Link = address, attr
			v.Meta = template.HTMLAttr(
				`content="5;url=` + html.EscapeString(v.Redirect) + `"`,
			) // #nosec G203 -- escaped, and http(s) by linkTo
		}
	}
	return v
}

// link is a link of the footer.
type link struct{ Text, Address string }

// footer returns the links that the merchant has set.
func footer(t *texts, c people.Contact) (all []link) {
	support := c.Support
	if support != "" && !strings.Contains(support, "://") {
		support = "mailto:" + url.PathEscape(support)
	}
	for _, l := range []link{{t.Support, support}, {t.Terms, c.TermsURL}, {t.PrivacyPolicy, c.PrivacyURL}} {
		if l.Address != "" {
			all = append(all, l)
		}
	}
	return all
}

// item is a line of what the customer buys.
type item struct {
	Name, Price string
	Each        string   // "2 × €24.95", "" for one piece
	Picture     *picture // nil for none
}

func newItem(m amountRules, i checkout.LineItem, c money.Currency) item {
	shown := item{Name: oneLine(i.Name), Price: m.amount(i.Total(), c)}
	if i.Quantity > 1 {
		shown.Each = fmt.Sprintf("%d × %s", i.Quantity, m.amount(i.UnitAmount, c))
	}
	return shown
}

// fillIn returns a merchant's address with the session's id in it, where the merchant asked for that. Many
// libraries for URLs encode the braces.
func fillIn(address, sessionID string) string {
	return strings.NewReplacer("{CHECKOUT_SESSION_ID}", sessionID, "%7BCHECKOUT_SESSION_ID%7D", sessionID).Replace(address)
}

// wayBack returns the href for a customer who has not paid: cancel_url, else the merchant's site. The whole
// redirect_url is for customers who have paid.
func wayBack(session checkout.Session) template.HTMLAttr {
	address := ""
	switch {
	case session.CancelURL != nil:
		address = fillIn(*session.CancelURL, session.ID)
	case session.RedirectURL != nil:
		if u, err := url.Parse(*session.RedirectURL); err == nil {
			address = u.Scheme + "://" + u.Host + "/"
		}
	}
	href, _ := linkTo(address)
	return href
}

// linkTo returns address as an href, exactly as it was stored. The template's own escaping would
// encode some characters again. It returns false unless address is an absolute http or https
// address.
func linkTo(address string) (template.HTMLAttr, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", false
	}
	return template.HTMLAttr(`href="` + html.EscapeString(address) + `"`), true // #nosec G203 -- escaped just here
}

// oneLine replaces control characters and direction marks in a merchant's name, so that it fits in
// a title.
func oneLine(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unprintable(r) {
			return ' '
		}
		return r
	}, name))
}

// as sets the view's state, title and texts.
func (v view) as(st state, heading, explanation string) view {
	v.State, v.Template, v.Heading, v.Explanation = st, string(st), heading, explanation
	v.Title = fmt.Sprintf(v.T.TitleState, heading, v.Merchant)
	if st == stateForm {
		v.Title = heading
	}
	return v
}

// asForm returns the page with the form, or why there is none.
func (v view) asForm() view {
	if v.Session.Stopped {
		return v.as(stateClosed, v.T.NotPossibleHeading, fmt.Sprintf(v.T.ClosedText, v.Merchant))
	}
	v = v.as(stateForm, fmt.Sprintf(v.T.TitlePay, v.Merchant), "")
	v.Poll = v.Next + "/status"
	v.ScriptText, v.Brands = v.Language.script, brands
	if !v.ownForm() {
		v.Template = templateLive
	}
	if !v.ownForm() && v.Acquirer == nil {
		v = v.alerting(v.T.NotPossibleHeading, v.T.NotReady)
	}
	return v
}

// ownForm reports whether the card is typed into our own form: only the sandbox takes such a card.
func (v view) ownForm() bool { return v.Test && v.Acquirer == nil }

// alerting shows another message than the reason of the last payment.
func (v view) alerting(alert, reason string) view {
	v.Alert, v.Reason, v.Attempts = alert, reason, ""
	return v
}

// asWaiting returns the page that waits for a payment in flight.
func (v view) asWaiting() view {
	v = v.as(stateProcessing, v.T.ProcessingHeading, v.T.ProcessingText)
	v.Poll, v.Refresh, v.Every = v.Next+"/status", cmp.Or(v.Then, v.Next), 3
	return v
}

// asChecking returns the page for a payment that may or may not have begun. The page never offers
// to pay again. It offers to make this payment impossible.
func (v view) asChecking(transactionID string) view {
	v = v.as(stateChecking, v.T.CheckingHeading, v.T.CheckingText)
	v.Payment, v.Then = transactionID, v.Next+queryFor(transactionID)
	v.Poll, v.Refresh, v.Every = v.Next+"/status"+queryFor(transactionID), v.Then, 3
	return v
}

// asAction returns the page that leads to the bank. With forward it goes there at once.
func (v view) asAction(href template.HTMLAttr, forward bool) view {
	v = v.as(stateAction, v.T.ActionHeading, v.T.ActionText)
	v.Action, v.Forward = href, forward
	v.Poll, v.Refresh, v.Every = v.Next+"/status", v.Next, 15
	return v
}

// asEnded returns the page of a session that has ended.
func (v view) asEnded() view {
	switch v.Session.Status {
	case checkout.StatusCompleted:
		return v.as(stateCompleted, v.T.CompletedHeading, fmt.Sprintf(v.T.CompletedText, v.Merchant))
	case checkout.StatusFailed:
		return v.as(stateFailed, v.T.FailedHeading, fmt.Sprintf(v.T.FailedText, v.Merchant))
	default:
		return v.as(stateExpired, v.T.ExpiredHeading, fmt.Sprintf(v.T.ExpiredText, v.Merchant))
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
