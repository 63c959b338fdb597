package invariant

import (
	"maps"
	"net/http"
	"slices"
	"strings"

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
			r.violated(c.ID, "was acknowledged at %s and is not there", c.EndedAt)
		case s == nil:
		case s.MerchantID != c.MerchantID && c.MerchantID != "" && c.Outcome() == CallOK:
			r.violated(c.ID, "%s was answered to %s, who does not own it", c.Op, c.MerchantID)
		case c.Status == http.StatusNotFound:
			r.violated(c.ID, "%s at %s was told that it is not there", c.Op, c.EndedAt)
		case c.Told.Final() && c.Told != s.Status && !s.Moved:
			r.violated(c.ID, "%s at %s was told %s, and it is %s", c.Op, c.EndedAt, c.Told, s.Status)
		case c.Op == OpExpire && c.Status == http.StatusOK && s.Status != checkout.StatusExpired:
			r.violated(c.ID, "expire at %s was answered 200, and it is %s", c.EndedAt, s.Status)
		}
	}
}

// createRoute is the name of a session's creation in the table idempotent_request.
const createRoute = "POST /v1/checkout"

func (w *world) idempotency(r *Result) {
	type scope struct{ merchantID, key string }
	acknowledged, made := map[scope][]string{}, map[scope][]string{}
	keys, answered := map[scope]bool{}, map[scope]int{}
	for _, c := range w.Calls {
		if c.Op != OpCreate || c.Key == "" {
			continue
		}
		at := scope{c.MerchantID, c.Key}
		keys[at] = true
		if c.Status == http.StatusCreated && !slices.Contains(acknowledged[at], c.ID) {
			acknowledged[at] = append(acknowledged[at], c.ID)
		}
	}
	for _, s := range w.Sessions {
		if at := (scope{s.MerchantID, s.Key}); s.Key != "" {
			made[at] = append(made[at], s.ID)
		}
	}
	for _, k := range w.KeptRequests {
		if k.Route == createRoute {
			answered[scope{k.MerchantID, k.Key}] = k.Status
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(keys), func(a, b scope) int {
		return strings.Compare(a.merchantID+a.key, b.merchantID+b.key)
	}) {
		r.Checked++
		name, ids, told := at.merchantID+" "+at.key, made[at], acknowledged[at]
		switch {
		case len(ids) > 1:
			r.violated(name, "made %d sessions: %v", len(ids), ids)
		case len(told) > 1:
			r.violated(name, "was answered with %d sessions: %v", len(told), told)
		case len(told) == 1 && !slices.Contains(ids, told[0]):
			r.violated(name, "was answered with %s and made %v", told[0], ids)
		case len(told) == 1 && answered[at] != http.StatusCreated:
			r.violated(name, "was answered, and status %d is kept for it", answered[at])
		}
	}
}
