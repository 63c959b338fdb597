package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

// corpusWorld is what the cases of the corpus talk about: a merchant with one of
// everything, and another merchant with the same.
type corpusWorld struct {
	stack    *devstack.Stack
	own      *e2e.Merchant
	other    *e2e.Merchant
	store    *storage.Store
	temporal client.Client
	db       *pgx.Conn
	keys     map[string]string // API keys by caller
	secrets  map[string]string // signing secrets by name
	values   map[string]string // of ‹name›
	last     string            // state after the last request; "" when it may have changed since
}

const cardFraud = "4100000000000019" // from api/README.md

func newCorpusWorld(t *testing.T) *corpusWorld {
	w := &corpusWorld{
		stack: e2e.Shared, own: e2e.NewMerchant(t, e2e.Shared), other: e2e.NewMerchant(t, e2e.Shared), store: e2e.OpenStore(t, e2e.Shared),
		temporal: e2e.TemporalClient(t, e2e.Shared), secrets: map[string]string{}, values: map[string]string{},
	}
	w.db = must.Get(pgx.Connect(t.Context(), e2e.Shared.DatabaseURL()))(t)
	t.Cleanup(func() { _ = w.db.Close(t.Context()) }) // a test's connection
	w.keys = map[string]string{"merchant": w.own.Key, "other": w.other.Key}
	w.addKeys(t)
	w.addSessions(t)
	w.addRegistrations(t)
	w.addLive(t)
	w.addOther()
	for name, key := range w.keys {
		w.values["key of "+name] = key
	}
	w.values["sent"] = e2e.Query[string](t, e2e.Shared, `SELECT convert_from(body, 'UTF8') FROM event WHERE id = $1`, w.values["event"])
	w.values["deleted_sent"] = e2e.Query[string](t, e2e.Shared,
		`SELECT convert_from(e.body, 'UTF8') FROM event e JOIN webhook_delivery d ON d.event_id = e.id WHERE d.id = $1`, w.values["canceled_delivery"])
	w.values["v1"] = "‹hmac:current:‹t›.‹sent››"
	w.values["old"] = "2026-01-01T00:00:00Z"
	w.settle(t)
	return w
}

// addKeys makes keys that may less than the merchant's first.
func (w *corpusWorld) addKeys(t *testing.T) {
	for name, scopes := range map[string]merchant.Scopes{
		"reader": {merchant.ScopeRead}, "cashier": {"checkout:write"}, "revoked": {merchant.ScopeFull}, "live": {merchant.ScopeFull},
	} {
		mode := checkout.ModeTest
		if name == "live" {
			mode = checkout.ModeLive
		}
		id := checkout.NewID(checkout.PrefixAPIKey)
		w.keys[name] = merchant.NewAPIKey(mode)
		require.NoError(t, w.store.Merchants.CreateAPIKey(t.Context(), merchant.APIKey{Ref: checkout.Owner{MerchantID: w.own.ID, Mode: mode}.Ref(id), Label: name, Scopes: scopes}, w.keys[name]))
		if name == "revoked" {
			require.NoError(t, w.store.Merchants.RevokeAPIKey(t.Context(), checkout.Owner{MerchantID: w.own.ID, Mode: mode}.Ref(id)))
		}
	}
}

// addSessions makes a session of each status, with the deliveries and the payout of the one that was paid.
func (w *corpusWorld) addSessions(t *testing.T) {
	m := w.own
	w.values["webhook"], w.secrets["current"] = m.Registration(), m.Secret
	m.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+w.values["webhook"]+"/hold", "") // so that the session's own secret signs
	signed := m.Must(http.StatusCreated, http.MethodPost, "/v1/checkout", strings.Replace(e2e.Terms, "}", `, "webhook_url": "https://shop.example/own"}`, 1))
	w.values["signing_session"], w.secrets["session"] = signed.Field("id").(string), signed.Field("webhook_secret").(string)
	m.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+w.values["webhook"]+"/resume", "")

	w.values["session"] = m.Create(strings.Replace(e2e.Terms, "}", `, "metadata": {"order_id": "taken"}}`, 1))
	w.values["expired"] = m.Create(e2e.Terms)
	m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+w.values["expired"]+"/expire", "")
	w.values["failed"] = m.Create(e2e.Terms)
	m.MustPay(w.values["failed"], cardFraud)
	m.AwaitStatus(w.values["failed"], checkout.StatusFailed, 10*time.Second)
	w.values["completed"], w.values["event"], w.values["delivery"], w.values["payout"] = paid(m)
}

