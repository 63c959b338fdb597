package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// routesWithID are all routes of a registration, a delivery, an event, a bulk
// replay and a payout, with the prefix of the id. Those of a session are told
// apart in TestAuthentication_ReachesEachOwnersOwnSessionsOnly, because the other mode gets a 403.
var routesWithID = [][3]string{
	{"GET", "/v1/webhooks/{id}", "wh"},
	{"PATCH", "/v1/webhooks/{id}", "wh"},
	{"DELETE", "/v1/webhooks/{id}", "wh"},
	{"POST", "/v1/webhooks/{id}/hold", "wh"},
	{"POST", "/v1/webhooks/{id}/resume", "wh"},
	{"POST", "/v1/webhooks/{id}/rotate_secret", "wh"},
	{"POST", "/v1/webhooks/{id}/test", "wh"},
	{"POST", "/v1/webhooks/{id}/replay", "wh"},
	{"GET", "/v1/deliveries/{id}", "whd"},
	{"POST", "/v1/deliveries/{id}/replay", "whd"},
	{"POST", "/v1/deliveries/{id}/retry_now", "whd"},
	{"POST", "/v1/deliveries/{id}/hold", "whd"},
	{"POST", "/v1/deliveries/{id}/resume", "whd"},
	{"GET", "/v1/events/{id}", "evt"},
	{"GET", "/v1/replays/{id}", "whr"},
	{"POST", "/v1/replays/{id}/cancel", "whr"},
	{"GET", "/v1/payouts/{id}", "po"},
}

// lists are the lists, with the prefix of their entries and their filters.
var lists = []struct {
	path, prefix string
	filters      []string
}{
	{"/v1/webhooks", "wh", []string{"status"}},
	{"/v1/deliveries", "whd", []string{"status", "webhook", "event", "session"}},
	{"/v1/events", "evt", []string{"type", "session"}},
	{"/v1/replays", "whr", []string{"webhook"}},
	{"/v1/checkout", "cs", []string{"status", "order_id"}},
	{"/v1/payouts", "po", []string{"status", "session"}},
}

// bodyOf is a body that a route accepts.
func bodyOf(route [3]string) string {
	switch {
	case route[0] == "PATCH":
		return `{"status":"enabled"}`
	case route[1] == "/v1/webhooks/{id}/replay":
		return `{"since":"2026-01-01T00:00:00Z"}`
	}
	return ""
}

func TestRoutes_NeedAKey(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	routes := slices.Concat(routesWithID, [][3]string{{"POST", "/v1/webhooks/verify"}})
	for _, l := range lists {
		routes = append(routes, [3]string{"GET", l.path})
	}
	for _, route := range routes {
		got := f.do(route[0], route[1], someKey, "{not json")
		require.Equal(t, 401, got.status, route)
	}
}

func TestRoutes_UnknownForeignAndMalformedIdsAreTheSame404(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	other := f.newMerchant(true)
	unknown := f.do("GET", "/nowhere", "", "")
	require.Equal(t, 404, unknown.status)
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		key := other.key(mode)
		endpoint, _ := f.newEndpoint(key)
		event, delivery := f.newDelivery(key, endpoint)
		_, payout := f.newPayout(other, mode)
		foreign := map[string]string{"wh": endpoint, "evt": event, "whd": delivery, "whr": f.newReplay(key, endpoint), "po": payout}
		for _, route := range routesWithID {
			id := foreign[route[2]]
			for _, bad := range []string{
				id, checkout.NewID(route[2]), "x", id[:len(id)-1], id + "0", strings.ToUpper(id), "txn" + id[strings.Index(id, "_"):],
				route[2] + "_", "%00", id + "%0a", "null", "..%2f" + id,
			} {
				got := f.do(route[0], strings.Replace(route[1], "{id}", bad, 1), f.merchant.testKey, "")
				require.Equal(t, 404, got.status, "%v %s", route, bad)
				require.Equal(t, unknown.withoutID(), got.withoutID(), "%v %s", route, bad)
			}
		}
	}
	require.Equal(t, 2, f.count("webhook_endpoint WHERE deleted_at IS NULL"))
	require.Equal(t, 2, f.count("event"))
	require.Equal(t, 2, f.count("webhook_replay"))
}

// TestRoutes_ReachEachOwnersOwnThingsOnly is the matrix of two merchants and two
// modes as caller and as owner. The last route of all deletes.
func TestRoutes_ReachEachOwnersOwnThingsOnly(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.temporal.cancel = func(id string) error {
		f.exec(`UPDATE webhook_replay SET status = 'canceled', finished_at = now() WHERE id = $1`, id)
		return nil
	}
	type owner struct {
		merchant merchant
		mode     checkout.Mode
		own      map[string]string
	}
	var owners []owner
	for _, m := range []merchant{f.merchant, f.newMerchant(true)} {
		for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
			endpoint, _ := f.newEndpoint(m.key(mode))
			event, delivery := f.newDelivery(m.key(mode), endpoint)
			session, payout := f.newPayout(m, mode)
			owners = append(owners, owner{m, mode, map[string]string{
				"wh": endpoint, "evt": event, "whd": delivery, "whr": f.newReplay(m.key(mode), endpoint), "cs": session, "po": payout,
			}})
		}
	}
	for _, o := range owners {
		for _, c := range owners {
			key := c.merchant.key(c.mode)
			same := o.own["wh"] == c.own["wh"]
			for _, l := range lists {
				require.Equal(t, []string{c.own[l.prefix]}, f.do("GET", l.path, key, "").ids(), "each sees its own")
				cursor := f.do("GET", l.path+"?cursor="+l.prefix+"_7zzzzzzzzzzzzzzzzzzzzzzzzz", key, "")
				require.Equal(t, []string{c.own[l.prefix]}, cursor.ids(), "whatever the cursor")
			}
			for _, filter := range []string{"/v1/deliveries?webhook=" + o.own["wh"], "/v1/deliveries?event=" + o.own["evt"], "/v1/replays?webhook=" + o.own["wh"], "/v1/payouts?session=" + o.own["cs"]} {
				require.Equal(t, same, len(f.do("GET", filter, key, "").ids()) == 1, filter)
			}
			verify := f.do("POST", "/v1/webhooks/verify", key, `{"webhook":"`+o.own["wh"]+`","header":"","body":""}`)
			require.Equal(t, map[bool]int{true: 200, false: 400}[same], verify.status)
			if same {
				continue
			}
			for _, route := range routesWithID {
				got := f.do(route[0], strings.Replace(route[1], "{id}", o.own[route[2]], 1), key, bodyOf(route))
				require.Equal(t, 404, got.status, "%v of %s by %s", route, o.mode, c.mode)
			}
		}
	}
	require.Equal(t, 4, f.count("webhook_endpoint WHERE deleted_at IS NULL AND status = 'enabled' AND previous_expires_at IS NULL"))
	require.Equal(t, 4, f.count("webhook_delivery WHERE status = 'pending' AND NOT held AND hurried_at IS NULL"))
	require.Equal(t, 4, f.count("webhook_replay WHERE status = 'running'"))

	for _, o := range owners {
		deletion := routesWithID[2]
		for _, route := range append(slices.Delete(slices.Clone(routesWithID), 2, 3), deletion) {
			got := f.do(route[0], strings.Replace(route[1], "{id}", o.own[route[2]], 1), o.merchant.key(o.mode), bodyOf(route))
			if route[1] == "/v1/deliveries/{id}/replay" {
				require.Equal(t, 409, got.status, "it is pending")
				continue
			}
			require.Less(t, got.status, 300, "%v: %s", route, got.body)
		}
	}
}
