package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/workflows/checkout"
)

// screenshots is where the browser's tests leave pictures of what they saw.
var screenshots = flag.String("screenshots", "", "directory to write pictures of the pages to")

const card3DSFails = "4000008400001629"

// browserTimeout is for one thing that a page is waited for, on a busy computer.
const browserTimeout = 60 * time.Second

// TestBrowser uses the hosted page the way customers do, in a real Chromium.
func TestBrowser(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	for name, test := range map[string]func(*testing.T, context.Context){
		"pays and returns to the merchant":  testBrowserPays,
		"declined, then paid":               testBrowserDeclined,
		"3-D Secure":                        testBrowser3DS,
		"waits for a slow card":             testBrowserSlowCard,
		"expires while it is open":          testBrowserExpires,
		"pays without JavaScript":           testBrowserNoScript,
		"double click charges once":         testBrowserDoubleClick,
		"a slip costs nothing":              testBrowserSlip,
		"unknown address":                   testBrowserUnknown,
		"the tests see what a page refuses": testBrowserSeesFaults,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, browser)
		})
	}
	if *screenshots != "" {
		t.Run("what operators see", func(t *testing.T) { testOperatorPages(t, browser) })
	}
}

// findBrowser returns the path of a Chromium.
func findBrowser() (string, error) {
	for _, name := range []string{os.Getenv("CHROME"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no Chromium for the browser's tests: install it with 'apt-get install chromium', " +
		"or say in CHROME where one is")
}

func TestFindBrowser_TellsHowToInstallOne(t *testing.T) {
	t.Setenv("CHROME", "")
	t.Setenv("PATH", t.TempDir())
	_, err := findBrowser()
	require.ErrorContains(t, err, "apt-get install chromium")
}

// startBrowser starts one Chromium for all tests of t.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path, err := findBrowser()
	require.NoError(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox refuses to work for root
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// tab is a tab that shares no cookie, cache or storage with another test. What
// its pages complain about in the console fails the test at its end.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(stop)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, audits.Enable, cdp.Empty{})
		return err
	}))
	t.Cleanup(func() { require.Empty(t, b.takeFaults(), "the browser complained") })
	return b
}

// listen notes errors and warnings of scripts, of the network and of the pages'
// content security policies.
func (b *tab) listen(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			fault = fmt.Sprintf("console.%s", e.Type)
			for _, arg := range e.Args {
				fault += " " + string(arg.Value)
			}
		}
	case *runtime.EventExceptionThrown:
		fault = "exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault = fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			fault = fmt.Sprintf("content security policy: %s %s", d.ViolatedDirective, d.BlockedURL)
		}
	}
	if fault != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = append(b.faults, fault)
	}
}

// takeFaults returns the complaints so far and forgets them.
func (b *tab) takeFaults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

// do runs steps, each of which has to end in time.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for i, step := range steps {
		ctx, cancel := context.WithTimeout(b.ctx, browserTimeout)
		err := chromedp.Do(ctx, step)
		cancel()
		if err != nil {
			b.t.Fatalf("step %d: %v\nthe page is %s", i+1, err, b.describe())
		}
	}
}

// get runs an action that returns something.
func get[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserTimeout)
	defer cancel()
	got, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%v\nthe page is %s", err, b.describe())
	}
	return got
}

// describe tells where a test is stuck.
func (b *tab) describe() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + " " + document.body.dataset.state + "\n" + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return got
}

// open goes to a session's page.
func (b *tab) open(m *merchant, id string) {
	b.t.Helper()
	b.do(chromedp.Navigate(m.stack.PageURL() + "/" + id))
}

// seeState waits for a page of the hosted page's.
func seeState(state string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(`body[data-state="` + state + `"]`))
}

func see(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(selector))
}

func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

func typeInto(selector, what string) chromedp.Action[chromedp.Void] {
	return chromedp.SendKeys(chromedp.CSS(selector), what)
}

// text returns what a person reads of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return get(b, chromedp.Text(chromedp.CSS(selector)))
}

// value returns what is in a field.
func (b *tab) value(selector string) string {
	b.t.Helper()
	return get(b, chromedp.Value(chromedp.CSS(selector)))
}

// fill fills the whole form in, key by key.
func (b *tab) fill(card string) {
	b.t.Helper()
	b.do(typeInto("#email", "ann@example.com"))
	b.fillCard(card)
}

// fillCard fills in what a second try asks for.
func (b *tab) fillCard(card string) {
	b.t.Helper()
	b.do(typeInto("#card_number", card), chromedp.Clear(chromedp.CSS("#exp")), typeInto("#exp", "1240"), typeInto("#cvc", "123"))
}