// paid makes a session that is paid and paid out, and returns it, the event of
// its payment with its delivery, and its payout.
func paid(m *e2e.Merchant) (session, event, delivery, payout string) {
	session = m.Create(strings.Replace(e2e.Terms, "}", `, "metadata": {"note": "ü <&> 1.50", "n": 1.50}}`, 1))
	m.MustPay(session, e2e.CardSucceeds)
	e2e.AwaitQuery(m.T, "everything of the session is told", 20*time.Second, m.Stack, 2, `SELECT count(*) FROM webhook_delivery d JOIN event e ON e.id = d.event_id WHERE e.session_id = $1 AND d.status = 'delivered'`, session)
	delivery = e2e.DeliveryOf(m.T, m.Stack, session, "checkout.completed")
	event = e2e.Query[string](m.T, m.Stack, `SELECT event_id FROM webhook_delivery WHERE id = $1`, delivery)
	return session, event, delivery, e2e.Query[string](m.T, m.Stack, `SELECT id FROM payout WHERE session_id = $1`, session)
}

// addRegistrations makes registrations in every state. All are on hold, so that nothing is sent to them.
func (w *corpusWorld) addRegistrations(t *testing.T) {
	for _, name := range []string{"spare", "rotated", "gone", "deleted"} {
		w.values[name+"_webhook"], w.secrets[name] = register(w.own)
	}
	rotate := func(name, hours string) {
		w.secrets[name+"_old"] = w.secrets[name]
		got := w.own.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+w.values[name+"_webhook"]+"/rotate_secret", `{"overlap_hours": `+hours+`}`)
		w.secrets[name] = got.Field("secret").(string)
	}
	rotate("rotated", "24")
	rotate("gone", "0")
	w.values["held_delivery"] = testDelivery(w.own, w.values["spare_webhook"])
	w.own.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+w.values["held_delivery"]+"/hold", "")
	w.values["canceled_delivery"] = testDelivery(w.own, w.values["deleted_webhook"])
	w.own.Must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+w.values["deleted_webhook"], "")
	w.own.AwaitDelivery(w.values["canceled_delivery"], "status", "canceled", 40*time.Second)
	w.values["replay"] = replayed(w.own, w.values["webhook"])
}

func register(m *e2e.Merchant) (id, secret string) {
	got := m.Must(http.StatusCreated, http.MethodPost, "/v1/webhooks", `{"url": "https://shop.example/hook", "events": ["merchant.updated"]}`)
	id = got.Field("id").(string)
	m.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+id+"/hold", "")
	return id, got.Field("secret").(string)
}

func testDelivery(m *e2e.Merchant, registration string) string {
	return m.Must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+registration+"/test", "").Field("delivery.id").(string)
}

// replayed makes a bulk replay of nothing that has ended.
func replayed(m *e2e.Merchant, registration string) string {
	id := m.Must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+registration+"/replay", `{"since": "2026-01-01T00:00:00Z", "status": "canceled"}`).Field("id").(string)
	e2e.Await(m.T, "the replay has ended", 20*time.Second, func() bool {
		return m.Must(http.StatusOK, http.MethodGet, "/v1/replays/"+id, "").Field("status") == "completed"
	})
	return id
}

// addLive makes what the merchant has in live mode, which the API does not make yet.
func (w *corpusWorld) addLive(t *testing.T) {
	w.secrets["live"] = webhook.NewSecret()
	e := must.Get(w.store.Webhooks.CreateEndpoint(t.Context(), webhook.Endpoint{
		Ref: checkout.Owner{MerchantID: w.own.ID, Mode: checkout.ModeLive}.Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: "https://shop.example/live",
		Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: w.secrets["live"],
	}))(t)
	w.values["live_webhook"] = e.ID
	client := runs.Client{Temporal: w.temporal}
	s := must.Get(w.store.Sessions.CreateSession(t.Context(), storage.NewSession{
		Session: checkout.Session{
			Ref: checkout.Owner{MerchantID: w.own.ID, Mode: checkout.ModeLive}.Ref(checkout.NewID(checkout.PrefixSession)), Amount: 1050, Currency: money.EUR,
			PayoutCurrency: money.USDC, Metadata: []byte("{}"), MaxAttempts: 3,
		}, Lifetime: checkout.SessionLifetime,
	}, client.StartSession))(t)
	w.values["live_session"] = s.ID
}

