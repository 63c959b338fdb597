package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

// busyShop is a receiver that takes its time, and refuses when more than most requests are under way.
type busyShop struct {
	*httptest.Server
	takes time.Duration
	most  int

	mu             sync.Mutex
	underWay, peak int
	asked          []time.Time
	refused        []time.Time
	accepted       map[string]bool
}

func newBusyShop(t *testing.T, takes time.Duration, most int) *busyShop {
	s := &busyShop{takes: takes, most: most, accepted: map[string]bool{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *busyShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	s.accepted[r.Header.Get("X-Service-Event-Id")] = true
}

func (s *busyShop) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.asked = append(s.asked, now)
	if s.underWay == s.most {
		s.refused = append(s.refused, now)
		return false
	}
	s.underWay++
	s.peak = max(s.peak, s.underWay)
	return true
}

func (s *busyShop) deliveries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted)
}

// TestPace_AReceiverThatRefusesUnderLoadGetsThePauseThatItAsksForAndRecovers: it takes three requests at a time.
func TestPace_AReceiverThatRefusesUnderLoadGetsThePauseThatItAsksForAndRecovers(t *testing.T) {
	t.Parallel()
	m, shop := e2e.NewMerchant(t, e2e.Shared), newBusyShop(t, 100*time.Millisecond, 3)
	publish(m, shop, `"max_in_flight": null`, 40)
	e2e.Await(t, "every event is accepted", 90*time.Second, func() bool { return shop.deliveries() == 40 })
	require.NotEmpty(t, shop.refused, "four attempts are under way at first")
	for _, refused := range shop.refused {
		for _, asked := range shop.asked {
			after := asked.Sub(refused)
			require.False(t, after > time.Second && after < 1900*time.Millisecond, "an attempt came %v after a 429", after)
		}
	}
}

// TestPace_MaxInFlightHoldsAndTheWaitIsShown: the backlog of a shop that takes one request at a time.
func TestPace_MaxInFlightHoldsAndTheWaitIsShown(t *testing.T) {
	t.Parallel()
	m, shop := e2e.NewMerchant(t, e2e.Shared), newBusyShop(t, 300*time.Millisecond, 100)
	publish(m, shop, `"max_in_flight": 1`, 30)
	e2e.Await(t, "a delivery shows how many come first", 20*time.Second, func() bool {
		list := m.Must(http.StatusOK, http.MethodGet, "/v1/deliveries?status=pending&limit=50", "")
		return slices.ContainsFunc(list.Field("data").([]any), func(d any) bool {
			return d.(map[string]any)["attempts_ahead"] != nil
		})
	})
	e2e.Await(t, "every event is accepted", 90*time.Second, func() bool { return shop.deliveries() == 30 })
	require.Equal(t, 1, shop.peak)
}

// publish registers the shop and sends it n sample events.
func publish(m *e2e.Merchant, shop *busyShop, limit string, n int) {
	m.T.Helper()
	created := m.Must(http.StatusCreated, http.MethodPost, "/v1/webhooks",
		`{"url": "`+shop.URL+`", "events": ["payout.sent"], `+limit+`}`)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			got, err := m.Call(http.MethodPost, "/v1/webhooks/"+created.Field("id").(string)+"/test", `{"type": "payout.sent"}`)
			if err != nil || got.Status != http.StatusAccepted {
				m.T.Errorf("publish: %v, %v", got, err)
			}
		})
	}
	all.Wait()
}
