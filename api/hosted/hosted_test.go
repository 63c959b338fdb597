package hosted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/net/html"

	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

const (
	testURL     = "https://pay.example.test/checkout"
	bankURL     = "https://bank.example.test/confirm?x=1&y=2"
	canaryCard  = "4242424242424242"
	canaryCVC   = "987"
	redirectURL = "https://shop.example.test/thanks?order=7&who=(a)'b'#done"
)

// harness is a hosted page on a real PostgreSQL. The workflow's part is played
// by pay and complete.
type harness struct {
	t        *testing.T
	store    *storage.Store
	server   *server
	handler  http.Handler
	log      *bytes.Buffer
	cards    *cardNetwork
	pay      func(h *harness, ref checkout.Ref, transactionID string) (workflows.PaymentResult, error)
	complete func(h *harness, ref checkout.Ref, transactionID string) (workflows.PaymentResult, error)
	refs     map[string]checkout.Ref
	paid     []string // transactions that were asked for
	mu       sync.Mutex
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	keys, err := storage.ParseKeyring(storage.NewMasterKey("test"))
	require.NoError(t, err)
	store, err := storage.Open(t.Context(), storage.Options{URL: pgtemp.ForTest(t, storage.Migrate), Keys: keys, MaxConns: 4})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	h := &harness{t: t, store: store, log: &bytes.Buffer{}, cards: &cardNetwork{}, refs: map[string]checkout.Ref{}}
	h.server = newServer(Config{
		Store: store, Workflows: &runs.Client{Temporal: fakeTemporal{h: h}}, TestCards: h.cards, CheckoutURL: testURL,
		Limits: limit.Rates{Requests: storage.Rate{PerSecond: 1000, Burst: 1000}, Forms: storage.Rate{PerSecond: 1000, Burst: 1000}},
		Log:    slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	h.handler = h.server.handler()
	return h
}

// cardNetwork notes the card that it was given.
type cardNetwork struct {
	checkout.CardNetwork
	err       error
	mu        sync.Mutex // of seen: forms come side by side
	seen      []string
	undecided bool // what the network says of every payment
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
	if o.UpdateName == workflows.UpdateComplete {
		got, err := f.h.complete(f.h, ref, o.Args[0].(workflows.CompleteInput).TransactionID)
		return fakeHandle{got: got}, err
	}
	id := o.Args[0].(workflows.PayInput).TransactionID
	f.h.mu.Lock()
	f.h.paid = append(f.h.paid, id)
	f.h.mu.Unlock()
	got, err := f.h.pay(f.h, ref, id)
	return fakeHandle{got: got}, err
}

type fakeHandle struct {
	client.WorkflowUpdateHandle
	got workflows.PaymentResult
}

func (f fakeHandle) Get(_ context.Context, into any) error {
	*into.(*workflows.PaymentResult) = f.got
	return nil
}

// What the workflow may do with a payment.

func decides(result checkout.ChargeResult) func(*harness, checkout.Ref, string) (workflows.PaymentResult, error) {
	return func(h *harness, ref checkout.Ref, id string) (workflows.PaymentResult, error) {
		ctx := h.t.Context()
		if _, err := h.store.BeginPayment(ctx, ref, id, "1.08"); err != nil {
			return workflows.PaymentResult{}, refused(workflows.ErrTypePaymentNotFound)
		}
		result.Method = checkout.PaymentMethod{Type: "card", Brand: "visa", Last4: "4242"}
		_, _, err := h.store.RecordCharge(ctx, ref, id, result)
		require.NoError(h.t, err)
		got := workflows.PaymentResult{Outcome: result.Outcome, Failure: result.Failure}
		if result.Outcome.Final() {
			_, err := h.store.FinishPayment(ctx, ref, id)
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

func refuses(errType string) func(*harness, checkout.Ref, string) (workflows.PaymentResult, error) {
	return func(*harness, checkout.Ref, string) (workflows.PaymentResult, error) {
		return workflows.PaymentResult{}, refused(errType)
	}
}

func unknown(*harness, checkout.Ref, string) (workflows.PaymentResult, error) {
	return workflows.PaymentResult{}, context.DeadlineExceeded
}

// session creates a session; with changes it.
func (h *harness) session(with ...func(*storage.NewSession, *checkout.Merchant)) string {
	h.t.Helper()
	merchant := checkout.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Aurora Coffee", Plan: "standard", PaymentAttempts: 3}
	email, redirect := "ada@example.com", redirectURL
	n := storage.NewSession{Lifetime: time.Hour, Session: checkout.Session{
		Ref: checkout.Owner{Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixSession)), Amount: 1050, Currency: checkout.USD,
		PayoutCurrency: checkout.USDC, Metadata: json.RawMessage(`{}`), CustomerEmail: &email, RedirectURL: &redirect, MaxAttempts: 3,
	}}
	for _, f := range with {
		f(&n, &merchant)
	}
	n.MerchantID = merchant.ID
	require.NoError(h.t, h.store.CreateMerchant(h.t.Context(), merchant, n.Mode, nil))
	_, err := h.store.CreateSession(h.t.Context(), n, func(context.Context, checkout.Session) error { return nil })
	require.NoError(h.t, err)
	h.refs[n.ID] = merchant.Owner(n.Mode).Ref(n.ID)
	return n.ID
}

func (h *harness) read(id string) checkout.Session {
	h.t.Helper()
	s, _, err := h.store.CustomerSession(h.t.Context(), id)
	require.NoError(h.t, err)
	return s
}

func (h *harness) do(r *http.Request) *httptest.ResponseRecorder {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	body := w.Body.String()
	require.NotContains(h.t, body, canaryCard)
	require.NotContains(h.t, body, "value=\""+canaryCVC)
	if w.Code != http.StatusSeeOther && strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		title, _, _ := strings.Cut(body[strings.Index(body, "<title>"):], "</title>")
		require.NotRegexp(h.t, `(cs|txn)_[0-9a-z]{26}`, title)
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Content-Security-Policy": web.Policy(""),
		} {
			require.Equal(h.t, want, w.Header().Get(name))
		}
		require.NotEmpty(h.t, w.Header().Get("Permissions-Policy"))
	}
	return w
}

func (h *harness) get(path string) *httptest.ResponseRecorder {
	h.t.Helper()
	return h.do(httptest.NewRequestWithContext(h.t.Context(), http.MethodGet, testURL+path, nil))
}

func (h *harness) post(path string, form url.Values) *httptest.ResponseRecorder {
	h.t.Helper()
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
	h.t.Helper()
	require.Equal(h.t, http.StatusSeeOther, w.Code)
	require.Equal(h.t, to, w.Header().Get("Location"))
}

// follow opens the page that w leads to.
func (h *harness) follow(w *httptest.ResponseRecorder) string {
	h.t.Helper()
	require.Equal(h.t, http.StatusSeeOther, w.Code)
	return h.get(strings.TrimPrefix(w.Header().Get("Location"), "/checkout")).Body.String()
}

func TestPage_ShowsTheForm(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	order := "A-1001"
	id := h.session(func(n *storage.NewSession, _ *checkout.Merchant) {
		n.Amount, n.Currency, n.OrderID = 123_456, checkout.CAD, &order
	})
	w := h.get("/" + id)
	require.Equal(t, http.StatusOK, w.Code)
	body := w.Body.String()
	for _, want := range []string{
		"<title>Pay Aurora Coffee</title>", "CA$1,234.56", "Test mode", "4242 4242 4242 4242", "A-1001", "shop.example.test",
		`name="card_number"`, `autocomplete="cc-number"`, `autocomplete="cc-exp"`, `autocomplete="cc-csc"`, `autocomplete="email"`,
		`inputmode="numeric"`, `value="ada@example.com"`, `action="/checkout/` + id + `"`, `href="/checkout/static/checkout.css?v=`,
	} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, redirectURL, "a pending session leads nowhere")
	requireLabels(t, body)
}

func TestPay_Succeeds(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = succeeds
	id := h.session()
	w := h.post("/"+id, goodCard())
	h.requireRedirect(w, "/checkout/"+id)
	body := h.follow(w)
	for _, want := range []string{
		"Payment successful", "$10.50", "Visa •••• 4242", "Return to Aurora Coffee",
		`href="` + html.EscapeString(redirectURL) + `"`, `http-equiv="refresh" content="5;url=` + html.EscapeString(redirectURL) + `"`,
		`data-redirect="` + html.EscapeString(redirectURL) + `"`,
	} {
		require.Contains(t, body, want)
	}
	require.Equal(t, []string{canaryCard + " " + canaryCVC}, h.cards.seen)
	require.Equal(t, checkout.StatusCompleted, h.read(id).Status)
	h.requireRedirect(h.post("/"+id, goodCard()), "/checkout/"+id) // again: no second payment
	require.Len(t, h.paid, 1)
}

func TestPay_DeclinedMayTryAgainUntilTheSessionFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = declines
	id := h.session()
	for _, left := range []string{"You can try 2 more times.", "You can try one more time."} {
		w := h.post("/"+id, goodCard())
		h.requireRedirect(w, "/checkout/"+id)
		body := h.follow(w)
		require.Contains(t, body, "Your card has insufficient funds. Try another card. "+left)
		require.Contains(t, body, `role="alert"`)
		require.Contains(t, body, `name="card_number"`)
		require.NotContains(t, body, redirectURL)
	}
	body := h.follow(h.post("/"+id, goodCard()))
	require.Contains(t, body, "This payment has failed")
	require.NotContains(t, body, `name="card_number"`)
	require.NotContains(t, body, "shop.example.test", "only a completed session leads back")
	require.Len(t, h.paid, 3)
}