func (w *corpusWorld) addOther() {
	m := w.other
	w.values["other_webhook"], w.secrets["other"] = m.Registration(), m.Secret
	w.values["other_session"], w.values["other_event"], w.values["other_delivery"], w.values["other_payout"] = paid(m)
	w.values["other_replay"] = replayed(m, w.values["other_webhook"])
}

// corpusTables are what the merchants' input may end in.
var corpusTables = []string{
	"checkout_session", "transaction", "payout", "webhook_endpoint", "event", "webhook_delivery", "webhook_replay", "idempotent_request",
	"payout_address", "api_key",
}

// state is how many rows the merchants have in each table, and a digest of them:
// a refused request adds none and changes none.
func (w *corpusWorld) state(t *testing.T) string {
	var parts []string
	for _, table := range corpusTables {
		parts = append(parts, fmt.Sprintf(`(SELECT '%[1]s ' || count(*) || ' ' || md5(coalesce(string_agg(r::text, E'\n' ORDER BY r::text), '')) FROM %[1]s r WHERE merchant_id = ANY($1))`, table))
	}
	var state string
	require.NoError(t, w.db.QueryRow(t.Context(), "SELECT concat_ws(E'\n', "+strings.Join(parts, ", ")+")", []string{w.own.ID, w.other.ID}).Scan(&state))
	return state
}

// settle waits until nothing changes by itself any more.
func (w *corpusWorld) settle(t *testing.T) {
	last := ""
	e2e.Await(t, "at rest", 20*time.Second, func() bool {
		before := last
		last = w.state(t)
		if before == last {
			return true
		}
		time.Sleep(150 * time.Millisecond)
		return false
	})
}

// claim lets another process work on the request of an Idempotency-Key.
func (w *corpusWorld) claim(t *testing.T, c corpusCase) {
	fingerprint := sha256.Sum256([]byte(w.say(t, *c.Body, nil)))
	_, _, err := w.store.Requests.ClaimRequest(t.Context(), storage.IdempotentRequest{
		Owner: checkout.Owner{MerchantID: w.own.ID, Mode: checkout.ModeTest}, Route: c.Method + " " + w.say(t, c.Path, nil), Key: c.Busy,
	}, fingerprint[:])
	require.NoError(t, err)
}

// requireNoOtherWorkflow: Temporal has a run for each session, delivery and bulk
// replay of the merchants, and no other. A payout has a run only if a busy worker did not send it within a second. The
// index of runs follows with a delay; once it has a session that is made now, it has what came before.
func (w *corpusWorld) requireNoOtherWorkflow(t *testing.T) {
	last := w.own.Create(e2e.Terms)
	w.last = ""
	merchants := fmt.Sprintf("MerchantId IN (%q, %q)", w.own.ID, w.other.ID)
	count := func(query string) int {
		got, err := w.temporal.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: query})
		require.NoError(t, err)
		return int(got.GetCount())
	}
	e2e.Await(t, "the index of workflows has the last session", 40*time.Second, func() bool {
		return count(fmt.Sprintf("%s AND WorkflowId = %q", merchants, last)) == 1
	})
	rows := 0
	for _, table := range []string{"checkout_session", "webhook_delivery", "webhook_replay"} {
		rows += e2e.Query[int](t, w.stack, `SELECT count(*) FROM `+table+` WHERE merchant_id = ANY($1)`, []string{w.own.ID, w.other.ID})
	}
	require.Equal(t, rows, count(fmt.Sprintf("%s AND WorkflowId NOT IN (%q, %q)", merchants, w.values["payout"], w.values["other_payout"])))
}
