package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// A reach is one way in which a route names or lists things. {wh} and similar names in path and
// body stand for the owner's things.
type reach struct {
	route string // as the router has it: "GET /v1/webhooks/{id}"
	path  string // with names of things
	body  string

	foreign int      // status for a caller who is not the owner
	own     int      // status for the owner
	lists   []string // for a list: the names of the owner's things in it
	changes bool     // the request changes something when the owner sends it
}

// ofThings are the things that a path of one object names.
var ofThings = [][2]string{
	{"checkout", "cs"}, {"checkout", "paid"}, {"webhooks", "wh"}, {"deliveries", "whd"}, {"events", "evt"}, {"replays", "whr"},
	{"payouts", "po"}, {"transactions", "txn"}, {"refunds", "re"}, {"disputes", "dp"},
}

// ofLists are the queries of each list, with the names of the owner's things in the answer.
var ofLists = map[string]map[string]string{
	"/v1/checkout": {
		"": "paid cs", "?status=pending": "cs", "?order_id={order}": "cs", "?cursor={paid}": "cs", "?transaction={txn}": "paid",
		"?customer_email={order}@example.com": "", "?order_id={order}&metadata[order_id]={order}": "cs",
	},
	"/v1/webhooks": {"": "wh", "?status=enabled": "wh", "?cursor={wh}": ""},
	"/v1/deliveries": {
		"": "whd", "?status=pending": "whd", "?webhook={wh}": "whd", "?event={evt}": "whd", "?session={paid}": "whd",
		"?cursor={whd}": "",
	},
	"/v1/events": {
		"": "evt", "?type=checkout.completed": "evt", "?session={paid}": "evt", "?order=asc": "evt", "?cursor={evt}": "",
	},
	"/v1/replays":      {"": "whr", "?webhook={wh}": "whr", "?cursor={whr}": ""},
	"/v1/transactions": {"": "txn", "?status=succeeded": "txn", "?session={paid}": "txn", "?cursor={txn}": ""},
	"/v1/refunds":      {"": "re", "?status=failed": "re", "?session={paid}": "re", "?cursor={re}": ""},
	"/v1/disputes":     {"": "dp", "?status=warning": "dp", "?session={paid}": "dp", "?cursor={dp}": ""},
	"/v1/balance/transactions": {
		"": "btx", "?type=payment": "btx", "?currency=USD": "btx", "?source={txn}": "btx", "?cursor={btx}": "",
	},
	"/v1/payouts": {"": "po", "?status=failed": "po", "?session={paid}": "po", "?cursor={po}": ""},
}

// reads are the reaches that only read.
func reads() (all []reach) {
	for _, of := range ofThings {
		path := "/v1/" + of[0] + "/"
		all = append(all, reach{route: "GET " + path + "{id}", path: path + "{" + of[1] + "}", foreign: 404, own: 200})
	}
	for list, queries := range ofLists {
		for query, things := range queries {
			all = append(all, reach{route: "GET " + list, path: list + query, foreign: 200, own: 200, lists: strings.Fields(things)})
		}
	}
	return all
}

