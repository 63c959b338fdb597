package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

// TestPace_MaxInFlightHoldsAndTheWaitIsShown: the backlog of a shop that takes one request at a time.
func TestPace_MaxInFlightHoldsAndTheWaitIsShown(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	var underWay, peak atomic.Int64
	var accepted sync.Map // ids of events
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if now := underWay.Add(1); now > 1 {
			peak.Store(now)
		}
		defer underWay.Add(-1)
		time.Sleep(300 * time.Millisecond)
		accepted.Store(r.Header.Get("X-Service-Event-Id"), true)
	}))
	t.Cleanup(shop.Close)
	created := m.Must(http.StatusCreated, http.MethodPost, "/v1/webhooks", `{"url": "`+shop.URL+`", "events": ["payout.sent"], "max_in_flight": 1}`)
	var all sync.WaitGroup
	for range 15 {
		all.Go(func() {
			got, err := m.Call(http.MethodPost, "/v1/webhooks/"+created.Field("id").(string)+"/test", `{"type": "payout.sent"}`)
			if err != nil || got.Status != http.StatusAccepted {
				t.Errorf("publish: %v, %v", got, err)
			}
		})
	}
	all.Wait()
	e2e.Await(t, "a delivery shows how many come first", 20*time.Second, func() bool {
		list := m.Must(http.StatusOK, http.MethodGet, "/v1/deliveries?status=pending&limit=50", "")
		return slices.ContainsFunc(list.Field("data").([]any), func(d any) bool { return d.(map[string]any)["attempts_ahead"] != nil })
	})
	e2e.Await(t, "every event is accepted", 90*time.Second, func() (done bool) {
		n := 0
		accepted.Range(func(any, any) bool { n++; return true })
		return n == 15
	})
	require.Zero(t, peak.Load(), "one request at a time")
}
