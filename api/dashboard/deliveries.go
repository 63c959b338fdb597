package dashboard

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// deliveriesPage is the log of deliveries.
type deliveriesPage struct {
	Deliveries []deliveryRow
	Filter     deliveryForm
	Webhooks   []webhook.Endpoint // to choose from
	Older      string             // address of the next page, "" on the last
	Newest     string             // address of the first page, "" on it
	Reload     string             // address that has this page again once it has changed
	Live       bool               // rows come and change by themselves
	Pause      string             // address of this page when it is not live
	Resume     string             // and when it is; both "" where it cannot be
}

// deliveryRow is one line of the log.
type deliveryRow struct {
	webhook.Delivery
	Last  webhook.Attempt // the newest; its Number is 0 before the first
	State string          // what a badge says
}

// Version changes with everything that the row shows, and so marks a row that
// has changed.
func (r deliveryRow) Version() string {
	next := ""
	if r.NextAttemptAt != nil {
		next = checkout.FormatTime(*r.NextAttemptAt)
	}
	return fmt.Sprintf("%s-%d.%d-%t-%s", r.State, r.Run, r.Last.Number, r.Last.Finished, next) // stands in an address
}

// state is the status of a delivery in words that also say what it waits for.
func state(d webhook.Delivery, last webhook.Attempt) string {
	switch {
	case d.Status != webhook.DeliveryPending:
		return string(d.Status)
	case d.Held:
		return "on_hold"
	case d.NextAttemptAt == nil:
		return "sending"
	case last.Number > 0 && last.Run == d.Run && !last.Succeeded():
		return "retrying"
	}
	return string(d.Status)
}

// deliveryForm is what the log is filtered by, as it was typed.
type deliveryForm struct {
	Status, Webhook, Type, Session, Event, From, To string
	Fault                                           string
}

// Used reports whether anything is filtered.
func (f deliveryForm) Used() bool {
	return f != deliveryForm{}
}

// More reports whether the rarer filters are used.
func (f deliveryForm) More() bool {
	f.Status, f.Webhook, f.Type = "", "", ""
	return f.Used()
}

// query is the form as it is in an address.
func (f deliveryForm) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"status": f.Status, "webhook": f.Webhook, "type": f.Type, "session": f.Session, "event": f.Event, "from": f.From, "to": f.To,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// read reads the filter. Both days are in it, in UTC.
func (f *deliveryForm) read(q url.Values) (storage.DeliveryFilter, storage.Page) {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	*f = deliveryForm{
		Status: get("status"), Webhook: get("webhook"), Type: get("type"), Session: get("session"), Event: get("event"), From: get("from"), To: get("to"),
	}
	page := storage.Page{Since: f.day("from", f.From), Until: f.day("to", f.To)}
	if !page.Until.IsZero() {
		page.Until = page.Until.AddDate(0, 0, 1)
	}
	f.id(f.Session, "session", checkout.PrefixSession)
	f.id(f.Event, "event", checkout.PrefixEvent)
	return storage.DeliveryFilter{
		Status: webhook.DeliveryStatus(f.Status), EndpointID: f.Webhook, EventID: f.Event, EventType: webhook.EventType(f.Type), SessionID: f.Session,
	}, page
}

func (f *deliveryForm) day(name, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		f.Fault = fmt.Sprintf("The day %q is none; write it as 2026-01-31.", name)
		return time.Time{}
	}
	return t
}

func (f *deliveryForm) id(text, what, prefix string) {
	if text != "" && !checkout.IsID(prefix, text) {
		f.Fault = fmt.Sprintf("That is not the id of a %s: it begins with %s_ and has 26 characters after that.", what, prefix)
	}
}

// listDeliveries serves GET /{mode}/deliveries, newest first.
func (s *server) listDeliveries(v visit) (answer, error) {
	var p deliveriesPage
	q := v.URL.Query()
	filter, page := p.Filter.read(q)
	page.Limit, page.Before = pageSize+1, v.before(checkout.PrefixDelivery)
	var err error
	if p.Webhooks, err = s.endpoints(v); err != nil {
		return answer{}, err
	}
	if p.Filter.Fault != "" {
		return refuse("deliveries", "Deliveries", p)
	}
	rows, err := s.deliveryRows(v, filter, page)
	if err != nil {
		return answer{}, err
	}
	var next string
	p.Deliveries, next = onePage(rows, func(r deliveryRow) string { return r.ID })
	p.link(v, next, page.Before != "", s.Feed != nil && q.Get("live") != "off")
	if page.Before == "" && s.Feed == nil {
		p.Pause, p.Resume = "", ""
	}
	version := p.version()
	if v.has(version) {
		return unchanged("deliveries", p)
	}
	p.Reload = p.address(v, "version", version)
	return show("deliveries", "Deliveries", p)
}

// has reports whether a page that is open reads itself again and shows that
// version already.
func (v visit) has(version string) bool {
	return v.Header.Get("HX-Request") != "" && v.URL.Query().Get("version") == version
}

// unchanged answers a page that is read again and shows the same still. htmx
// then leaves everything where it is.
func unchanged(page string, data any) (answer, error) {
	return answer{status: http.StatusNoContent, page: page, data: data}, nil
}

// version changes with everything that the rows show.
func (p deliveriesPage) version() string {
	hash := fnv.New64a()
	for _, r := range p.Deliveries {
		_, _ = fmt.Fprintln(hash, r.ID, r.Version()) // a hash takes everything
	}
	return strconv.FormatUint(hash.Sum64(), 36)
}

// link fills the addresses in. Only the first page is live: what is new belongs
// to it.
func (p *deliveriesPage) link(v visit, next string, later, live bool) {
	if next != "" {
		p.Older = p.address(v, "before", next)
	}
	if later {
		p.Newest = p.address(v)
		return
	}
	p.Live, p.Pause, p.Resume = live, p.address(v, "live", "off"), p.address(v)
}

// address is the address of a page of the log with the same filter; more are
// names and values by turns.
func (p deliveriesPage) address(v visit, more ...string) string {
	q := p.Filter.query()
	for pair := range slices.Chunk(more, 2) {
		q.Set(pair[0], pair[1])
	}
	if len(q) == 0 {
		return v.Path("/deliveries")
	}
	return v.Path("/deliveries") + "?" + q.Encode()
}

// deliveryRows reads a page of the log.
func (s *server) deliveryRows(v visit, f storage.DeliveryFilter, page storage.Page) ([]deliveryRow, error) {
	deliveries, err := s.Store.Deliveries(v.Context(), v.Owner(), f, page)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(deliveries))
	for i, d := range deliveries {
		ids[i] = d.ID
	}
	last, err := s.Store.LastAttempts(v.Context(), v.Owner(), ids)
	if err != nil {
		return nil, err
	}
	rows := make([]deliveryRow, len(deliveries))
	for i, d := range deliveries {
		rows[i] = deliveryRow{d, last[d.ID], state(d, last[d.ID])}
	}
	return rows, nil
}
