package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestGetEvent_IsTheEnvelopeAndMore(t *testing.T) {
	f := newFront(t)
	key := f.merchant.liveKey
	endpoint, _ := f.newEndpoint(key)
	sent := f.do("POST", "/v1/webhooks/"+endpoint+"/test", key, `{"type":"payout.sent","metadata":{"b":1.50,"a":"<&>"}}`)
	id := at(sent, "event", "id")
	got := f.answers(200, "GET", "/v1/events/"+id, key, "")
	require.Equal(t, sent.json["event"], any(got.json))
	require.Contains(t, got.body, `"metadata":{"b":1.50,"a":"<&>"}`, "data byte for byte")
	require.Equal(t, "payout.sent", got.json["type"])
	require.Equal(t, true, got.json["livemode"], "the mode that the event is of")
	require.Nil(t, got.json["session_id"])
	require.Len(t, got.json, 6)
}

func TestEventFeed_FollowsFromAnEventOn(t *testing.T) {
	f := newFront(t)
	key := f.merchant.liveKey
	endpoint, _ := f.newEndpoint(key)
	var ids []string
	for range 5 {
		sent := f.do("POST", "/v1/webhooks/"+endpoint+"/test", key, `{"type":"payout.sent"}`)
		ids = append(ids, at(sent, "event", "id"))
	}
	read := func(query string) (got []string, answer map[string]any) {
		t.Helper()
		page := f.answers(200, "GET", "/v1/events?order=asc"+query, key, "")
		for _, e := range page.json["data"].([]any) {
			got = append(got, e.(map[string]any)["id"].(string))
		}
		return got, page.json
	}
	require.Eventually(t, func() bool { got, _ := read(""); return len(got) == 5 }, 20*time.Second, 10*time.Millisecond,
		"transactions of other databases end")
	got, page := read("&limit=2")
	require.Equal(t, ids[:2], got)
	require.Equal(t, true, page["has_more"])
	require.Equal(t, ids[1], page["next_cursor"])
	got, page = read("&limit=3&after=" + ids[1])
	require.Equal(t, ids[2:], got)
	require.Equal(t, false, page["has_more"])
	got, _ = read("&cursor=" + ids[3])
	require.Equal(t, ids[4:], got)
	got, _ = read("&after=" + ids[4])
	require.Empty(t, got)

	for query, param := range map[string]string{
		"after=" + ids[0]: "after", "order=asc&after=cs_1": "after", "order=up": "order", "order=asc&type=payout.sent": "type",
		"order=asc&after=" + ids[0] + "&cursor=" + ids[0]: "cursor",
		"order=asc&after=" + checkout.NewID("evt"):        "after", "order=asc&cursor=" + checkout.NewID("evt"): "cursor",
		"order=asc&since=2026-01-01T00:00:00Z": "since",
	} {
		refused := f.do("GET", "/v1/events?"+query, key, "")
		require.Equal(t, 400, refused.status, query)
		require.Equal(t, param, refused.json["param"], query)
	}
}