func TestPay_BlockedSaysWhy(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = decides(checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureFraudBlocked})
	id := h.session()
	body := h.follow(h.post("/"+id, goodCard()))
	require.Contains(t, body, "This payment has failed")
	require.Contains(t, body, "This payment was blocked. Contact the merchant.")
}

func TestPay_BankAsks(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = asksBank
	id := h.session()
	w := h.post("/"+id, goodCard())
	// Another origin: browsers refuse a form's redirect there, so a page of ours is in between.
	h.requireRedirect(w, "/checkout/"+id+"?continue")
	body := h.follow(w)
	require.Contains(t, body, "Continue to your bank")
	require.Contains(t, body, `href="`+html.EscapeString(bankURL)+`"`)
	require.Contains(t, body, "data-forward")
	require.NotContains(t, h.get("/"+id).Body.String(), "data-forward", "coming back must not bounce")
	require.Contains(t, h.get("/"+id+"/status").Body.String(), `{"status":"pending","payment_in_flight":true,"action":true,"checking":false,`)

	asked := ""
	h.complete = func(h *harness, ref checkout.Ref, txn string) (workflows.PaymentResult, error) {
		asked = txn
		_, _, err := h.store.RecordCharge(t.Context(), ref, txn, checkout.ChargeResult{
			Outcome: checkout.OutcomeSucceeded, Method: checkout.PaymentMethod{Type: "card", Brand: "visa", Last4: "4242"}})
		require.NoError(t, err)
		_, err = h.store.FinishPayment(t.Context(), ref, txn)
		return workflows.PaymentResult{Outcome: checkout.OutcomeSucceeded}, err
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, testURL+"/"+id+"/return?status=failed", strings.NewReader("anything"))
	r.Header.Set("Sec-Fetch-Site", "cross-site") // banks post
	w = h.do(r)
	h.requireRedirect(w, "/checkout/"+id)
	require.Contains(t, h.follow(w), "Payment successful")
	require.Equal(t, h.paid, []string{asked})
	h.requireRedirect(h.get("/"+id+"/return"), "/checkout/"+id) // once more: nothing to ask
}

func TestPay_BankOnOurOriginIsReachedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	address := "https://pay.example.test/sandbox/3ds/txn"
	h.pay = decides(checkout.ChargeResult{Outcome: checkout.OutcomeActionRequired, ActionURL: address})
	h.requireRedirect(h.post("/"+h.session(), goodCard()), address)
}

func TestReturn_UnknownOutcomeKeepsWaiting(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay, h.complete = asksBank, unknown
	id := h.session()
	h.post("/"+id, goodCard())
	w := h.get("/" + id + "/return")
	h.requireRedirect(w, "/checkout/"+id)
	require.Contains(t, h.follow(w), "I have confirmed already")
}

// Anybody with the link can come back any number of times; each question would
// leave a trace in the workflow.
func TestReturn_AsksTheWorkflowOnlyOnceTheNetworkHasDecided(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay, h.cards.undecided = asksBank, true
	h.complete = func(*harness, checkout.Ref, string) (workflows.PaymentResult, error) {
		t.Error("the workflow was asked")
		return workflows.PaymentResult{}, nil
	}
	id := h.session()
	h.post("/"+id, goodCard())
	h.requireRedirect(h.get("/"+id+"/return"), "/checkout/"+id)
}

func TestStatus_AnInventedPaymentNeverReachesTheWorkflow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.session()
	for _, path := range []string{"/" + id + "?payment=", "/" + id + "/status?payment="} {
		require.Less(t, h.get(path+checkout.NewID(checkout.PrefixTransaction)).Code, 400)
	}
	require.Empty(t, h.paid)
}

