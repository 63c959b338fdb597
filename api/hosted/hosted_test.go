package hosted

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
)

const (
	testURL    = "https://pay.example.test/checkout"
	bankURL    = "https://bank.example.test/confirm?x=1&y=2"
	canaryCard = "4242424242424242"
	canaryCVC  = "987"
	// closedPolicy is the policy of every page but one, character for character.
	closedPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	// stripePolicy is the policy of the page with the acquirer's form.
	stripePolicy = "default-src 'none'; style-src 'self'; script-src 'self' https://js.stripe.com https://*.js.stripe.com; img-src 'self'; " +
		"font-src 'self'; connect-src 'self' https://api.stripe.com; " +
		"frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	redirectURL = "https://shop.example.test/thanks?order=7&who=(a)'b'#done"
)

// harness is a hosted page on a real PostgreSQL. pay and complete replace the workflow.
type harness struct {
	t        *testing.T
	database storagetest.Database
	store    *storage.Store
	server   *server
	handler  http.Handler
	log      *bytes.Buffer
	cards    *cardNetwork
	pay      func(h *harness, ref checkout.Ref, transactionID string) (contract.PaymentResult, error)
	complete func(h *harness, ref checkout.Ref, transactionID string) (contract.PaymentResult, error)
	refs     map[string]checkout.Ref
	pictures map[string][]checkout.Picture // to fetch, by session
	paid     []string                      // transactions that were asked for
	mu       sync.Mutex
}

func newHarness(t *testing.T) *harness {
	t.Parallel()
	return newHarnessAlone(t)
}

// newHarnessAlone is newHarness for a test that is not parallel, or has several harnesses.
func newHarnessAlone(t *testing.T) *harness {
	db := storagetest.New(t)
	store := db.Open(t, 4)
	h := &harness{t: t, database: db, store: store, log: &bytes.Buffer{}, cards: &cardNetwork{},
		refs: map[string]checkout.Ref{}, pictures: map[string][]checkout.Picture{}}
	h.server = newServer(Config{
		People: store.People, Requests: store.Requests, Sessions: store.Sessions, Runs: &runs.Client{Temporal: fakeTemporal{h: h}}, TestCards: h.cards, CheckoutURL: testURL,
		Limits: limit.Rates{Requests: storage.Rate{PerSecond: 1000, Burst: 1000}, Forms: storage.Rate{PerSecond: 1000, Burst: 1000}},
		Shares: limit.NewShares(6),
		Log:    slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	h.handler = h.server.handler()
	return h
}

// cardNetwork records the card that it got.
type cardNetwork struct {
	checkout.CardNetwork
	err       error
	mu        sync.Mutex // guards seen, because forms come at the same time
	seen      []string
	undecided bool // the network's answer about every payment
}

func (n *cardNetwork) Payment(context.Context, string) (checkout.ChargeResult, error) {
	if n.undecided {
		return checkout.ChargeResult{Outcome: checkout.OutcomeActionRequired}, nil
	}
	return checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}, nil
}

func (n *cardNetwork) Tokenize(_ context.Context, c checkout.Card) (string, checkout.PaymentMethod, error) {
	if n.err != nil {
		return "", checkout.PaymentMethod{}, n.err
	}
	n.mu.Lock()
	n.seen = append(n.seen, c.Number+" "+c.CVC)
	n.mu.Unlock()
	return "tok_1", checkout.PaymentMethod{Type: "card", Brand: "visa", Last4: c.Number[len(c.Number)-4:], ExpMonth: c.ExpMonth, ExpYear: c.ExpYear}, nil
}

type fakeTemporal struct {
	client.Client
	h *harness
}

func (f fakeTemporal) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	ref := f.h.refs[o.WorkflowID]
	if o.UpdateName == contract.UpdateComplete {
		got, err := f.h.complete(f.h, ref, o.Args[0].(contract.CompleteInput).TransactionID)
		return fakeHandle{got: got}, err
	}
	id := o.Args[0].(contract.PayInput).TransactionID
	f.h.mu.Lock()
	f.h.paid = append(f.h.paid, id)
	f.h.mu.Unlock()
	got, err := f.h.pay(f.h, ref, id)
	return fakeHandle{got: got}, err
}

type fakeHandle struct {
	client.WorkflowUpdateHandle
	got contract.PaymentResult
}

func (f fakeHandle) Get(_ context.Context, into any) error {
	*into.(*contract.PaymentResult) = f.got
	return nil
}

// What the workflow may do with a payment.

