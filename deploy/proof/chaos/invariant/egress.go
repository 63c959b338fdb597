package invariant

import (
	"cmp"
	"net/http"

	"example.com/checkout/workflows/checkout"
)

func (w *world) egress(r *Result) {
	for _, a := range w.arrivals {
		r.Checked++
		id := cmp.Or(a.Delivery, a.Listener)
		switch {
		case a.Canary && a.Method == "":
			r.violated(a.Listener, "was connected to at %s", checkout.FormatTime(a.At))
		case a.Canary:
			r.violated(id, "%s came to %s at %s", a.Method, a.Listener, checkout.FormatTime(a.At))
		case a.Method != http.MethodPost:
			r.violated(id, "%s came to %s at %s: a redirect was followed", a.Method, a.Listener, checkout.FormatTime(a.At))
		case a.delivery != nil && a.delivery.Mode.Live() && !a.TLS:
			r.violated(id, "is live and came over plain HTTP to %s", a.Listener)
		}
	}
}
