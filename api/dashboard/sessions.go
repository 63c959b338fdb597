package dashboard

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

type sessionsPage struct {
	listing
	Sessions []checkout.Session // newest first
}

// listSessions serves GET …/sessions.
func (s *server) listSessions(v page.Visit) (page.Answer, error) {
	l := s.sessions(v)
	if l.fault == "" {
		if place, err := s.placeOf(v, l.form.Get("search")); place != "" || err != nil {
			return page.Answer{Status: http.StatusSeeOther, Location: place}, err
		}
	}
	shown, p, err := l.list(v, "sessions", checkout.PrefixSession)
	if err != nil {
		return page.Answer{}, err
	}
	return page.ShowForm(p.Fault, "sessions", "Sessions", sessionsPage{p, shown})
}

// placeOf returns the address of the page about a refund, a dispute, a payout without a session, a delivery, an event
// or an API request of the visitor, when search is the id of one; else "".
func (s *server) placeOf(v page.Visit, search string) (string, error) {
	place := ""
	var err error
	switch {
	case strings.HasPrefix(search, checkout.PrefixRequest+"_"):
		place = addressOf(v.Path("/requests"), "id", search)
	case checkout.IsID(checkout.PrefixRefund, search):
		var r checkout.Refund
		r, err = s.Store.Refunds.Refund(v.Context(), v.Owner().Ref(search))
		place = v.Path("/sessions/" + r.SessionID + "#" + search)
	case checkout.IsID(checkout.PrefixDispute, search):
		var d checkout.Dispute
		d, err = s.Store.Disputes.Dispute(v.Context(), v.Owner().Ref(search))
		place = v.Path("/sessions/" + d.SessionID + "#" + search)
	case checkout.IsID(checkout.PrefixPayout, search):
		var p checkout.Payout
		if p, err = s.Store.Payouts.Payout(v.Context(), v.Owner().Ref(search)); p.SessionID == "" {
			made, _ := checkout.IDTime(checkout.PrefixPayout, search)
			after := checkout.FirstID(checkout.PrefixPayout, made.Add(time.Millisecond))
			place = addressOf(v.Path("/payouts"), "before", after) + "#" + search
		}
	case checkout.IsID(checkout.PrefixDelivery, search):
		place = v.Path("/deliveries/" + search)
		_, err = s.Store.Webhooks.Delivery(v.Context(), v.Owner().Ref(search))
	case checkout.IsID(checkout.PrefixEvent, search):
		place = v.Path("/deliveries?event=" + search)
		_, err = s.Store.Webhooks.Event(v.Context(), v.Owner().Ref(search))
	}
	if errors.Is(err, checkout.ErrNotFound) {
		return "", nil
	}
	return place, err
}

// maxSearch is in bytes. Every text that a search can find is shorter.
const maxSearch = 600

// sessions drops a search that finds nothing.
func (s *server) sessions(v page.Visit) (l selection[checkout.Session]) {
	l.form = readForm(v.URL.Query(), "search", "status", "currency")
	search := l.form.Get("search")
	if !utf8.ValidString(search) || strings.ContainsRune(search, 0) || len(search) > maxSearch {
		l.form.Del("search")
	}
	filter := storage.SessionFilter{
		Status: checkout.Status(l.form.Get("status")), Currency: money.Currency(l.form.Get("currency")),
		Search: l.form.Get("search"),
	}
	l.fault = cmp.Or(unknownChoice("status", filter.Status, checkout.Statuses),
		unknownChoice("currency", filter.Currency, money.Currencies), l.form.days(&l.page))
	l.read = func(p pg.Page) ([]checkout.Session, error) {
		return s.Store.Sessions.Sessions(v.Context(), v.Owner(), filter, p)
	}
	return l
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
