package api

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/mux"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// resources are the resources of the scopes, by the beginning of their paths. Every valid key may ask for a path that
// is in none of them.
var resources = map[string]string{
	"/v1/checkout": "checkout", "/v1/test/checkout": "checkout", "/v1/transactions": "checkout", "/v1/webhooks": "webhooks",
	"/v1/replays": "webhooks", "/v1/deliveries": "deliveries", "/v1/events": "events", "/v1/payouts": "payouts",
	"/v1/refunds": "refunds", "/v1/disputes": "refunds", "/v1/checkout/{id}/refund": "refunds", "/v1/balance": "payouts",
}

// resourceOf returns the resource of a path, by its longest beginning, "" for none.
func resourceOf(path string) string {
	for begin := path; begin != ""; begin = begin[:strings.LastIndex(begin, "/")] {
		if resource, ok := resources[begin]; ok {
			return resource
		}
	}
	return ""
}

func TestScopes_EveryRouteAndScope(t *testing.T) {
	f := newFront(t)
	for _, scope := range merchant.AllScopes {
		key, _ := f.newKey(f.merchant, checkout.ModeTest, scope)
		for _, route := range f.routes() {
			method, path, _ := strings.Cut(route, " ")
			resource := resourceOf(path)
			require.Equal(t, route == "GET /v1/merchant", resource == "", route)
			access, allowing := "write", []string{"", "full", resource + ":write"}
			if method == "GET" {
				access, allowing = "read", append(allowing, "read", resource+":read")
			}
			allowed := resource == "" || slices.Contains(allowing, scope)
			body := strings.NewReader("{}")
			r := newRequest(t, method, strings.Replace(path, "{id}", "x", 1), "")
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set(idempotent, "\x00") // would be refused
			r.Body = io.NopCloser(body)
			got := f.send(r)
			require.Equal(t, !allowed, got.status == 403, "%s with %s: %s", route, scope, got.body)
			if !allowed {
				require.Equal(t, "forbidden", got.json["error"])
				require.Contains(t, got.json["message"], "it needs "+resource+":"+access+".")
				require.Equal(t, 2, body.Len(), "it comes before the body is read")
			}
		}
	}
	require.Zero(t, f.count("idempotent_request"))
	require.Zero(t, f.count("checkout_session"))
}

func TestScopes_OfAKey(t *testing.T) {
	f := newFront(t)
	several, id := f.newKey(f.merchant, checkout.ModeTest, "checkout:read", "webhooks:write")
	require.Equal(t, 200, f.do("GET", "/v1/checkout", several, "").status)
	require.Equal(t, 403, f.do("POST", "/v1/checkout", several, validSession).status)
	require.Equal(t, 200, f.do("GET", "/v1/webhooks", several, "").status, "write includes read")
	f.newEndpoint(several)
	require.Equal(t, 403, f.do("GET", "/v1/events", several, "").status)

	f.exec(`UPDATE api_key SET scopes = '{}' WHERE id = $1`, id)
	require.Equal(t, 403, f.do("GET", "/v1/checkout", several, "").status, "none")
	f.exec(`UPDATE api_key SET scopes = '{Full,checkout,*,checkout:,:write,checkout:admin}' WHERE id = $1`, id)
	require.Equal(t, 403, f.do("GET", "/v1/checkout", several, "").status, "none that is known")
	require.NoError(t, f.store.Merchants.RevokeAPIKey(t.Context(), f.ref(id)))
	require.Equal(t, 401, f.do("POST", "/v1/checkout", several, validSession).status)
	require.Equal(t, 401, f.do("GET", "/v1/events", several, "").status)
}

func TestScopes_AKeptAnswerIsNotForAKeyThatMayNot(t *testing.T) {
	f := newFront(t)
	read, _ := f.newKey(f.merchant, checkout.ModeTest, merchant.ScopeRead)
	body := `{"url":"https://shop.example/hook","events":["*"]}`
	first := f.answers(201, "POST", "/v1/webhooks", f.key, body, idempotent, "k")
	got := f.answers(403, "POST", "/v1/webhooks", read, body, idempotent, "k")
	require.NotContains(t, got.body, first.json["secret"].(string)[6:])
}

// allRoutes returns every route of the front end but the files of pages, as the router has them:
// "GET /v1/webhooks/{id}".
func (f *front) allRoutes() (routes []string) {
	router := mux.NewRouter()
	newServer(f.config).routes(router)
	require.NoError(f.t, router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		if isPageFile(path) {
			return err
		}
		// The answer to an unknown method lists the known methods.
		answer := f.serve(newRequest(f.t, "BREW", strings.Replace(path, "{id}", "x", 1), ""))
		for method := range strings.SplitSeq(answer.Header().Get("Allow"), ", ") {
			if method != "HEAD" { // the same answer as to GET, without the body
				routes = append(routes, method+" "+path)
			}
		}
		return err
	}))
	slices.Sort(routes)
	return routes
}

// routes are the routes that need a key.
func (f *front) routes() []string {
	return slices.DeleteFunc(f.allRoutes(), func(route string) bool {
		return !strings.Contains(route, " /v1/") || strings.HasSuffix(route, "/v1/openapi.yaml")
	})
}
