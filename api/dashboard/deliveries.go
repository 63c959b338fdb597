package dashboard

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

type deliveriesPage struct {
	listing
	Deliveries []deliveryRow
	Webhooks   []webhook.Endpoint // choices of the filter
	Reload     string             // address that answers with this page once the page has changed
	Refresh    string             // how often the page reads its rows again, "" for never
	Pause      string             // address of this page without updates
	Resume     string             // address with updates; both are "" where the page has none
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

// deliveryState returns the status of a delivery. A pending delivery also has the reason why it
// waits.
func deliveryState(d webhook.Delivery, last webhook.Attempt) string {
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

// More reports whether one of the rarer filters is set.
func (p deliveriesPage) More() bool {
	return cmp.Or(p.Form.Get("session"), p.Form.Get("event"), p.Form.Get("from"), p.Form.Get("to")) != ""
}

// deliveryWaits are the words for pending deliveries, see deliveryState.
var deliveryWaits = map[string]storage.DeliveryWait{
	"pending": storage.WaitUntried, "retrying": storage.WaitRetrying, "on_hold": storage.WaitHeld,
}

// deliveryStates are the choices of the status.
var deliveryStates = []string{"pending", "retrying", "on_hold", "delivered", "failed", "canceled"}

// notID returns the fault of a filter that is not an id, "" for none.
func notID(what, text, prefix string) (fault string) {
	if text == "" || checkout.IsID(prefix, text) {
		return ""
	}
	return fmt.Sprintf("This is not a %s id: it must be %s_ and 26 characters.", what, prefix)
}

// listDeliveries serves GET …/deliveries, newest first.
func (s *server) listDeliveries(v page.Visit) (page.Answer, error) {
	shown, about, err := s.deliveries(v).list(v, "deliveries", checkout.PrefixDelivery)
	if err != nil {
		return page.Answer{}, err
	}
	p, path := deliveriesPage{listing: about, Deliveries: shown}, v.Path("/deliveries")
	if p.Fault == "" {
		if p.Newest == "" { // new deliveries appear on the first page only
			p.Pause, p.Resume = p.Form.address(path, "live", "off"), p.Form.address(path)
			if v.URL.Query().Get("live") != "off" {
				p.Refresh = refreshOften
			}
		}
		version := p.version()
		if showsVersion(v, version) {
			return answerUnchanged("deliveries", p)
		}
		p.Reload = p.Form.address(path, "version", version)
	}
	if p.Webhooks, err = s.endpoints(v); err != nil {
		return page.Answer{}, err
	}
	return page.ShowForm(p.Fault, "deliveries", "Deliveries", p)
}

// showsVersion reports whether an open page asks for its own update and shows version already.
func showsVersion(v page.Visit, version string) bool {
	return v.Header.Get("HX-Request") != "" && v.URL.Query().Get("version") == version
}

// answerUnchanged answers an update request of a page that has not changed. htmx then changes nothing.
func answerUnchanged(name string, data any) (page.Answer, error) {
	return page.Answer{Status: http.StatusNoContent, Page: name, Data: data}, nil
}

// version identifies everything that the rows show. It changes when a row changes.
func (p deliveriesPage) version() string {
	hash := fnv.New64a()
	for _, r := range p.Deliveries {
		_, _ = fmt.Fprintln(hash, r.ID, r.Version()) // writing to a hash cannot fail
	}
	return strconv.FormatUint(hash.Sum64(), 36)
}

func (s *server) deliveries(v page.Visit) (l selection[deliveryRow]) {
	f := readForm(v.URL.Query(), "status", "webhook", "type", "session", "event")
	filter := storage.DeliveryFilter{
		Status: webhook.DeliveryStatus(f.Get("status")), EndpointID: f.Get("webhook"), EventID: f.Get("event"),
		EventType: webhook.EventType(f.Get("type")), SessionID: f.Get("session"),
	}
	l.form, l.fault = f, cmp.Or(
		notID("event", filter.EventID, checkout.PrefixEvent),
		notID("session", filter.SessionID, checkout.PrefixSession),
		f.days(&l.page),
		unknownChoice("status", f.Get("status"), deliveryStates),
		unknownChoice("event type", filter.EventType, webhook.EventTypes),
	)
	if wait, ok := deliveryWaits[f.Get("status")]; ok {
		filter.Status, filter.Wait = webhook.DeliveryPending, wait
	}
	l.read = func(p pg.Page) ([]deliveryRow, error) { return s.deliveryRows(v, filter, p) }
	return l
}

func (s *server) deliveryRows(v page.Visit, f storage.DeliveryFilter, page pg.Page) ([]deliveryRow, error) {
	deliveries, err := s.Store.Webhooks.Deliveries(v.Context(), v.Owner(), f, page)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(deliveries))
	for i, d := range deliveries {
		ids[i] = d.ID
	}
	last, err := s.Store.Webhooks.LastAttempts(v.Context(), v.Owner(), ids)
	if err != nil {
		return nil, err
	}
	rows := make([]deliveryRow, len(deliveries))
	for i, d := range deliveries {
		rows[i] = deliveryRow{d, last[d.ID], deliveryState(d, last[d.ID])}
	}
	return rows, nil
}