func decides(result checkout.ChargeResult) func(*harness, checkout.Ref, string) (contract.PaymentResult, error) {
	return func(h *harness, ref checkout.Ref, id string) (contract.PaymentResult, error) {
		ctx := h.t.Context()
		if _, err := h.store.Sessions.BeginPayment(ctx, ref, id, checkout.Quote{Rate: money.MustRate("1.08")}, id); err != nil {
			return contract.PaymentResult{}, refused(contract.ErrTypePaymentNotFound)
		}
		result.Method = checkout.PaymentMethod{Type: "card", Brand: "visa", Last4: "4242"}
		_, _, err := h.store.Sessions.RecordCharge(ctx, ref, id, result)
		require.NoError(h.t, err)
		got := contract.PaymentResult{Outcome: result.Outcome, Failure: result.Failure}
		if result.Outcome.Final() {
			_, err := h.store.Sessions.FinishPayment(ctx, ref, id)
			require.NoError(h.t, err)
		}
		return got, nil
	}
}

var (
	succeeds = decides(checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	declines = decides(checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureInsufficientFunds})
	asksBank = decides(checkout.ChargeResult{Outcome: checkout.OutcomeActionRequired, ActionURL: bankURL})
	takes    = decides(checkout.ChargeResult{Outcome: checkout.OutcomeProcessing})
)

func refused(errType string) error { return temporal.NewApplicationError("refused", errType) }

func refuses(errType string) func(*harness, checkout.Ref, string) (contract.PaymentResult, error) {
	return func(*harness, checkout.Ref, string) (contract.PaymentResult, error) {
		return contract.PaymentResult{}, refused(errType)
	}
}

func unknown(*harness, checkout.Ref, string) (contract.PaymentResult, error) {
	return contract.PaymentResult{}, context.DeadlineExceeded
}

// session creates a session after with has changed it.
func (h *harness) session(with ...func(*storage.NewSession, *merchant.Merchant)) string {
	merchant := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Aurora Coffee", Plan: "standard", PaymentAttempts: 3}
	email, redirect := "ada@example.com", redirectURL
	n := storage.NewSession{Lifetime: time.Hour, Session: checkout.Session{
		Ref: checkout.Owner{Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixSession)), Amount: 1050, Currency: money.USD,
		PayoutCurrency: money.USDC, Metadata: json.RawMessage(`{}`), CustomerEmail: &email, RedirectURL: &redirect, MaxAttempts: 3,
	}}
	for _, f := range with {
		f(&n, &merchant)
	}
	n.MerchantID = merchant.ID
	require.NoError(h.t, h.store.Merchants.CreateMerchant(h.t.Context(), merchant, n.Mode, nil))
	created, err := h.store.Sessions.CreateSession(h.t.Context(), n, func(context.Context, checkout.Session) error { return nil })
	require.NoError(h.t, err)
	h.refs[n.ID], h.pictures[n.ID] = merchant.Owner(n.Mode).Ref(n.ID), created.Pictures
	return n.ID
}

func (h *harness) read(id string) checkout.Session {
	s, _, err := h.store.Sessions.CustomerSession(h.t.Context(), id)
	require.NoError(h.t, err)
	return s
}

func (h *harness) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	body := w.Body.String()
	require.NotContains(h.t, body, canaryCard)
	require.NotContains(h.t, body, "value=\""+canaryCVC)
	if w.Code != http.StatusSeeOther && strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		title, _, _ := strings.Cut(body[strings.Index(body, "<title>"):], "</title>")
		require.NotRegexp(h.t, `(cs|txn)_[0-9a-z]{26}`, title)
		policy := closedPolicy
		if strings.Contains(body, `<div id="card"`) {
			policy = stripePolicy
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Content-Security-Policy": policy, "Cross-Origin-Opener-Policy": "same-origin",
		} {
			require.Equal(h.t, want, w.Header().Get(name))
		}
		require.NotEmpty(h.t, w.Header().Get("Permissions-Policy"))
	}
	return w
}

func (h *harness) get(path string) *httptest.ResponseRecorder {
	return h.do(httptest.NewRequestWithContext(h.t.Context(), http.MethodGet, testURL+path, nil))
}

func (h *harness) post(path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(h.t.Context(), http.MethodPost, testURL+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Origin", "null") // what browsers send under Referrer-Policy: no-referrer
	return h.do(r)
}

func goodCard() url.Values {
	return url.Values{fieldCardNumber: {"4242 4242 4242 4242"}, fieldExp: {"12/40"}, fieldCVC: {canaryCVC}, fieldEmail: {"ada@example.com"}}
}

func (h *harness) requireRedirect(w *httptest.ResponseRecorder, to string) {
	require.Equal(h.t, http.StatusSeeOther, w.Code)
	require.Equal(h.t, to, w.Header().Get("Location"))
}

// follow opens the page that w leads to, or reads the form with a decline.
func (h *harness) follow(w *httptest.ResponseRecorder) string {
	if w.Code == http.StatusOK {
		return w.Body.String()
	}
	require.Equal(h.t, http.StatusSeeOther, w.Code)
	return h.get(strings.TrimPrefix(w.Header().Get("Location"), "/checkout")).Body.String()
}

func TestMain(m *testing.M) {
	pgtemp.RunInParallel()
	os.Exit(m.Run())
}
