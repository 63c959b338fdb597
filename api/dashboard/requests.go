package dashboard

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// requestsPage is a page of the log of API requests.
type requestsPage struct {
	Form     listForm
	Requests []requestRow // newest first
	Hidden   bool         // the visitor may not see live keys
	Keys     []merchant.APIKey
	turning
	Fault string // fault of the form, "" for none
}

type requestRow struct {
	merchant.APIRequest
	Key merchant.APIKey // without a label when it is gone
}

// requestClasses are the choices of the status, and the first digit of each.
var requestClasses = map[string]int{"answered": 2, "refused": 4, "failed": 5}

var requestMethods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete}

// requestFault sets the times of a page. It returns the fault of the form, "" for none.
func requestFault(f listForm, p *pg.Page) string {
	fault := cmp.Or(unknownChoice("status", f.Get("status"), slices.Sorted(maps.Keys(requestClasses))),
		unknownChoice("method", f.Get("method"), requestMethods), f.days(p))
	if key := f.Get("key"); fault == "" && key != "" && !checkout.IsID(checkout.PrefixAPIKey, key) {
		fault = "This is not the id of an API key. Choose one from the list."
	}
	return fault
}

// listRequests serves GET …/requests, newest first.
func (s *server) listRequests(v page.Visit) (page.Answer, error) {
	p := requestsPage{Form: readForm(v.URL.Query(), "status", "method", "route", "key", "id"), Hidden: hidesKeys(v)}
	if p.Hidden {
		p.Form.Del("key") // the form has no field that shows or clears it
	}
	var part pg.Page
	if p.Fault = requestFault(p.Form, &part); p.Fault != "" {
		return page.Refuse("requests", "Requests", p)
	}
	filter := storage.RequestFilter{
		Class: requestClasses[p.Form.Get("status")], Method: p.Form.Get("method"), Route: p.Form.Get("route"),
		KeyID: p.Form.Get("key"), RequestID: p.Form.Get("id"),
	}
	read := func(p pg.Page) ([]merchant.APIRequest, error) {
		return s.Store.Requests.Requests(v.Context(), v.Owner(), filter, p)
	}
	shown, others, err := pageOf(v, "/requests", checkout.PrefixRequest, p.Form, part, read)
	if err != nil {
		return page.Answer{}, err
	}
	if !p.Hidden {
		keys, err := s.Store.Merchants.APIKeys(v.Context(), v.MerchantID())
		if err != nil {
			return page.Answer{}, err
		}
		p.Keys = slices.DeleteFunc(keys, func(k merchant.APIKey) bool { return k.Mode != v.Mode })
	}
	for _, r := range shown {
		row := requestRow{APIRequest: r}
		if i := slices.IndexFunc(p.Keys, func(k merchant.APIKey) bool { return k.ID == r.KeyID }); i >= 0 {
			row.Key = p.Keys[i]
		}
		p.Requests = append(p.Requests, row)
	}
	p.turning = others
	return page.Show("requests", "Requests", p)
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