// reaches are in the order in which each owner uses them on its own things.
var reaches = append(reads(), []reach{
	{route: "GET /v1/merchant", path: "/v1/merchant", foreign: 200, own: 200},
	{route: "GET /v1/balance", path: "/v1/balance", foreign: 200, own: 200},
	{route: "GET /v1/checkout", path: "/v1/checkout?metadata=order_id", foreign: 400, own: 400},
	{route: "GET /v1/events", path: "/v1/events?after={evt}&order=asc", foreign: 400, own: 200, lists: []string{}},
	{route: "POST /v1/webhooks/verify", path: "/v1/webhooks/verify", body: `{"webhook":"{wh}","header":"","body":""}`, foreign: 400, own: 200},
	{route: "POST /v1/webhooks/verify", path: "/v1/webhooks/verify", body: `{"header":"{header}","body":{body},"computed":"{computed}"}`, foreign: 200, own: 200},

	{route: "POST /v1/checkout/{id}/expire", path: "/v1/checkout/{cs}/expire", foreign: 404, own: 200, changes: true},
	{route: "POST /v1/checkout/{id}/refund", path: "/v1/checkout/{paid}/refund", body: `{"amount":1}`, foreign: 404, own: 201, changes: true},
	{route: "POST /v1/disputes/{id}/evidence", path: "/v1/disputes/{dp}/evidence", body: `{"texts":{"customer_name":"Ann"}}`, foreign: 404, own: 202, changes: true},
	{route: "POST /v1/test/checkout/{id}/advance", path: "/v1/test/checkout/{cs}/advance", foreign: 404, own: 200, changes: true},
	{route: "PATCH /v1/webhooks/{id}", path: "/v1/webhooks/{wh}", body: `{"status":"enabled","description":"changed"}`, foreign: 404, own: 200, changes: true},
	{route: "POST /v1/webhooks/{id}/hold", path: "/v1/webhooks/{wh}/hold", foreign: 404, own: 200, changes: true},
	{route: "POST /v1/webhooks/{id}/resume", path: "/v1/webhooks/{wh}/resume", foreign: 404, own: 200, changes: true},
	{route: "POST /v1/webhooks/{id}/rotate_secret", path: "/v1/webhooks/{wh}/rotate_secret", foreign: 404, own: 200, changes: true},
	{route: "POST /v1/webhooks/{id}/test", path: "/v1/webhooks/{wh}/test", foreign: 404, own: 202, changes: true},
	{route: "POST /v1/webhooks/{id}/replay", path: "/v1/webhooks/{wh}/replay", body: `{"since":"2026-01-01T00:00:00Z","status":"failed"}`, foreign: 404, own: 202, changes: true},
	{route: "POST /v1/deliveries/{id}/hold", path: "/v1/deliveries/{whd}/hold", foreign: 404, own: 200, changes: true},
	{route: "POST /v1/deliveries/{id}/resume", path: "/v1/deliveries/{whd}/resume", foreign: 404, own: 200, changes: true},
	{route: "POST /v1/deliveries/{id}/retry_now", path: "/v1/deliveries/{whd}/retry_now", foreign: 404, own: 202, changes: true},
	{route: "POST /v1/deliveries/{id}/replay", path: "/v1/deliveries/{whd}/replay", foreign: 404, own: 202, changes: true},
	{route: "POST /v1/payouts/{id}/retry", path: "/v1/payouts/{po}/retry", foreign: 404, own: 202, changes: true},
	{route: "POST /v1/replays/{id}/cancel", path: "/v1/replays/{whr}/cancel", foreign: 404, own: 200, changes: true},
	{route: "DELETE /v1/webhooks/{id}", path: "/v1/webhooks/{wh}", foreign: 404, own: 200, changes: true},
}...)

// creates make new things for the caller, even when the body names another owner's things.
// isolation.create checks each of them.
var creates = []string{"POST /v1/checkout", "POST /v1/webhooks"}

// owner is a merchant in one mode. Every owner has one thing of each kind.
type owner struct {
	merchant shop
	mode     checkout.Mode
	things   map[string]string // key: the name in a reach
	unknown  map[string]string // ids of the same shape and place in an order, of things that do not exist
}

func (o owner) String() string { return o.merchant.ID + "/" + string(o.mode) }

func (o owner) key() string { return o.merchant.key(o.mode) }

// isolation is the matrix.
type isolation struct {
	*front
	conn     *pgx.Conn
	owners   []owner
	tables   string // reads a fingerprint of all tables
	asked    int    // calls to Temporal
	requests int
}

func newIsolation(t *testing.T) *isolation {
	m := &isolation{front: newFront(t)}
	m.conn = m.Connect(t)
	m.tables = m.fingerprintSQL()
	for i, merchant := range []shop{m.merchant, m.newMerchant(true)} {
		for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
			m.owners = append(m.owners, m.newOwner(merchant, mode, fmt.Sprintf("%s-%c", mode, 'a'+i)))
		}
	}
	m.awaitFeed()
	note := func() error { m.asked++; return nil }
	m.temporal.Start = func(client.StartWorkflowOptions) error { return note() }
	m.temporal.Update = func(client.UpdateWorkflowOptions) error { return note() }
	m.temporal.Signal = func(string, string) error { return note() }
	m.temporal.Cancel = func(string) error { return note() }
	m.temporal.Trigger = note
	return m
}

// awaitFeed waits until every owner's list has its event: the feed withholds events while older transactions are open,
// also those of other tests.
func (m *isolation) awaitFeed() {
	for _, o := range m.owners {
		require.Eventually(m.t, func() bool {
			return slices.Equal(m.do("GET", "/v1/events?order=asc", o.key(), "").ids(), []string{o.things["evt"]})
		}, 20*time.Second, 10*time.Millisecond, "the event of %s", o)
	}
}

