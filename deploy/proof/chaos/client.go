package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/workflows/checkout"
)

// Operations that package invariant does not use.
const (
	opSteer   = "steer" // hold, resume, retry_now or replay of a delivery
	opRetry   = "retry" // a failed payout
	opPage    = "page"  // read the customer's page
	opConfirm = "3-D Secure"
)

// call is one request that a client makes.
type call struct {
	op, key, id        string
	method, path, body string // method: POST when it is ""
	api                int    // 1 or 2; 0: either
}

// answer is the answer to a call.
type answer struct {
	status int // 0: no answer
	body   []byte
	at     *url.URL // of a page: its URL after the redirects
}

// field returns a string member of the JSON body; "" for anything else.
func (a answer) field(name string) string {
	var object map[string]any
	_ = json.Unmarshal(a.body, &object) // a body that is not JSON has no fields
	text, _ := object[name].(string)
	return text
}

// clientTimeout is longer than the service may take for an answer.
const clientTimeout = 14 * time.Second

var browser = &http.Client{
	Timeout:   clientTimeout,
	Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: 5 * time.Second},
}

// call makes one request to the REST API and records the outcome.
func (c *chaos) call(ctx context.Context, m *shop, what call) answer {
	api := cmp.Or(what.api, 1+rand.IntN(len(c.rig.apis))) - 1 //nolint:gosec // which of two processes
	header := http.Header{"Authorization": {"Bearer " + m.key}}
	if what.body != "" {
		header.Set("Content-Type", "application/json")
	}
	if what.key != "" {
		header.Set("Idempotency-Key", what.key)
	}
	made := invariant.Call{Op: what.op, MerchantID: m.id, Key: what.key, ID: what.id}
	return c.ask(ctx, made, cmp.Or(what.method, http.MethodPost), c.rig.apis[api]+what.path, header, what.body)
}

// ask makes a request and records it as a call, with the session's status in the answer.
func (c *chaos) ask(
	ctx context.Context, made invariant.Call, method, address string, header http.Header, body string,
) answer {
	made.At = time.Now()
	got := request(ctx, method, address, header, body)
	made.EndedAt, made.Status = time.Now(), got.status
	if made.ID == "" && got.status < 300 {
		made.ID = got.field("id")
	}
	if made.Op != opSteer && (made.Op != opPage || got.status == http.StatusOK) {
		made.Told = checkout.Status(got.field("status"))
	}
	c.recordCall(made)
	return got
}

func (c *chaos) page() string {
	return c.rig.pages[rand.IntN(len(c.rig.pages))] //nolint:gosec // which of two processes
}

// request makes one request and follows redirects.
func request(ctx context.Context, method, address string, header http.Header, body string) answer {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return answer{}
	}
	req.Header = header
	invariant.AddHeaderCanaries(req.Header)
	res, err := browser.Do(req)
	if err != nil {
		return answer{}
	}
	defer func() { _ = res.Body.Close() }() // the body was read
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}
	}
	return answer{res.StatusCode, text, res.Request.URL}
}

// create creates a session. It repeats the request with the same key until an answer gives the
// outcome, at most tries times. Without such an answer it returns "".
func (c *chaos) create(
	ctx context.Context, m *shop, t terms, tries int, api ...int,
) (id string, expiresAt time.Time) {
	for n := range tries {
		what := call{op: invariant.OpCreate, key: t.key(), path: "/v1/checkout", body: t.body()}
		if len(api) > 0 && n < 3 {
			what.api = api[0]
		}
		got := c.call(ctx, m, what)
		if got.status == http.StatusCreated {
			expiresAt, _ = time.Parse(time.RFC3339, got.field("expires_at")) // always there
			return got.field("id"), expiresAt
		}
		if got.status == http.StatusConflict && got.field("error") == "order_id_in_use" || ctx.Err() != nil {
			break
		}
		pause(ctx, min(500*time.Millisecond<<min(n, 4), 4*time.Second)) // back off as a polite client does
	}
	return "", time.Time{}
}

