package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/health"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

func TestServer_RequestID(t *testing.T) {
	f := newFront(t)
	for _, good := range []string{"a", "req_1", "A-b.c_D-9", strings.Repeat("x", 128)} {
		require.Equal(t, good, f.do("GET", "/x", "", "", "X-Request-Id", good).header.Get("X-Request-Id"))
		require.Equal(t, good, f.do("GET", "/healthz", "", "", "X-Request-Id", good).header.Get("X-Request-Id"))
	}
	for _, bad := range []string{"", " ", strings.Repeat("x", 129), "a b", "a\tb", "a\r\nSet-Cookie: x", "é", "a/b", `"a"`, "<a>", "a;b", "\x00", "a\n"} {
		got := f.do("GET", "/x", "", "", "X-Request-Id", bad).header.Get("X-Request-Id")
		require.True(t, checkout.IsID("req", got), bad)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/x", nil)
	r.Header["X-Request-Id"] = []string{"a", "b"}
	require.True(t, checkout.IsID("req", f.send(r).header.Get("X-Request-Id")), "two are none")
}

func TestServer_LogsOneLineARequestWithoutItsData(t *testing.T) {
	f := newFront(t)
	got := f.answers(201, "POST", "/v1/checkout?token=hush", f.key, with("customer_email", `"ann@example.com"`), "X-Request-Id", "r1", "Cookie", "hush")
	lines := strings.Split(strings.TrimSpace(f.log.String()), "\n")
	require.Len(t, lines, 1)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &line))
	require.Equal(t, "r1", line["request_id"])
	require.Equal(t, "/v1/checkout", line["route"])
	require.Equal(t, "POST", line["method"])
	require.EqualValues(t, 201, line["status"])
	require.Equal(t, got.json["id"], line["session_id"])
	require.Equal(t, f.merchant.ID, line["merchant_id"])
	require.Equal(t, f.merchant.testKeyID, line["key_id"])
	require.Equal(t, "test", line["mode"])
	for _, secret := range []string{"hush", "ann@example.com", f.key} {
		require.NotContains(t, lines[0], secret)
	}
}

