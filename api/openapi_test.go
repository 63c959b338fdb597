package api

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/checkout/api/conformance"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
)

// openAPI is the document. Every answer of every test is checked against it.
var openAPI = sync.OnceValue(func() *conformance.Document {
	d, err := conformance.Parse(document)
	if err != nil {
		panic(err)
	}
	return d
})

// isPageFile reports whether a page below /docs loads the file at path. The document leaves such
// files out, because no merchant asks for them.
func isPageFile(path string) bool {
	return strings.HasPrefix(path, "/docs/") && path != "/docs/reference"
}

// promised is a status that an operation may answer with.
type promised struct {
	conformance.Operation
	Status int
}

// came holds the answers of the tests so far.
var came = struct {
	sync.Mutex
	answers map[promised]bool
}{answers: map[promised]bool{}}

// checkAnswer fails the test when the document does not promise the answer.
func checkAnswer(t *testing.T, e conformance.Exchange) {
	if isPageFile(e.URL.Path) {
		return
	}
	o, err := openAPI().Check(e)
	if !assert.NoError(t, err, "openapi.yaml says otherwise; the answer was %s", e.Body) {
		return
	}
	came.Lock()
	defer came.Unlock()
	came.answers[promised{o, e.Status}] = true
}

// everyAnswerWasSeen reports whether the tests have seen every answer that the document promises.
// It cannot know when only some tests ran.
func everyAnswerWasSeen() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.bench", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return true
		}
	}
	ok := true
	for _, o := range openAPI().Operations() {
		for _, status := range openAPI().Statuses(o) {
			if !came.answers[promised{o, status}] {
				ok = false
				fmt.Fprintf(os.Stderr, "openapi.yaml: %s may answer %d, but did so in no test\n", o, status)
			}
		}
	}
	return ok
}

// checkEvents checks every event that a test has made against the document's webhooks. It checks
// the bytes that a delivery would send.
func (f *front) checkEvents() {
	for _, body := range storagetest.Value[[][]byte](f.t, f.Database, `SELECT array_agg(body) FROM event`) {
		assert.NoError(f.t, openAPI().CheckEvent(body))
	}
}

func TestOpenAPI_HasEveryRouteAndNoOther(t *testing.T) {
	f := newFront(t)
	var documented []string
	for _, o := range openAPI().Operations() {
		documented = append(documented, o.String())
	}
	require.ElementsMatch(t, f.allRoutes(), documented)
}

func TestOpenAPI_ExamplesHaveTheShapeOfTheirSchemas(t *testing.T) {
	t.Parallel()
	count, faults := openAPI().CheckExamples()
	require.Empty(t, faults)
	require.Greater(t, count, 80, "the test did not find the examples")
}

func TestOpenAPI_EverySuccessHasAnExample(t *testing.T) {
	t.Parallel()
	for _, o := range openAPI().Operations() {
		for _, status := range openAPI().Statuses(o) {
			pages := []string{"/docs", "/docs/reference", "/v1/openapi.yaml"}
			notHTTP := status == 400 && slices.Contains([]string{"/healthz", "/readyz"}, o.Path) // a line of text
			if !notHTTP && !slices.Contains(pages, o.Path) {
				require.NotZero(t, openAPI().ExamplesOf(o, status), "%s %d", o, status)
			}
		}
	}
}

// TestOpenAPI_EventsOfPaymentsAndPayouts only causes events, because checkEvents checks them, as it checks the samples of
// TestSendTestEvent_HasEveryDocumentedField….
func TestOpenAPI_EventsOfPaymentsAndPayouts(t *testing.T) {
	f := newFront(t)
	for _, failure := range []checkout.PayoutFailure{"", checkout.PayoutInsufficientLiquidity} {
		session := f.newSession(f.key)
		f.pay(session, checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined})
		_, followUp := f.pay(session, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
		ref := f.ref(followUp.PayoutID)
		f.finishPayout(ref, 1, failure)
	}
	unnamed := f.newSession(f.key) // refused before the card network named the card
	f.payWith(checkout.PaymentMethod{Type: "card"}, unnamed, checkout.ChargeResult{
		Outcome: checkout.OutcomeFailed, Failure: checkout.FailureProcessingError})
	require.Equal(t, 200, f.do("GET", "/v1/checkout/"+unnamed, f.key, "").status)
	require.Equal(t, 7, f.count("event"))
}