func TestPay_Processing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = takes
	id := h.session()
	w := h.post("/"+id, goodCard())
	h.requireRedirect(w, "/checkout/"+id)
	body := h.follow(w)
	require.Contains(t, body, "Your payment is being processed")
	require.Contains(t, body, `<noscript><meta http-equiv="refresh" content="3;url=/checkout/`+id+`"></noscript>`)
	require.NotContains(t, body, `name="card_number"`)
	h.requireRedirect(h.post("/"+id, goodCard()), "/checkout/"+id+"?processing") // a second tab
	require.Len(t, h.paid, 1)
	require.Len(t, h.cards.seen, 1)
}

func TestPay_UnknownOutcomeNeverInvitesToPayAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = unknown
	id := h.session()
	w := h.post("/"+id, goodCard())
	txn := h.paid[0]
	h.requireRedirect(w, "/checkout/"+id+"?payment="+txn)
	body := h.follow(w)
	require.Contains(t, body, "We are still checking your payment")
	require.NotContains(t, body, `name="card_number"`)
	require.Contains(t, body, `content="3;url=/checkout/`+id+`?payment=`+txn+`"`)
	require.Contains(t, h.get("/"+id+"/status?payment="+txn).Body.String(), `"checking":true`)

	h.pay = succeeds // Temporal is back: the very same payment goes on
	require.Contains(t, h.get("/"+id+"/status?payment="+txn).Body.String(), `"status":"completed","payment_in_flight":false,"action":false,"checking":false`)
	require.Contains(t, h.get("/"+id+"?payment="+txn).Body.String(), "Payment successful")
	for _, again := range h.paid {
		require.Equal(t, txn, again)
	}
}

func TestPay_UnknownOutcomeThatHadBegunShowsProcessing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = func(h *harness, ref checkout.Ref, txn string) (workflows.PaymentResult, error) {
		_, err := h.store.BeginPayment(t.Context(), ref, txn, "1.08")
		require.NoError(t, err)
		return workflows.PaymentResult{}, context.DeadlineExceeded
	}
	id := h.session()
	require.Contains(t, h.follow(h.post("/"+id, goodCard())), "Your payment is being processed")
	h.requireRedirect(h.post("/"+id+"/cancel", url.Values{"payment": h.paid}), "/checkout/"+id)
	require.Contains(t, h.get("/"+id).Body.String(), "Your payment is being processed", "what has begun cannot be canceled")
	require.Len(t, h.paid, 1)
}

func TestCancel_MakesAPaymentOfUnknownOutcomeImpossible(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = unknown
	id := h.session()
	h.post("/"+id, goodCard())
	txn := h.paid[0]
	w := h.post("/"+id+"/cancel", url.Values{"payment": {txn}})
	h.requireRedirect(w, "/checkout/"+id)
	require.Contains(t, h.follow(w), `name="card_number"`)
	_, err := h.store.BeginPayment(t.Context(), h.refs[id], txn, "1.08") // the message arrives late
	require.ErrorIs(t, err, checkout.ErrNotFound)
	h.pay = succeeds
	require.Contains(t, h.follow(h.post("/"+id, goodCard())), "Payment successful")
}

func TestCancel_RacesTheBeginning(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 40 {
		id := h.session()
		txn := checkout.NewID(checkout.PrefixTransaction)
		require.NoError(t, h.store.CreatePayment(t.Context(), storage.NewPayment{ID: txn, SessionID: id, CardToken: "tok_1"}))
		var wg sync.WaitGroup
		var beginErr error
		wg.Go(func() { _, beginErr = h.store.BeginPayment(t.Context(), h.refs[id], txn, "1.08") })
		wg.Go(func() { h.post("/"+id+"/cancel", url.Values{"payment": {txn}}) })
		wg.Wait()
		begun, _, err := h.store.PaymentAction(t.Context(), id)
		require.NoError(t, err)
		if beginErr == nil { // it will be charged: the page must know
			require.Equal(t, txn, begun)
			require.True(t, h.read(id).PaymentInFlight)
		} else {
			require.ErrorIs(t, beginErr, checkout.ErrNotFound)
			require.False(t, h.read(id).PaymentInFlight)
		}
	}
}

