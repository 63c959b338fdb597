package dashboard

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// requestsPage is a page of the log of API requests.
type requestsPage struct {
	Form     requestForm
	Requests []requestRow // newest first
	Hidden   bool         // the visitor may not see live keys
	Keys     []checkout.APIKey
	turning
	Fault string // fault of the form, "" for none
}

type requestRow struct {
	checkout.APIRequest
	Key checkout.APIKey // without a label when it is gone
}

// requestForm is the filter of the list, as the person typed it. An empty field filters nothing.
type requestForm struct {
	Class, Method, Route, Key, ID string
	days
}

// requestClasses are the choices of the status, and the first digit of each.
var requestClasses = map[string]int{"answered": 2, "refused": 4, "failed": 5}

var requestMethods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete}

// Chosen reports whether any filter is set.
func (f requestForm) Chosen() bool { return f != requestForm{} }

// bound sets the times of a page. It returns the fault of the form, "" for none.
func (f requestForm) bound(p *pg.Page) (fault string) {
	fault = cmp.Or(unknown("status", f.Class, slices.Sorted(maps.Keys(requestClasses))),
		unknown("method", f.Method, requestMethods), f.days.bound(p))
	if fault == "" && f.Key != "" && !checkout.IsID(checkout.PrefixAPIKey, f.Key) {
		fault = "This is not the id of an API key. Choose one from the list."
	}
	return fault
}

func readRequestForm(q url.Values) requestForm {
	return requestForm{
		Class: q.Get("status"), Method: q.Get("method"), Route: strings.TrimSpace(q.Get("route")), Key: q.Get("key"),
		ID: strings.TrimSpace(q.Get("id")), days: readDays(q),
	}
}

func (f requestForm) filter() storage.RequestFilter {
	return storage.RequestFilter{
		Class: requestClasses[f.Class], Method: f.Method, Route: f.Route, KeyID: f.Key, RequestID: f.ID,
	}
}

// address returns the address of the filtered list from a cursor on.
func (f requestForm) address(v face.Visit, before string) string {
	return addressOf(v.Path("/requests"), map[string]string{
		"status": f.Class, "method": f.Method, "route": f.Route, "key": f.Key, "id": f.ID, "from": f.From, "to": f.To,
		"before": before,
	})
}

// listRequests serves GET …/requests, newest first.
func (s *server) listRequests(v face.Visit) (face.Answer, error) {
	p := requestsPage{Form: readRequestForm(v.URL.Query()), Hidden: hidesKeys(v)}
	if p.Hidden {
		p.Form.Key = "" // the form has no field that shows or clears it
	}
	page := pg.Page{Before: before(v, checkout.PrefixRequest), Limit: pageSize + 1}
	if p.Fault = p.Form.bound(&page); p.Fault != "" {
		return face.Refuse("requests", "Requests", p)
	}
	found, err := s.Store.Requests(v.Context(), v.Owner(), p.Form.filter(), page)
	if err != nil {
		return face.Answer{}, err
	}
	if !p.Hidden {
		keys, err := s.Store.APIKeys(v.Context(), v.MerchantID())
		if err != nil {
			return face.Answer{}, err
		}
		p.Keys = slices.DeleteFunc(keys, func(k checkout.APIKey) bool { return k.Mode != v.Mode })
	}
	shown, others := onePage(found, page.Before, func(before string) string { return p.Form.address(v, before) })
	for _, r := range shown {
		row := requestRow{APIRequest: r}
		if i := slices.IndexFunc(p.Keys, func(k checkout.APIKey) bool { return k.ID == r.KeyID }); i >= 0 {
			row.Key = p.Keys[i]
		}
		p.Requests = append(p.Requests, row)
	}
	p.turning = others
	return face.Show("requests", "Requests", p)
}

// Methods returns the choices of the method.
func (requestsPage) Methods() []string { return requestMethods }

// Tone returns the class of the status' color.
func (r requestRow) Tone() string {
	switch {
	case r.Status >= http.StatusInternalServerError:
		return "failed"
	case r.Status >= http.StatusBadRequest:
		return "pending"
	}
	return "delivered"
}
