package dashboard

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

type sessionsPage struct {
	Form     sessionForm
	Sessions []checkout.Session // newest first
	turning
	CSV   string // address of the filtered list as a file
	Fault string // fault of the form, "" for none
}

// sessionForm is the filter of the list, as the person typed it. An empty field filters nothing.
type sessionForm struct {
	Search   string
	Status   checkout.Status
	Currency checkout.Currency
	days
}

// Chosen reports whether any filter is set.
func (f sessionForm) Chosen() bool { return f != sessionForm{} }

// listSessions serves GET …/sessions.
func (s *server) listSessions(v face.Visit) (face.Answer, error) {
	p := sessionsPage{Form: readSessionForm(v.URL.Query())}
	page := pg.Page{Before: before(v, checkout.PrefixSession), Limit: pageSize + 1}
	if p.Fault = p.Form.bound(&page); p.Fault != "" {
		return face.Refuse("sessions", "Sessions", p)
	}
	if place, err := s.placeOf(v, p.Form.Search); place != "" || err != nil {
		return face.Answer{Status: http.StatusSeeOther, Location: place}, err
	}
	p.CSV = p.Form.address(v, "/sessions.csv", "")
	found, err := s.Store.Sessions(v.Context(), v.Owner(), p.Form.filter(), page)
	if err != nil {
		return face.Answer{}, err
	}
	p.Sessions, p.turning = onePage(found, page.Before, func(before string) string {
		return p.Form.address(v, "/sessions", before)
	})
	return face.Show("sessions", "Sessions", p)
}

// placeOf returns the address of the page about a delivery, an event or an API request of the visitor, when search is
// the id of one; else "".
func (s *server) placeOf(v face.Visit, search string) (string, error) {
	place := ""
	var err error
	switch {
	case strings.HasPrefix(search, checkout.PrefixRequest+"_"):
		place = addressOf(v.Path("/requests"), map[string]string{"id": search})
	case checkout.IsID(checkout.PrefixDelivery, search):
		place = v.Path("/deliveries/" + search)
		_, err = s.Store.Delivery(v.Context(), v.Owner().Ref(search))
	case checkout.IsID(checkout.PrefixEvent, search):
		place = v.Path("/deliveries?event=" + search)
		_, err = s.Store.Event(v.Context(), v.Owner().Ref(search))
	}
	if errors.Is(err, checkout.ErrNotFound) {
		return "", nil
	}
	return place, err
}

// maxSearch is in bytes. Every text that a search can find is shorter.
const maxSearch = 600

// bound sets the times of a page. It returns the fault of the form, "" for none.
func (f sessionForm) bound(p *pg.Page) (fault string) {
	return cmp.Or(unknown("status", f.Status, checkout.Statuses),
		unknown("currency", f.Currency, checkout.Currencies), f.days.bound(p))
}

// readSessionForm reads a query. It drops a search that finds nothing.
func readSessionForm(q url.Values) sessionForm {
	f := sessionForm{
		Search: strings.TrimSpace(q.Get("search")), Status: checkout.Status(q.Get("status")),
		Currency: checkout.Currency(q.Get("currency")), days: readDays(q),
	}
	if !utf8.ValidString(f.Search) || strings.ContainsRune(f.Search, 0) || len(f.Search) > maxSearch {
		f.Search = ""
	}
	return f
}

func (f sessionForm) filter() storage.SessionFilter {
	return storage.SessionFilter{Status: f.Status, Currency: f.Currency, Search: f.Search}
}

// address returns the address of the filtered list at path, from a cursor on.
func (f sessionForm) address(v face.Visit, path, before string) string {
	return addressOf(v.Path(path), map[string]string{
		"search": f.Search, "status": string(f.Status), "currency": string(f.Currency), "from": f.From, "to": f.To,
		"before": before,
	})
}

// Customer returns the customer's e-mail address: from the last payment, else from the merchant,
// else "".
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

// OrderID returns the session's metadata.order_id, "" without one.
func (sessionsPage) OrderID(s checkout.Session) string { return orderID(s.Metadata) }

func orderID(metadata json.RawMessage) string {
	var has struct {
		OrderID json.RawMessage `json:"order_id"`
	}
	if json.Unmarshal(metadata, &has) != nil {
		return ""
	}
	return metadataText(has.OrderID)
}

// metadataText returns a value of metadata for people: a string without quotes, another value as it
// was sent.
func metadataText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
