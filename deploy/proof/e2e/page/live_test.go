package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/activities/sandbox"
	"example.com/checkout/api/hosted"
	"example.com/checkout/api/limit"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/runs/runstest"
)

const (
	cardPaid     = "4242424242424242"
	cardDeclined = "4000000000000002"
	cardOdd      = "5000000000000009" // the stand-in answers with an error for programmers
)

// TestLivePage uses the page of live mode the way customers do, in a real Chromium.
func TestLivePage(t *testing.T) {
	t.Parallel()
	browser := chrome.StartBrowser(t)
	for name, test := range map[string]func(*testing.T, *liveShop, *chrome.Tab){
		"the card stays in the acquirer's frame":    testCardStays,
		"a card that the acquirer refuses":          testRefused,
		"the acquirer's script does not come":       testAway,
		"the acquirer's script hangs":               testHangs,
		"nothing of other origins":                  testPolicy,
		"no payment is possible":                    testNotPossible,
		"without JavaScript":                        testNoScript,
		"expires while it is open":                  testExpires,
		"the language and the colors of the page":   testLook,
		"a live session that nobody takes cards of": testNotReady,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newLiveShop(t), chrome.NewTab(t, browser))
		})
	}
}

// liveShop is a hosted page with a live merchant and an acquirer. It keeps what its server received.
type liveShop struct {
	t        *testing.T
	store    *storage.Store
	merchant merchant.Merchant
	acquirer *acquirer
	config   hosted.Config
	url      string
	refuses  atomic.Bool // the workflow says that no payment is possible

	mu       sync.Mutex
	received []received
}

// received is a request that reached the page's server.
type received struct{ Line, Header, Body string }

func newLiveShop(t *testing.T) *liveShop {
	s := &liveShop{t: t, store: storagetest.New(t).Open(t, 4), acquirer: startAcquirer(t)}
	s.merchant = merchant.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), Name: "Aurora Coffee", Plan: "standard", PaymentAttempts: 3,
	}
	require.NoError(t, s.store.Merchants.CreateMerchant(t.Context(), s.merchant, checkout.ModeLive, nil))
	taker := must.Get(hosted.NewAcquirer(checkout.ModeLive, "pk_test_standin", s.acquirer.url+"/stripe.js", true))(t)
	temporal := &runstest.Temporal{Update: s.update, Payment: contract.PaymentResult{Outcome: checkout.OutcomeSucceeded}}
	s.config = hosted.Config{
		Runs:      &runs.Client{Temporal: temporal},
		Acquirers: map[checkout.Mode]*hosted.Acquirer{checkout.ModeLive: taker},
		Chains:    map[checkout.Mode]map[money.PayoutCurrency]string{checkout.ModeLive: {money.USDC: "eip155:1"}},
	}
	s.url = serve(t, s.store, s.config, s.keep)
	return s
}

// serve starts a hosted page behind wrap and returns its address.
func serve(t *testing.T, store *storage.Store, c hosted.Config, wrap func(http.Handler) http.Handler) (address string) {
	server := httptest.NewUnstartedServer(nil)
	c.CheckoutURL = "http://" + server.Listener.Addr().String()
	c.People, c.Requests, c.Sessions = store.People, store.Requests, store.Sessions
	c.TestCards, c.Log = &sandbox.CardNetwork{Sandbox: store.Sandbox}, e2e.Discard
	c.Limits = limit.Rates{Requests: storage.Rate{PerSecond: 20, Burst: 200}, Forms: storage.Rate{PerSecond: 0.2, Burst: 20}}
	c.Shares = limit.NewShares(6)
	server.Config.Handler = wrap(hosted.New(c))
	server.Start()
	t.Cleanup(server.Close)
	return c.CheckoutURL
}

func bare(handler http.Handler) http.Handler { return handler }

