package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/checkout/api/conformance"
	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// Test cards, from api/README.md.
const (
	CardSucceeds = "4242424242424242"
	CardDeclined = "4000000000000002"
	Card3DS      = "4000000000003220"
	CardSlow     = "4000000000000077"
)

// Merchant is a merchant of a stack, with a key and a server of its own. Most merchants also have a
// registration for that server.
type Merchant struct {
	T        *testing.T
	Stack    *devstack.Stack
	ID       string
	Key      string
	Receiver *devstack.Receiver
	Secret   string
	URL      string // of the receiver's webhook
}

// NewMerchant makes a merchant of the stack with a test key and a registration for a receiver of
// its own, which gets every type of event.
func NewMerchant(t *testing.T, stack *devstack.Stack) *Merchant {
	t.Helper()
	m := &Merchant{T: t, Stack: stack, Secret: webhook.NewSecret()}
	ports, err := pgtemp.FreePorts(1)
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	m.URL = "http://" + address + "/webhook"
	m.Receiver, err = devstack.StartReceiver(address, m.Secret)
	require.NoError(t, err)
	m.Receiver.LogTo(stack.ReceiverLog)
	if stack == Shared { // the receivers run until the end, so that late requests are logged
		t.Cleanup(m.checkArrivals)
	} else { // here tests also make up events
		t.Cleanup(m.Receiver.Close)
	}

	store := OpenStore(t, stack)
	owner, key, err := devstack.AddMerchant(t.Context(), store, "Shop", checkout.ModeTest,
		merchant.PayoutAddress{Currency: money.USDC, Network: money.Ethereum, Address: "sandbox:shop"})
	require.NoError(t, err)
	m.ID, m.Key = owner.MerchantID, key
	_, err = devstack.AddEndpoint(t.Context(), store, owner, m.URL, m.Secret)
	require.NoError(t, err)
	return m
}

// Answer is an answer of the REST API.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	request *http.Request
}

// Try makes a request as a program does that keeps no cookie and follows no redirect. header alternates names and
// values. An error means that no answer came.
func Try(method, address, body string, header ...string) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	got, err := io.ReadAll(res.Body)
	return Answer{res.StatusCode, res.Header, got, req}, err
}

// Ask is Try, and ends the test on an error.
func Ask(t *testing.T, method, address, body string, header ...string) Answer {
	t.Helper()
	got, err := Try(method, address, body, header...)
	require.NoError(t, err)
	return got
}

