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
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
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
	acquirer *acquirer
	url      string
	config   hosted.Config

	mu       sync.Mutex
	received []received
	answer   func(ref checkout.Ref, transactionID string) error
	refs     map[string]checkout.Ref
}

// received is a request that reached the page's server.
type received struct{ Line, Header, Body string }

// plenty are limits that these tests never reach.
var plenty = limit.Rates{Requests: storage.Rate{PerSecond: 20, Burst: 200}, Forms: storage.Rate{PerSecond: 0.2, Burst: 20}}

func newLiveShop(t *testing.T) *liveShop {
	t.Helper()
	store := storagetest.New(t).Open(t, 4)
	s := &liveShop{t: t, store: store, acquirer: startAcquirer(t), refs: map[string]checkout.Ref{}}
	s.answer = s.succeed
	taker, err := hosted.NewAcquirer(checkout.ModeLive, "pk_test_standin", s.acquirer.url+"/stripe.js", true)
	require.NoError(t, err)

	temporal := &runstest.Temporal{Update: s.update, Payment: contract.PaymentResult{Outcome: checkout.OutcomeSucceeded}}
	server := httptest.NewUnstartedServer(nil)
	s.url = "http://" + server.Listener.Addr().String()
	s.config = hosted.Config{
		People: store.People, Requests: store.Requests, Sessions: store.Sessions, Runs: &runs.Client{Temporal: temporal}, TestCards: &sandbox.CardNetwork{Sandbox: store.Sandbox},
		Acquirers: map[checkout.Mode]*hosted.Acquirer{checkout.ModeLive: taker}, CheckoutURL: s.url, Log: e2e.Discard,
		Chains: map[checkout.Mode]map[money.PayoutCurrency]string{checkout.ModeLive: {money.USDC: "eip155:1"}},
		Limits: plenty, Shares: limit.NewShares(6),
	}
	server.Config.Handler = s.keep(hosted.New(s.config))
	server.Start()
	t.Cleanup(server.Close)
	return s
}