const customerEmail = "ann@example.com"

// pay sends the hosted page's form, confirms at the bank if asked, and reads the session's status. The form of a
// live session has the confirmation token of a card that was typed into the card network's frame.
func (c *chaos) pay(ctx context.Context, m *shop, id, card string) {
	form := url.Values{"email": {customerEmail}, "card_number": {card}, "exp": {"12/40"}, "cvc": {"123"}}
	if m.live {
		token := c.cardToken(ctx, card)
		if token == "" {
			return // the card network is away, and the customer gives up
		}
		form = url.Values{"email": {customerEmail}, "confirmation_token": {token}}
	}
	made := invariant.Call{Op: invariant.OpPay, MerchantID: m.id, ID: id}
	got := c.post(ctx, made, c.page()+"/"+id, form)
	if got.at != nil && strings.Contains(got.at.Path, "/sandbox/3ds/") {
		c.answerBank(ctx, m, id, got.at.String(), "confirm")
	}
	c.readStatus(ctx, m, id)
}

func (c *chaos) post(ctx context.Context, made invariant.Call, address string, form url.Values) answer {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	return c.ask(ctx, made, http.MethodPost, address, header, form.Encode())
}

// answerBank answers the bank's question, and goes back to the shop.
func (c *chaos) answerBank(ctx context.Context, m *shop, id, address, said string) {
	c.post(ctx, invariant.Call{Op: opConfirm, MerchantID: m.id, ID: id}, address, url.Values{"answer": {said}})
}

// readStatus reads the session's status from the customer's page or the REST API.
func (c *chaos) readStatus(ctx context.Context, m *shop, id string) {
	if rand.IntN(2) == 0 { //nolint:gosec // who is asked
		c.call(ctx, m, call{op: invariant.OpGet, id: id, method: http.MethodGet, path: "/v1/checkout/" + id})
		return
	}
	made := invariant.Call{Op: opPage, MerchantID: m.id, ID: id}
	c.ask(ctx, made, http.MethodGet, c.page()+"/"+id+"/status", http.Header{}, "")
}

// end asks the REST API to expire or advance a session. It repeats the request while the outcome is
// unknown.
func (c *chaos) end(ctx context.Context, m *shop, op, id string) {
	path := map[string]string{invariant.OpExpire: "/v1/checkout/" + id + "/expire",
		invariant.OpAdvance: "/v1/test/checkout/" + id + "/advance"}[op]
	for n := range 6 {
		got := c.call(ctx, m, call{op: op, id: id, path: path})
		if got.status != 0 && got.status < 500 {
			return
		}
		pause(ctx, time.Duration(n+1)*300*time.Millisecond)
	}
}

func (c *chaos) recordCall(made invariant.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, made)
}

// recordOperator records an operator's request to Temporal before it is made. Its outcome is not
// known at that time.
func (c *chaos) recordOperator(op, id string) {
	now := time.Now()
	c.recordCall(invariant.Call{Op: op, ID: id, At: now, EndedAt: now, Status: http.StatusAccepted})
}

// steerDelivery asks the REST API to hold, resume, hasten or replay a delivery.
func (c *chaos) steerDelivery(ctx context.Context, m *shop, id, verb string) answer {
	return c.call(ctx, m, call{op: opSteer, id: id, path: "/v1/deliveries/" + id + "/" + verb})
}

// list returns the ids of the deliveries that match a filter, newest first.
func (c *chaos) list(ctx context.Context, m *shop, filter string) []string {
	got := c.call(ctx, m, call{op: "list", method: http.MethodGet, path: "/v1/deliveries?limit=20&" + filter})
	var page struct {
		Data []struct{ ID string }
	}
	_ = json.Unmarshal(got.body, &page) // a refusal has no list
	ids := make([]string, 0, len(page.Data))
	for _, d := range page.Data {
		ids = append(ids, d.ID)
	}
	return ids
}
