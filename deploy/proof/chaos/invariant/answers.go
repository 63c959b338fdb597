package invariant

import (
	"net/http"

	"example.com/checkout/workflows/checkout"
)

func (w *world) answers(r *Result) {
	for _, c := range w.Calls {
		if c.ID == "" || checkout.IsID(checkout.PrefixDelivery, c.ID) {
			continue
		}
		r.Checked++
		s := w.sessions[c.ID]
		switch {
		case s == nil && c.Outcome() == CallOK && c.Op == OpCreate:
			r.violated(c.ID, "was acknowledged at %s and is not there", checkout.FormatTime(c.EndedAt))
		case s == nil:
		case s.MerchantID != c.MerchantID && c.MerchantID != "" && c.Outcome() == CallOK:
			r.violated(c.ID, "%s was answered to %s, who does not own it", c.Op, c.MerchantID)
		case c.Status == http.StatusNotFound:
			r.violated(c.ID, "%s at %s was told that it is not there", c.Op, checkout.FormatTime(c.EndedAt))
		case c.Told.Final() && c.Told != s.Status && !s.Moved:
			r.violated(c.ID, "%s at %s was told %s, and it is %s", c.Op, checkout.FormatTime(c.EndedAt), c.Told, s.Status)
		case c.Op == OpExpire && c.Status == http.StatusOK && s.Status != checkout.StatusExpired:
			r.violated(c.ID, "expire at %s was answered 200, and it is %s", checkout.FormatTime(c.EndedAt), s.Status)
		}
	}
}
