package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/devstack"
)

// newChaos returns a run against an API and a page with answers that the service may give.
func newChaos(t *testing.T) *chaos {
	var creations atomic.Int64
	mux := http.NewServeMux()
	answer := func(pattern string, status int, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // an error means that the client has gone; it asks again
		})
	}
	mux.HandleFunc("POST /v1/checkout", func(w http.ResponseWriter, _ *http.Request) {
		if creations.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":"cs_1","status":"pending","expires_at":"2026-11-20T12:00:00.000Z"}`)) // as above
	})
	answer("GET /v1/checkout/cs_1", 200, `{"id":"cs_1","status":"completed"}`)
	answer("POST /v1/checkout/cs_1/expire", 409, `{"error":"session_not_pending","status":"completed"}`)
	answer("GET /v1/deliveries", 200, `{"data":[{"id":"whd_2"},{"id":"whd_1"}]}`)
	answer("GET /cs_1/status", 200, `{"status":"completed"}`)
	mux.HandleFunc("POST /cs_1", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/sandbox/3ds/txn_1", http.StatusSeeOther)
	})
	answer("/sandbox/3ds/txn_1", 200, "confirm?")
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &chaos{
		rig:    &rig{apis: []string{server.URL}, pages: []string{server.URL}},
		canary: "http://canary/",
	}
}

// recordedCalls returns the recorded calls: operation, id and answer.
func (c *chaos) recordedCalls() []string {
	var all []string
	for _, made := range c.calls {
		op := strings.Replace(made.Op, opPage, invariant.OpGet, 1) // readStatus asks the page or the API at random
		all = append(all, fmt.Sprint(op, " ", made.ID, " ", made.Status, " ", made.Told))
	}
	return all
}

// TestClient_RecordsTheAnswers checks the records that invariants 14 and 15 use.
func TestClient_RecordsTheAnswers(t *testing.T) {
	t.Parallel()
	c, m := newChaos(t), &shop{id: "mer_1", key: "sk_test_x"}
	id, expiresAt := c.create(t.Context(), m, c.newTerms(), 3)
	require.Equal(t, "cs_1", id, "after a 503")
	require.Equal(t, 2026, expiresAt.Year())
	c.pay(t.Context(), m, id, asksTheBank)
	c.end(t.Context(), m, invariant.OpExpire, id)
	require.Equal(t, []string{"whd_2", "whd_1"}, c.list(t.Context(), m, "status=failed"))
	require.Equal(t, []string{
		"create  503 ", "create cs_1 201 pending", "pay cs_1 200 ", "3-D Secure cs_1 200 ", "get cs_1 200 completed",
		"expire cs_1 409 completed", "list  200 ",
	}, c.recordedCalls())
	for _, made := range c.calls {
		require.Equal(t, "mer_1", made.MerchantID)
		require.False(t, made.EndedAt.Before(made.At))
	}
	require.Equal(t, "key-1", c.calls[0].Key)
}

func TestReply_MisbehavesByDeliveryAndThenStops(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	kinds := map[string]int{}
	for i := range 2000 {
		first := c.reply(devstack.Arrival{Delivery: fmt.Sprint("whd_", i), Attempt: "1"})
		require.Equal(t, first, c.reply(devstack.Arrival{Delivery: fmt.Sprint("whd_", i), Attempt: "1"}), "the same again")
		kinds[fmt.Sprintf("%d %s %t %s", first.Status, first.After, first.Reset, first.Location)]++
	}
	for _, kind := range []string{
		"500 0s false ", "503 0s false ", "200 9.5s false ", "200 20s false ", "200 0s true ", "302 0s false http://canary/",
		"429 0s false ", "200 300ms false ", "200 0s false ",
	} {
		require.Positive(t, kinds[kind], kind)
	}
	require.Len(t, kinds, 9)
	c.quietReceivers.Store(true)
	for i := range 200 {
		got := c.reply(devstack.Arrival{Delivery: fmt.Sprint("whd_", i), Attempt: "1"})
		require.Contains(t, []int{200, 503}, got.Status, "but for those that never accept")
	}
}

func TestReply_FindsTheHeadersOfCallers(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	c.reply(devstack.Arrival{Delivery: "whd_1", Attempt: "1", Header: http.Header{"Baggage": {"customer=" + invariant.HeaderCanaries[0].Value}}})
	require.Equal(t, []invariant.Leak{{Canary: invariant.HeaderCanaries[0].Name, Where: "delivery whd_1", Times: 1}}, c.leaks)
}