func TestPay_RefusedIsDropped(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for errType, want := range map[string]string{
		workflows.ErrTypeSessionNotPending: "", workflows.ErrTypePaymentInFlight: "?processing", workflows.ErrTypePaymentNotFound: "",
	} {
		h.paid, h.pay = nil, refuses(errType)
		id := h.session()
		h.requireRedirect(h.post("/"+id, goodCard()), "/checkout/"+id+want)
		_, err := h.store.BeginPayment(t.Context(), h.refs[id], h.paid[0], "1.08")
		require.ErrorIs(t, err, checkout.ErrNotFound, errType)
		require.Contains(t, h.get("/"+id+"?processing").Body.String(), "is being processed")
	}
}

func TestPay_FormThatWasOvertakenIsNotPaid(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = declines
	id := h.session()
	form := goodCard()
	form.Set(fieldAttempt, "0")
	h.post("/"+id, form)
	h.requireRedirect(h.post("/"+id, form), "/checkout/"+id) // sent twice, or from a second tab
	require.Len(t, h.paid, 1)
	form.Set(fieldAttempt, "1")
	h.post("/"+id, form)
	require.Len(t, h.paid, 2)
}

// A double click without JavaScript, and a reload of the POST: whatever the
// moment at which the second one comes, the network is asked to charge once.
func TestPay_AFormThatIsSentTwiceIsOnePayment(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 10 {
		for _, outcome := range []func(*harness, checkout.Ref, string) (workflows.PaymentResult, error){succeeds, declines} {
			id := h.session()
			sent := regexp.MustCompile(`name="payment" value="(txn_[0-9a-z]{26})"`).FindStringSubmatch(h.get("/" + id).Body.String())
			require.NotNil(t, sent)
			var once sync.Mutex
			answers := map[string]workflows.PaymentResult{} // as Temporal: one answer for each update id
			h.pay = func(h *harness, ref checkout.Ref, txn string) (workflows.PaymentResult, error) {
				once.Lock()
				defer once.Unlock()
				if got, ok := answers[txn]; ok {
					return got, nil
				}
				got, err := outcome(h, ref, txn)
				answers[txn] = got
				return got, err
			}
			form := goodCard()
			form.Set(fieldPayment, sent[1])
			form.Set(fieldAttempt, "0")
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					w := h.post("/"+id, form)
					assert.Equal(t, http.StatusSeeOther, w.Code)
					assert.True(t, strings.HasPrefix(w.Header().Get("Location"), "/checkout/"+id))
				})
			}
			wg.Wait()
			h.post("/"+id, form)
			require.Len(t, answers, 1)
			require.Equal(t, 1, h.read(id).Attempts)
		}
	}
}

func TestPay_AnotherSessionsPaymentIsNotTouched(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.pay = takes
	first, second := h.session(), h.session()
	h.post("/"+first, goodCard())
	form := goodCard()
	form.Set(fieldPayment, h.paid[0])
	h.requireRedirect(h.post("/"+second, form), "/checkout/"+second)
	require.Len(t, h.paid, 1)
	require.Zero(t, h.read(second).Attempts)
	form.Set(fieldPayment, "txn_invented")
	h.post("/"+second, form)
	require.Len(t, h.paid, 2)
	require.NotEqual(t, "txn_invented", h.paid[1])
}

