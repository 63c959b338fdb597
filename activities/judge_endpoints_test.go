package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestRestartOrphans_JudgesRegistrationsThatFail(t *testing.T) {
	k := newKeeper(t)
	ref := checkout.Owner{MerchantID: k.merchant, Mode: checkout.ModeTest}.Ref(k.endpoint)
	k.exec(`INSERT INTO webhook_endpoint_failure (endpoint_id, since, last_at) VALUES ($1, now() - interval '2 h', now())`, k.endpoint)
	var h *Housekeeping
	judge := func() webhook.Endpoint {
		require.NoError(t, errorOf(k.env.ExecuteActivity(h.RestartOrphans, Restarts{})))
		return must(k.store.Webhooks.Endpoint(t.Context(), ref))(t)
	}
	require.NotNil(t, judge().FailingSince)
	k.exec(`UPDATE webhook_endpoint_failure SET since = now() - interval '73 h'`)
	require.Equal(t, webhook.EndpointDisabled, judge().Status)
}