// keep notes every request.
func (s *liveShop) keep(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(s.t, err)
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		s.received = append(s.received, received{r.Method + " " + r.URL.String(), fmt.Sprint(r.Header), string(body)})
		s.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

func (s *liveShop) ref(id string) checkout.Ref { return s.merchant.Owner(checkout.ModeLive).Ref(id) }

func (s *liveShop) session(lifetime time.Duration) string {
	order := "order-1042"
	made, err := s.store.Sessions.CreateSession(s.t.Context(), storage.NewSession{Lifetime: lifetime, Session: checkout.Session{
		Ref: s.ref(checkout.NewID(checkout.PrefixSession)), Amount: 1050, Currency: money.EUR, PayoutCurrency: money.USDC,
		Metadata: json.RawMessage(`{}`), OrderID: &order, MaxAttempts: 3,
	}}, func(context.Context, checkout.Session) error { return nil })
	require.NoError(s.t, err)
	return made.ID
}

// update stands for the session's workflow, which is told to pay.
func (s *liveShop) update(o client.UpdateWorkflowOptions) error {
	if s.refuses.Load() {
		return temporal.NewApplicationError("refused", contract.ErrTypePaymentNotPossible)
	}
	ref, id := s.ref(o.WorkflowID), o.Args[0].(contract.PayInput).TransactionID
	result := checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded, Method: checkout.PaymentMethod{Type: "card", Brand: "visa", Last4: "4242"}}
	_, err := s.store.Sessions.BeginPayment(s.t.Context(), ref, id, checkout.Quote{Rate: money.MustRate("1.08")}, "pi_"+id)
	if err == nil {
		_, _, err = s.store.Sessions.RecordCharge(s.t.Context(), ref, id, result)
	}
	if err == nil {
		_, err = s.store.Sessions.FinishPayment(s.t.Context(), ref, id)
	}
	return err
}

func (s *liveShop) requests() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// ready waits until the customer can type the card and pay.
func ready() chromedp.Action[chromedp.Void] { return chrome.See("#pay-button:enabled") }

func (s *liveShop) open(b *chrome.Tab, id string) {
	b.Do(chromedp.Navigate(s.url+"/"+id), seeState("form"))
}

// openNew opens a live session of an hour, and waits until it can be paid.
func (s *liveShop) openNew(b *chrome.Tab) (id string) {
	id = s.session(time.Hour)
	s.open(b, id)
	b.Do(ready())
	return id
}

// fill types with the keyboard alone: the tab key leads through the frame. The frame is in another
// process of the browser, so each key waits until the one before has arrived there.
func fillFrame(b *chrome.Tab, email, number string) {
	b.Script("window.frameFocus = null")
	b.Do(chrome.Empty("#email"), chrome.TypeInto("#email", email))
	for _, field := range []struct{ id, typed string }{{"number", number}, {"exp", "1240"}, {"cvc", "123"}} {
		b.Do(
			chromedp.KeyEvent(kb.Tab), chrome.Poll(fmt.Sprintf("window.frameFocus === %q", field.id)),
			chromedp.KeyEvent(field.typed), chrome.Poll(fmt.Sprintf("window.frameTyped === %q", field.typed)),
		)
	}
}

func testCardStays(t *testing.T, s *liveShop, b *chrome.Tab) {
	s.openNew(b)
	require.Equal(t, "Simulated: no real card is charged", b.Text(".test"))
	require.Regexp(t, `^\d{1,4}:\d\d$`, b.Text("#countdown"))
	b.Inspect("live-form")
	fillFrame(b, "ann@example.com", cardPaid)
	require.Equal(t, "IFRAME", focused(b))
	b.Inspect("live-form-filled")
	require.Equal(t, "null, SecurityError", chrome.Eval[string](b, `(() => {
		const frame = document.querySelector("#card iframe")
		try { return frame.contentWindow.document.body.innerText } catch (e) { return frame.contentDocument + ", " + e.name }
	})()`), "our script cannot read the frame")
	b.Do(chromedp.KeyEvent(kb.Tab), chrome.Poll(`document.activeElement.id === "pay-button"`))
	b.Do(chromedp.KeyEvent(kb.Enter), seeState("completed"))
	require.Contains(t, b.Text("main"), "Visa •••• 4242")
	require.Equal(t, "Simulated: no real card is charged", b.Text(".test"))
	b.Inspect("live-completed")

	require.Equal(t, []string{cardPaid + " ann@example.com"}, s.acquirer.typed(), "the other origin has the number")
	posts := 0
	for _, got := range s.requests() {
		require.NotContains(t, fmt.Sprint(got), cardPaid, "our server has not")
		require.NotRegexp(t, `\b4242\b`, fmt.Sprint(got)) // a port or an id may contain 4242
		if !strings.HasPrefix(got.Line, "POST ") {
			continue
		}
		posts++
		form := must.Get(url.ParseQuery(got.Body))(t)
		require.True(t, checkout.IsID(checkout.PrefixTransaction, form.Get("payment")))
		form.Del("payment")
		require.Equal(t, url.Values{"confirmation_token": {"ctoken_1"}, "email": {"ann@example.com"}, "attempt": {"0"}}, form)
	}
	require.Equal(t, 1, posts)
}

