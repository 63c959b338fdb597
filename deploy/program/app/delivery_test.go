package app_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestDeliveryFailed_DoesNotListWhatWasReplayedAndArrived(t *testing.T) {
	o := newOperator(t)
	merchant := o.merchant()
	store := o.store()
	e, err := store.Webhooks.CreateEndpoint(t.Context(), webhook.Endpoint{
		Ref: checkout.Owner{MerchantID: merchant, Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: "https://shop.example:8443/a?token=canary",
		Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	})
	require.NoError(t, err)
	fail := func() checkout.Ref {
		_, ref, err := store.Webhooks.PublishTest(t.Context(), storage.TestEvent{
			Owner: checkout.Owner{MerchantID: merchant, Mode: e.Mode}, EndpointID: e.ID, SubjectID: checkout.NewID(checkout.PrefixTest), Type: webhook.PayoutSent,
			Data: func(time.Time) any { return nil },
		})
		require.NoError(t, err)
		got := checkout.Owner{MerchantID: merchant, Mode: e.Mode}.Ref(ref.ID)
		_, err = store.Webhooks.BeginAttempt(t.Context(), got, webhook.Turn{RunID: "run 1", Try: 1})
		require.NoError(t, err)
		_, err = store.Webhooks.EndDelivery(t.Context(), got, "run 1", webhook.DeliveryFailed)
		require.NoError(t, err)
		return got
	}
	failed, replayed := fail(), fail()
	out, err := store.Webhooks.BeginAttempt(t.Context(), replayed, webhook.Turn{RunID: "run 2", Try: 1})
	require.NoError(t, err)
	require.NoError(t, store.Webhooks.FinishAttempt(t.Context(), replayed, webhook.Attempt{Run: out.Run, Number: 1, StatusCode: 200}, 0))

	require.Contains(t, o.must("delivery", "failed"), failed.ID)
	var listed []map[string]any
	require.NoError(t, json.Unmarshal([]byte(o.must("delivery", "failed", "--json")), &listed))
	require.Len(t, listed, 1)
	require.Equal(t, failed.ID, listed[0]["id"])
	require.Equal(t, "shop.example", listed[0]["host"])
	require.Equal(t, "https://shop.example:8443/a", listed[0]["url"])
	shown := o.must("delivery", "failed")
	require.Contains(t, shown, "https://shop.example:8443/a ", "three registrations may share a host")
	require.NotContains(t, shown, "canary")
	o.refused("--limit must be 1 or more", "delivery", "failed", "--limit", "0")
}