// shoot writes pictures of the page with -screenshots, on a phone and on a
// computer, light and dark.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	require.NoError(b.t, os.MkdirAll(*screenshots, 0o750))
	for _, width := range []int64{360, 1280} {
		viewport := chromedp.EmulateViewport(1280, 800)
		if width == 360 {
			viewport = chromedp.EmulateViewport(360, 780, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
		}
		for _, scheme := range []string{"light", "dark"} {
			b.do(viewport, prefers(scheme))
			picture := get(b, chromedp.FullScreenshot(100))
			file := filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
			require.NoError(b.t, os.WriteFile(file, picture, 0o600))
		}
	}
	b.do(chromedp.EmulateReset(), prefers(""))
}

// prefers emulates prefers-color-scheme; "" stops it.
func prefers(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// charges counts what the card network was asked to charge for a session, each
// charge as often as it was asked for.
func (m *merchant) charges(id string) int {
	m.t.Helper()
	return query[int](m.t, m.stack, `SELECT coalesce(sum(calls), 0)::int FROM sandbox_charge WHERE session_id = $1`, id)
}

// shop is a merchant's page to which customers return.
func shop(t *testing.T) (url string, referrers func() []string) {
	t.Helper()
	var (
		mu   sync.Mutex
		seen []string
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Referer())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<!doctype html><title>Shop</title><link rel="icon" href="data:,"><h1 id="thanks">Thanks</h1>`)) // the browser has gone
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

func testBrowserPays(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	address, referrers := shop(t)
	back := address + "/thanks?order=1&name=%C3%A9"
	id := m.create(`{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "metadata": {"order_id": "order-1042"}, "redirect_url": "` + back + `"}`)
	b.open(m, id)
	b.do(seeState("form"))
	require.Regexp(t, `^\d{1,4}:\d\d$`, b.text("#countdown"))
	require.Contains(t, b.text(".summary"), "order-1042")
	require.Contains(t, b.text("#pay-button"), "10.50")
	b.shoot("form")
	b.fill(cardSucceeds)
	require.Equal(t, "4242 4242 4242 4242", b.value("#card_number"), "in groups of four")
	require.Equal(t, "12 / 40", b.value("#exp"))
	require.Equal(t, "Visa", b.text("#brand"))
	b.shoot("form-filled")
	b.do(click("#pay-button"), seeState("completed"))
	require.Equal(t, back, get(b, chromedp.Evaluate[string](`document.getElementById("return").href`)))
	b.do(see("#thanks"))
	require.Equal(t, back, get(b, chromedp.Location()), "character for character")
	require.Equal(t, []string{""}, referrers(), "nobody learns the session's address")
	m.awaitStatus(id, checkout.StatusCompleted, browserTimeout)
	require.Equal(t, 1, m.charges(id))
}

func testBrowserDeclined(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(terms)
	b.open(m, id)
	b.fill(cardDeclined)
	b.do(click("#pay-button"), see("#decline"))
	require.Contains(t, b.text("#decline"), checkout.FailureCardDeclined.Message())
	require.Equal(t, "alert", get(b, chromedp.AttributeValue(chromedp.CSS("#decline"), "role")).Value)
	require.Equal(t, "decline", get(b, chromedp.Evaluate[string](`document.activeElement.id`)), "read out first")
	require.Equal(t, "ann@example.com", b.value("#email"))
	require.Empty(t, b.value("#card_number"))
	require.Empty(t, b.value("#cvc"))
	b.shoot("decline")
	b.fillCard(cardSucceeds)
	b.do(click("#pay-button"), seeState("completed"))
	b.shoot("success")

	m.awaitStatus(id, checkout.StatusCompleted, browserTimeout)
	var types []string
	for _, a := range m.arrivals(3, browserTimeout) {
		require.NoError(t, a.Signature)
		types = append(types, a.Type)
	}
	require.ElementsMatch(t, []string{"checkout.failed", "checkout.completed", "payout.sent"}, types)
}

// testBrowser3DS refuses at the bank, fails there and confirms, in one session.
func testBrowser3DS(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(terms)
	b.open(m, id)

	b.fill(card3DS)
	b.do(click("#pay-button"), see("#confirm"))
	require.Contains(t, b.text("main"), "3220")
	b.shoot("3ds")
	b.do(click("#refuse"), see("#decline"))
	require.Contains(t, b.text("#decline"), checkout.FailureThreeDSAbandoned.Message())

	b.fillCard(card3DSFails)
	b.do(click("#pay-button"), see("#confirm"), click("#confirm"), see("#decline"))
	require.Contains(t, b.text("#decline"), checkout.FailureThreeDSFailed.Message())
	require.Equal(t, "pending", m.session(id).field("status"))

	b.fillCard(card3DS)
	b.do(click("#pay-button"), see("#confirm"))
	// A customer who finds the way back is asked again.
	b.open(m, id)
	b.do(seeState("action"))
	b.shoot("action")
	b.do(click("#continue"), see("#confirm"), click("#confirm"), seeState("completed"))
	m.awaitStatus(id, checkout.StatusCompleted, browserTimeout)
	require.Equal(t, 1, query[int](t, shared, `SELECT count(*) FROM sandbox_charge WHERE session_id = $1 AND outcome = 'succeeded'`, id))
	require.Equal(t, true, m.session(id).field("transaction.payment_method.three_d_secure"))
}

func testBrowserSlowCard(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(terms)
	b.open(m, id)
	b.fill(cardSlow)
	b.do(click("#pay-button"), seeState("processing"))
	b.shoot("processing")
	b.do(seeState("completed"))
	require.Equal(t, 1, m.charges(id))
}

func testBrowserExpires(t *testing.T, browser context.Context) {
	stack := ownStack(t, devstack.Options{SessionLifetime: "5s"})
	m, b := newMerchant(t, stack), newTab(t, browser)
	id := m.create(terms)
	b.open(m, id)
	b.do(seeState("form"))
	require.Regexp(t, `^0:0[1-5]$`, b.text("#countdown"))
	b.do(chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`), typeInto("#card_number", cardSucceeds), see("#expired"))
	got := get(b, chromedp.Evaluate[struct {
		SameDocument   bool
		Role, Left     string
		Button, Number string
		Enabled        int
	}](`({
		SameDocument: window.sameDocument === true,
		Role: document.getElementById("expired").getAttribute("role"),
		Left: document.getElementById("countdown").textContent,
		Button: document.getElementById("pay-button").innerText,
		Number: document.getElementById("card_number").value,
		Enabled: document.querySelectorAll("#pay :enabled").length,
	})`))
	require.True(t, got.SameDocument, "without a reload")
	require.Equal(t, "alert", got.Role)
	require.Equal(t, "0:00", got.Left)
	require.Equal(t, "This session expired", got.Button)
	require.Empty(t, got.Number)
	require.Zero(t, got.Enabled, "nothing can be typed or sent")
	b.shoot("form-expired")
	b.open(m, id)
	b.do(seeState("expired"))
	b.shoot("expired")
	m.awaitStatus(id, checkout.StatusExpired, browserTimeout)
	require.Zero(t, m.charges(id))
}