func TestPay_FaultsAreShownWithoutTheCard(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.session()
	w := h.post("/"+id, url.Values{fieldCardNumber: {canaryCard[:15] + "1"}, fieldExp: {"01/20"}, fieldCVC: {"98"}, fieldEmail: {"ada@"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	body := w.Body.String()
	for _, want := range []string{english.texts.NumberBad, english.texts.ExpPast, english.texts.CVCThree, english.texts.EmailBad, `value="ada@"`, `value="01 / 20"`} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, canaryCard[:15])
	require.NotContains(t, body, `value="98"`)
	require.Equal(t, 4, strings.Count(body, `aria-invalid="true"`))
	require.Regexp(t, `id="email"[^>]* autofocus`, body, "the first error has the focus")
	require.Equal(t, 1, strings.Count(body, " autofocus"))
	requireLabels(t, body)
	require.Empty(t, h.paid)

	// A card typed into the wrong fields does not come back either.
	w = h.post("/"+id, url.Values{fieldEmail: {canaryCard}, fieldExp: {canaryCard}, fieldCVC: {canaryCard}, fieldCardNumber: {canaryCard + "x"}, fieldAttempt: {"0"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
}

func TestPay_CardsInTheQueryAreIgnored(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	w := h.post("/"+h.session()+"?"+goodCard().Encode(), url.Values{})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Empty(t, h.cards.seen)
}

func TestPay_CardNetworkAway(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.cards.err = errors.New("quotes " + canaryCard)
	w := h.post("/"+h.session(), goodCard())
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), english.texts.NetworkAway)
	require.NotContains(t, h.log.String(), canaryCard)
}

func TestPay_LiveWithoutACardNetwork(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.session(func(n *storage.NewSession, _ *checkout.Merchant) { n.Mode = checkout.ModeLive })
	body := h.get("/" + id).Body.String()
	require.NotContains(t, body, "Test mode")
	require.NotContains(t, body, "4242 4242")
	w := h.post("/"+id, goodCard())
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Empty(t, h.cards.seen, "a live card never reaches the test network")
}

func TestPay_Expired(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.session(func(n *storage.NewSession, _ *checkout.Merchant) { n.Lifetime = -time.Second })
	h.requireRedirect(h.post("/"+id, goodCard()), "/checkout/"+id)
	body := h.get("/" + id).Body.String()
	require.Contains(t, body, "This session expired")
	require.NotContains(t, body, "shop.example.test")
	require.NotContains(t, body, `name="card_number"`)
	require.Empty(t, h.cards.seen)
}

func TestPay_ForeignFormsAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.session()
	for _, path := range []string{"/" + id, "/" + id + "/cancel"} {
		for _, headers := range []http.Header{
			{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://evil.example"}}, {"Origin": {"null"}},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, testURL+path, strings.NewReader(goodCard().Encode()))
			r.Header = headers
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			require.Equal(t, http.StatusForbidden, h.do(r).Code, headers)
		}
	}
	require.Empty(t, h.cards.seen)
}

func TestPay_UnreadableForms(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.session()
	for _, c := range []struct {
		kind, body string
		want       int
	}{
		{"application/x-www-form-urlencoded", "email=" + strings.Repeat("a", 17<<10), http.StatusRequestEntityTooLarge},
		{"application/x-www-form-urlencoded", "card_number=%zz" + canaryCard, http.StatusBadRequest},
		{"application/json", `{"card_number":"` + canaryCard + `"}`, http.StatusUnsupportedMediaType},
		{"", goodCard().Encode(), http.StatusUnsupportedMediaType},
		{"multipart/form-data; boundary=x", "--x--", http.StatusUnsupportedMediaType},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, testURL+"/"+id, strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		require.Equal(t, c.want, h.do(r).Code, c.kind)
	}
	require.NotContains(t, h.log.String(), canaryCard)
}

func TestPage_Unknown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, path := range []string{
		"/" + checkout.NewID(checkout.PrefixSession), "/" + checkout.NewID(checkout.PrefixTransaction), "/cs_1", "/", "", "/cs_" + strings.Repeat("u", 26),
		"/%00", "/..%2f..%2fetc", "/cs_'%20OR%201=1", "/static/nothing.css", "/static/..%2fpage.go", "/" + checkout.NewID(checkout.PrefixSession) + "/nothing",
	} {
		w := h.get(path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		require.Contains(t, w.Body.String(), "Page not found")
	}
	require.Equal(t, http.StatusNotFound, h.get("/"+checkout.NewID(checkout.PrefixSession)+"/status").Code)
	require.Equal(t, http.StatusNotFound, h.get("/cs_1/status").Code)
}

func TestPage_MethodNotAllowed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.session()
	for path, allow := range map[string][]string{
		"/" + id: {"GET", "HEAD", "POST"}, "/" + id + "/status": {"GET", "HEAD"}, "/static/checkout.css": {"GET", "HEAD"}, "/" + id + "/return": {"GET", "POST"},
	} {
		w := h.do(httptest.NewRequestWithContext(t.Context(), http.MethodDelete, testURL+path, nil))
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
		require.Equal(t, allow, w.Header().Values("Allow"), path)
		require.Contains(t, w.Body.String(), english.texts.MethodTitle)
	}
	require.Equal(t, http.StatusMethodNotAllowed, h.get("/"+id+"/cancel").Code)
}

func TestPage_DatabaseAway(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.session()
	h.store.Close()
	w := h.get("/" + id)
	require.GreaterOrEqual(t, w.Code, 500)
	require.Contains(t, w.Body.String(), english.texts.AwayTitle)
	require.Equal(t, http.StatusServiceUnavailable, h.get("/"+id+"/status").Code)
}

func TestStatus_HoldsNoPersonalData(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.session()
	w := h.get("/" + id + "/status")
	var got map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Contains(t, got, "now")
	delete(got, "now")
	require.Equal(t, map[string]any{
		"status": "pending", "payment_in_flight": false, "action": false, "checking": false, "expires_at": checkout.FormatTime(h.read(id).ExpiresAt),
	}, got)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
}

func TestPay_TemporalUnreachable(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	away, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1", Logger: quiet{}})
	require.NoError(t, err)
	t.Cleanup(away.Close)
	h.server.Workflows = &runs.Client{Temporal: away}
	id := h.session()
	w := h.post("/"+id, goodCard())
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Contains(t, w.Header().Get("Location"), "?payment=txn_")
	body := h.follow(w)
	require.Contains(t, body, "We are still checking your payment")
	require.NotContains(t, body, `name="card_number"`)
}

// quiet is a log.Logger of the SDK that says nothing.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

func TestPage_HostileTextsStayTexts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	build := func(hostile string) []*html.Node {
		metadata, err := json.Marshal(map[string]string{"order_id": hostile, hostile: hostile})
		require.NoError(t, err)
		email := hostile
		with := func(n *storage.NewSession, m *checkout.Merchant) {
			m.Name, n.OrderID, n.CustomerEmail, n.Metadata = hostile, &email, &email, metadata
		}
		id := h.session(with)
		var pages []*html.Node
		add := func(w *httptest.ResponseRecorder) {
			require.NotContains(t, w.Body.String(), "ZgotmplZ")
			doc, err := html.Parse(w.Body)
			require.NoError(t, err)
			pages = append(pages, doc)
		}
		add(h.get("/" + id))
		name := hostile
		if _, fault := parseName(&english.texts, name); fault != "" {
			name = "plain"
		}
		add(h.post("/"+id, url.Values{fieldEmail: {hostile}, fieldExp: {hostile}, fieldCVC: {hostile}, fieldCardNumber: {hostile}, fieldName: {name}}))
		h.pay = unknown
		add(h.get("/" + id + "?payment=" + checkout.NewID(checkout.PrefixTransaction)))
		h.pay = succeeds
		h.post("/"+id, goodCard())
		add(h.get("/" + id))
		add(h.get("/" + h.session(with, func(n *storage.NewSession, _ *checkout.Merchant) { n.Lifetime = -1 })))
		return pages
	}
	want := build("plain")
	for _, hostile := range hostileTexts {
		for i, doc := range build(hostile) {
			require.Equal(t, shape(want[i]), shape(doc), "page %d with %q", i, hostile)
		}
	}
}

// hostileTexts try to become markup in one place or another.
var hostileTexts = []string{
	`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `'><img src=x onerror=alert(1)>`, `<img src=x onerror=alert(1)>`,
	`</title><script>alert(1)</script>`, `</p></div><form action=https://evil.example>`, `" autofocus onfocus="alert(1)`, `' onmouseover='alert(1)`,
	"` onload=`alert(1)", `<svg onload=alert(1)>`, `<svg><script>alert(1)</script></svg>`, `<iframe src=javascript:alert(1)>`, `<base href=//evil.example>`,
	`<meta http-equiv=refresh content="0;url=https://evil.example">`, `<link rel=stylesheet href=//evil.example>`, `<style>*{display:none}</style>`,
	`</style><script>alert(1)</script>`, `</script><script>alert(1)</script>`, `<!--`, `--><script>alert(1)</script>`, `]]><script>alert(1)</script>`,
	`{{.Session}}`, `${alert(1)}`, `&lt;script&gt;alert(1)&lt;/script&gt;`, `&#60;script&#62;alert(1)`, `<a href="javascript:alert(1)">x</a>`,
	`<math><mi xlink:href="data:x,<script>alert(1)</script>">`, `<object data=x>`, `<input name=card_number value=1>`, `<textarea>`, `<plaintext>`, `<noscript>`,
	"\u2028<script>alert(1)</script>", "\u202e<b>evil</b>", `%3Cscript%3Ealert(1)%3C/script%3E`, `\x3cscript\x3e`, `javascript:alert(1)`, `%s%d%!v(MISSING)`,
}

// shape is every element and the names of its attributes, in order.
func shape(n *html.Node) []string {
	var all []string
	for d := range n.Descendants() {
		if d.Type != html.ElementNode && d.Type != html.CommentNode {
			continue
		}
		names := []string{d.Data}
		for _, a := range d.Attr {
			names = append(names, a.Key)
		}
		all = append(all, strings.Join(names, " "))
	}
	return all
}

// requireLabels proves that every field has a label and that what describes a
// field exists.
func requireLabels(t *testing.T, body string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	ids, labels := map[string]int{}, map[string]bool{}
	attr := func(n *html.Node, name string) string {
		i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
		if i < 0 {
			return ""
		}
		return n.Attr[i].Val
	}
	for n := range doc.Descendants() {
		ids[attr(n, "id")]++
		if n.Data == "label" {
			labels[attr(n, "for")] = true
		}
	}
	for n := range doc.Descendants() {
		if n.Data != "input" || attr(n, "type") == "hidden" {
			continue
		}
		require.True(t, labels[attr(n, "id")], attr(n, "id"))
		for described := range strings.FieldsSeq(attr(n, "aria-describedby")) {
			require.Equal(t, 1, ids[described], described)
		}
	}
}

func TestStatic_MayBeKeptByItsHash(t *testing.T) {
	t.Parallel()
	s := newServer(Config{CheckoutURL: "http://localhost:8080"})
	handler := s.handler()
	for name, kind := range map[string]string{"checkout.css": "text/css", "checkout.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, s.asset(name), nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Header().Get("Content-Type"), kind)
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
		w = httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/static/"+name+"?v=old", nil))
		require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
	}
}

func TestFiles_LoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	for name := range files {
		content := strings.ReplaceAll(string(files.Content(name)), "http://www.w3.org/2000/svg", "")
		require.NotContains(t, content, "//"+"cdn", name)
		require.NotContains(t, content, "http://", name)
		require.NotContains(t, content, "https://", name)
		require.NotContains(t, content, "@import", name)
		require.NotContains(t, content, "url(", name)
	}
	entries, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, e := range entries {
		content, err := templateFiles.ReadFile("templates/" + e.Name())
		require.NoError(t, err)
		for _, forbidden := range []string{"http:", "https:", " style=", "onclick=", "<style", "<script>"} {
			require.NotContains(t, string(content), forbidden, e.Name())
		}
	}
}

// Not parallel: it sets the global tracer provider.
func TestTelemetry_HoldsNeitherCardNorQuery(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	h := newHarness(t)
	h.pay = declines
	id := h.session()
	h.post("/"+id, goodCard())
	h.pay = unknown
	h.post("/"+id, goodCard())
	h.get("/" + id + "?payment=" + h.paid[1])
	h.get("/nothing/here")
	var all strings.Builder
	names := map[string]bool{}
	for _, span := range spans.GetSpans() {
		names[span.Name] = true
		fmt.Fprintln(&all, span.Name, span.Attributes, span.Events, span.Status)
	}
	require.True(t, names["POST /checkout/{id}"], names)
	require.True(t, names["GET /checkout/{id}"], names)
	for _, kept := range []string{all.String(), h.log.String()} {
		for _, secret := range []string{canaryCard, "4242 4242", canaryCVC, "ada@example.com", "tok_1", "Aurora"} {
			require.NotContains(t, kept, secret)
		}
	}
	require.NotContains(t, all.String(), h.paid[1], "the query is not traced")
	require.NotContains(t, all.String(), id, "nor is the path, which opens the page")
}