func TestServer_SpansCarryTheRouteAndTheRequestID(t *testing.T) {
	f := newFront(t)
	for id, tc := range map[string]struct{ method, path, name, route string }{
		"span-get-1":    {"GET", "/v1/checkout/cs_1", "GET /v1/checkout/{id}", "/v1/checkout/{id}"},
		"span-expire-1": {"POST", "/v1/checkout/cs_1/expire", "POST /v1/checkout/{id}/expire", "/v1/checkout/{id}/expire"},
		"span-405-1":    {"PUT", "/v1/webhooks", "PUT /v1/webhooks", "/v1/webhooks"},
		"span-404-1":    {"GET", "/nowhere", "GET", ""},
	} {
		f.do(tc.method, tc.path, f.key, "", "X-Request-Id", id, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		found := false
		for _, span := range spans.GetSpans() {
			attrs := map[string]string{}
			for _, a := range span.Attributes {
				attrs[string(a.Key)] = a.Value.String()
			}
			if attrs["request_id"] != id {
				continue
			}
			found = true
			require.Equal(t, tc.name, span.Name)
			require.Equal(t, tc.route, attrs["http.route"])
			require.Equal(t, "checkout-api", attrs["server.address"])
			require.NotEqual(t, "0af7651916cd43dd8448eb211c80319c", span.SpanContext.TraceID().String(), "linked, not obeyed")
			require.NotContains(t, fmt.Sprint(attrs), f.key)
		}
		require.True(t, found, id)
	}
}

func TestServer_UnknownErrorsAreFixedWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{errors.New("password=hush"), 500, "internal_error"},
		{fmt.Errorf("read: %w", checkout.ErrNotFound), 404, "not_found"},
		{fmt.Errorf("read: %w", checkout.ErrWrongMode), 403, "forbidden"},
		{fmt.Errorf("hush: %w", checkout.ErrAPIKey), 401, "invalid_api_key"},
		{fmt.Errorf("hush: %w", checkout.ErrNotPending), 409, "session_not_pending"},
		{fmt.Errorf("hush: %w", checkout.ErrPaymentInFlight), 409, "payment_in_progress"},
		{fmt.Errorf("hush: %w", &storage.OrderIDInUseError{}), 503, "unavailable"},
		{fmt.Errorf("hush: %w", storage.ErrTooManyEndpoints), 400, "invalid_request"},
		{fmt.Errorf("hush: %w", storage.ErrIdempotencyConflict), 409, "idempotency_conflict"},
		{fmt.Errorf("hush: %w", storage.ErrRequestInProgress), 409, "idempotency_conflict"},
		{fmt.Errorf("hush: %w", webhook.ErrDeliveryInProgress), 409, "delivery_in_progress"},
		{fmt.Errorf("hush: %w", webhook.ErrDeliveryNotPending), 409, "delivery_not_pending"},
		{fmt.Errorf("hush: %w", webhook.ErrDeliveryHeld), 409, "delivery_held"},
		{fmt.Errorf("hush: %w", webhook.ErrEndpointDeleted), 409, "webhook_deleted"},
		{fmt.Errorf("hush: %w", webhook.ErrReplayRunning), 409, "replay_running"},
		{fmt.Errorf("hush: %w", webhook.ErrReplayRate), 409, "replay_rate_exceeded"},
		{fmt.Errorf("hush: %w", &limit.TooOftenError{Wait: time.Second}), 429, "rate_limited"},
		{fmt.Errorf("hush: %w", merchant.ErrEmailInUse), 500, "internal_error"}, // no merchant was ever told of it
		{fmt.Errorf("hush: %w", runs.ErrOutcomeUnknown), 503, "unavailable"},
		{fmt.Errorf("hush: %w", context.DeadlineExceeded), 503, "unavailable"},
		{fmt.Errorf("hush: %w", context.Canceled), 503, "unavailable"},
		{fmt.Errorf("hush: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), 503, "unavailable"},
		{fmt.Errorf("hush: %w", tooLarge(maxBody)), 413, "payload_too_large"},
		{unavailable(errors.New("hush")), 503, "unavailable"},
	} {
		got := refusalOf(tc.err)
		require.Equal(t, tc.status, got.kind.Status(), tc.err)
		require.Equal(t, tc.code, got.body.Error)
		text, err := encode(got.body)
		require.NoError(t, err)
		require.NotContains(t, string(text), "hush")
		if tc.status == 503 {
			require.Equal(t, "1", got.header["Retry-After"])
			require.Contains(t, got.body.Message, "outcome is unknown")
		}
	}
}

func TestServer_ABodyThatCannotBeEncodedIsA500(t *testing.T) {
	f := newFront(t)
	s := newServer(f.config)
	h := withExchange(s.serve(func(*http.Request) (int, any, error) { return 200, func() {}, nil }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	require.Equal(t, 500, w.Code)
	require.Contains(t, w.Body.String(), "internal_error")
}

func TestReadyz_SaysWhichIsDown(t *testing.T) {
	f := newFront(t)
	got := f.answers(200, "GET", "/readyz", "", "")
	require.Equal(t, map[string]any{"status": "ok", "checks": map[string]any{"postgresql": "ok", "temporal": "ok"}}, got.json)
	f.store.Close()
	require.Eventually(t, func() bool { // an answer is good for a second
		got = f.do("GET", "/readyz", "", "")
		return got.status == 503
	}, 20*time.Second, 50*time.Millisecond)
	require.Equal(t, map[string]any{"postgresql": "down", "temporal": "ok"}, got.json["checks"])
	require.Equal(t, "The service is not ready: PostgreSQL down.", got.json["message"])
	require.Equal(t, map[string]any{"status": "ok"}, f.answers(200, "GET", "/healthz", "", "").json, "the process lives")
}

func TestReadyz_IsUnreadyAtOnceWhenToldToStop(t *testing.T) {
	state := health.Starting("it waits")
	f := newFront(t, func(c *Config) { c.Health = state })
	var closed atomic.Bool
	state.SetChecks(f.store.Ping, func(context.Context) error {
		if closed.Load() {
			return errors.New("closed")
		}
		return nil
	})
	got := f.answers(503, "GET", "/readyz", "", "")
	require.Equal(t, "The service is not ready: it waits.", got.json["message"])
	state.MarkReady()
	require.Equal(t, 200, f.do("GET", "/readyz", "", "").status)
	state.MarkStopping()
	closed.Store(true)
	time.Sleep(1100 * time.Millisecond) // longer than answers are repeated
	got = f.do("GET", "/readyz", "", "")
	require.Equal(t, "503 unavailable", got.refused())
	require.Equal(t, "The service is not ready: shutting down.", got.json["message"])
	require.Equal(t, map[string]any{"postgresql": "ok", "temporal": "ok"}, got.json["checks"])
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.Equal(t, 200, f.do("GET", "/healthz", "", "").status, "it lives until it has ended")
}

// TestHead_AnswersAsGet asks a real server: net/http leaves the body out.
func TestHead_AnswersAsGet(t *testing.T) {
	f := newFront(t)
	for range 10 {
		f.newSession(f.key) // a long answer: net/http knows only the length of a short one
	}
	server := httptest.NewServer(f.handler)
	defer server.Close()
	id := f.newSession(f.key)
	for path, status := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/docs": 200, "/docs/page.css": 200,
		"/v1/checkout": 200, "/v1/checkout/" + id: 200, "/v1/checkout/cs_none": 404, "/v1/webhooks/verify": 405,
	} {
		var answers [2]*http.Response
		for i, method := range []string{"GET", "HEAD"} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+f.key)
			answers[i], err = (&http.Transport{DisableCompression: true}).RoundTrip(r)
			require.NoError(t, err)
			body, err := io.ReadAll(answers[i].Body)
			require.NoError(t, err)
			require.NoError(t, answers[i].Body.Close())
			require.Equal(t, method == "HEAD", len(body) == 0, path)
			require.Equal(t, status, answers[i].StatusCode, path)
		}
		for _, name := range []string{"Content-Type", "Content-Length", "Allow"} {
			require.Equal(t, answers[0].Header.Get(name), answers[1].Header.Get(name), "%s of %s", name, path)
		}
	}
}

func TestReadyz_AnswersInTimeWhenTemporalHangs(t *testing.T) {
	f := newFront(t)
	f.config.Health.SetChecks(f.store.Ping, func(context.Context) error { // ignores even the context
		time.Sleep(20 * time.Second)
		return nil
	})
	began := time.Now()
	got := f.do("GET", "/readyz", "", "")
	require.Less(t, time.Since(began), 10*time.Second)
	require.Equal(t, 200, got.status)
	require.Equal(t, map[string]any{"postgresql": "ok", "temporal": "down"}, got.json["checks"])
}

// TestServer_TooLargeIsAnsweredWhileItIsSent: Python sends all of a body before it reads the answer.
func TestServer_TooLargeIsAnsweredWhileItIsSent(t *testing.T) {
	f := newFront(t)
	server := httptest.NewServer(f.handler)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	body := strings.Repeat(" ", 5<<20)
	_, err = fmt.Fprintf(conn, "POST /v1/checkout HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", f.key, len(body))
	require.NoError(t, err)

	_, err = io.WriteString(conn, body)
	require.NoError(t, err, "no reset connection")

	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 413, res.StatusCode)
	require.True(t, res.Close, "the rest is not read")
	require.NoError(t, res.Body.Close())
}
