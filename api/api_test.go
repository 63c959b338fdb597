package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"example.com/checkout/api/conformance"
	"example.com/checkout/api/health"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/runs/runstest"
)

// spans holds the spans of all requests in all tests.
var spans = tracetest.NewInMemoryExporter()

func TestMain(m *testing.M) {
	pgtemp.RunInParallel()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	code := m.Run()
	if code == 0 && !everyAnswerWasSeen() {
		code = 1
	}
	os.Exit(code)
}

// unreachableTemporal returns a client to a port without a listener.
func unreachableTemporal(t *testing.T) client.Client {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	c, err := client.NewLazyClient(client.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// shop is a merchant with a key for each mode.
type shop struct {
	merchant.Merchant
	testKey, liveKey     string
	testKeyID, liveKeyID string
}

func (m shop) key(mode checkout.Mode) string {
	if mode.Live() {
		return m.liveKey
	}
	return m.testKey
}

// front is a front end with its own PostgreSQL, so its test is parallel.
type front struct {
	storagetest.Database
	t        *testing.T
	store    *storage.Store
	temporal *runstest.Temporal
	config   Config
	handler  http.Handler
	log      *bytes.Buffer
	merchant shop
	key      string // of the merchant in test mode
}

// plenty are limits that tests of other subjects never reach.
var plenty = Limits{
	Reads:   storage.Rates{Test: storage.Rate{PerSecond: 1e4, Burst: 1e4}, Live: storage.Rate{PerSecond: 1e4, Burst: 1e4}},
	Writes:  storage.Rates{Test: storage.Rate{PerSecond: 1e4, Burst: 1e4}, Live: storage.Rate{PerSecond: 1e4, Burst: 1e4}},
	BadKeys: storage.Rate{PerSecond: 1e4, Burst: 1e4},
	Verify:  storage.Rate{PerSecond: 1e4, Burst: 1e4},
}

var errPrivate = errors.New("must not lead to a private address")

func newFront(t *testing.T, change ...func(*Config)) *front {
	t.Parallel()
	f := &front{t: t, Database: storagetest.New(t), temporal: &runstest.Temporal{}, log: &bytes.Buffer{}}
	f.store = f.Open(t, 4)
	f.config = Config{
		Store:       StoreOf(f.store),
		Runs:        &runs.Client{Temporal: f.temporal},
		CheckoutURL: "https://pay.example.com/c",
		CheckAddress: func(_ context.Context, _ checkout.Mode, host string) error {
			if host == "10.0.0.1" {
				return errPrivate
			}
			return nil
		},
		Payouts: map[checkout.Mode]*Payouts{checkout.ModeLive: {
			Currencies:   money.PayoutCurrencies,
			NoQuoteSince: func(money.Currency, money.PayoutCurrency) time.Time { return time.Time{} },
			Bounds: func(money.Currency, money.PayoutCurrency) (checkout.PayoutBounds, bool) {
				return checkout.PayoutBounds{Most: money.MaxAmount}, true
			},
		}},
		SessionLifetime: checkout.SessionLifetime, Limits: plenty, Shares: limit.NewShares(6), IdempotencyWait: -1,
		Log: slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&f.config)
	}
	if f.config.Health == nil {
		f.config.Health = working(f.config, f.store)
	}
	f.handler = New(f.config)
	f.merchant = f.newMerchant(true)
	f.key = f.merchant.testKey
	t.Cleanup(f.checkEvents)
	return f
}

// working is the health of a process that has started.
func working(c Config, store *storage.Store) *health.State {
	state := health.Starting("")
	state.SetChecks(store.Ping, health.Temporal(c.Runs.Temporal))
	return state
}

// second returns another process of the same service.
func (f *front) second() *front {
	other := *f
	other.store = f.Open(f.t, 4)
	other.config.Store, other.config.Shares = StoreOf(other.store), limit.NewShares(6)
	other.config.Health = working(other.config, other.store)
	other.handler = New(other.config)
	return &other
}

func (f *front) newMerchant(guard bool) shop {
	m := shop{Merchant: merchant.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard",
		FeeBasisPoints: 100, PaymentAttempts: 3, OrderIDGuard: guard,
	}}
	addresses := []merchant.PayoutAddress{{Currency: money.USDC, Network: "ethereum", Address: "0xab"}}
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		require.NoError(f.t, f.store.Merchants.CreateMerchant(f.t.Context(), m.Merchant, mode, addresses))
		key, id := merchant.NewAPIKey(mode), checkout.NewID(checkout.PrefixAPIKey)
		require.NoError(f.t, f.store.Merchants.CreateAPIKey(f.t.Context(), merchant.APIKey{Ref: checkout.Owner{MerchantID: m.ID, Mode: mode}.Ref(id), Label: "t"}, key))
		if mode.Live() {
			m.liveKey, m.liveKeyID = key, id
		} else {
			m.testKey, m.testKeyID = key, id
		}
	}
	return m
}

