package dashboard

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

type deliveriesPage struct {
	Deliveries []deliveryRow
	Filter     deliveryForm
	Webhooks   []webhook.Endpoint // choices of the filter
	turning
	Reload  string // address that answers with this page once the page has changed
	Refresh string // how often the page reads its rows again, "" for never
	CSV     string // address of the filtered log as a file
	Pause   string // address of this page without updates
	Resume  string // address with updates; both are "" where the page has none
}

type deliveryRow struct {
	webhook.Delivery
	Last  webhook.Attempt // newest attempt; Number is 0 before the first
	State string          // text of the badge
}

// Version identifies everything that the row shows. It changes when the row changes.
func (r deliveryRow) Version() string {
	next := ""
	if r.NextAttemptAt != nil {
		next = checkout.FormatTime(*r.NextAttemptAt)
	}
	// Part of an address.
	return fmt.Sprintf("%s-%d.%d-%t-%s", r.State, r.Run, r.Last.Number, r.Last.Finished, next)
}

// state returns the status of a delivery. For a pending one it also says what the delivery waits
// for.
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

// deliveryForm is the filter of the log, as the person typed it.
type deliveryForm struct {
	Status, Webhook, Type, Session, Event string
	days
	Fault string
}

// Used reports whether any filter is set.
func (f deliveryForm) Used() bool {
	return f != deliveryForm{}
}

// More reports whether one of the rarer filters is set.
func (f deliveryForm) More() bool {
	f.Status, f.Webhook, f.Type = "", "", ""
	return f.Used()
}

// query returns the form as the query of an address.
func (f deliveryForm) query() url.Values {
	return queryOf(map[string]string{
		"status": f.Status, "webhook": f.Webhook, "type": f.Type, "session": f.Session, "event": f.Event,
		"from": f.From, "to": f.To,
	})
}

// read reads the filter. The range includes both days, in UTC.
func (f *deliveryForm) read(q url.Values) (storage.DeliveryFilter, pg.Page) {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	*f = deliveryForm{
		Status: get("status"), Webhook: get("webhook"), Type: get("type"), Session: get("session"), Event: get("event"),
		days: readDays(q),
	}
	var page pg.Page
	f.Fault = cmp.Or(f.bound(&page), unknown("status", f.Status, deliveryStates),
		unknown("event type", webhook.EventType(f.Type), webhook.EventTypes))
	f.id(f.Session, "session", checkout.PrefixSession)
	f.id(f.Event, "event", checkout.PrefixEvent)
	filter := storage.DeliveryFilter{
		Status: webhook.DeliveryStatus(f.Status), EndpointID: f.Webhook, EventID: f.Event,
		EventType: webhook.EventType(f.Type), SessionID: f.Session,
	}
	if wait, ok := waits[f.Status]; ok {
		filter.Status, filter.Wait = webhook.DeliveryPending, wait
	}
	return filter, page
}

// waits are the words for pending deliveries, see state.
var waits = map[string]storage.DeliveryWait{
	"pending": storage.WaitUntried, "retrying": storage.WaitRetrying, "on_hold": storage.WaitHeld,
}

// deliveryStates are the choices of the status.
var deliveryStates = []string{"pending", "retrying", "on_hold", "delivered", "failed", "canceled"}

func (f *deliveryForm) id(text, what, prefix string) {
	if text != "" && !checkout.IsID(prefix, text) {
		f.Fault = fmt.Sprintf("This is not a %s id: it must be %s_ and 26 characters.", what, prefix)
	}
}

// listDeliveries serves GET …/deliveries, newest first.
func (s *server) listDeliveries(v face.Visit) (face.Answer, error) {
	var p deliveriesPage
	q := v.URL.Query()
	filter, page := p.Filter.read(q)
	page.Limit, page.Before = pageSize+1, before(v, checkout.PrefixDelivery)

	var err error
	if p.Filter.Fault != "" {
		if p.Webhooks, err = s.endpoints(v); err != nil {
			return face.Answer{}, err
		}
		return face.Refuse("deliveries", "Deliveries", p)
	}

	rows, err := s.deliveryRows(v, filter, page)
	if err != nil {
		return face.Answer{}, err
	}

	address := func(before string) string { return p.address(v, "before", before) }
	p.Deliveries, p.turning = onePage(rows, page.Before, address)
	p.CSV = addressWith(v.Path("/deliveries.csv"), p.Filter.query())
	if page.Before == "" { // new deliveries appear on the first page only
		p.Pause, p.Resume = p.address(v, "live", "off"), p.address(v)
		if q.Get("live") != "off" {
			p.Refresh = refreshOften
		}
	}

	version := p.version()
	if shows(v, version) {
		return unchanged("deliveries", p)
	}
	p.Reload = p.address(v, "version", version)
	if p.Webhooks, err = s.endpoints(v); err != nil {
		return face.Answer{}, err
	}
	return face.Show("deliveries", "Deliveries", p)
}

// shows reports whether an open page asks for its own update and shows version already.
func shows(v face.Visit, version string) bool {
	return v.Header.Get("HX-Request") != "" && v.URL.Query().Get("version") == version
}

// unchanged answers an update request of a page that has not changed. htmx then changes nothing.
func unchanged(page string, data any) (face.Answer, error) {
	return face.Answer{Status: http.StatusNoContent, Page: page, Data: data}, nil
}

// version identifies everything that the rows show. It changes when a row changes.
func (p deliveriesPage) version() string {
	hash := fnv.New64a()
	for _, r := range p.Deliveries {
		_, _ = fmt.Fprintln(hash, r.ID, r.Version()) // writing to a hash cannot fail
	}
	return strconv.FormatUint(hash.Sum64(), 36)
}

// address returns the address of a page of the log with the same filter. more alternates names and
// values of further parameters.
func (p deliveriesPage) address(v face.Visit, more ...string) string {
	q := p.Filter.query()
	for pair := range slices.Chunk(more, 2) {
		if pair[1] != "" {
			q.Set(pair[0], pair[1])
		}
	}
	return addressWith(v.Path("/deliveries"), q)
}

func (s *server) deliveryRows(v face.Visit, f storage.DeliveryFilter, page pg.Page) ([]deliveryRow, error) {
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
