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
	Form     listForm
	Sessions []checkout.Session // newest first
	turning
	CSV   string // address of the filtered list as a file
	Fault string // fault of the form, "" for none
}

// listSessions serves GET …/sessions.
func (s *server) listSessions(v face.Visit) (face.Answer, error) {
	p, page := sessionsPage{Form: sessionForm(v.URL.Query())}, pg.Page{}
	if p.Fault = sessionFault(p.Form, &page); p.Fault != "" {
		return face.Refuse("sessions", "Sessions", p)
	}
	if place, err := s.placeOf(v, p.Form.Get("search")); place != "" || err != nil {
		return face.Answer{Status: http.StatusSeeOther, Location: place}, err
	}
	p.CSV = p.Form.address(v.Path("/sessions.csv"))
	var err error
	p.Sessions, p.turning, err = pageOf(v, "/sessions", checkout.PrefixSession, p.Form, page, s.sessions(v, p.Form))
	if err != nil {
		return face.Answer{}, err
	}
	return face.Show("sessions", "Sessions", p)
}

// placeOf returns the address of the page about a delivery, an event or an API request of the visitor, when search is
// the id of one; else "".
func (s *server) placeOf(v face.Visit, search string) (string, error) {
	place := ""
	var err error
	switch {
	case strings.HasPrefix(search, checkout.PrefixRequest+"_"):
		place = addressOf(v.Path("/requests"), "id", search)
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

// sessionFault sets the times of a page. It returns the fault of the form, "" for none.
func sessionFault(f listForm, p *pg.Page) string {
	return cmp.Or(unknown("status", f.Get("status"), checkout.Statuses),
		unknown("currency", f.Get("currency"), checkout.Currencies), f.days(p))
}

// sessionForm reads a query. It drops a search that finds nothing.
func sessionForm(q url.Values) listForm {
	f := readForm(q, "search", "status", "currency")
	search := f.Get("search")
	if !utf8.ValidString(search) || strings.ContainsRune(search, 0) || len(search) > maxSearch {
		f.Del("search")
	}
	return f
}

// sessions returns what reads a page of the filtered list.
func (s *server) sessions(v face.Visit, f listForm) func(pg.Page) ([]checkout.Session, error) {
	filter := storage.SessionFilter{
		Status: checkout.Status(f.Get("status")), Currency: checkout.Currency(f.Get("currency")),
		Search: f.Get("search"),
	}
	return func(p pg.Page) ([]checkout.Session, error) {
		return s.Store.Sessions(v.Context(), v.Owner(), filter, p)
	}
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