type answer struct {
	status int
	header http.Header
	body   string
	json   map[string]any
}

// do sends a request. Every answer must be JSON and have the headers that all answers have.
func (f *front) do(method, path, key, body string, header ...string) answer {
	r := httptest.NewRequestWithContext(f.t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	return f.send(r)
}

// answers is do for a request whose answer must have a status.
func (f *front) answers(status int, method, path, key, body string, header ...string) answer {
	got := f.do(method, path, key, body, header...)
	require.Equal(f.t, status, got.status, got.body)
	return got
}

func (f *front) send(r *http.Request) answer {
	w := f.serve(r)
	got := answer{status: w.Code, header: w.Header(), body: w.Body.String()}
	require.Equal(f.t, "application/json", got.header.Get("Content-Type"), got.body)
	require.Equal(f.t, "no-store", got.header.Get("Cache-Control"))
	require.Equal(f.t, "nosniff", got.header.Get("X-Content-Type-Options"))
	require.NotEmpty(f.t, got.header.Get("X-Request-Id"))
	require.NoError(f.t, json.Unmarshal(w.Body.Bytes(), &got.json), got.body)
	if got.status >= 400 {
		require.Equal(f.t, got.header.Get("X-Request-Id"), got.json["request_id"])
		require.NotEmpty(f.t, got.json["error"])
		require.NotEmpty(f.t, got.json["message"])
	}
	return got
}

// serve answers a request. openapi.yaml must promise the answer.
func (f *front) serve(r *http.Request) *httptest.ResponseRecorder {
	w, body := httptest.NewRecorder(), &bytes.Buffer{}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(r.Body, body), r.Body}
	f.handler.ServeHTTP(w, r)
	checkAnswer(f.t, conformance.Exchange{
		Method: r.Method, URL: r.URL, Request: r.Header, RequestBody: body.Bytes(), Status: w.Code, Header: w.Header(), Body: w.Body.Bytes(),
	})
	return w
}

func (a answer) withoutID() string {
	return strings.ReplaceAll(a.body, a.header.Get("X-Request-Id"), "req")
}

// refused is the status and the code of an error.
func (a answer) refused() string { return fmt.Sprint(a.status, " ", a.json["error"]) }

func timeIn(t *testing.T, text any) time.Time {
	at, err := time.Parse(time.RFC3339, text.(string))
	require.NoError(t, err)
	return at
}

func (a answer) params() []string {
	var params []string
	faults, _ := a.json["errors"].([]any)
	for _, f := range faults {
		params = append(params, f.(map[string]any)["param"].(string))
	}
	return params
}

// ref names an object of the merchant in test mode.
func (f *front) ref(id string) checkout.Ref { return f.merchant.Owner(checkout.ModeTest).Ref(id) }

func (f *front) count(table string) int {
	return storagetest.Value[int](f.t, f.Database, `SELECT count(*) FROM `+table)
}

func (f *front) exec(sql string, args ...any) {
	f.Exec(f.t, sql, args...)
}

const validSession = `{"amount":10.5,"currency":"USD","payout_currency":"USDC"}`

func (f *front) newSession(key string) string {
	got := f.answers(201, "POST", "/v1/checkout", key, validSession)
	return got.json["id"].(string)
}

// newEndpoint registers a webhook for all event types and returns its id and its
// secret.
func (f *front) newEndpoint(key string) (id, secret string) {
	got := f.answers(201, "POST", "/v1/webhooks", key, `{"url":"https://shop.example/hook","events":["*"]}`)
	return got.json["id"].(string), got.json["secret"].(string)
}

// newDelivery sends a test event and returns the event's id and the delivery's id.
func (f *front) newDelivery(key, endpoint string) (event, delivery string) {
	got := f.answers(202, "POST", "/v1/webhooks/"+endpoint+"/test", key, "")
	return at(got, "event", "id"), at(got, "delivery", "id")
}

func (f *front) endReplays() {
	f.exec(`UPDATE webhook_replay SET status = 'completed', finished_at = now() WHERE status = 'running'`)
}

// newReplay starts a bulk replay and returns its id. It ends other bulk replays first.
func (f *front) newReplay(key, endpoint string) string {
	f.endReplays()
	got := f.answers(202, "POST", "/v1/webhooks/"+endpoint+"/replay", key, `{"since":"2026-01-01T00:00:00Z"}`)
	return got.json["id"].(string)
}

