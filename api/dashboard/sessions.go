package dashboard

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// sessionsPage is a page of the list of sessions.
type sessionsPage struct {
	Form     sessionForm
	Sessions []checkout.Session // newest first
	Older    string             // address of the next page, "" on the last
	Newest   string             // address of the first page, "" on it
	Fault    string             // of the form
}

// sessionForm is what the list is chosen by, as it was typed. What is empty does
// not choose.
type sessionForm struct {
	Search   string
	Status   checkout.Status
	Currency checkout.Currency
	From, To string // days in UTC, both included
}

// Chosen reports whether the form chooses anything.
func (f sessionForm) Chosen() bool { return f != sessionForm{} }

// listSessions serves GET /{mode}/sessions.
func (s *server) listSessions(v visit) (answer, error) {
	p := sessionsPage{Form: readSessionForm(v.URL.Query())}
	page := storage.Page{Before: v.before(checkout.PrefixSession), Limit: pageSize + 1}
	if p.Fault = p.Form.bound(&page); p.Fault != "" {
		return refuse("sessions", "Sessions", p)
	}
	filter := storage.SessionFilter{Status: p.Form.Status, Currency: p.Form.Currency, Search: p.Form.Search}
	found, err := s.Store.Sessions(v.Context(), v.Owner(), filter, page)
	if err != nil {
		return answer{}, err
	}
	var next string
	p.Sessions, next = onePage(found, func(s checkout.Session) string { return s.ID })
	if next != "" {
		p.Older = p.Form.address(v, next)
	}
	if page.Before != "" {
		p.Newest = p.Form.address(v, "")
	}
	return show("sessions", "Sessions", p)
}

// maxSearch is more than anything has that can be found.
const maxSearch = 600

// readSessionForm reads a query; what nobody can choose on the page is left out.
func readSessionForm(q url.Values) sessionForm {
	f := sessionForm{
		Search: strings.TrimSpace(q.Get("search")), Status: checkout.Status(q.Get("status")), Currency: checkout.Currency(q.Get("currency")),
		From: strings.TrimSpace(q.Get("from")), To: strings.TrimSpace(q.Get("to")),
	}
	if !utf8.ValidString(f.Search) || strings.ContainsRune(f.Search, 0) || len(f.Search) > maxSearch {
		f.Search = ""
	}
	if !slices.Contains(checkout.Statuses, f.Status) {
		f.Status = ""
	}
	if !f.Currency.Valid() {
		f.Currency = ""
	}
	return f
}

// bound sets the times of a page, and says what is wrong with them.
func (f sessionForm) bound(p *storage.Page) (fault string) {
	var err error
	if f.From != "" {
		if p.Since, err = time.Parse(time.DateOnly, f.From); err != nil || p.Since.Year() < 1970 {
			return "The first day must be a date such as 2026-11-21."
		}
	}
	if f.To != "" {
		if p.Until, err = time.Parse(time.DateOnly, f.To); err != nil || p.Until.Year() < 1970 {
			return "The last day must be a date such as 2026-11-21."
		}
		p.Until = p.Until.AddDate(0, 0, 1)
	}
	if f.From != "" && f.To != "" && !p.Since.Before(p.Until) {
		return "The first day must not be after the last one."
	}
	return ""
}

// address is that of the list chosen by the form from a cursor on.
func (f sessionForm) address(v visit, before string) string {
	q := url.Values{}
	for name, value := range map[string]string{
		"search": f.Search, "status": string(f.Status), "currency": string(f.Currency), "from": f.From, "to": f.To, "before": before,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return v.Path("/sessions")
	}
	return v.Path("/sessions?") + q.Encode()
}

// Customer is the e-mail address that is known of a session's customer: typed
// with the last payment, else sent by the merchant.
func (sessionsPage) Customer(s checkout.Session) string { return customerOf(s) }

func customerOf(s checkout.Session) string {
	if t := s.Transaction(); t != nil && t.CustomerEmail != nil {
		return *t.CustomerEmail
	}
	if s.CustomerEmail != nil {
		return *s.CustomerEmail
	}
	return ""
}

// OrderID is a session's metadata.order_id, "" when it has none.
func (sessionsPage) OrderID(s checkout.Session) string {
	var metadata struct {
		OrderID json.RawMessage `json:"order_id"`
	}
	if json.Unmarshal(s.Metadata, &metadata) != nil {
		return ""
	}
	return metadataText(metadata.OrderID)
}

// metadataText is a value of metadata as people read it: a string without its
// quotes, else as it was sent.
func metadataText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
