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
	"example.com/checkout/storage/storagetest/must"
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
	m := &Merchant{T: t, Stack: stack, Secret: webhook.NewSecret()}
	ports := must.Get(pgtemp.FreePorts(1))(t)
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	m.URL = "http://" + address + "/webhook"
	m.Receiver = must.Get(devstack.StartReceiver(address, m.Secret))(t)
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
	must.Get(devstack.AddEndpoint(t.Context(), store, owner, m.URL, m.Secret))(t)
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
	got := must.Get(Try(method, address, body, header...))(t)
	return got
}

// PostForm sends a form.
func PostForm(t *testing.T, address string, form url.Values) Answer {
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
	Await(m.T, method+" "+path, time.Minute, func() bool {
		got = must.Get(m.Call(method, path, body))(m.T)
		return got.Status == status || got.Status != http.StatusServiceUnavailable
	})
	require.Equal(m.T, status, got.Status, string(got.Body))
	return got
}

// Terms is the smallest body that creates a session.
const Terms = `{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC"}`

// Create creates a session and returns its id.
func (m *Merchant) Create(body string) string {
	id := must.Get(m.TryCreate(body))(m.T)
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
	end := time.Now().Add(limit(within))
	for pause := 10 * time.Millisecond; !condition(); pause = min(pause*5/4, 200*time.Millisecond) {
		require.True(t, time.Now().Before(end), "%s: not within %s", what, limit(within))
		time.Sleep(pause)
	}
}

// AwaitStatus waits until a session has a status.
func (m *Merchant) AwaitStatus(id string, want checkout.Status, within time.Duration) {
	Await(m.T, id+" is "+string(want), within, func() bool {
		got, err := m.Call(http.MethodGet, "/v1/checkout/"+id, "")
		return err == nil && got.Field("status") == string(want)
	})
}

// Arrivals waits until n requests have arrived and returns them all.
func (m *Merchant) Arrivals(n int, within time.Duration) []devstack.Arrival {
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
			require.GreaterOrEqual(m.T, len(got), n, "requests within %s", limit(within))
		}
	}
}

// hastenLost makes the next attempt of deliveries whose attempt was lost. The test may wait for one of them.
func (m *Merchant) hastenLost() {
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
// check whether the payment has begun, and the browser asks again. Or it says that nothing was charged, and the
// customer pays again.
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
	page := must.Get(m.TryPay(id, card))(m.T)
	return page
}

// Sell creates a session and pays it with a card.
func (m *Merchant) Sell(card string) (session string) {
	session = m.Create(Terms)
	m.MustPay(session, card)
	return session
}

// Complete pays a session, waits until it is completed and returns its id.
func (m *Merchant) Complete(id string) string {
	m.MustPay(id, CardSucceeds)
	m.AwaitStatus(id, checkout.StatusCompleted, 20*time.Second)
	return id
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
	must.Get(readPage(newBrowser().PostForm(bank, url.Values{"answer": {"confirm"}})))(m.T)
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

// DashboardPassword is the password of every member that AddMember makes.
const DashboardPassword = "correct horse battery"

// AddMember makes a person of a merchant's dashboard.
func AddMember(t *testing.T, store *storage.Store, merchantID string, role merchant.Role, email string) merchant.Member {
	member := merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: merchantID, Email: email, Role: role}
	token := must.Get(store.People.Invite(t.Context(), member, "test"))(t)
	member = must.Get(login.Accept(t.Context(), store.People, token, DashboardPassword, ""))(t)
	return member
}

// SignIn signs a member in to the dashboard without its form. It returns the value of the cookie member.
func (m *Merchant) SignIn(email string) (cookie string) {
	token, hash := merchant.NewToken()
	row := Query[[]string](m.T, m.Stack, `SELECT ARRAY[id, password_hash] FROM member WHERE merchant_id = $1 AND email = $2`, m.ID, email)
	member := merchant.Member{ID: row[0], MerchantID: m.ID}
	require.NoError(m.T, OpenStore(m.T, m.Stack).People.SignIn(m.T.Context(), member, row[1], hash))
	return token
}

// Charges counts the requests to the card network to charge for a session, including repeated ones.
func (m *Merchant) Charges(id string) int {
	return Query[int](m.T, m.Stack, `SELECT coalesce(sum(calls), 0)::int FROM sandbox_charge WHERE session_id = $1`, id)
}