// newPayout creates a completed session with a sent payout and returns their ids. Registrations get
// no events of them.
func (f *front) newPayout(m shop, mode checkout.Mode) (session, payout string) {
	session, payout = f.newSession(m.key(mode)), checkout.NewID(checkout.PrefixPayout)
	transaction := checkout.NewID(checkout.PrefixTransaction)
	f.exec(`INSERT INTO transaction (id, session_id, merchant_id, mode, status, attempt, fee, net, exchange_rate, payment_method, acquirer, acquirer_ref, chain_ref, session_status, created_at, completed_at)
		SELECT $2, id, merchant_id, mode, 'succeeded', 1, 11, 1039, '1', '{"type":"card","brand":"visa","last4":"4242","exp_month":8,"exp_year":2029,"country":"US","three_d_secure":false}', 'sandbox', $2, 'sandbox', 'completed', created_at, created_at
		FROM checkout_session WHERE id = $1`, session, transaction)
	f.exec(`INSERT INTO payout (id, session_id, transaction_id, merchant_id, mode, status, amount, currency, network, destination,
			source_amount, source_currency, exchange_rate, fee, tx_hash, created_at, sent_at)
		SELECT $3, id, $2, merchant_id, mode, 'sent', '10.39', 'USDC', 'ethereum', '0xab', 1039, 'USD', '1', '0.01', '0xcd', created_at, created_at
		FROM checkout_session WHERE id = $1`, session, transaction, payout)
	f.exec(`WITH entry AS (
			INSERT INTO ledger_entry (mode, kind, subject, generation, merchant_id, created_at)
			SELECT mode, 'charge', $2, 1, merchant_id, created_at FROM checkout_session WHERE id = $1 RETURNING *
		) INSERT INTO ledger_posting (entry_id, mode, account, holder, asset, amount)
		SELECT id, mode, account, holder, 'USD', amount FROM entry CROSS JOIN LATERAL (VALUES
			('sandbox', '', 1050), ('merchant:payable', merchant_id, -1039), ('revenue:fee', '', -11)) p (account, holder, amount)`,
		session, transaction)
	f.exec(`UPDATE checkout_session SET status = 'completed', attempts = 1, ended_at = created_at WHERE id = $1`, session)
	return session, payout
}

// newMoneyBack makes a refund of 1.00, which the bank returned, and an inquiry of the bank, of a session of newPayout.
func (f *front) newMoneyBack(session string) (refund, dispute string) {
	refund, dispute = checkout.NewID(checkout.PrefixRefund), checkout.NewID(checkout.PrefixDispute)
	f.exec(`INSERT INTO refund (id, mode, merchant_id, acquirer_ref, transaction_id, reason, status, amount, fee_returned, network_ref, created_at, ended_at)
		SELECT $2, mode, merchant_id, id, id, 'merchant', 'failed', 100, 1, 're_1', created_at, created_at FROM transaction WHERE session_id = $1`, session, refund)
	f.exec(`INSERT INTO charge_risk (id, mode, merchant_id, transaction_id, kind, status, amount, currency, noted_at, changed_at, dispute_id, respond_by)
		SELECT 'du_' || id, mode, merchant_id, id, 'dispute', 'inquiry', 1050, 'USD', created_at, created_at, $2, '2100-01-01' FROM transaction WHERE session_id = $1`, session, dispute)
	return refund, dispute
}

// balanceTransactionOf returns the id of the balance transaction of a paid session.
func (f *front) balanceTransactionOf(session string) string {
	owner := checkout.Owner{
		MerchantID: storagetest.Value[string](f.t, f.Database, `SELECT merchant_id FROM checkout_session WHERE id = $1`, session),
		Mode:       storagetest.Value[checkout.Mode](f.t, f.Database, `SELECT mode FROM checkout_session WHERE id = $1`, session),
	}
	payment := storage.BalanceFilter{Type: checkout.BalancePayment, Source: f.transactionOf(session)}
	got, err := f.store.Balances.Transactions(f.t.Context(), owner, payment, pg.Page{Limit: 1})
	require.NoError(f.t, err)
	return got[0].ID
}

// at returns a string inside an answer.
func at(a answer, path ...string) string {
	var value any = a.json
	for _, name := range path {
		value = value.(map[string]any)[name]
	}
	return value.(string)
}

func (a answer) ids() []string {
	ids := []string{}
	for _, entry := range a.json["data"].([]any) {
		ids = append(ids, entry.(map[string]any)["id"].(string))
	}
	return ids
}

// expireAs makes Temporal call do with the session's id when it is asked to expire a session.
func (f *front) expireAs(do func(id string) error) {
	f.temporal.Update = func(o client.UpdateWorkflowOptions) error { return do(o.WorkflowID) }
}

// endsExpired returns the work of a healthy workflow: it expires the session.
func (f *front) endsExpired(m shop, mode checkout.Mode) func(string) error {
	return func(id string) error {
		s, err := f.store.Sessions.Session(context.Background(), checkout.Owner{MerchantID: m.ID, Mode: mode}.Ref(id))
		if err != nil {
			return err
		}
		_, err = f.store.Sessions.ExpireSession(context.Background(), checkout.Owner{MerchantID: m.ID, Mode: mode}.Ref(id), storage.Expiry{At: s.ExpiresAt, Early: true})
		return err
	}
}

func newRequest(t *testing.T, method, path, body string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}