// noScript switches JavaScript off for the pages that follow.
func noScript() chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})
}

func testBrowserNoScript(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	address, _ := shop(t)
	id := m.create(`{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "redirect_url": "` + address + `/thanks"}`)
	b.do(noScript())
	b.open(m, id)
	require.Contains(t, b.text("#countdown"), "Pay before", "nothing counts")
	b.fill(cardDeclined)
	require.Equal(t, cardDeclined, b.value("#card_number"), "no script groups the digits")
	b.do(click("#pay-button"), see("#decline"))
	b.fillCard(cardSlow)
	b.do(click("#pay-button"), seeState("processing"), seeState("completed"), see("#thanks"))
	m.awaitStatus(id, checkout.StatusCompleted, browserTimeout)
	require.Equal(t, 2, m.charges(id))
}

func testBrowserDoubleClick(t *testing.T, browser context.Context) {
	for _, script := range []bool{true, false} { // without it the browser sends the form twice
		m, b := newMerchant(t, shared), newTab(t, browser)
		id := m.create(terms)
		if !script {
			b.do(noScript())
		}
		b.open(m, id)
		b.fill(cardSucceeds)
		b.do(doubleClick("#pay-button"), seeState("completed"))
		m.awaitStatus(id, checkout.StatusCompleted, browserTimeout)
		require.Equal(t, 1, m.charges(id), "with JavaScript: %t", script)
		require.Equal(t, 1, query[int](t, shared, `SELECT count(*) FROM event WHERE session_id = $1 AND type = 'checkout.completed'`, id))
	}
}

