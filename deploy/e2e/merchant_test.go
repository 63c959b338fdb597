package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/checkout/api/conformance"
	"example.com/checkout/deploy/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Test cards, from README.md.
const (
	cardSucceeds = "4242424242424242"
	cardDeclined = "4000000000000002"
	card3DS      = "4000000000003220"
	cardSlow     = "4000000000000077"
)

// merchant is a merchant of a stack with a key, a server of its own and, unless
// it was made without, a registration for it.
type merchant struct {
	t        *testing.T
	stack    *devstack.Stack
	id       string
	key      string
	receiver *devstack.Receiver
	secret   string
	url      string // of the receiver's webhook
}

func newMerchant(t *testing.T, stack *devstack.Stack) *merchant {
	t.Helper()
	m := &merchant{
		t: t, stack: stack, id: checkout.NewID(checkout.PrefixMerchant), key: checkout.NewAPIKey(checkout.ModeTest), secret: webhook.NewSecret(),
	}
	ports, err := devstack.Free(1)
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	m.url = "http://" + address + "/webhook"
	m.receiver, err = devstack.StartReceiver(address, m.secret)
	require.NoError(t, err)
	m.receiver.LogTo(stack.ReceiverLog)
	if stack == shared { // its receivers go on until the end: what is still on its way comes, and is logged
		t.Cleanup(m.checkArrivals)
	} else { // where tests also make up events
		t.Cleanup(m.receiver.Close)
	}

	store := openStore(t, stack)
	require.NoError(t, store.CreateMerchant(t.Context(), checkout.Merchant{
		ID: m.id, Name: "Shop", Plan: "standard", FeeBasisPoints: checkout.DefaultFeeBasisPoints,
		PaymentAttempts: checkout.DefaultPaymentAttempts, OrderIDGuard: true,
	}, checkout.ModeTest, []checkout.PayoutAddress{{Currency: checkout.USDC, Network: "ethereum", Address: "sandbox:shop"}}))
	require.NoError(t, store.CreateAPIKey(t.Context(), checkout.APIKey{
		ID: checkout.NewID(checkout.PrefixAPIKey), MerchantID: m.id, Mode: checkout.ModeTest, Label: "test",
	}, m.key))
	_, err = store.CreateEndpoint(t.Context(), webhook.Endpoint{
		ID: checkout.NewID(checkout.PrefixEndpoint), MerchantID: m.id, Mode: checkout.ModeTest, URL: m.url,
		Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: m.secret,
	})
	require.NoError(t, err)
	return m
}

// answer is an answer of the REST API.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// field returns a member of a JSON object, by a dotted path; nil when absent.
func (a answer) field(path string) any {
	var v any
	if json.Unmarshal(a.Body, &v) != nil {
		return nil
	}
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// call makes one request to the REST API; an error means that none was answered.
func (m *merchant) call(method, path, body string) (answer, error) {
	return m.callWith("", method, path, body)
}

// callWith is call with an Idempotency-Key, unless that is empty.
func (m *merchant) callWith(key, method, path, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.stack.APIURL()+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+m.key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	_, fault := openAPI().Check(conformance.Exchange{
		Method: method, URL: req.URL, Request: req.Header, RequestBody: []byte(body), Status: res.StatusCode, Header: res.Header, Body: got,
	})
	assert.NoError(m.t, fault, "openapi.yaml says otherwise; the answer was %s", got)
	return answer{res.StatusCode, res.Header, got}, nil
}

// checkArrivals holds what the receiver got against the webhooks of openapi.yaml.
func (m *merchant) checkArrivals() {
	arrivals, _ := m.receiver.Arrivals()
	for _, a := range arrivals {
		assert.NoError(m.t, openAPI().CheckDelivery(a.Header, a.Body), "openapi.yaml says otherwise; it got %s", a.Body)
	}
}

// openAPI is the document that every answer and every delivery is held against.
var openAPI = sync.OnceValue(func() *conformance.Document {
	text, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		panic(err)
	}
	d, err := conformance.Parse(text)
	if err != nil {
		panic(err)
	}
	return d
})

// must is call for a request that has to be answered with status.
func (m *merchant) must(status int, method, path, body string) answer {
	m.t.Helper()
	got, err := m.call(method, path, body)
	require.NoError(m.t, err)
	require.Equal(m.t, status, got.Status, string(got.Body))
	return got
}

const terms = `{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC"}`

// create creates a session and returns its id.
func (m *merchant) create(body string) string {
	m.t.Helper()
	id, err := m.tryCreate(body)
	require.NoError(m.t, err)
	return id
}

// tryCreate is create where a test must not end. It repeats what the service
// could not answer in time, as merchants do.
func (m *merchant) tryCreate(body string) (string, error) {
	key := checkout.NewID("test")
	for tries := 1; ; tries++ {
		got, err := m.callWith(key, http.MethodPost, "/v1/checkout", body)
		switch {
		case err != nil:
			return "", err
		case got.Status == http.StatusCreated:
			return got.field("id").(string), nil
		case got.Status != http.StatusServiceUnavailable || tries == 10:
			return "", fmt.Errorf("create: %d %s", got.Status, got.Body)
		}
	}
}

