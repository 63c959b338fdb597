package hosted

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

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
	if v.Session.Suspended {
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