// pay pays a test session with a card and returns the transaction's id and the follow-up.
func (f *front) pay(session string, result checkout.ChargeResult) (string, storage.FollowUp) {
	return f.payWith(checkout.PaymentMethod{
		Type: "card", Brand: "visa", Last4: "4242", ExpMonth: 8, ExpYear: 2029, Country: "US"}, session, result)
}

func (f *front) payWith(
	card checkout.PaymentMethod, session string, result checkout.ChargeResult,
) (string, storage.FollowUp) {
	ref := f.ref(session)
	id := storagetest.Begin(f.t, f.store, ref, storage.NewPayment{Method: card}, "")
	return id, storagetest.Finish(f.t, f.store, ref, id, result)
}

// TestOpenAPI_RefusalsOfEveryOperation causes every refusal that is the same for all operations, wherever the document
// promises it. The 403 is in TestScopes_EveryRouteAndScope, the 404 in TestIsolation_EveryRouteAndPair.
func TestOpenAPI_RefusalsOfEveryOperation(t *testing.T) {
	f := newFront(t)
	broken := *f
	// Every handler that needs a f.key calls the store, and so panics.
	broken.config.Store = Store{Sessions: &storage.Sessions{}, Webhooks: &storage.WebhookSecretReader{}}
	broken.handler = New(broken.config)
	slow := *f
	slow.config.Limits = Limits{}
	slow.config.Limits.BadKeys = storage.Rate{PerSecond: 0.001, Burst: 1}
	slow.handler = New(slow.config)
	gone, cancel := context.WithCancel(t.Context())
	cancel()

	const exhausted = "192.0.2.8:1" // has had its one request without a f.key
	first := newRequest(t, "GET", "/v1/checkout", "")
	first.RemoteAddr = exhausted
	require.Equal(t, 401, slow.send(first).status)

	own := f.ownIDs()
	refusals := map[int]func(*http.Request) *front{
		400: func(r *http.Request) *front {
			if r.Method == http.MethodGet {
				r.URL.RawQuery = "unknown=1"
			}
			setBody(r, `{"unknown":1}`)
			return f
		},
		401: func(r *http.Request) *front { r.Header.Del("Authorization"); return f },
		413: func(r *http.Request) *front {
			setBody(r, strings.Repeat(" ", maxEvidenceBody+1))
			return f
		},
		415: func(r *http.Request) *front {
			setBody(r, "x")
			r.Header.Set("Content-Type", "text/plain")
			return f
		},
		429: func(r *http.Request) *front {
			r.Header.Del("Authorization")
			r.RemoteAddr = exhausted
			return &slow
		},
		500: func(*http.Request) *front { return &broken },
		503: func(r *http.Request) *front {
			*r = *r.WithContext(gone)
			return f
		},
	}
	checked := 0
	for _, o := range openAPI().Operations() {
		if !strings.HasPrefix(o.Path, "/v1/") || o.Path == "/v1/openapi.yaml" {
			continue
		}
		for _, status := range openAPI().Statuses(o) {
			bring, ok := refusals[status]
			if !ok {
				continue
			}
			r := newRequest(t, o.Method, strings.Replace(o.Path, "{id}", own[o.Path], 1), "")
			r.Header.Set("Authorization", "Bearer "+f.key)
			got := bring(r).send(r)
			require.Equal(t, status, got.status, "%s: %s", o, got.body)
			checked++
		}
	}
	require.Greater(t, checked, 160)
}