// session reads a session.
func (m *merchant) session(id string) answer {
	m.t.Helper()
	return m.must(http.StatusOK, http.MethodGet, "/v1/checkout/"+id, "")
}

// A machine that is busy with other work must not fail a test: a wait ends when
// what it waits for comes, and gives up long after it should have.
const (
	patience      = 4 // times as long as a test expects
	leastPatience = 4 * time.Minute
)

func limit(within time.Duration) time.Duration { return max(patience*within, leastPatience) }

// await repeats look until it is true.
func await(t *testing.T, what string, within time.Duration, look func() bool) {
	t.Helper()
	end := time.Now().Add(limit(within))
	for !look() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, limit(within))
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// awaitStatus waits until a session has a status.
func (m *merchant) awaitStatus(id string, want checkout.Status, within time.Duration) {
	m.t.Helper()
	await(m.t, id+" is "+string(want), within, func() bool {
		got, err := m.call(http.MethodGet, "/v1/checkout/"+id, "")
		return err == nil && got.field("status") == string(want)
	})
}

// arrivals waits until n requests have arrived and returns them all.
func (m *merchant) arrivals(n int, within time.Duration) []devstack.Arrival {
	m.t.Helper()
	deadline := time.After(limit(within))
	for {
		got, more := m.receiver.Arrivals()
		if len(got) >= n {
			return got
		}
		select {
		case <-more:
		case <-deadline:
			m.t.Fatalf("%d of %d requests arrived within %s", len(got), n, limit(within))
		}
	}
}

// pay submits the hosted page's form as a browser without JavaScript does, and
// follows where it leads. It returns the page that is shown then.
func (m *merchant) pay(id, card string) (int, string, error) {
	jar, _ := cookiejar.New(nil) // never fails without options
	browser := http.Client{Jar: jar, Timeout: time.Minute}
	res, err := browser.PostForm(m.stack.PageURL()+"/"+id, url.Values{
		"card_number": {card}, "exp": {"12/40"}, "cvc": {"123"}, "email": {"ann@example.com"},
	})
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	var page bytes.Buffer
	_, err = page.ReadFrom(res.Body)
	return res.StatusCode, page.String(), err
}

// mustPay is pay for a payment that has to be answered.
func (m *merchant) mustPay(id, card string) string {
	m.t.Helper()
	_, page, err := m.pay(id, card)
	require.NoError(m.t, err)
	return page
}

// testEvent is an event for one endpoint that nothing has caused.
func (m *merchant) testEvent(endpoint string) storage.TestEvent {
	return storage.TestEvent{
		MerchantID: m.id, Mode: checkout.ModeTest, EndpointID: endpoint, SubjectID: checkout.NewID("test"), Type: webhook.MerchantUpdated,
		Data: func(time.Time) any {
			return checkout.MerchantUpdate{
				Merchant: checkout.Merchant{ID: m.id, Name: "Shop", Plan: "standard", PaymentAttempts: checkout.DefaultPaymentAttempts}, Mode: checkout.ModeTest,
				Addresses: []checkout.PayoutAddress{}, Changed: []string{"name"}, Previous: map[string]any{"name": "Old name"},
			}
		},
	}
}

// registration returns the id of the merchant's registration.
func (m *merchant) registration() string {
	m.t.Helper()
	list := m.must(http.StatusOK, http.MethodGet, "/v1/webhooks", "")
	return list.field("data").([]any)[0].(map[string]any)["id"].(string)
}

// refusedDelivery makes a delivery whose first attempt was refused.
func (m *merchant) refusedDelivery() (delivery string) {
	m.t.Helper()
	before, _ := m.receiver.Arrivals()
	m.receiver.Answer(http.StatusInternalServerError)
	session := m.create(terms)
	m.mustPay(session, cardDeclined)
	m.arrivals(len(before)+1, 10*time.Second)
	return deliveryOf(m.t, m.stack, session, "checkout.failed")
}

// awaitDelivery waits until the log says that of a delivery.
func (m *merchant) awaitDelivery(id, field string, want any, within time.Duration) answer {
	m.t.Helper()
	var got answer
	await(m.t, id+": "+field, within, func() bool {
		got = m.must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+id, "")
		return got.field(field) == want
	})
	return got
}

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

// finalStatus waits until the session's row is final, not only by the clock.
func (m *merchant) finalStatus(id string, within time.Duration) (string, error) {
	end := time.Now().Add(within)
	for {
		status := query[string](m.t, m.stack, `SELECT status FROM checkout_session WHERE id = $1`, id)
		if status != "pending" {
			return status, nil
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("%s is still pending", id)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// charges counts what the card network was asked to charge for a session, each
// charge as often as it was asked for.
func (m *merchant) charges(id string) int {
	m.t.Helper()
	return query[int](m.t, m.stack, `SELECT coalesce(sum(calls), 0)::int FROM sandbox_charge WHERE session_id = $1`, id)
}
