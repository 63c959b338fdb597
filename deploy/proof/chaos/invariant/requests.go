package invariant

import (
	"cmp"
	"net/http"
	"time"

	"example.com/checkout/workflows/webhook"
)

// freshness is how far a signature's time may be from the arrival. The signature's time is cut to
// seconds.
const freshness = 2 * time.Second

func (w *world) requests(r *Result) {
	for _, a := range w.arrivals {
		if a.Canary {
			continue
		}
		r.Checked++
		d := a.delivery
		switch {
		case a.Delivery == "":
			r.violated(a.Listener, "%s at %s names no delivery", a.Method, a.At)
			continue
		case d == nil && a.At.Before(w.At.Add(-w.DeliveryRetention)):
			continue // the row may be gone
		case d == nil:
			r.violated(a.Delivery, "request at %s is of a delivery that is not there", a.At)
			continue
		}
		if !a.SignatureOK {
			r.violated(d.ID, "attempt %s at %s does not verify with the secret of %s", a.Attempt, a.At, a.Listener)
		}
		if !fresh(a) {
			r.violated(d.ID, "attempt %s came at %s, signed at %s", a.Attempt, a.At, time.Unix(a.T, 0))
		}
		if listenerOf(d.URL) != a.Listener && w.addressKnown(d, a.At) {
			r.violated(d.ID, "attempt %s came to %s, and %s is the delivery's address", a.Attempt, a.Listener, d.URL)
		}
		checkBody(a, w.events[d.EventID], r)
	}
}

// checkBody checks that the body has the event's bytes, and that body and headers name the event.
func checkBody(a arrival, e Event, r *Result) {
	if a.BodySHA256 != e.BodySHA256 {
		r.violated(a.Delivery, "attempt %s at %s does not carry the bytes of %s", a.Attempt, a.At, e.ID)
	}
	if a.EventID != e.ID || a.HeaderEvent != e.ID || a.Type != string(e.Type) {
		r.violated(a.Delivery, "attempt %s says %s %s (header: %s) and is of %s %s",
			a.Attempt, a.Type, a.EventID, a.HeaderEvent, e.Type, e.ID)
	}
}

// fresh reports whether a request was signed when it was sent. A request may be on its way as long
// as its attempt lasts, because a receiver can be slow to read it.
func fresh(a arrival) bool {
	signed := time.Unix(a.T, 0)
	if signed.After(a.At.Add(freshness)) {
		return false
	}
	if !signed.Before(a.At.Add(-freshness)) {
		return true
	}
	if a.attempt == nil || signed.Before(a.attempt.StartedAt.Add(-time.Second-clockSkew)) {
		return false
	}
	end := ended(*a.attempt)
	if !a.attempt.Finished {
		end = a.attempt.StartedAt.Add(webhook.ResponseTimeout)
	}
	return a.attempt.StatusCode == 0 || !a.At.After(end.Add(noteTime))
}

func (w *world) egress(r *Result) {
	for _, a := range w.arrivals {
		r.Checked++
		id := cmp.Or(a.Delivery, a.Listener)
		switch {
		case a.Canary && a.Method == "":
			r.violated(a.Listener, "was connected to at %s", a.At)
		case a.Canary:
			r.violated(id, "%s came to %s at %s", a.Method, a.Listener, a.At)
		case a.Method != http.MethodPost:
			r.violated(id, "%s came to %s at %s: a redirect was followed", a.Method, a.Listener, a.At)
		case a.delivery != nil && a.delivery.Mode.Live() && !a.TLS:
			r.violated(id, "is live and came over plain HTTP to %s", a.Listener)
		}
	}
}