func testRefused(t *testing.T, s *liveShop, b *chrome.Tab) {
	id := s.openNew(b)
	b.Do(chrome.Click("#pay-button"), chrome.See("#email-error"))
	require.Equal(t, "Enter your email address.", b.Text("#email-error"))
	require.Equal(t, "email", focused(b))
	b.Do(chrome.TypeInto("#email", "ann@example.com"), chrome.Click("#pay-button"), chrome.SeeText("Check the marked fields"), ready())
	require.NotContains(t, b.Text("main"), "Your card number is incomplete.", "the acquirer's frame says it, once")
	require.Equal(t, "alert", b.Attribute("#faults", "role"))
	b.Do(chrome.Poll(`document.activeElement.tagName === "IFRAME"`))
	require.Equal(t, "Pay €10.50", b.Text("#pay-button"))

	fillFrame(b, "ann@example.com", cardDeclined)
	b.Do(chrome.Click("#pay-button"), chrome.SeeText("Your card was declined."), ready())
	b.Inspect("live-declined")
	s.open(b, id)
	b.Do(ready())
	fillFrame(b, "ann@example.com", cardOdd)
	b.Do(chrome.Click("#pay-button"), chrome.SeeText("Your card could not be read."), ready())
	require.NotContains(t, b.Text("main"), "for programmers")
	require.Len(t, s.acquirer.typed(), 2)
	for _, got := range s.requests() {
		require.NotContains(t, got.Line, "POST", "nothing was sent to us")
	}
}

func testAway(t *testing.T, s *liveShop, b *chrome.Tab) {
	s.acquirer.away.Store(true)
	id := s.session(time.Hour)
	s.open(b, id)
	b.Do(chrome.See("#away"))
	require.Contains(t, b.Text("#away"), "You have not been charged.")
	require.Empty(t, chrome.Eval[string](b, `document.querySelector("#pay-button:enabled, #card-loading:not([hidden])") ? "hangs" : ""`))
	b.Inspect("live-away")
	s.acquirer.away.Store(false)
	b.Do(chrome.Click("#again"), ready())
	fillFrame(b, "ann@example.com", cardPaid)
	b.Do(chrome.Click("#pay-button"), seeState("completed"))
	b.TakeStatus("503")
}

// testHangs shortens the page's patience for the first try, so that the test has not to wait for it.
func testHangs(t *testing.T, s *liveShop, b *chrome.Tab) {
	s.acquirer.hang.Lock()
	release := sync.OnceFunc(s.acquirer.hang.Unlock)
	t.Cleanup(release)
	chrome.Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `{ const wait = setTimeout; let first = true; window.setTimeout = (f, ms) => {
			if (ms !== 30000 || !first) { return wait(f, ms) }
			first = false
			return wait(f, 200)
		} }`,
	})
	// chromedp.Navigate would wait for the script.
	b.Script(fmt.Sprintf("location.href = %q", s.url+"/"+s.session(time.Hour)))
	b.Do(chrome.See("#away"))
	release() // the script comes late: only the customer's new try counts
	b.Do(chrome.Poll(`window.Stripe !== undefined`))
	require.Zero(t, chrome.Eval[int](b, `document.querySelectorAll("iframe").length`))
	b.Do(chrome.Click("#again"), ready())
	require.Equal(t, 1, chrome.Eval[int](b, `document.querySelectorAll("iframe").length`))
	b.Do(chromedp.WaitNotVisible(chromedp.CSS("#away")))
}

