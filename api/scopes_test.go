package api

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// scopedRoutes are all routes that need a key, with the scopes that allow them besides full. Read
// also allows the routes that read.
var scopedRoutes = [][]string{
	{"GET", "/v1/checkout", "read", "checkout:read", "checkout:write"},
	{"POST", "/v1/checkout", "checkout:write"},
	{"GET", "/v1/checkout/{id}", "read", "checkout:read", "checkout:write"},
	{"POST", "/v1/checkout/{id}/expire", "checkout:write"},
	{"POST", "/v1/test/checkout/{id}/advance", "checkout:write"},
	{"GET", "/v1/webhooks", "read", "webhooks:read", "webhooks:write"},
	{"POST", "/v1/webhooks", "webhooks:write"},
	{"POST", "/v1/webhooks/verify", "webhooks:write"},
	{"GET", "/v1/webhooks/{id}", "read", "webhooks:read", "webhooks:write"},
	{"PATCH", "/v1/webhooks/{id}", "webhooks:write"},
	{"DELETE", "/v1/webhooks/{id}", "webhooks:write"},
	{"POST", "/v1/webhooks/{id}/hold", "webhooks:write"},
	{"POST", "/v1/webhooks/{id}/resume", "webhooks:write"},
	{"POST", "/v1/webhooks/{id}/rotate_secret", "webhooks:write"},
	{"POST", "/v1/webhooks/{id}/test", "webhooks:write"},
	{"POST", "/v1/webhooks/{id}/replay", "webhooks:write"},
	{"GET", "/v1/replays", "read", "webhooks:read", "webhooks:write"},
	{"GET", "/v1/replays/{id}", "read", "webhooks:read", "webhooks:write"},
	{"POST", "/v1/replays/{id}/cancel", "webhooks:write"},
	{"GET", "/v1/deliveries", "read", "deliveries:read", "deliveries:write"},
	{"GET", "/v1/deliveries/{id}", "read", "deliveries:read", "deliveries:write"},
	{"POST", "/v1/deliveries/{id}/replay", "deliveries:write"},
	{"POST", "/v1/deliveries/{id}/retry_now", "deliveries:write"},
	{"POST", "/v1/deliveries/{id}/hold", "deliveries:write"},
	{"POST", "/v1/deliveries/{id}/resume", "deliveries:write"},
	{"GET", "/v1/events", "read", "events:read"},
	{"GET", "/v1/events/{id}", "read", "events:read"},
	{"GET", "/v1/transactions", "read", "checkout:read", "checkout:write"},
	{"GET", "/v1/transactions/{id}", "read", "checkout:read", "checkout:write"},
	slices.Concat([]string{"GET", "/v1/merchant"}, merchant.AllScopes),
	{"GET", "/v1/payouts", "read", "payouts:read", "payouts:write"},
	{"GET", "/v1/payouts/{id}", "read", "payouts:read", "payouts:write"},
	{"POST", "/v1/payouts/{id}/retry", "payouts:write"},
}

func TestScopes_EveryRouteAndScope(t *testing.T) {
	f := newFront(t)
	var known []string
	for _, route := range scopedRoutes {
		known = append(known, route[0]+" "+route[1])
	}
	slices.Sort(known)
	require.Equal(t, f.routes(), known, "every route that needs a key has a line")
	for _, scope := range merchant.AllScopes {
		key, _ := f.newKey(f.merchant, checkout.ModeTest, scope)
		for _, route := range scopedRoutes {
			allowed := scope == "full" || slices.Contains(route[2:], scope)
			body := strings.NewReader("{}")
			r := newRequest(t, route[0], strings.Replace(route[1], "{id}", "x", 1), "")
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set(idempotent, "\x00") // would be refused
			r.Body = io.NopCloser(body)
			got := f.send(r)
			require.Equal(t, !allowed, got.status == 403, "%s %s with %s: %s", route[0], route[1], scope, got.body)
			if !allowed {
				require.Equal(t, "forbidden", got.json["error"])
				require.Contains(t, got.json["message"], "it needs "+strings.Split(route[len(route)-1], ":")[0]+":"+map[bool]string{true: "read", false: "write"}[route[0] == "GET"]+".")
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
	require.NoError(t, f.store.Merchants.RevokeAPIKey(t.Context(), checkout.Owner{MerchantID: f.merchant.ID, Mode: checkout.ModeTest}.Ref(id)))
	require.Equal(t, 401, f.do("POST", "/v1/checkout", several, validSession).status)
	require.Equal(t, 401, f.do("GET", "/v1/events", several, "").status)
}

func TestScopes_AKeptAnswerIsNotForAKeyThatMayNot(t *testing.T) {
	f := newFront(t)
	read, _ := f.newKey(f.merchant, checkout.ModeTest, merchant.ScopeRead)
	body := `{"url":"https://shop.example/hook","events":["*"]}`
	first := f.do("POST", "/v1/webhooks", f.merchant.testKey, body, idempotent, "k")
	require.Equal(t, 201, first.status)
	got := f.do("POST", "/v1/webhooks", read, body, idempotent, "k")
	require.Equal(t, 403, got.status)
	require.NotContains(t, got.body, first.json["secret"].(string)[6:])
}