// doubleClick presses and releases the button twice, as a hand does.
// chromedp.DoubleClick does so once and calls that a second click.
func doubleClick(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		at, err := chromedp.Evaluate[struct{ X, Y float64 }](fmt.Sprintf(`(() => {
			const button = document.querySelector(%q);
			button.scrollIntoView({ block: "center" });
			const box = button.getBoundingClientRect();
			return { X: box.x + box.width / 2, Y: box.y + box.height / 2 };
		})()`, selector))(ctx, target)
		for n := 1; n <= 2 && err == nil; n++ {
			_, err = chromedp.MouseClickXY(at.X, at.Y, chromedp.ClickCount(n))(ctx, target)
		}
		return err
	})
}

func testBrowserSlip(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(terms)
	b.open(m, id)
	b.fill("4242424242424241")
	b.do(click("#pay-button"), see("#card_number-error"))
	require.Equal(t, "card_number", get(b, chromedp.Evaluate[string](`document.activeElement.id`)))
	require.Equal(t, "true", get(b, chromedp.AttributeValue(chromedp.CSS("#card_number"), "aria-invalid")).Value)
	b.shoot("form-slip")
	require.Zero(t, m.charges(id))
}

func testBrowserUnknown(t *testing.T, browser context.Context) {
	b := newTab(t, browser)
	address := shared.PageURL() + "/" + checkout.NewID(checkout.PrefixSession)
	response := get(b, chromedp.NavigateResponse(address))
	require.EqualValues(t, http.StatusNotFound, response.Status)
	b.do(seeState("problem"))
	require.Equal(t, "Page not found", b.text("h1"))
	b.shoot("unknown")
	for _, fault := range b.takeFaults() { // the browser notes what the test asked for
		require.Contains(t, fault, "404")
		require.Contains(t, fault, address)
	}
}

// testBrowserSeesFaults makes sure that the other tests would notice.
func testBrowserSeesFaults(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	b.open(m, m.create(terms))
	for script, want := range map[string]string{
		`void setTimeout(function () { throw new Error("thrown") })`:                   "thrown",
		`void console.error("told")`:                                                   "told",
		`void document.body.setAttribute("style", "color: red")`:                       "style-src",
		`void (document.body.appendChild(new Image()).src = "https://other.invalid/")`: "img-src",
	} {
		b.do(chromedp.Evaluate[chromedp.Void](script))
		await(t, want, browserTimeout, func() bool { return strings.Contains(strings.Join(b.takeFaults(), "\n"), want) })
	}
	b.takeFaults() // some are told twice
}

// testOperatorPages takes pictures of what the people who run the service look
// at, and makes sure that Temporal's UI tells them nothing about the customer.
func testOperatorPages(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(`{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "metadata": {"order_id": "order-1042"}}`)
	m.mustPay(id, cardDeclined)
	m.mustPay(id, cardSucceeds)
	m.arrivals(3, browserTimeout)
	m.awaitStatus(id, checkout.StatusCompleted, browserTimeout)
	b.do(chromedp.Navigate(strings.TrimSuffix(m.url, "/webhook")), see("tbody tr"))
	b.shoot("receiver")

	b.do(chromedp.EmulateViewport(1600, 1400))
	workflows := shared.UIURL() + "/namespaces/checkout/workflows"
	delivery := deliveryOf(t, shared, id, "checkout.completed")
	for _, page := range []struct{ name, address, shows string }{
		{"list", "", "CheckoutSession"},
		{"session", "/" + id, "session expires"},
		{"delivery", "/" + delivery, "SendAttempt"},
	} {
		b.do(chromedp.Navigate(workflows+page.address), seeText(page.shows))
		b.shootOnce("temporal-" + page.name)
		if page.address == "" {
			continue
		}
		run := strings.TrimSuffix(get(b, chromedp.Location()), "/timeline") // the UI has found the run
		for view, shows := range map[string]string{
			"history": "Workflow Execution Completed", "user-metadata": "Summary", "search-attributes": "MerchantId", "memo": "Memo",
		} {
			b.do(chromedp.Navigate(run+"/"+view), seeText(shows))
			b.shootOnce("temporal-" + page.name + "-" + view)
		}
	}
	b.takeFaults() // not ours
}

// seeText waits until a page of a program that is not ours says something.
func seeText(what string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](fmt.Sprintf("document.body.innerText.includes(%q)", what))
}

// shootOnce writes one picture of the page as it is.
func (b *tab) shootOnce(name string) {
	b.t.Helper()
	require.NoError(b.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), get(b, chromedp.FullScreenshot(100)), 0o600))
	shown := get(b, chromedp.Evaluate[string](`document.body.innerText`))
	for _, personal := range []string{"ann@example.com", cardSucceeds, cardDeclined, "order-1042"} {
		require.NotContains(b.t, shown, personal, name)
	}
}
