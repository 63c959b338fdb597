package invariant

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

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