// PostForm sends a form.
func PostForm(t *testing.T, address string, form url.Values) Answer {
	t.Helper()
	return Ask(t, http.MethodPost, address, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

// Field returns a member of a JSON object, by a dotted path; nil when absent.
func (a Answer) Field(path string) any {
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

// Call makes one request to the REST API. An error means that no answer came.
func (m *Merchant) Call(method, path, body string) (Answer, error) {
	return m.CallWith("", method, path, body)
}

// CallWith is Call with an Idempotency-Key; an empty key sends none.
func (m *Merchant) CallWith(key, method, path, body string) (Answer, error) {
	header := []string{"Authorization", "Bearer " + m.Key}
	if body != "" {
		header = append(header, "Content-Type", "application/json")
	}
	if key != "" {
		header = append(header, "Idempotency-Key", key)
	}
	got, err := Try(method, m.Stack.APIURL()+path, body, header...)
	if err != nil {
		return Answer{}, err
	}
	_, fault := openAPI().Check(conformance.Exchange{
		Method: method, URL: got.request.URL, Request: got.request.Header, RequestBody: []byte(body),
		Status: got.Status, Header: got.Header, Body: got.Body,
	})
	assert.NoError(m.T, fault, "openapi.yaml says otherwise; the answer was %s", got.Body)
	return got, nil
}

// checkArrivals checks the receiver's requests against the webhooks of openapi.yaml.
func (m *Merchant) checkArrivals() {
	arrivals, _ := m.Receiver.Arrivals()
	for _, a := range arrivals {
		assert.NoError(m.T, openAPI().CheckDelivery(a.Header, a.Body), "openapi.yaml says otherwise; it got %s", a.Body)
	}
}

// openAPI is the document against which every answer and every delivery is checked.
var openAPI = sync.OnceValue(func() *conformance.Document {
	text, err := os.ReadFile(Path("api", "openapi.yaml"))
	if err != nil {
		panic(err)
	}
	d, err := conformance.Parse(text)
	if err != nil {
		panic(err)
	}
	return d
})

// Must is Call for a request whose answer must have status. On a busy computer the API may ask for another try.
func (m *Merchant) Must(status int, method, path, body string) (got Answer) {
	m.T.Helper()
	Await(m.T, method+" "+path, time.Minute, func() bool {
		var err error
		got, err = m.Call(method, path, body)
		require.NoError(m.T, err)
		return got.Status == status || got.Status != http.StatusServiceUnavailable
	})
	require.Equal(m.T, status, got.Status, string(got.Body))
	return got
}

// Terms is the smallest body that creates a session.
const Terms = `{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC"}`

// Create creates a session and returns its id.
func (m *Merchant) Create(body string) string {
	m.T.Helper()
	id, err := m.TryCreate(body)
	require.NoError(m.T, err)
	return id
}

// TryCreate is Create without ending the test on an error. It repeats requests that the service did
// not answer in time, as merchants do.
func (m *Merchant) TryCreate(body string) (string, error) {
	key := checkout.NewID("test")
	for giveUp := time.Now().Add(LeastPatience); ; time.Sleep(500 * time.Millisecond) {
		got, err := m.CallWith(key, http.MethodPost, "/v1/checkout", body)
		switch {
		case err != nil:
			return "", err
		case got.Status == http.StatusCreated:
			return got.Field("id").(string), nil
		case got.Status != http.StatusServiceUnavailable || time.Now().After(giveUp):
			return "", fmt.Errorf("create: %d %s", got.Status, got.Body)
		}
	}
}

// Session reads a session.
func (m *Merchant) Session(id string) Answer {
	m.T.Helper()
	return m.Must(http.StatusOK, http.MethodGet, "/v1/checkout/"+id, "")
}

// A busy machine must not fail a test. So a wait ends as soon as its condition holds, and gives up
// only long after the expected time.
const (
	patience      = 4 // factor on the time that a test expects
	LeastPatience = 4 * time.Minute
)

func limit(within time.Duration) time.Duration { return max(patience*within, LeastPatience) }

// Await repeats condition until it returns true, ever less often: tests that wait long would keep the computer busy.
func Await(t *testing.T, what string, within time.Duration, condition func() bool) {
	t.Helper()
	end := time.Now().Add(limit(within))
	for pause := 10 * time.Millisecond; !condition(); pause = min(pause*5/4, 200*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, limit(within))
		}
		time.Sleep(pause)
	}
}

// AwaitStatus waits until a session has a status.
func (m *Merchant) AwaitStatus(id string, want checkout.Status, within time.Duration) {
	m.T.Helper()
	Await(m.T, id+" is "+string(want), within, func() bool {
		got, err := m.Call(http.MethodGet, "/v1/checkout/"+id, "")
		return err == nil && got.Field("status") == string(want)
	})
}

// Arrivals waits until n requests have arrived and returns them all.
func (m *Merchant) Arrivals(n int, within time.Duration) []devstack.Arrival {
	m.T.Helper()
	deadline := time.After(limit(within))
	for {
		got, more := m.Receiver.Arrivals()
		if len(got) >= n {
			return got
		}
		select {
		case <-more:
		case <-time.After(overdue):
			m.hastenLost()
		case <-deadline:
			m.T.Fatalf("%d of %d requests arrived within %s", len(got), n, limit(within))
		}
	}
}

// hastenLost makes the next attempt of deliveries whose attempt was lost. The test may wait for one of them.
func (m *Merchant) hastenLost() {
	m.T.Helper()
	if lost, err := hasten(m.T.Context(), m.Stack); len(lost) > 0 || err != nil { // a part of the stack may be down
		m.T.Logf("hastened %v: %v", lost, err)
	}
}

// Pay submits the hosted page's form as a browser without JavaScript does, follows redirects, and
// returns the last page.
func (m *Merchant) Pay(id, card string) (int, string, error) {
	got, err := m.submit(newBrowser(), id, card)
	return got.status, got.text, err
}

// TryPay is Pay for a payment that must get an answer. On a busy computer the page may still wait for the decision, or
// check whether the payment has begun, and the browser asks again. Or it says that nothing was charged, and the customer
// pays again.
func (m *Merchant) TryPay(id, card string) (string, error) {
	browser := newBrowser()
	got, err := m.submit(browser, id, card)
	for giveUp := time.Now().Add(LeastPatience); err == nil && time.Now().Before(giveUp); {
		switch {
		case strings.Contains(got.text, `data-state="checking"`), card != CardSlow && strings.Contains(got.text, `data-state="processing"`):
			time.Sleep(500 * time.Millisecond)
			got, err = readPage(browser.Get(got.at))
		case got.status == http.StatusServiceUnavailable || strings.HasSuffix(got.at, "?not_possible"):
			time.Sleep(500 * time.Millisecond)
			got, err = m.submit(browser, id, card)
		default:
			return got.text, nil
		}
	}
	return "", fmt.Errorf("the payment of %s has no answer: %d %s: %w", id, got.status, got.text, err)
}

// MustPay is TryPay, and ends the test on an error.
func (m *Merchant) MustPay(id, card string) string {
	m.T.Helper()
	page, err := m.TryPay(id, card)
	require.NoError(m.T, err)
	return page
}

func newBrowser() *http.Client {
	jar, _ := cookiejar.New(nil) // never fails without options
	return &http.Client{Jar: jar, Timeout: time.Minute}
}

func (m *Merchant) submit(browser *http.Client, id, card string) (page, error) {
	return readPage(browser.PostForm(m.Stack.PageURL()+"/"+id, url.Values{
		"card_number": {card}, "exp": {"12/40"}, "cvc": {"123"}, "email": {"ann@example.com"},
	}))
}

// Confirm says yes on the page of the sandbox's bank, which leads back to the shop.
func (m *Merchant) Confirm(bank string) {
	m.T.Helper()
	_, err := readPage(newBrowser().PostForm(bank, url.Values{"answer": {"confirm"}}))
	require.NoError(m.T, err)
}

// page is a page that a browser shows, and its address.
type page struct {
	status   int
	at, text string
}

func readPage(res *http.Response, err error) (page, error) {
	if err != nil {
		return page{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return page{res.StatusCode, res.Request.URL.String(), string(text)}, err
}

// TestEvent makes an event for one endpoint, without a session that caused it.
func (m *Merchant) TestEvent(endpoint string) storage.TestEvent {
	return storage.TestEvent{
		Owner: checkout.Owner{MerchantID: m.ID, Mode: checkout.ModeTest}, EndpointID: endpoint, SubjectID: checkout.NewID("test"), Type: webhook.MerchantUpdated,
		Data: func(time.Time) any {
			return merchant.Update{
				Merchant: merchant.Merchant{ID: m.ID, Name: "Shop", Plan: "standard", PaymentAttempts: merchant.DefaultPaymentAttempts}, Mode: checkout.ModeTest,
				Addresses: []merchant.PayoutAddress{}, Changed: []string{"name"}, Previous: map[string]any{"name": "Old name"},
			}
		},
	}
}

// DashboardPassword is the password of every member that AddMember makes.
const DashboardPassword = "correct horse battery"

// AddMember makes a person of a merchant's dashboard.
func AddMember(t *testing.T, store *storage.Store, merchantID string, role merchant.Role, email string) merchant.Member {
	t.Helper()
	member := merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: merchantID, Email: email, Role: role}
	token, err := store.People.Invite(t.Context(), member, "test")
	require.NoError(t, err)
	member, err = login.Accept(t.Context(), store.People, token, DashboardPassword, "")
	require.NoError(t, err)
	return member
}

// SignIn signs a member in to the dashboard without its form. It returns the value of the cookie member.
func (m *Merchant) SignIn(email string) (cookie string) {
	m.T.Helper()
	token, hash := merchant.NewToken()
	row := Query[[]string](m.T, m.Stack, `SELECT ARRAY[id, password_hash] FROM member WHERE merchant_id = $1 AND email = $2`, m.ID, email)
	member := merchant.Member{ID: row[0], MerchantID: m.ID}
	require.NoError(m.T, OpenStore(m.T, m.Stack).People.SignIn(m.T.Context(), member, row[1], hash))
	return token
}

// Registration returns the id of the merchant's registration.
func (m *Merchant) Registration() string {
	m.T.Helper()
	list := m.Must(http.StatusOK, http.MethodGet, "/v1/webhooks", "")
	return list.Field("data").([]any)[0].(map[string]any)["id"].(string)
}

// RefusedDelivery makes a delivery whose first attempt was refused.
func (m *Merchant) RefusedDelivery() (delivery string) {
	m.T.Helper()
	before, _ := m.Receiver.Arrivals()
	m.Receiver.Answer(http.StatusInternalServerError)
	session := m.Create(Terms)
	m.MustPay(session, CardDeclined)
	m.Arrivals(len(before)+1, 10*time.Second)
	return DeliveryOf(m.T, m.Stack, session, "checkout.failed")
}

// AwaitDelivery waits until the log shows the delivery with that status.
func (m *Merchant) AwaitDelivery(id, field string, want any, within time.Duration) Answer {
	m.T.Helper()
	var got Answer
	looked := time.Now()
	Await(m.T, id+": "+field, within, func() bool {
		if time.Since(looked) > overdue {
			m.hastenLost()
			looked = time.Now()
		}
		got = m.Must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+id, "")
		return got.Field(field) == want
	})
	return got
}

// FailedDeliveries makes n permanently failed deliveries whose runs Temporal no longer has.
func (m *Merchant) FailedDeliveries(n int) (endpoint string) {
	m.T.Helper()
	endpoint = Query[string](m.T, m.Stack, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1`, m.ID)
	events, deliveries := make([]string, n), make([]string, n)
	for i := range n {
		events[i], deliveries[i] = checkout.NewID(checkout.PrefixEvent), checkout.NewID(checkout.PrefixDelivery)
	}
	require.Equal(m.T, n, Query[int](m.T, m.Stack, `
		WITH ids AS (SELECT event, delivery FROM unnest($1::text[], $2::text[]) AS i (event, delivery)),
		event AS (
			INSERT INTO event (id, merchant_id, mode, type, subject_id, created_at, body)
			SELECT event, $3, 'test', 'payout.sent', 'test_' || event, now(), convert_to('{"id":"' || event || '","type":"payout.sent","data":{}}', 'UTF8') FROM ids
		), delivery AS (
			INSERT INTO webhook_delivery (id, event_id, merchant_id, mode, endpoint_id, url, status, run, run_id, created_at, finished_at)
			SELECT delivery, event, $3, 'test', $4, $5, 'failed', 1, 'dropped', now(), now() FROM ids RETURNING id
		), attempt AS (
			INSERT INTO webhook_attempt (delivery_id, run, number, started_at, duration_ms, status_code, error_kind)
			SELECT id, 1, number, now(), 5, 500, 'http' FROM delivery, generate_series(1, 6) AS number
		) SELECT count(*) FROM delivery`, events, deliveries, m.ID, endpoint, m.URL))
	return endpoint
}

// Charges counts the requests to the card network to charge for a session, including repeated ones.
func (m *Merchant) Charges(id string) int {
	m.T.Helper()
	return Query[int](m.T, m.Stack, `SELECT coalesce(sum(calls), 0)::int FROM sandbox_charge WHERE session_id = $1`, id)
}
