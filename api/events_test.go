package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
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
	require.Equal(t, []string{"cursor"}, f.do("GET", "/v1/events?order=asc&cursor="+checkout.NewID("evt"), key, "").params())
}

func TestSendTestEvent_HasEveryDocumentedFieldAndIsNeverLive(t *testing.T) { // checkEvents finds a missing field
	f := newFront(t)
	outcomes := map[webhook.EventType][2]any{ // data.status and data.failure.code
		"checkout.completed": {"succeeded", nil}, "checkout.failed": {"failed", "card_declined"},
		"payout.sent": {"sent", nil}, "payout.failed": {"failed", "network_error"}, "merchant.updated": {},
		"refund.succeeded": {"succeeded", nil}, "refund.failed": {"failed", "returned"},
		"dispute.opened": {"needs_response", nil}, "dispute.closed": {"lost", nil}, "payout.reduced": {"pending", nil},
	}
	for _, key := range []string{f.key, f.merchant.liveKey} {
		created := f.do("POST", "/v1/webhooks", key, `{"url":"https://shop.example/hook","events":["merchant.updated"]}`)
		endpoint := created.json["id"].(string)
		for _, typ := range webhook.EventTypes {
			body := `{"type":"` + string(typ) + `"}`
			if typ.OfSession() {
				body = `{"type":"` + string(typ) + `","metadata":{"order_id":"A-1","n":1.50}}`
			}
			got := f.answers(202, "POST", "/v1/webhooks/"+endpoint+"/test", key, body)
			require.Equal(t, typ.OfSession(), strings.Contains(got.body, `"metadata":{"order_id":"A-1","n":1.50}`))
			event, delivery := got.json["event"].(map[string]any), got.json["delivery"].(map[string]any)
			require.Equal(t, string(typ), event["type"])
			data := event["data"].(map[string]any)
			require.Equal(t, false, data["livemode"], "no shop may ship because of it")
			failure, _ := data["failure"].(map[string]any)
			require.Equal(t, outcomes[typ], [2]any{data["status"], failure["code"]}, typ)
			require.Equal(t, key == f.merchant.liveKey, event["livemode"])
			require.Equal(t, "/v1/deliveries/"+delivery["id"].(string), got.header.Get("Location"))
			require.Equal(t, []any{"pending", event["id"], endpoint}, []any{delivery["status"], delivery["event_id"], delivery["webhook_id"]})
		}
		got := f.do("POST", "/v1/webhooks/"+endpoint+"/test", key, "")
		require.Equal(t, "merchant.updated", at(got, "event", "type"), "the first that it lists")
	}
}

func TestSendTestEvent_GoesToTheOneRegistrationThroughAWorkflow(t *testing.T) {
	f := newFront(t)
	endpoint, _ := f.newEndpoint(f.key)
	f.newEndpoint(f.key)
	var started []client.StartWorkflowOptions
	f.temporal.Start = func(o client.StartWorkflowOptions) error {
		started = append(started, o)
		return nil
	}
	_, delivery := f.newDelivery(f.key, endpoint)
	require.Equal(t, 1, f.count("webhook_delivery"))
	require.Len(t, started, 1)
	require.Equal(t, delivery, started[0].ID)
	require.Equal(t, "webhooks", started[0].TaskQueue)
	require.Equal(t, "checkout.completed to shop.example ("+endpoint+")", started[0].StaticSummary)

	f.temporal.Start = func(client.StartWorkflowOptions) error { return errors.New("Temporal is away") }
	f.newDelivery(f.key, endpoint)
	require.Equal(t, 2, f.count("webhook_delivery"), "Reconcile starts it")
	require.Contains(t, f.log.String(), "left to Reconcile")
}
