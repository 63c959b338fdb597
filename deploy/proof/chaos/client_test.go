package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
)

// newChaos returns a run against an API and a page with answers that the service may give.
func newChaos(t *testing.T) *chaos {
	t.Helper()
	var creations atomic.Int64
	mux := http.NewServeMux()
	answer := func(pattern string, status int, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // an error means that the client has gone; it asks again
		})
	}
	mux.HandleFunc("POST /v1/checkout", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Idempotency-Key") == "taken":
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error":"order_id_in_use"}`)) // so
		case creations.Add(1) == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"id":"cs_1","status":"pending","expires_at":"2026-11-20T12:00:00.000Z"}`)) // so
		}
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
		broken: map[string]int{}, played: map[string][]string{}, canary: "http://canary/",
	}
}

// said returns the noted calls: operation, id and answer.
func (c *chaos) said() []string {
	var all []string
	for _, made := range c.calls {
		op := strings.Replace(made.Op, opPage, invariant.OpGet, 1) // look asks the page or the API at random
		all = append(all, fmt.Sprint(op, " ", made.ID, " ", made.Status, " ", made.Told))
	}
	return all
}

// TestClient_NotesWhatItWasTold checks the notes that invariants 14 and 15 use.
func TestClient_NotesWhatItWasTold(t *testing.T) {
	t.Parallel()
	c, m := newChaos(t), &merchant{id: "mer_1", key: "sk_test_x"}
	id, expiresAt := c.create(t.Context(), m, "key-1", m.terms("key-1", "", ""), 3)
	require.Equal(t, "cs_1", id, "after a 503")
	require.Equal(t, 2026, expiresAt.Year())
	c.pay(t.Context(), m, id, asksTheBank)
	c.end(t.Context(), m, invariant.OpExpire, id)
	require.Equal(t, []string{"whd_2", "whd_1"}, c.list(t.Context(), m, "status=failed"))
	require.Equal(t, []string{
		"create  503 ", "create cs_1 201 pending", "pay cs_1 200 ", "3-D Secure cs_1 200 ", "get cs_1 200 completed",
		"expire cs_1 409 completed", "list  200 ",
	}, c.said())
	for _, made := range c.calls {
		require.Equal(t, "mer_1", made.MerchantID)
		require.False(t, made.EndedAt.Before(made.At))
	}
	require.Equal(t, "key-1", c.calls[0].Key)
}

func TestClient_NothingIsKnownWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c, m := newChaos(t), &merchant{id: "mer_1"}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	id, _ := c.create(gone, m, "key-1", "{}", 3)
	require.Empty(t, id)
	require.Len(t, c.calls, 1)
	require.Equal(t, invariant.CallUnknown, c.calls[0].Outcome())
	id, _ = c.create(t.Context(), m, "taken", "{}", 3)
	require.Empty(t, id, "another session has the order id")
	require.Len(t, c.calls, 2, "that is no reason to ask again")
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

func TestRace_BothHappenInEitherOrder(t *testing.T) {
	t.Parallel()
	s := &scene{random: rand.New(rand.NewPCG(1, 2))}
	seen := map[string]bool{}
	for range 20 {
		order := make(chan string, 2)
		s.race(func() { order <- "a" }, func() { order <- "b" }, 20*time.Millisecond)
		seen[<-order+<-order] = true
	}
	require.Equal(t, map[string]bool{"ab": true, "ba": true}, seen)
}

func TestCount_SaysWhatHappened(t *testing.T) {
	t.Parallel()
	c, answered := newChaos(t), time.Now()
	c.calls = []invariant.Call{{Op: opCreate, Status: 201}, {Op: opCreate, Status: 0}, {Op: opCreate, Status: 409}}
	c.played["pay"], c.broken["net-cut"] = []string{"cs_1", "cs_2"}, 3
	accepted := devstack.LoggedRequest{Method: http.MethodPost, Delivery: "whd_1", Status: 200, AnsweredAt: &answered}
	var r runReport
	c.count(&r, &invariant.Facts{
		Sessions:   []invariant.Session{{ID: "cs_1", Status: "completed"}, {ID: "cs_2", Status: "expired"}},
		Deliveries: []invariant.Delivery{{ID: "whd_1", Status: "delivered", Run: 1}},
		Requests:   []devstack.LoggedRequest{{Started: true}, accepted, accepted},
	})
	require.Equal(t, map[string]int{"completed": 1, "expired": 1}, r.Statuses)
	require.Equal(t, map[string]map[string]int{"pay": {"completed": 1, "expired": 1}}, r.Played)
	require.Equal(t, map[string]map[string]int{opCreate: {"ok": 1, "fail": 1, "unknown": 1}}, r.Calls)
	require.Equal(t, map[string]int{"net-cut": 3}, r.Faults)
	require.Equal(t, 2, r.Requests)
	require.Equal(t, 1, r.Duplicates, "one run, accepted twice")
}

// TestSettle_AsksPostgres checks that the statements fit the schema and find the work in progress.
func TestSettle_AsksPostgres(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	c.rig.databaseURL = pgtemp.ForTest(t, storage.Migrate)
	c.merchants = []*merchant{{id: "mer_1", key: "sk_test_x"}}
	conn, err := pgx.Connect(t.Context(), c.rig.databaseURL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }() // everything was read
	_, err = conn.Exec(t.Context(), `
		INSERT INTO merchant (id, name, plan, fee_basis_points, payment_attempts, order_id_guard, created_at)
		VALUES ('mer_1', 'Shop', 'standard', 100, 3, false, now());
		INSERT INTO checkout_session (id, merchant_id, mode, amount, currency, payout_currency, status, metadata, max_attempts, created_at, expires_at)
		VALUES ('cs_1', 'mer_1', 'test', 1000, 'USD', 'USDC', 'pending', '{}', 3, now(), now() + interval '1 h')`)
	require.NoError(t, err)

	words, err := restless(t.Context(), conn)
	require.NoError(t, err)
	require.Equal(t, "1 pending sessions", words)
	left, err := c.longestRetry(t.Context(), conn)
	require.NoError(t, err)
	require.Zero(t, left)
	hastened, err := c.bringToRest(t.Context(), conn)
	require.NoError(t, err)
	require.Zero(t, hastened)
	require.NotEmpty(t, c.calls)
	require.Equal(t, invariant.OpAdvance, c.calls[0].Op, "its merchant ends a session that nobody pays")
	require.True(t, inPostgres(t.Context(), c, func(conn *pgx.Conn) error { return conn.Ping(t.Context()) }))
	n, err := query[int](t.Context(), c.rig, `SELECT count(*) FROM checkout_session`)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestAnswer_FieldsOfWhateverCame(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"id":"cs_1"}`: "cs_1", `{"id":7}`: "", `{"id":null}`: "", `["cs_1"]`: "", `<html>502 Bad Gateway</html>`: "", "": "",
	} {
		require.Equal(t, want, answer{body: []byte(body)}.field("id"), body)
	}
}

