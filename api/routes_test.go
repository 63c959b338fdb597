package api

import (
	"slices"
	"strings"

	"github.com/gorilla/mux"
	"github.com/stretchr/testify/require"
)

// lists holds the prefix of the entries and the filters of each list.
var lists = []struct {
	path, prefix string
	filters      []string
}{
	{"/v1/webhooks", "wh", []string{"status"}},
	{"/v1/deliveries", "whd", []string{"status", "webhook", "event", "session"}},
	{"/v1/events", "evt", []string{"type", "session", "order", "after"}},
	{"/v1/replays", "whr", []string{"webhook"}},
	{"/v1/checkout", "cs", []string{"status", "order_id", "transaction", "customer_email", "metadata"}},
	{"/v1/transactions", "txn", []string{"status", "session"}},
	{"/v1/payouts", "po", []string{"status", "session"}},
}

// routes returns every route of the front end that needs a key, as the router
// has them: "GET /v1/webhooks/{id}".
func (f *front) routes() []string {
	f.t.Helper()
	var routes []string
	router := mux.NewRouter()
	newServer(f.config).routes(router)
	require.NoError(f.t, router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		if strings.HasPrefix(path, "/v1/") && path != "/v1/openapi.yaml" {
			allow := f.do("PUT", path, "", "").header.Get("Allow") // no route has it
			for method := range strings.SplitSeq(allow, ", ") {
				if method != "HEAD" { // it has GET's handler
					routes = append(routes, method+" "+path)
				}
			}
		}
		return err
	}))
	slices.Sort(routes)
	return routes
}