// newOwner makes one thing of each kind. name is part of their texts, so that owners differ.
func (m *isolation) newOwner(who shop, mode checkout.Mode, name string) owner {
	o := owner{merchant: who, mode: mode}
	created := m.answers(201, "POST", "/v1/webhooks", o.key(), registrationOf("https://"+name+".example/hook"), idempotencyHeader, "register-"+name)
	endpoint, secret := created.json["id"].(string), created.json["secret"].(string)
	event, delivery := m.newDelivery(o.key(), endpoint)
	session := m.answers(201, "POST", "/v1/checkout", o.key(), orderOf("order-"+name, "https://"+name+".example/hook"))
	paid, payout := m.newPayout(who, mode)
	m.exec(`UPDATE payout SET status = 'failed', failure = 'network_error', sent_at = NULL, failed_at = created_at WHERE id = $1`, payout)
	m.exec(`UPDATE event SET session_id = $1 WHERE id = $2`, paid, event) // a test event tells of none
	e, err := m.store.Webhooks.Event(m.t.Context(), checkout.Owner{MerchantID: who.ID, Mode: mode}.Ref(event))
	require.NoError(m.t, err)
	refund, dispute := m.newMoneyBack(paid)
	things := map[string]string{
		"re": refund, "dp": dispute, "btx": m.balanceTransactionOf(paid),
		"wh": endpoint, "evt": event, "whd": delivery, "whr": m.newReplay(o.key(), endpoint), "cs": session.json["id"].(string), "paid": paid,
		"po": payout, "txn": m.transactionOf(paid), "order": "order-" + name, "secret": secret,
		"url": "https://" + name + ".example/hook", "idempotency": "register-" + name,
	}
	o.unknown = map[string]string{}
	for thing, id := range things {
		last := len(id) - 1
		if thing == "btx" { // its end is its place in an order, which is all that a cursor needs
			last = len("btx_") + 8
		}
		o.unknown[thing] = id[:last] + map[bool]string{true: "1", false: "0"}[id[last] == '0'] + id[last+1:]
	}
	sign(things, string(e.Body))
	sign(o.unknown, strings.ReplaceAll(string(e.Body), event, o.unknown["evt"]))
	o.things = things
	return o
}

func (f *front) transactionOf(session string) string {
	return f.value(`SELECT id FROM transaction WHERE session_id = $1`, session)
}

// sign adds body and its signature by the secret.
func sign(things map[string]string, body string) {
	text, _ := json.Marshal(body) // a string
	things["body"], things["header"] = string(text), webhook.Sign([]byte(things["secret"]), time.Now(), []byte(body))
	_, things["computed"], _ = strings.Cut(things["header"], "v1=")
}

func registrationOf(url string) string { return `{"url":"` + url + `","events":["*"]}` }

func orderOf(order, url string) string {
	return strings.TrimSuffix(validSession, "}") + `,"metadata":{"order_id":"` + order + `"},"webhook_url":"` + url + `"}`
}