// testPolicy tries what the page's policy must forbid.
func testPolicy(t *testing.T, s *liveShop, b *chrome.Tab) {
	other := startAcquirer(t) // a third origin
	frame := func(address string) string {
		return fmt.Sprintf(`void (document.body.appendChild(document.createElement("iframe")).src = %q)`, address)
	}
	script := func(address string) string {
		return fmt.Sprintf(`void (document.head.appendChild(document.createElement("script")).src = %q)`, address)
	}
	id := s.openNew(b)
	b.RequireComplaint(frame(other.url+"/frame"), "frame-src")
	b.RequireComplaint(script(other.url+"/stripe.js"), "script-src")
	b.RequireComplaint(frame(s.url+"/"+id), "frame-src")
	b.RequireComplaint(`void document.body.setAttribute("style", "color: red")`, "style-src")
	b.RequireComplaint(fmt.Sprintf(`void fetch(%q, { method: "POST" }).catch(() => {})`, other.url+"/token"), "connect-src")
	require.Empty(t, other.typed())

	// On every other page the acquirer is as foreign as anybody.
	b.Do(chrome.TypeInto("#email", "ann@example.com"))
	fillFrame(b, "ann@example.com", cardPaid)
	b.Do(chrome.Click("#pay-button"), seeState("completed"))
	b.TakeFaults()
	b.RequireComplaint(script(s.acquirer.url+"/stripe.js"), "script-src")
	b.RequireComplaint(frame(s.acquirer.url+"/frame"), "frame-src")
	b.Expect("-src")
}

func testNotPossible(t *testing.T, s *liveShop, b *chrome.Tab) {
	s.refuses.Store(true)
	s.openNew(b)
	fillFrame(b, "ann@example.com", cardPaid)
	b.Do(chrome.Click("#pay-button"), chrome.See("#decline"), ready())
	require.Contains(t, b.Text("#decline"), "Payments are not possible at the moment")
	require.Contains(t, b.Text("#decline"), "You have not been charged. Try again in a few minutes.")
	require.Equal(t, "decline", focused(b), "read out first")
	b.Inspect("live-not-possible")
	s.refuses.Store(false)
	fillFrame(b, "ann@example.com", cardPaid)
	b.Do(chrome.Click("#pay-button"), seeState("completed"))
}

func testNoScript(t *testing.T, s *liveShop, b *chrome.Tab) {
	id := s.session(time.Hour)
	b.NoScript()
	s.open(b, id)
	require.Contains(t, b.Text("main"), "JavaScript is disabled in your browser.")
	b.Do(chrome.See("#pay-button:disabled"))
	b.EachLook("live-no-script", func(what string, _ chrome.Look) { b.RequireNoSideways(what) })
}

func testExpires(t *testing.T, s *liveShop, b *chrome.Tab) {
	id := s.session(30 * time.Second)
	s.open(b, id)
	b.Do(chrome.See("#expired"))
	require.Zero(t, chrome.Eval[int](b, `document.querySelectorAll("iframe, #pay :enabled").length`))
	b.Inspect("live-expired")
}

func testLook(t *testing.T, s *liveShop, b *chrome.Tab) {
	id := s.session(time.Hour)
	b.Emulate(chrome.ColorScheme, "light")
	b.Do(chromedp.Navigate(s.url+"/"+id+"?lang=de"), ready())
	require.Equal(t, "Simulation: Es wird keine echte Karte belastet", b.Text(".test"))
	asked := func(path string) string { return chrome.Eval[string](b, "String(window.options."+path+")") }
	for path, want := range map[string]string{
		"key": "pk_test_standin", "settings.locale": "de", "elements.locale": "de", "elements.mode": "payment",
		"elements.currency": "eur", "elements.amount": "1050", "elements.paymentMethodTypes": "card",
		"elements.appearance.theme": "stripe", "elements.appearance.variables.colorText": "#14181c",
	} {
		require.Equal(t, want, asked(path), path)
	}
	b.Emulate(chrome.ColorScheme, "dark")
	b.Do(chrome.Poll(`window.options.elements.appearance.theme === "night"`))
	require.Equal(t, "#1a1f23", asked("elements.appearance.variables.colorBackground"))
	b.Inspect("live-german")
}

func testNotReady(t *testing.T, s *liveShop, b *chrome.Tab) {
	s.config.Acquirers = nil
	page := serve(t, s.store, s.config, bare)
	b.Do(chromedp.Navigate(page+"/"+s.session(time.Hour)), chrome.See("#decline"))
	require.Contains(t, b.Text("#decline"), "This merchant cannot accept card payments yet.")
	require.Zero(t, chrome.Eval[int](b, `document.querySelectorAll("form, input, iframe, main button").length`))
	b.Inspect("live-not-ready")
}
