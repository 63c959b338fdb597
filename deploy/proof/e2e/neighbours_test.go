package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// TestNeighbours_EndpointsThatHangDelayNobodyElse: a merchant's 50 endpoints
// hang, with more deliveries than they may have under way; another merchant's
// arrive while they do. What that costs in time was measured: see deploy/proof/bench/answers.md.
func TestNeighbours_EndpointsThatHangDelayNobodyElse(t *testing.T) { // alone: it measures time
	e2e.OnlyLong(t) // beside other packages the computer is busy with them
	stack := e2e.Beside(t, madeUp)
	sick, healthy := e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)
	store := e2e.OpenStore(t, stack)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the sender went
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	// underWay returns how many attempts hang now, in all and at most at one endpoint.
	underWay := func() (all, most int) {
		n := e2e.Query[[]int](t, stack, `
			SELECT ARRAY[coalesce(sum(n), 0), coalesce(max(n), 0)]::bigint[] FROM (
				SELECT count(*) AS n FROM webhook_delivery WHERE merchant_id = $1 AND sending_until > now() GROUP BY endpoint_id
			) AS endpoint`, sick.ID)
		return n[0], n[1]
	}
	sick.Must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+sick.Registration(), "")
	for i := range webhook.MaxEndpoints {
		must.Get(store.Webhooks.CreateEndpoint(t.Context(), webhook.Endpoint{
			Ref: checkout.Owner{MerchantID: sick.ID, Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: fmt.Sprintf("%s/%d", server.URL, i),
			Events: []webhook.EventType{webhook.CheckoutFailed}, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
		}))(t)
	}
	for range 6 { // more than one endpoint may have under way
		sick.Sell(e2e.CardDeclined)
	}
	e2e.Await(t, "all of them hang", 60*time.Second, func() bool {
		all, _ := underWay()
		return all >= webhook.MaxEndpoints
	})
	for range 10 {
		id := healthy.Create(e2e.Terms)
		e2e.Await(t, id+" is declined", 20*time.Second, func() bool { // a busy computer may ask for another try
			healthy.MustPay(id, e2e.CardDeclined)
			return healthy.Session(id).Field("transaction.failure.code") == "card_declined"
		})
	}
	for _, a := range healthy.Arrivals(10, 60*time.Second) {
		require.NoError(t, a.Signature)
	}
	now, most := underWay()
	t.Logf("%d requests hang now, at most %d at one endpoint", now, most)
	require.NotZero(t, now, "the others hang still")
	require.LessOrEqual(t, most, 4, "attempts under way at one endpoint")
	require.GreaterOrEqual(t, e2e.Query[int](t, stack, `
		SELECT count(*) FROM webhook_delivery WHERE merchant_id = $1 AND status = 'pending'`, sick.ID), 6*webhook.MaxEndpoints, "none of theirs is lost")
}

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
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.asked = append(s.asked, now)
	if s.underWay == s.most {
		s.refused = append(s.refused, now)
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	s.underWay++
	s.peak = max(s.peak, s.underWay)
	s.mu.Unlock()
	time.Sleep(s.takes)
	s.mu.Lock()
	s.underWay--
	s.accepted[r.Header.Get("X-Service-Event-Id")] = true
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

// TestPace_ANewEndpointBeginsWithFourRequests: nothing is known of it before its first answer.
func TestPace_ANewEndpointBeginsWithFourRequests(t *testing.T) {
	t.Parallel()
	m, shop := e2e.NewMerchant(t, e2e.Shared), newBusyShop(t, 2*time.Second, 100)
	publish(m, shop, `"max_in_flight": null`, 12)
	e2e.Await(t, "every event is accepted", 90*time.Second, func() bool { return shop.deliveries() == 12 })
	require.GreaterOrEqual(t, shop.asked[4].Sub(shop.asked[0]), shop.takes, "the fifth waits for an answer")
}

// publish registers the shop and sends it n sample events.
func publish(m *e2e.Merchant, shop *busyShop, limit string, n int) {
	created := m.Must(http.StatusCreated, http.MethodPost, "/v1/webhooks",
		`{"url": "`+shop.URL+`", "events": ["payout.sent"], `+limit+`}`)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			e2e.Await(m.T, "a busy API takes the event", time.Minute, func() bool {
				got, err := m.Call(http.MethodPost, "/v1/webhooks/"+created.Field("id").(string)+"/test", `{"type": "payout.sent"}`)
				return err == nil && got.Status == http.StatusAccepted
			})
		})
	}
	all.Wait()
}