// TestOpenAPI_WhatIsNotHTTPIsRefused: net/http refuses it before a handler sees it.
func TestOpenAPI_WhatIsNotHTTPIsRefused(t *testing.T) {
	server := httptest.NewServer(newFront(t).handler)
	defer server.Close()
	for _, path := range []string{"/v1/openapi.yaml", "/docs", "/docs/reference", "/healthz", "/readyz"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api\r\nno header\r\n\r\n", path)
		require.NoError(t, err)

		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, conn.Close())

		require.Equal(t, 400, res.StatusCode)
		checkAnswer(t, conformance.Exchange{
			Method: "GET", URL: &url.URL{Path: path}, Status: res.StatusCode, Header: res.Header, Body: body,
		})
	}
}

// TestOpenAPI_IdempotencyConflictsOfEveryPOST causes the conflicts that the document promises.
func TestOpenAPI_IdempotencyConflictsOfEveryPOST(t *testing.T) {
	f := newFront(t)
	f.temporal.Cancel = func(string) error { return nil }
	f.expireAs(f.endsExpired(f.merchant, checkout.ModeTest))
	own := f.ownIDs()
	for _, o := range openAPI().Operations() {
		if o.Method != http.MethodPost || !slices.Contains(openAPI().Statuses(o), 409) {
			continue
		}
		path := strings.Replace(o.Path, "{id}", own[o.Path], 1)
		first := map[string]string{
			"/v1/checkout": validSession, "/v1/webhooks": `{"url":"https://shop.example/hook","events":["*"]}`,
			"/v1/disputes/{id}/evidence": `{"texts":{"customer_name":"Ann"}}`,
			"/v1/webhooks/verify":        `{"header":"","body":""}`, "/v1/webhooks/{id}/replay": `{"since":"2026-01-01T00:00:00Z"}`,
		}[o.Path]
		if o.Path == "/v1/deliveries/{id}/replay" {
			f.exec(`UPDATE webhook_delivery SET status = 'failed', finished_at = now() WHERE id = $1`, own[o.Path])
		}
		if o.Path == "/v1/payouts/{id}/retry" {
			f.exec(`UPDATE payout SET status = 'failed', failure = 'network_error', failed_at = now() WHERE id = $1`, own[o.Path])
		}
		got := f.do("POST", path, f.key, first, idempotent, "k"+o.Path)
		require.Less(t, got.status, 300, "%s: %s", o, got.body)
		repeated := f.do("POST", path, f.key, first, idempotent, "k"+o.Path)
		require.Equal(t, "true", repeated.header.Get("Idempotent-Replayed"), o)
		require.Equal(t, "409 idempotency_conflict", f.do("POST", path, f.key, first+" ", idempotent, "k"+o.Path).refused(), o)
	}
}

// ownIDs makes one thing of each kind and returns an id for each path. Each path of a delivery gets
// its own delivery.
func (f *front) ownIDs() map[string]string {
	endpoint, _ := f.newEndpoint(f.key)
	session := f.newSession(f.key)
	own := map[string]string{}
	paid, payout := f.newPayout(f.merchant, checkout.ModeTest)
	refund, dispute := f.newMoneyBack(paid)
	replay := f.newReplay(f.key, endpoint)
	f.endReplays()
	event, _ := f.newDelivery(f.key, endpoint)
	for _, o := range openAPI().Operations() {
		switch {
		case o.Path == "/v1/checkout/{id}/refund":
			own[o.Path] = paid
		case strings.Contains(o.Path, "/checkout/"):
			own[o.Path] = session
		case strings.HasPrefix(o.Path, "/v1/transactions/"):
			own[o.Path] = f.transactionOf(paid)
		case strings.HasPrefix(o.Path, "/v1/payouts/"):
			own[o.Path] = payout
		case strings.HasPrefix(o.Path, "/v1/refunds/"):
			own[o.Path] = refund
		case strings.HasPrefix(o.Path, "/v1/disputes/"):
			own[o.Path] = dispute
		case strings.HasPrefix(o.Path, "/v1/webhooks/"):
			own[o.Path] = endpoint
		case strings.HasPrefix(o.Path, "/v1/replays/"):
			own[o.Path] = replay
		case strings.HasPrefix(o.Path, "/v1/events/"):
			own[o.Path] = event
		case strings.HasPrefix(o.Path, "/v1/deliveries/"):
			_, own[o.Path] = f.newDelivery(f.key, endpoint)
		}
	}
	return own
}