// keep notes every request.
func (s *liveShop) keep(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		s.received = append(s.received, received{r.Method + " " + r.URL.String(), fmt.Sprint(r.Header), string(body)})
		s.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// session creates a live session.
func (s *liveShop) session(lifetime time.Duration) string {
	s.t.Helper()
	m := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Aurora Coffee", Plan: "standard", PaymentAttempts: 3}
	require.NoError(s.t, s.store.Merchants.CreateMerchant(s.t.Context(), m, checkout.ModeLive, nil))
	ref := m.Owner(checkout.ModeLive).Ref(checkout.NewID(checkout.PrefixSession))
	order := "order-1042"
	_, err := s.store.Sessions.CreateSession(s.t.Context(), storage.NewSession{Lifetime: lifetime, Session: checkout.Session{
		Ref: ref, Amount: 1050, Currency: money.EUR, PayoutCurrency: money.USDC, Metadata: json.RawMessage(`{}`), OrderID: &order, MaxAttempts: 3,
	}}, func(context.Context, checkout.Session) error { return nil })
	require.NoError(s.t, err)
	s.refs[ref.ID] = ref
	return ref.ID
}

// update stands for the session's workflow, which is told to pay.
func (s *liveShop) update(o client.UpdateWorkflowOptions) error {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	return answer(s.refs[o.WorkflowID], o.Args[0].(contract.PayInput).TransactionID)
}

func (s *liveShop) succeed(ref checkout.Ref, id string) error {
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

// answers sets what the workflow does with a payment.
func (s *liveShop) answers(with func(checkout.Ref, string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = with
}

// requests returns what reached the page's server.
func (s *liveShop) requests() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

func refuse(errType string) func(checkout.Ref, string) error {
	return func(checkout.Ref, string) error { return temporal.NewApplicationError("refused", errType) }
}

// ready waits until the customer can type the card and pay.
func ready() chromedp.Action[chromedp.Void] { return chrome.See("#pay-button:enabled") }

func (s *liveShop) open(b *chrome.Tab, id string) {
	b.T.Helper()
	b.Do(chromedp.Navigate(s.url+"/"+id), seeState("form"))
}

// fill types with the keyboard alone: the tab key leads through the frame. The frame is in another
// process of the browser, so each key waits until the one before has arrived there.
func fillFrame(b *chrome.Tab, email, number string) {
	b.T.Helper()
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
	id := s.session(time.Hour)
	s.open(b, id)
	b.Do(ready())
	require.Equal(t, "Simulated: no real card is charged", b.Text(".test"))
	require.Regexp(t, `^\d{1,4}:\d\d$`, b.Text("#countdown"))
	b.Inspect("live-form")
	fillFrame(b, "ann@example.com", cardPaid)
	require.Equal(t, "IFRAME", focused(b))
	b.Inspect("live-form-filled")
	require.Equal(t, "null, SecurityError", chrome.Get(b, chromedp.Evaluate[string](`(() => {
		const frame = document.querySelector("#card iframe")
		try { return frame.contentWindow.document.body.innerText } catch (e) { return frame.contentDocument + ", " + e.name }
	})()`)), "our script cannot read the frame")
	b.Do(chromedp.KeyEvent(kb.Tab), chrome.Poll(`document.activeElement.id === "pay-button"`))
	b.Do(chromedp.KeyEvent(kb.Enter), seeState("completed"))
	require.Contains(t, b.Text("main"), "Visa •••• 4242")
	require.Equal(t, "Simulated: no real card is charged", b.Text(".test"))
	b.Inspect("live-completed")

	require.Equal(t, []string{cardPaid}, s.acquirer.typed(), "the other origin has the number")
	require.Equal(t, "ann@example.com", s.acquirer.email())
	posts := 0
	for _, got := range s.requests() {
		require.NotContains(t, fmt.Sprint(got), cardPaid, "our server has not")
		require.NotRegexp(t, `\b4242\b`, fmt.Sprint(got)) // a port or an id may contain 4242
		if !strings.HasPrefix(got.Line, "POST ") {
			continue
		}
		posts++
		form, err := url.ParseQuery(got.Body)
		require.NoError(t, err)
		require.True(t, checkout.IsID(checkout.PrefixTransaction, form.Get("payment")))
		form.Del("payment")
		require.Equal(t, url.Values{"confirmation_token": {"ctoken_1"}, "email": {"ann@example.com"}, "attempt": {"0"}}, form)
	}
	require.Equal(t, 1, posts)
}

func testRefused(t *testing.T, s *liveShop, b *chrome.Tab) {
	id := s.session(time.Hour)
	s.open(b, id)
	b.Do(ready(), chrome.Click("#pay-button"), chrome.See("#email-error"))
	require.Equal(t, "Enter your email address.", b.Text("#email-error"))
	require.Equal(t, "email", focused(b))
	b.Do(chrome.TypeInto("#email", "ann@example.com"), chrome.Click("#pay-button"), chrome.SeeText("Check the marked fields"), ready())
	require.NotContains(t, b.Text("main"), "Your card number is incomplete.", "the acquirer's frame says it, once")
	require.Equal(t, "alert", chrome.Get(b, chromedp.AttributeValue(chromedp.CSS("#faults"), "role")).Value)
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
	require.Equal(t, []string{cardDeclined, cardOdd}, s.acquirer.typed())
	for _, got := range s.requests() {
		require.NotContains(t, got.Line, "POST", "nothing was sent to us")
	}
}

func testAway(t *testing.T, s *liveShop, b *chrome.Tab) {
	s.acquirer.set(func(a *acquirer) { a.away = true })
	id := s.session(time.Hour)
	s.open(b, id)
	b.Do(chrome.See("#away"))
	require.Contains(t, b.Text("#away"), "You have not been charged.")
	require.Empty(t, chrome.Get(b, chromedp.Evaluate[string](`document.querySelector("#pay-button:enabled, #card-loading:not([hidden])") ? "hangs" : ""`)))
	b.Inspect("live-away")
	s.acquirer.set(func(a *acquirer) { a.away = false })
	b.Do(chrome.Click("#again"), ready())
	fillFrame(b, "ann@example.com", cardPaid)
	b.Do(chrome.Click("#pay-button"), seeState("completed"))
	for _, fault := range b.TakeFaults() { // the browser notes what the test asked for
		require.Contains(t, fault, "503")
	}
}

// testHangs shortens the page's patience for the first try, so that the test has not to wait for it.
func testHangs(t *testing.T, s *liveShop, b *chrome.Tab) {
	hangs := make(chan struct{})
	release := sync.OnceFunc(func() { close(hangs) })
	t.Cleanup(release)
	s.acquirer.set(func(a *acquirer) { a.hangs = hangs })
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
	require.Zero(t, chrome.Get(b, chromedp.Evaluate[int](`document.querySelectorAll("iframe").length`)))
	b.Do(chrome.Click("#again"), ready())
	require.Equal(t, 1, chrome.Get(b, chromedp.Evaluate[int](`document.querySelectorAll("iframe").length`)))
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
	blocked := func(line, directive string) {
		t.Helper()
		b.Do(chromedp.Evaluate[chromedp.Void](line))
		e2e.Await(t, directive, chrome.BrowserTimeout, func() bool { return strings.Contains(strings.Join(b.TakeFaults(), "\n"), directive) })
	}
	id := s.session(time.Hour)
	s.open(b, id)
	b.Do(ready())
	blocked(frame(other.url+"/frame"), "frame-src")
	blocked(script(other.url+"/stripe.js"), "script-src")
	blocked(frame(s.url+"/"+id), "frame-src")
	blocked(`void document.body.setAttribute("style", "color: red")`, "style-src")
	blocked(fmt.Sprintf(`void fetch(%q, { method: "POST" }).catch(() => {})`, other.url+"/token"), "connect-src")
	require.Empty(t, other.typed())

	// On every other page the acquirer is as foreign as anybody.
	b.Do(chrome.TypeInto("#email", "ann@example.com"))
	fillFrame(b, "ann@example.com", cardPaid)
	b.Do(chrome.Click("#pay-button"), seeState("completed"))
	b.TakeFaults()
	blocked(script(s.acquirer.url+"/stripe.js"), "script-src")
	blocked(frame(s.acquirer.url+"/frame"), "frame-src")
	b.Expect("-src")
}

func testNotPossible(t *testing.T, s *liveShop, b *chrome.Tab) {
	s.answers(refuse(contract.ErrTypePaymentNotPossible))
	id := s.session(time.Hour)
	s.open(b, id)
	b.Do(ready())
	fillFrame(b, "ann@example.com", cardPaid)
	b.Do(chrome.Click("#pay-button"), chrome.See("#decline"), ready())
	require.Contains(t, b.Text("#decline"), "Payments are not possible at the moment")
	require.Contains(t, b.Text("#decline"), "You have not been charged. Try again in a few minutes.")
	require.Equal(t, "decline", focused(b), "read out first")
	b.Inspect("live-not-possible")
	s.answers(s.succeed)
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
	require.Zero(t, chrome.Get(b, chromedp.Evaluate[int](`document.querySelectorAll("iframe, #pay :enabled").length`)))
	b.Inspect("live-expired")
}

func testLook(t *testing.T, s *liveShop, b *chrome.Tab) {
	id := s.session(time.Hour)
	b.Emulate(chrome.ColorScheme, "light")
	b.Do(chromedp.Navigate(s.url+"/"+id+"?lang=de"), ready())
	require.Equal(t, "Simulation: Es wird keine echte Karte belastet", b.Text(".test"))
	asked := func() (got struct {
		Key      string
		Settings struct{ Locale string }
		Elements struct {
			Mode, Currency, Locale string
			Amount                 int
			PaymentMethodTypes     []string
			Appearance             struct {
				Theme     string
				Variables struct{ ColorText, ColorBackground string }
			}
		}
	}) {
		require.NoError(t, json.Unmarshal([]byte(chrome.Get(b, chromedp.Evaluate[string](`JSON.stringify(window.options)`))), &got))
		return got
	}
	got := asked()
	require.Equal(t, "pk_test_standin", got.Key)
	require.Equal(t, []any{"payment", "eur", 1050, "de", "de"},
		[]any{got.Elements.Mode, got.Elements.Currency, got.Elements.Amount, got.Elements.Locale, got.Settings.Locale})
	require.Equal(t, []string{"card"}, got.Elements.PaymentMethodTypes)
	require.Equal(t, "stripe", got.Elements.Appearance.Theme)
	require.Equal(t, "#14181c", got.Elements.Appearance.Variables.ColorText)
	b.Emulate(chrome.ColorScheme, "dark")
	b.Do(chrome.Poll(`window.options.elements.appearance.theme === "night"`))
	require.Equal(t, "#1a1f23", asked().Elements.Appearance.Variables.ColorBackground)
	b.Inspect("live-german")
}

func testNotReady(t *testing.T, s *liveShop, b *chrome.Tab) {
	config := s.config
	config.Acquirers = nil
	server := httptest.NewUnstartedServer(nil)
	config.CheckoutURL = "http://" + server.Listener.Addr().String()
	server.Config.Handler = hosted.New(config)
	server.Start()
	t.Cleanup(server.Close)
	b.Do(chromedp.Navigate(config.CheckoutURL+"/"+s.session(time.Hour)), chrome.See("#decline"))
	require.Contains(t, b.Text("#decline"), "This merchant cannot accept card payments yet.")
	require.Zero(t, chrome.Get(b, chromedp.Evaluate[int](`document.querySelectorAll("form, input, iframe, main button").length`)))
	b.Inspect("live-not-ready")
}