// fingerprintSQL returns the query of all rows of all tables except the rate limits.
func (m *isolation) fingerprintSQL() string {
	rows, err := m.conn.Query(m.t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name <> 'token_bucket'`)
	require.NoError(m.t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(m.t, err)
	require.Greater(m.t, len(tables), 10)
	parts := make([]string, len(tables))
	for i, table := range tables {
		parts[i] = `SELECT '` + table + ` ' || count(*) || ' ' || md5(coalesce(string_agg(r::text, ',' ORDER BY r::text), '')) AS line FROM ` + table + ` r`
	}
	return `SELECT array_agg(line ORDER BY line) FROM (` + strings.Join(parts, " UNION ALL ") + `) all_tables`
}

// fingerprint returns a line for each table: its name, its number of rows and a hash of them.
func (m *isolation) fingerprint() (lines []string) {
	require.NoError(m.t, m.conn.QueryRow(m.t.Context(), m.tables).Scan(&lines))
	return lines
}

// ask sends the request of a reach to things.
func (m *isolation) ask(c owner, r reach, things map[string]string) answer {
	var pairs []string
	for name, id := range things {
		pairs = append(pairs, "{"+name+"}", id)
	}
	fill := strings.NewReplacer(pairs...)
	m.requests++
	method, _, _ := strings.Cut(r.route, " ")
	return m.do(method, fill.Replace(r.path), c.key(), fill.Replace(r.body))
}

var ageSeconds = regexp.MustCompile(`"age_seconds":-?\d+`)

// seen returns an answer without the parts that differ between any two answers: the request's id,
// the rate limit's rest and the age of a signature.
func seen(a answer) string {
	header := a.header.Clone()
	maps.DeleteFunc(header, func(name string, _ []string) bool {
		return name == http.CanonicalHeaderKey("X-Request-Id") || name == "Content-Length" || strings.HasPrefix(name, "Ratelimit-")
	})
	return fmt.Sprint(a.status, " ", header, " ", ageSeconds.ReplaceAllString(a.withoutID(), `"age_seconds":0`))
}

// foreignStatus returns the status for a caller who asks for another owner's thing. The exceptions
// are in api/decisions/sessions.md, "403" and "test clock".
func foreignStatus(o, c owner, r reach) int {
	switch {
	case strings.HasPrefix(r.route, "POST /v1/test/") && c.mode.Live():
		return 403 // whatever the id
	case strings.Contains(r.route, "/checkout/{id}") && o.merchant.ID == c.merchant.ID:
		return 403 // one's own session in the other mode
	}
	return r.foreign
}

// malformed returns texts that have not the shape of an id.
func malformed(id string) []string {
	prefix, rest, _ := strings.Cut(id, "_")
	return []string{"x", id[:len(id)-1], id + "0", strings.ToUpper(id), "tx_" + rest, prefix + "_", "%00", id + "%0a", "null", "..%2f" + id}
}

// TestIsolation_EveryRouteAndPair tries every route with two merchants and two modes as caller and
// as owner. A thing of another owner is answered like a thing that does not exist, byte for byte,
// and the thing does not change.
func TestIsolation_EveryRouteAndPair(t *testing.T) {
	m := newIsolation(t)
	m.knowsEveryRoute()
	cells := 0
	for _, o := range m.owners {
		for _, c := range m.owners {
			before := m.fingerprint()
			for _, r := range reaches {
				cells++
				switch {
				case o.key() != c.key():
					m.foreign(o, c, r)
				case !r.changes:
					m.own(o, r)
				}
			}
			require.Equal(t, before, m.fingerprint(), "%s asked for all of %s: nothing happened", c, o)
		}
	}
	for _, o := range m.owners {
		for _, c := range m.owners {
			cells += len(creates)
			m.create(o, c)
		}
	}
	for _, o := range m.owners {
		for _, r := range reaches {
			if r.changes {
				m.prepare(o, r)
				m.own(o, r)
			}
		}
	}
	for _, o := range m.owners { // each owner has deleted its registration at last
		for _, r := range reaches {
			if strings.HasPrefix(r.path, "/v1/webhooks/{wh}") {
				require.Equal(t, seen(m.ask(o, r, o.unknown)), seen(m.ask(o, r, o.things)), "%s of what is deleted", r.route)
			}
		}
	}
	t.Logf("%d routes, %d ways to reach for something, %d pairs: %d cells, %d requests",
		len(m.routes()), len(reaches)+len(creates), len(m.owners)*len(m.owners), cells, m.requests)
}

// knowsEveryRoute fails when the matrix lacks a route of the front end or a filter that takes an
// id.
func (m *isolation) knowsEveryRoute() {
	have := slices.Clone(creates)
	for _, r := range reaches {
		have = append(have, r.route)
	}
	slices.Sort(have)
	require.Equal(m.t, m.routes(), slices.Compact(have), "every route has a row in the matrix")
	for _, l := range lists {
		for _, filter := range append([]string{"cursor"}, l.filters...) {
			require.True(m.t, slices.ContainsFunc(reaches, func(r reach) bool { return strings.HasPrefix(r.path, l.path+"?"+filter+"=") }), "%s by %s", l.path, filter)
		}
	}
}

func (m *isolation) foreign(o, c owner, r reach) {
	what := fmt.Sprintf("%s %s of %s by %s", r.route, r.path, o, c)
	asked := m.asked
	got, unknown := m.ask(c, r, o.things), m.ask(c, r, o.unknown)
	want := foreignStatus(o, c, r)
	require.Equal(m.t, want, got.status, "%s: %s", what, got.body)
	if want != 403 || unknown.status == 403 {
		require.Equal(m.t, seen(unknown), seen(got), "%s: as if it did not exist", what)
	}
	for name, id := range o.things {
		require.NotContains(m.t, got.body, id, "%s: the owner's %s", what, name)
	}
	if strings.Contains(r.route, "{id}") {
		require.Len(m.t, got.json, 3, "%s: error, message and request_id", what)
		name := r.path[strings.Index(r.path, "{")+1 : strings.Index(r.path, "}")]
		for _, bad := range malformed(o.things[name]) {
			require.Equal(m.t, seen(unknown), seen(m.ask(c, r, map[string]string{name: bad})), "%s: %s", what, bad)
		}
	}
	require.Equal(m.t, asked, m.asked, "%s: Temporal was not asked", what)
}

func (m *isolation) own(o owner, r reach) {
	what := fmt.Sprintf("%s %s of %s", r.route, r.path, o)
	got := m.ask(o, r, o.things)
	want := r.own
	if strings.HasPrefix(r.route, "POST /v1/test/") && o.mode.Live() {
		want = 403
	}
	require.Equal(m.t, want, got.status, "%s: %s", what, got.body)
	if r.lists != nil {
		ids := []string{}
		for _, name := range r.lists {
			ids = append(ids, o.things[name])
		}
		require.Equal(m.t, ids, got.ids(), what)
	}
	if r.path == "/v1/webhooks/verify" && strings.Contains(r.body, "{header}") {
		require.Equal(m.t, true, got.json["valid"], got.body)
		require.Equal(m.t, o.things["wh"], got.json["signed_by"])
	}
	m.locationOf(o, got)
}

// locationOf checks that only the owner can open the Location of an answer.
func (m *isolation) locationOf(o owner, created answer) {
	location := created.header.Get("Location")
	if location == "" {
		return
	}
	for _, c := range m.owners {
		want := 404
		switch {
		case c.key() == o.key():
			want = 200
		case c.merchant.ID == o.merchant.ID && strings.HasPrefix(location, "/v1/checkout/"):
			want = 403
		}
		m.requests++
		require.Equal(m.t, want, m.do("GET", location, c.key(), "").status, "%s of %s by %s", location, o, c)
	}
}

// create uses the owner's order id, address and Idempotency-Key in creates.
func (m *isolation) create(o, c owner) {
	own := o.key() == c.key()
	what := fmt.Sprintf("what %s has, named by %s", o, c)
	m.requests += 4
	order := func() answer {
		return m.do("POST", "/v1/checkout", c.key(), orderOf(o.things["order"], o.things["url"]))
	}
	register := func() answer {
		return m.do("POST", "/v1/webhooks", c.key(), registrationOf(o.things["url"]), idempotencyHeader, o.things["idempotency"])
	}
	session, inUse := order(), order()
	registration, again := register(), register()
	require.Equal(m.t, registration.body, again.body, "%s: the caller's own answer is kept", what)
	require.Equal(m.t, 201, registration.status, what)
	if own {
		require.Equal(m.t, 409, session.status, what)
		require.Equal(m.t, o.things["cs"], session.json["session_id"], what)
		require.Equal(m.t, "true", registration.header.Get("Idempotent-Replayed"), what)
		require.Equal(m.t, o.things["wh"], registration.json["id"], what)
		return
	}
	require.Equal(m.t, 201, session.status, "%s: %s", what, session.body)
	require.Equal(m.t, session.json["id"], inUse.json["session_id"], "%s: the caller's own session has it", what)
	require.Empty(m.t, registration.header.Get("Idempotent-Replayed"), what)
	for _, name := range []string{"cs", "wh", "secret"} {
		require.NotContains(m.t, session.body+registration.body, o.things[name], what)
	}
	m.locationOf(c, session)
	m.locationOf(c, registration)
	require.Zero(m.t, m.count(`checkout_session s JOIN webhook_endpoint e ON e.id = s.signing_endpoint_id WHERE (e.merchant_id, e.mode) <> (s.merchant_id, s.mode)`),
		"%s: another's secret signs", what)
}

// prepare brings the owner's things into the state that a reach needs.
func (m *isolation) prepare(o owner, r reach) {
	d := deliveryFront{m.front, o.things["wh"], o.things["whd"], checkout.Owner{MerchantID: o.merchant.ID, Mode: o.mode}.Ref(o.things["whd"])}
	switch r.route {
	case "POST /v1/checkout/{id}/expire":
		m.expireAs(m.endsExpired(o.merchant, o.mode))
	case "POST /v1/webhooks/{id}/replay":
		m.endReplays()
	case "POST /v1/deliveries/{id}/replay":
		d.attempt("run-a", 1, 500)
		d.end(webhook.DeliveryFailed)
		m.temporal.Start = func(client.StartWorkflowOptions) error {
			d.attempt("run-b", 1, 0)
			return nil
		}
	case "POST /v1/replays/{id}/cancel":
		m.temporal.Start = nil
		m.temporal.Cancel = func(id string) error {
			m.exec(`UPDATE webhook_replay SET status = 'canceled', finished_at = now() WHERE id = $1`, id)
			return nil
		}
	}
}
