package invariant

import (
	"slices"
	"strings"
	"time"

	"example.com/checkout/workflows/webhook"
)

func (w *world) fanOut(r *Result) {
	registrations := slices.DeleteFunc(slices.Clone(w.Endpoints), func(e Endpoint) bool { return e.OfSession })
	byMerchant := grouped(registrations, func(e Endpoint) string { return e.MerchantID + " " + string(e.Mode) })
	for _, e := range w.Events {
		if e.CreatedAt.Before(w.At.Add(-w.DeliveryRetention)) {
			continue // some of its deliveries may be gone
		}
		r.Checked++
		deliveries := w.ofEvent[e.ID]
		w.checkOwners(e, deliveries, r)
		switch {
		case e.SessionID == "" && strings.HasPrefix(e.SubjectID, "test_"):
			if len(deliveries) != 1 {
				r.violated(e.ID, "test event has %d deliveries instead of 1", len(deliveries))
			}
		case e.WebhookURL != "" && !e.Type.OptIn():
			signedByAnother := len(deliveries) == 1 && deliveries[0].EndpointID != e.SigningEndpoint &&
				w.endpoints[e.SigningEndpoint].DeletedAt == nil
			if len(deliveries) != 1 || !deliveries[0].SessionURL || deliveries[0].URL != e.WebhookURL || signedByAnother {
				r.violated(e.ID, "must have one delivery, to its session's webhook_url, and has %d", len(deliveries))
			}
		default:
			checkRegistrations(e, byMerchant[e.MerchantID+" "+string(e.Mode)], deliveries, r)
		}
	}
}

// checkOwners checks that an event, its deliveries and their registrations have one owner, and that
// no registration gets the event twice.
func (w *world) checkOwners(e Event, deliveries []*Delivery, r *Result) {
	seen := map[string]bool{}
	for _, d := range deliveries {
		endpoint, ok := w.endpoints[d.EndpointID]
		if !ok || d.MerchantID != e.MerchantID || d.Mode != e.Mode || endpoint.MerchantID != e.MerchantID ||
			endpoint.Mode != e.Mode {
			r.violated(e.ID, "delivery %s to %s is of another merchant or mode", d.ID, d.EndpointID)
		}
		if seen[d.EndpointID] {
			r.violated(e.ID, "has two deliveries to %s", d.EndpointID)
		}
		seen[d.EndpointID] = true
	}
}

// checkRegistrations checks that exactly the registrations that existed and listed the event's type
// have a delivery. It skips registrations that were made, deleted or changed at about that time or
// later.
func checkRegistrations(e Event, registrations []Endpoint, deliveries []*Delivery, r *Result) {
	has := map[string]*Delivery{}
	for _, d := range deliveries {
		has[d.EndpointID] = d
		if d.SessionURL {
			r.violated(e.ID, "delivery %s is to a session's own address, which the session does not have", d.ID)
		}
	}
	for _, endpoint := range registrations {
		there, sure := endpoint.thereAt(e.CreatedAt)
		d := has[endpoint.ID]
		delete(has, endpoint.ID)
		switch {
		case !sure:
		case d == nil && there && endpoint.wants(e.Type):
			r.violated(e.ID, "registration %s lists %s and has no delivery", endpoint.ID, e.Type)
		case d != nil && !there:
			r.violated(e.ID, "delivery %s is to registration %s, which was not there", d.ID, endpoint.ID)
		case d != nil && !endpoint.wants(e.Type):
			r.violated(e.ID, "delivery %s is to registration %s, which does not list %s", d.ID, endpoint.ID, e.Type)
		}
	}
	for endpointID, d := range has {
		r.violated(e.ID, "delivery %s is to %s, which is no registration of the merchant", d.ID, endpointID)
	}
}

// wants reports whether the registration lists an event type.
func (e Endpoint) wants(typ webhook.EventType) bool {
	return slices.Contains(e.Events, typ) || slices.Contains(e.Events, webhook.AllEvents)
}

// thereAt reports whether a registration existed, with its present list of types, when the
// deliveries of an event of time t were chosen. The second result says whether this is certain.
func (e Endpoint) thereAt(t time.Time) (there, sure bool) {
	about := func(event time.Time) bool {
		return event.After(t.Add(-commitTime)) && event.Before(t.Add(publishTime))
	}
	switch {
	case e.CreatedAt.After(t) && about(e.CreatedAt), e.DeletedAt != nil && about(*e.DeletedAt):
		return false, false
	case e.CreatedAt.After(t):
		return false, true
	case e.DeletedAt != nil && e.DeletedAt.Before(t):
		return false, true
	case e.ChangedAt != nil && e.ChangedAt.After(t.Add(-commitTime)):
		return false, false
	}
	return true, true
}
