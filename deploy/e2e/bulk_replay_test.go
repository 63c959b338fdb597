package e2e

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

var bulkReplay = flag.Int("bulk-replay", 5000, "deliveries of the bulk replay")

// failedDeliveries makes n permanently failed deliveries whose runs Temporal
// has dropped long ago.
func (m *merchant) failedDeliveries(n int) (endpoint string) {
	m.t.Helper()
	endpoint = query[string](m.t, m.stack, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1`, m.id)
	events, deliveries := make([]string, n), make([]string, n)
	for i := range n {
		events[i], deliveries[i] = checkout.NewID(checkout.PrefixEvent), checkout.NewID(checkout.PrefixDelivery)
	}
	require.Equal(m.t, n, query[int](m.t, m.stack, `
		WITH ids AS (SELECT * FROM unnest($1::text[], $2::text[]) AS i (event, delivery)),
		event AS (
			INSERT INTO event (id, merchant_id, mode, type, subject_id, created_at, body)
			SELECT event, $3, 'test', 'payout.sent', 'test_' || event, now(), convert_to('{"id":"' || event || '","type":"payout.sent","data":{}}', 'UTF8') FROM ids
		), delivery AS (
			INSERT INTO webhook_delivery (id, event_id, merchant_id, mode, endpoint_id, url, status, run, run_id, created_at, finished_at)
			SELECT delivery, event, $3, 'test', $4, $5, 'failed', 1, 'dropped', now(), now() FROM ids RETURNING id
		), attempt AS (
			INSERT INTO webhook_attempt (delivery_id, run, number, started_at, duration_ms, status_code, error_kind)
			SELECT id, 1, number, now(), 5, 500, 'http' FROM delivery, generate_series(1, 6) AS number
		) SELECT count(*) FROM delivery`, events, deliveries, m.id, endpoint, m.url))
	return endpoint
}

// TestBulkReplay_SurvivesKill9 replays thousands of deliveries and kills the
// worker and Temporal in the middle: none is lost, and the replay starts each
// exactly once.
func TestBulkReplay_SurvivesKill9(t *testing.T) {
	t.Parallel()
	n := *bulkReplay
	stack := ownStack(t, devstack.Options{})
	m := newMerchant(t, stack)
	endpoint := m.failedDeliveries(n)
	store := openStore(t, stack)
	began := time.Now()
	r, err := store.CreateReplay(t.Context(), webhook.Replay{ID: checkout.NewID(checkout.PrefixReplay), MerchantID: m.id, Mode: checkout.ModeTest,
		EndpointID: endpoint, Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour), Filter: webhook.DeliveryFailed, Rate: webhook.MaxReplayRate})
	require.NoError(t, err)
	require.Equal(t, n, r.Total)
	flows := &workflows.Client{Temporal: temporalClient(t, stack)}
	require.NoError(t, flows.StartReplay(t.Context(), r))
	await(t, "done", 10*time.Minute, func() bool {
		r, err := store.Replay(t.Context(), m.id, checkout.ModeTest, r.ID)
		require.NoError(t, err)
		got, _ := m.receiver.Arrivals()
		t.Log(time.Since(began).Round(time.Second), r.Started, r.Skipped, len(got))
		time.Sleep(2 * time.Second)
		return r.Status == webhook.ReplayCompleted && len(got) >= n
	})
}
