package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGetEvent_IsTheEnvelopeAndMore(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	key := f.merchant.liveKey
	endpoint, _ := f.newEndpoint(key)
	sent := f.do("POST", "/v1/webhooks/"+endpoint+"/test", key, `{"type":"payout.sent","metadata":{"b":1.50,"a":"<&>"}}`)
	id := at(sent, "event", "id")
	got := f.do("GET", "/v1/events/"+id, key, "")
	require.Equal(t, 200, got.status)
	require.Equal(t, sent.json["event"], any(got.json))
	require.Contains(t, got.body, `"metadata":{"b":1.50,"a":"<&>"}`, "data byte for byte")
	require.Equal(t, "payout.sent", got.json["type"])
	require.Equal(t, true, got.json["livemode"], "the mode that the event is of")
	require.Nil(t, got.json["session_id"])
	require.Len(t, got.json, 6)
}