// TestClient_AsksAgainWhileItIsNotToldTheOutcome counts the requests to an API that fails twice and then decides.
func TestClient_AsksAgainWhileItIsNotToldTheOutcome(t *testing.T) {
	t.Parallel()
	for decision, want := range map[int]int{http.StatusOK: 3, http.StatusConflict: 3, http.StatusServiceUnavailable: 6} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch asked.Add(1) {
			case 1:
				w.WriteHeader(http.StatusInternalServerError)
			case 2:
				panic(http.ErrAbortHandler) // no answer
			default:
				w.WriteHeader(decision)
			}
		}))
		t.Cleanup(server.Close)
		c := &chaos{rig: &rig{apis: []string{server.URL}}}
		c.end(t.Context(), &merchant{id: "mer_1"}, invariant.OpExpire, "cs_1")
		require.EqualValues(t, want, asked.Load(), decision)
		require.Len(t, c.calls, want)
		require.Equal(t, invariant.CallUnknown, c.calls[1].Outcome())
	}
}

// TestClient_AsksTheAPIWithTheNeededLifetime: only that one makes sessions that live as long as the script needs.
func TestClient_AsksTheAPIWithTheNeededLifetime(t *testing.T) {
	t.Parallel()
	var apis []string
	for _, id := range []string{"cs_short", "cs_long"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"id":"` + id + `"}`)) // an error means that the client has gone
		}))
		t.Cleanup(server.Close)
		apis = append(apis, server.URL)
	}
	c, m, made := &chaos{rig: &rig{apis: apis}}, &merchant{}, map[string]int{}
	for range 64 {
		long, _ := c.create(t.Context(), m, c.nextKey(), "{}", 1, 2)
		require.Equal(t, "cs_long", long)
		either, _ := c.create(t.Context(), m, c.nextKey(), "{}", 1, 0)
		made[either]++
	}
	require.Len(t, made, 2, "without a need it is the one or the other by chance")
	keys := map[string]bool{}
	for _, made := range c.calls {
		keys[made.Key] = true
	}
	require.Len(t, keys, 2*64, "each session has a key of its own")
}

// newSteered returns a run whose API lists a delivery of each status, and the channel of what is done to it.
func newSteered(t *testing.T) (c *chaos, done <-chan string) {
	t.Helper()
	steps := make(chan string, 1000)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/deliveries", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"data":[{"id":"` + r.URL.Query().Get("status") + `"}]}`)) // so
	})
	mux.HandleFunc("POST /v1/deliveries/{id}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"status":"delivered"}`)) // so
		steps <- r.PathValue("id") + " " + r.PathValue("verb")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &chaos{rig: &rig{apis: []string{server.URL}}, merchants: []*merchant{{id: "mer_1"}}, runOptions: runOptions{seed: 1}}, steps
}

// TestSteer_DoesWhatADeliveryAllows stops after the third step; each takes about a second.
func TestSteer_DoesWhatADeliveryAllows(t *testing.T) {
	t.Parallel()
	c, steps := newSteered(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.steer(ctx); close(ended) }()
	for range 3 {
		require.Contains(t, []string{
			"pending hold", "pending resume", "pending retry_now", "failed replay", "delivered replay",
		}, <-steps)
	}
	cancel()
	<-ended
	require.NotEmpty(t, c.calls)
	for _, made := range c.calls {
		require.Empty(t, made.Told, "a delivery's status is not a session's")
	}
}
