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

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

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

func openStore(t *testing.T, stack *devstack.Stack) *storage.Store {
	t.Helper()
	keys, err := storage.ParseKeyring(stack.Demo.MasterKeys)
	require.NoError(t, err)
	store, err := storage.Open(t.Context(), storage.Options{URL: stack.DatabaseURL(), Keys: keys, MaxConns: 4})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return store
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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

// patience is by how much tests wait longer than they expect to: a machine that
// is busy with other work must not fail them.
const patience = 4

// await repeats look until it is true.
func await(t *testing.T, what string, within time.Duration, look func() bool) {
	t.Helper()
	end := time.Now().Add(patience * within)
	for !look() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience*within)
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
	deadline := time.After(patience * within)
	for {
		got, more := m.receiver.Arrivals()
		if len(got) >= n {
			return got
		}
		select {
		case <-more:
		case <-deadline:
			m.t.Fatalf("%d of %d requests arrived within %s", len(got), n, patience*within)
		}
	}
}

// pay submits the hosted page's form as a browser without JavaScript does, and
// follows where it leads. It returns the page that is shown then.
func (m *merchant) pay(id, card string) (int, string, error) {
	jar, _ := cookiejar.New(nil) // never fails without options
	browser := http.Client{Jar: jar, Timeout: 15 * time.Second}
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

// temporalClient connects to the stack's Temporal.
func temporalClient(t *testing.T, stack *devstack.Stack) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{
		HostPort: stack.Temporal.Address(), Namespace: stack.Temporal.Namespace(), Logger: log.NewStructuredLogger(discard),
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// query reads one value of the stack's PostgreSQL.
func query[T any](t *testing.T, stack *devstack.Stack, sql string, args ...any) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), stack.DatabaseURL())
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }() // a test's connection
	var got T
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&got))
	return got
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
