package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// hanging is a server that never answers; it notes how many requests each of
// its paths holds at once.
type hanging struct {
	*httptest.Server
	mu         sync.Mutex
	held, most map[string]int
}

func newHanging(t *testing.T) *hanging {
	h := &hanging{held: map[string]int{}, most: map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		h.change(r.URL.Path, 1)
		defer h.change(r.URL.Path, -1)
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the sender went
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

func (h *hanging) change(path string, by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[path] += by
	h.most[path] = max(h.most[path], h.held[path])
}

// all returns how many requests are held now, and the most that one path held.
func (h *hanging) all() (now, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path := range h.most {
		now += h.held[path]
		most = max(most, h.most[path])
	}
	return now, most
}

// TestNeighbours_EndpointsThatHangDelayNobodyElse: a merchant's 50 endpoints
// hang, with more deliveries than they may have under way; another merchant's
// arrive while they do. What that costs in time was measured: see deploy/proof/bench/answers.md.
func TestNeighbours_EndpointsThatHangDelayNobodyElse(t *testing.T) { // alone: it measures time
	e2e.OnlyLong(t) // beside other packages the computer is busy with them
	stack := e2e.Beside(t, madeUp)
	sick, healthy := e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)
	store, server := e2e.OpenStore(t, stack), newHanging(t)
	sick.Must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+sick.Registration(), "")
	for i := range webhook.MaxEndpoints {
		_, err := store.Webhooks.CreateEndpoint(t.Context(), webhook.Endpoint{
			Ref: checkout.Owner{MerchantID: sick.ID, Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: fmt.Sprintf("%s/%d", server.URL, i),
			Events: []webhook.EventType{webhook.CheckoutFailed}, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
		})
		require.NoError(t, err)
	}
	for range 6 { // more than one endpoint may have under way
		sick.MustPay(sick.Create(e2e.Terms), e2e.CardDeclined)
	}
	e2e.Await(t, "all of them hang", 60*time.Second, func() bool {
		now, _ := server.all()
		return now >= webhook.MaxEndpoints
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
	now, most := server.all()
	t.Logf("%d requests hang now, at most %d at one endpoint", now, most)
	require.NotZero(t, now, "the others hang still")
	require.LessOrEqual(t, most, 4, "attempts under way at one endpoint")
	require.GreaterOrEqual(t, e2e.Query[int](t, stack, `
		SELECT count(*) FROM webhook_delivery WHERE merchant_id = $1 AND status = 'pending'`, sick.ID), 6*webhook.MaxEndpoints, "none of theirs is lost")
}