func setBody(r *http.Request, body string) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

func TestOpenAPI_CanFail(t *testing.T) {
	f := newFront(t)
	session := f.newSession(f.key)
	good := func() conformance.Exchange {
		r := newRequest(t, "GET", "/v1/checkout/"+session, "")
		r.Header.Set("Authorization", "Bearer "+f.key)
		w := f.serve(r)
		return conformance.Exchange{Method: "GET", URL: r.URL, Request: r.Header, Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
	}
	_, err := openAPI().Check(good())
	require.NoError(t, err)
	for what, spoil := range map[string]func(*conformance.Exchange){
		"status 418 is not documented":      func(e *conformance.Exchange) { e.Status = 418 },
		"not documented, but answered 200":  func(e *conformance.Exchange) { e.Method = "PUT" },
		"header X-Secret is not documented": func(e *conformance.Exchange) { e.Header.Set("X-Secret", "1") },
		"header X-Request-Id is missing":    func(e *conformance.Exchange) { e.Header.Del("X-Request-Id") },
		"header Ratelimit-Limit: ":          func(e *conformance.Exchange) { e.Header.Set("RateLimit-Limit", "many") },
		`media type "text/plain" is not`:    func(e *conformance.Exchange) { e.Header.Set("Content-Type", "text/plain") },
		"missing property 'payout_currency'": func(e *conformance.Exchange) {
			e.Body = bytes.Replace(e.Body, []byte(`"payout_currency"`), []byte(`"payoutCurrency"`), 1)
		},
		"'/payoutCurrency': false schema": func(e *conformance.Exchange) {
			e.Body = bytes.Replace(e.Body, []byte(`"url"`), []byte(`"payoutCurrency":1,"url"`), 1)
		},
		"'/amount': got string, want number": func(e *conformance.Exchange) { e.Body = bytes.Replace(e.Body, []byte(`10.50`), []byte(`"10.50"`), 1) },
		"'/status': value must be one of": func(e *conformance.Exchange) {
			e.Body = bytes.Replace(e.Body, []byte(`"status":"pending"`), []byte(`"status":"open"`), 1)
		},
		"'/created_at': ": func(e *conformance.Exchange) {
			e.Body = bytes.Replace(e.Body, []byte(`Z","expires_at`), []byte(`","expires_at`), 1)
		},
		"a body was accepted but is not": func(e *conformance.Exchange) { e.RequestBody = []byte(`{"a":1}`) },
	} {
		e := good()
		spoil(&e)
		_, err := openAPI().Check(e)
		require.ErrorContains(t, err, what)
	}
	require.Error(t, openAPI().CheckEvent([]byte(`{"id":"evt_06gt1bz8sw8y4trdajdpy0v7b8","type":"payout.sent","created_at":"2026-11-03T09:14:05.391Z","data":{}}`)))
	require.ErrorContains(t, openAPI().CheckEvent([]byte(`{"type":"payout.lost"}`)), `"payout.lost" are not documented`)
	delivery := openAPI().CheckDelivery(http.Header{"X-Service-Attempt": {"first"}, "X-Secret": {"1"}}, []byte(`{"type":"payout.sent"}`))
	for _, what := range []string{"header X-Service-Signature is missing", "header X-Service-Attempt: ", "header X-Secret is not documented"} {
		require.ErrorContains(t, delivery, what)
	}
}
