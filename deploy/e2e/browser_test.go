package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"example.com/checkout/activities/sandbox"
	"example.com/checkout/api/hosted"
	"example.com/checkout/deploy/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

const card3DSFails = "4000008400001629"

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
		"back and reload charge once":       testBrowserBack,
		"typing and pasting a card":         testBrowserCardField,
		"with the keyboard alone":           testBrowserKeyboard,
		"the button while it is paying":     testBrowserPaying,
		"a clock that is wrong":             testBrowserClock,
		"four languages":                    testBrowserLanguages,
		"a merchant's color and logo":       testBrowserBrand,
		"zoom, motion and paper":            testBrowserZoom,
		"markup stays text":                 testBrowserMarkup,
		"a session that failed":             testBrowserFailed,
		"faults without JavaScript":         testBrowserFaultsNoScript,
		"when nobody answers":               testBrowserAway,
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

func TestFindBrowser_TellsHowToInstallOne(t *testing.T) {
	t.Setenv("CHROME", "")
	t.Setenv("PATH", t.TempDir())
	_, err := findBrowser()
	require.ErrorContains(t, err, "apt-get install chromium")
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

// fill fills the whole form in, key by key.
func (b *tab) fill(card string) {
	b.t.Helper()
	b.do(typeInto("#email", "ann@example.com"))
	b.fillCard(card)
}

// fillCard fills in what a second try asks for.
func (b *tab) fillCard(card string) {
	b.t.Helper()
	b.do(typeInto("#card_number", card), empty("#exp"), typeInto("#exp", "1240"), typeInto("#cvc", "123"),
		empty("#name"), typeInto("#name", "Ann Example"))
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
	b.inspect("form")
	b.fill(cardSucceeds)
	require.Equal(t, "4242 4242 4242 4242", b.value("#card_number"), "in groups of four")
	require.Equal(t, "12 / 40", b.value("#exp"))
	require.Equal(t, "Visa", b.text("#brand"))
	require.Equal(t, "#mark-visa", get(b, chromedp.AttributeValue(chromedp.CSS("#brand-mark"), "href")).Value)
	b.inspect("form-filled")
	b.do(click("#pay-button"), seeState("completed"))
	require.Equal(t, back, get(b, chromedp.Evaluate[string](`document.getElementById("return").href`)))
	require.Contains(t, b.text("#soon"), strings.TrimPrefix(address, "http://"), "where it goes")
	b.do(click("#stay"))
	require.Equal(t, "return", get(b, chromedp.Evaluate[string](`document.activeElement.id`)))
	require.Contains(t, b.text("#soon"), "You stay on this page.")
	b.inspect("completed-with-return")
	b.do(click("#return"))
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
	b.inspect("decline")
	b.fillCard(cardSucceeds)
	b.do(click("#pay-button"), seeState("completed"))
	b.inspect("success")

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
	b.inspect("3ds")
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
	b.inspect("action")
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
	b.inspect("processing")
	b.do(seeState("completed"))
	require.Equal(t, 1, m.charges(id))
}

func testBrowserExpires(t *testing.T, browser context.Context) {
	stack := ownStack(t, devstack.Options{SessionLifetime: "5s", Env: []string{"CHECKOUT_FORM_RATE_LIMIT=0.1"}})
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
	b.inspect("form-expired")
	b.open(m, id)
	b.do(seeState("expired"))
	b.inspect("expired")
	m.awaitStatus(id, checkout.StatusExpired, browserTimeout)
	require.Zero(t, m.charges(id))
	b.tooMany(m)
}

// tooMany sends forms until the page says that it is enough.
func (b *tab) tooMany(m *merchant) {
	b.t.Helper()
	for range 12 { // as many at once as the setting of testBrowserExpires allows, and more
		_, _, err := m.pay(m.create(terms), cardDeclined)
		require.NoError(b.t, err)
	}
	b.open(m, m.create(terms))
	b.do(chromedp.Evaluate[chromedp.Void](`void document.getElementById("pay").submit()`), seeState("problem"))
	require.Equal(b.t, "Too many attempts", b.text("h1"))
	b.inspect("too-many")
	for _, fault := range b.takeFaults() { // the browser notes what the test asked for
		require.Contains(b.t, fault, "429")
	}
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
		if err != nil {
			return err
		}
		if _, err := chromedp.MouseClickXY(at.X, at.Y)(ctx, target); err != nil {
			return err
		}
		// The first click may have left the page already, which ends the second.
		_, err = chromedp.MouseClickXY(at.X, at.Y, chromedp.ClickCount(2))(ctx, target)
		if err != nil && strings.Contains(err.Error(), "navigated or closed") {
			return nil
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
	require.Equal(t, "alert", get(b, chromedp.AttributeValue(chromedp.CSS("#faults"), "role")).Value)
	require.Equal(t, "Check the marked fields\nThis card number is not valid. Check every digit.", b.text("#faults"))
	require.Equal(t, "true", get(b, chromedp.AttributeValue(chromedp.CSS("#card_number"), "aria-invalid")).Value)
	b.inspect("form-slip")
	require.Zero(t, m.charges(id))
}

// testBrowserBack goes back after a payment and loads the page again: the form
// is gone, and nothing is charged twice.
func testBrowserBack(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(terms)
	b.do(chromedp.Navigate("about:blank"))
	b.open(m, id)
	b.fill(cardSucceeds)
	b.do(click("#pay-button"), seeState("completed"))
	b.do(chromedp.Reload(), seeState("completed"))
	b.do(chromedp.NavigateBack(), chromedp.NavigateForward(), seeState("completed"))
	b.open(m, id)
	b.do(seeState("completed"))
	require.Equal(t, 1, m.charges(id))
	require.Equal(t, 1, query[int](t, shared, `SELECT attempts FROM checkout_session WHERE id = $1`, id))
}

// caret is where the text cursor is in a field.
func (b *tab) caret(id string) int {
	b.t.Helper()
	return get(b, chromedp.Evaluate[int](fmt.Sprintf(`document.getElementById(%q).selectionStart`, id)))
}

func (b *tab) setCaret(id string, at int) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void document.getElementById(%q).setSelectionRange(%d, %d)`, id, at, at)))
}

// paste replaces what is selected the way the clipboard does.
func (b *tab) paste(selector, what string) {
	b.t.Helper()
	b.do(chromedp.Focus(chromedp.CSS(selector)), chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`(() => { const f = document.querySelector(%q); f.select(); document.execCommand("insertText", false, %q); })()`, selector, what)))
}

func testBrowserCardField(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	b.open(m, m.create(terms))
	for _, c := range []struct{ typed, shown, brand, cvc string }{
		{"4242424242424242", "4242 4242 4242 4242", "Visa", "3"},
		{"378282246310005", "3782 822463 10005", "American Express", "4"},
		{"5555555555554444", "5555 5555 5555 4444", "Mastercard", "3"},
		{"6011111111111117", "6011 1111 1111 1117", "Discover", "3"},
		{"3056930009020004", "3056 9300 0902 0004", "Diners Club", "3"},
		{"3566002020360505", "3566 0020 2036 0505", "JCB", "3"},
		{"6200000000000005", "6200 0000 0000 0005", "UnionPay", "3"},
		{"9", "9", "", "4"},
	} {
		b.do(empty("#card_number"), typeInto("#card_number", c.typed))
		require.Equal(t, c.shown, b.value("#card_number"))
		require.Equal(t, c.brand, get(b, chromedp.Evaluate[string](`document.getElementById("brand").textContent`)))
		require.Equal(t, c.cvc, get(b, chromedp.AttributeValue(chromedp.CSS("#cvc"), "maxlength")).Value)
	}
	for _, pasted := range []string{"4242424242424242", " 4242-4242-4242-4242 ", "4242\u00a04242\u00a04242\u00a04242"} {
		b.paste("#card_number", pasted)
		require.Equal(t, "4242 4242 4242 4242", b.value("#card_number"), pasted)
	}
	b.paste("#card_number", "42424242424242424242")
	require.Equal(t, "42424242424242424242", b.value("#card_number"), "nothing is cut off silently")

	// A digit in the middle: the caret stays behind it.
	b.paste("#card_number", "424242424242424")
	b.setCaret("card_number", 2)
	b.do(chromedp.KeyEvent("7"))
	require.Equal(t, "4274 2424 2424 2424", b.value("#card_number"))
	require.Equal(t, 3, b.caret("card_number"))
	// Backspace at the beginning of a group takes the digit before the space.
	b.setCaret("card_number", 5)
	b.do(chromedp.KeyEvent(kb.Backspace))
	require.Equal(t, "4272 4242 4242 424", b.value("#card_number"))
	require.Equal(t, 3, b.caret("card_number"))
	b.setCaret("card_number", 4)
	b.do(chromedp.KeyEvent(kb.Delete))
	require.Equal(t, "4272 2424 2424 24", b.value("#card_number"))

	for typed, shown := range map[string]string{"1240": "12 / 40", "440": "04 / 40", "1340": "01 / 340", "12/40": "12 / 40", "4/40": "04 / 40", "12 / 40": "12 / 40"} {
		b.do(empty("#exp"), typeInto("#exp", typed))
		require.Equal(t, shown, b.value("#exp"), typed)
	}
	b.do(empty("#exp"), typeInto("#exp", "12"))
	require.Equal(t, "12 / ", b.value("#exp"))
	b.do(chromedp.KeyEvent(kb.Backspace), chromedp.KeyEvent(kb.Backspace))
	require.Equal(t, "1", b.value("#exp"), "the slash does not come back")
	b.paste("#exp", "12/2040")
	require.Equal(t, "12/2040", b.value("#exp"))
}

// focused names what has the focus.
func (b *tab) focused() string {
	b.t.Helper()
	return get(b, chromedp.Evaluate[string](`document.activeElement.id || document.activeElement.className || document.activeElement.textContent`))
}

func testBrowserKeyboard(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(terms)
	b.open(m, id)
	b.do(seeState("form"))
	tab := chromedp.KeyEvent(kb.Tab)
	b.do(tab)
	require.Equal(t, "skip", b.focused())
	b.do(chromedp.KeyEvent(kb.Enter), tab)
	for _, field := range []struct{ id, typed string }{
		{"email", "ann@example.com"}, {"card_number", ""}, {"exp", "1240"}, {"cvc", "123"}, {"name", "Ann Example"},
	} {
		require.Equal(t, field.id, b.focused())
		require.Equal(t, "3px", get(b, chromedp.Evaluate[string](`getComputedStyle(document.activeElement).outlineWidth.replace("2px", "3px")`)), "the focus is seen")
		b.do(chromedp.KeyEvent(field.typed), tab)
	}
	require.Equal(t, "pay-button", b.focused())
	b.do(chromedp.KeyEvent(kb.Enter), see("#faults"))
	require.Equal(t, "card_number", b.focused(), "the first error")
	for _, id := range []string{"card_number-error"} {
		require.Contains(t, get(b, chromedp.AttributeValue(chromedp.CSS("#card_number"), "aria-describedby")).Value, id)
		require.NotEmpty(t, b.text("#"+id))
	}
	b.do(chromedp.KeyEvent(cardSucceeds), chromedp.KeyEvent(kb.Enter), seeState("completed"))
	require.Equal(t, 1, m.charges(id))
}

func testBrowserPaying(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(`{"amount": 120, "currency": "EUR", "payout_currency": "USDC"}`)
	b.open(m, id)
	require.Equal(t, "Pay €120.00", b.text("#pay-button"))
	b.fill(cardSucceeds)
	got := get(b, chromedp.Evaluate[struct {
		Disabled, Busy bool
		Text, Said     string
	}](`(() => {
		const button = document.getElementById("pay-button");
		button.click();
		button.click();
		return { Disabled: button.disabled, Busy: getComputedStyle(button, "::before").animationName === "turn", Text: button.textContent,
			Said: document.getElementById("announce").textContent };
	})()`))
	require.Equal(t, []any{true, true, "Paying…", "Paying…"}, []any{got.Disabled, got.Busy, got.Text, got.Said})
	b.do(seeState("completed"))
	require.Equal(t, 1, m.charges(id))
}

// testBrowserClock sets the browser's clock: the page warns at a few moments,
// and asks the server before it says that the time is over.
func testBrowserClock(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	b.open(m, m.create(terms))
	b.do(seeState("form"))
	said := `document.getElementById("announce").textContent`
	require.Empty(t, get(b, chromedp.Evaluate[string](said)))
	forward := func(by time.Duration) chromedp.Action[chromedp.Void] {
		return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => { const real = Date.now; Date.now = () => real() + %d; })()`, by.Milliseconds()))
	}
	b.do(forward(55*time.Minute+30*time.Second), chromedp.Poll[chromedp.Void](said+` === "Five minutes left to pay."`))
	require.Regexp(t, `^4:\d\d$`, b.text("#countdown"))
	b.do(forward(4*time.Minute), chromedp.Poll[chromedp.Void](said+` === "One minute left to pay."`))
	b.do(forward(time.Hour), chromedp.Poll[chromedp.Void](`/^5\d:\d\d$/.test(document.getElementById("countdown").textContent)`))
	require.Equal(t, true, get(b, chromedp.Evaluate[bool](`document.getElementById("expired").hidden && !document.getElementById("pay-button").disabled`)))
}

func testBrowserLanguages(t *testing.T, browser context.Context) {
	m := newMerchant(t, shared)
	for _, l := range []struct{ tag, name, pay, paying, fault, failure, done string }{
		{"en", "English", "Pay €10.50", "Paying…", "Enter your card number.", "Your card was declined. Try another card.", "Payment successful"},
		{"de", "Deutsch", "10,50\u00a0€ zahlen", "Zahlung läuft …", "Geben Sie Ihre Kartennummer ein.", "Ihre Karte wurde abgelehnt. Versuchen Sie es mit einer anderen Karte.", "Zahlung erfolgreich"},
		{"fr", "Français", "Payer 10,50\u00a0€", "Paiement en cours…", "Saisissez votre numéro de carte.", "Votre carte a été refusée. Essayez avec une autre carte.", "Paiement réussi"},
		{"es", "Español", "Pagar 10,50\u00a0€", "Pagando…", "Introduzca el número de su tarjeta.", "Su tarjeta ha sido rechazada. Pruebe con otra tarjeta.", "Pago realizado"},
	} {
		b := newTab(t, browser)
		b.open(m, m.create(terms))
		b.do(seeState("form"), click(`.foot a[hreflang="`+l.tag+`"]`), see(`html[lang="`+l.tag+`"] .foot a[aria-current]`))
		require.Equal(t, l.name, b.text(".foot a[aria-current]"))
		require.Equal(t, l.pay, strings.TrimSpace(get(b, chromedp.Evaluate[string](`document.getElementById("pay-button").textContent`))))
		b.do(click("#pay-button"), see("#card_number-error"))
		require.Equal(t, l.fault, b.text("#card_number-error"))
		b.inspect("faults-" + l.tag)
		b.fill(cardDeclined)
		b.do(click("#pay-button"), see("#decline"))
		require.Contains(t, b.text("#decline"), l.failure, "the cookie holds for what follows")
		b.fillCard(cardSucceeds)
		b.do(click("#pay-button"), seeState("completed"))
		require.Equal(t, l.done, b.text("h1"))
		require.Equal(t, l.tag, get(b, chromedp.Evaluate[string](`document.documentElement.lang`)))
		b.inspect("completed-" + l.tag)
	}
}

// testBrowserBrand looks at colors that are hard to read, and at a logo.
func testBrowserBrand(t *testing.T, browser context.Context) {
	for name, c := range map[string]struct{ color, button string }{
		"yellow": {"#ffe600", "rgb(255, 230, 0)"}, "black": {"#000000", "rgb(0, 0, 0)"}, "white": {"#ffffff", "rgb(255, 255, 255)"},
		"gray": {"#767676", "rgb(118, 118, 118)"}, "purple": {"#5b2be0", "rgb(91, 43, 224)"},
	} {
		m, b := newMerchant(t, shared), newTab(t, browser)
		picture := image.NewNRGBA(image.Rect(0, 0, 300, 100))
		draw.Draw(picture, picture.Bounds(), image.NewUniform(color.NRGBA{R: 0x5b, G: 0x2b, B: 0xe0, A: 0xff}), image.Point{}, draw.Src)
		var upload bytes.Buffer
		require.NoError(t, png.Encode(&upload, picture))
		logo, err := storage.EncodeLogo(&upload)
		require.NoError(t, err)
		require.NoError(t, openStore(t, shared).SetBrand(t.Context(), m.id, storage.BrandChange{Color: &c.color, Logo: &logo}))
		id := m.create(terms)
		b.open(m, id)
		b.do(seeState("form"), chromedp.Poll[chromedp.Void](`document.querySelector(".logo").naturalWidth > 0`))
		require.Equal(t, c.button, get(b, chromedp.Evaluate[string](`getComputedStyle(document.getElementById("pay-button")).backgroundColor`)))
		b.inspect("brand-" + name)
		if name == "yellow" {
			b.fill(card3DS)
			b.do(click("#pay-button"), see("#confirm"))
			b.open(m, id)
			b.do(seeState("action"))
			b.inspect("brand-" + name + "-action")
		}
	}
}

func testBrowserZoom(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(`{"amount": 999999.99, "currency": "CAD", "payout_currency": "USDC", "metadata": {"order_id": "` + strings.Repeat("Long", 100) + `"}}`)
	b.open(m, id)
	b.do(seeState("form"))
	for _, width := range []int64{320, 360, 640, 720, 899, 900, 1024, 1440, 2560} { // 640 and 720 are 1280 and 1440 at 200 %
		b.do(chromedp.EmulateViewport(width, 600))
		b.requireFits(fmt.Sprint(width), false)
	}
	b.do(chromedp.EmulateViewport(640, 600), chromedp.Evaluate[chromedp.Void](`void (document.documentElement.style.fontSize = "200%")`))
	b.requireFits("letters of twice the size", false)
	b.do(chromedp.Evaluate[chromedp.Void](`void (document.documentElement.style.fontSize = "")`), chromedp.EmulateReset())

	b.do(media("prefers-reduced-motion", "reduce"), chromedp.Evaluate[chromedp.Void](`document.getElementById("pay-button").classList.add("busy")`))
	require.Equal(t, "none", get(b, chromedp.Evaluate[string](`getComputedStyle(document.getElementById("pay-button"), "::before").animationName`)))
	b.do(prefers("dark"))
	require.Equal(t, "rgb(18, 22, 25)", get(b, chromedp.Evaluate[string](`getComputedStyle(document.body).backgroundColor`)))
	b.do(prefers(""))

	b.fill(cardSucceeds)
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("pay-button").classList.remove("busy")`), click("#pay-button"), seeState("completed"))
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		return err
	}))
	printed := get(b, chromedp.Evaluate[string](`document.body.innerText`))
	require.Contains(t, printed, "Paid to")
	require.Contains(t, printed, "txn_")
	require.NotContains(t, printed, "Print receipt")
	require.NotContains(t, printed, "Deutsch")
	if *screenshots != "" {
		b.keep("receipt-on-paper", get(b, chromedp.FullScreenshot(100)))
	}
	pdf := get(b, chromedp.PrintToPDF())
	require.Equal(t, 1, bytes.Count(pdf, []byte("/Type /Page\n")), "one sheet")
}

// media emulates one media feature.
func media(name, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name, Value: value}}})
		return err
	})
}

// testBrowserMarkup opens pages full of what would like to be markup. A script
// that ran would open a dialog or complain, and the tab notices both.
func testBrowserMarkup(t *testing.T, browser context.Context) {
	for i, payload := range []string{
		`<script>throw new Error("ran")</script>`, `"><img src=x onerror='throw new Error("ran")'>`, `'><svg onload=console.error("ran")>`,
		`</title><script>console.error("ran")</script>`, `</script><script>console.error("ran")</script>`, `" autofocus onfocus="console.error(1)`,
		`<iframe srcdoc="<script>parent.console.error(1)</script>">`, `<a href="javascript:console.error(1)">x</a>`, `{{constructor.constructor("console.error(1)")()}}`,
		`<base href=//other.invalid>`, `<meta http-equiv=refresh content="0;url=//other.invalid">`, `<style>*{display:none}</style>`, `<!--`, `]]><x>`,
	} {
		m, b := newMerchant(t, shared), newTab(t, browser)
		query[string](t, shared, `UPDATE merchant SET name = $2 WHERE id = $1 RETURNING id`, m.id, payload)
		shopURL, _ := shop(t)
		body, err := json.Marshal(map[string]any{
			"amount": 10.5, "currency": "EUR", "payout_currency": "USDC", "metadata": map[string]string{"order_id": payload, "note": payload},
			"redirect_url": shopURL + "/?q=" + url.QueryEscape(payload) + "#';alert(1)//",
		})
		require.NoError(t, err)
		id := m.create(string(body))
		b.open(m, id)
		b.do(seeState("form"))
		require.Equal(t, payload, get(b, chromedp.Evaluate[string](`document.querySelector(".merchant span:last-child").textContent`)))
		require.Equal(t, payload, get(b, chromedp.Evaluate[string](`document.querySelector(".facts dd").textContent`)))
		require.Contains(t, get(b, chromedp.Evaluate[string](`document.title`)), strings.Join(strings.Fields(payload), " "))
		b.do(typeInto("#email", payload), typeInto("#name", payload), click("#pay-button"), see("#faults"))
		b.do(empty("#email"))
		b.fill(cardSucceeds)
		b.do(chromedp.SetValue(chromedp.CSS("#name"), payload), click("#pay-button"), seeState("completed"), click("#stay"))
		require.Contains(t, b.text("#return"), strings.Join(strings.Fields(payload), " "), i)
		require.True(t, strings.HasPrefix(get(b, chromedp.Evaluate[string](`document.getElementById("return").href`)), shopURL+"/"))
		require.Equal(t, 0, get(b, chromedp.Evaluate[int](`document.querySelectorAll("iframe, base, style, main img, main script").length`)))
	}
}

func testBrowserFailed(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(terms)
	b.open(m, id)
	b.fill("4100000000000019")
	b.do(click("#pay-button"), seeState("failed"))
	require.Contains(t, b.text("main"), checkout.FailureFraudBlocked.Message())
	b.inspect("failed")
}

func testBrowserFaultsNoScript(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	id := m.create(terms)
	b.do(noScript())
	b.open(m, id)
	b.do(seeState("form"), click(`.foot a[hreflang="de"]`), see(`html[lang="de"]`))
	b.fill("4242424242424241")
	b.do(click("#pay-button"), see("#decline"))
	require.Contains(t, b.text("#decline"), "Bitte prüfen Sie die markierten Felder")
	require.Contains(t, b.text("#decline"), "Diese Kartennummer ist ungültig. Prüfen Sie jede Ziffer.")
	require.Equal(t, "card_number", b.focused())
	require.Equal(t, "Ann Example", b.value("#name"))
	require.Empty(t, b.value("#cvc"))
	for _, fault := range b.takeFaults() { // the browser notes the status
		require.Contains(t, fault, "422")
	}
	b.fillCard(cardSucceeds)
	b.do(click("#pay-button"), seeState("completed"))
	require.Equal(t, "Zahlung erfolgreich", b.text("h1"))
	require.Equal(t, 1, m.charges(id))
}

// pageWithoutTemporal is a hosted page of its own, on the shared PostgreSQL,
// whose Temporal cannot be reached.
func pageWithoutTemporal(t *testing.T) (address string, store *storage.Store) {
	t.Helper()
	store = openStore(t, shared)
	temporal, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1", Logger: sdklog.NewStructuredLogger(discard)})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	server := httptest.NewUnstartedServer(nil)
	address = "http://" + server.Listener.Addr().String()
	server.Config.Handler = hosted.New(hosted.Config{
		Store: store, Workflows: &workflows.Client{Temporal: temporal}, TestCards: &sandbox.CardNetwork{Store: store}, CheckoutURL: address, Log: discard,
	})
	server.Start()
	t.Cleanup(server.Close)
	return address, store
}

// testBrowserAway sees what a customer sees while it is not known whether a
// payment has begun, cancels that payment, and loses PostgreSQL too.
func testBrowserAway(t *testing.T, browser context.Context) {
	m, b := newMerchant(t, shared), newTab(t, browser)
	address, store := pageWithoutTemporal(t)
	id := m.create(terms)
	b.do(chromedp.Navigate(address+"/"+id), seeState("form"))
	b.fill(cardSucceeds)
	b.do(click("#pay-button"), seeState("checking"))
	b.inspect("checking")
	b.do(click("main button"), seeState("form"))
	require.Zero(t, m.charges(id))
	require.Zero(t, query[int](t, shared, `SELECT count(*) FROM transaction WHERE session_id = $1`, id))
	store.Close()
	b.do(chromedp.Navigate(address+"/"+id), seeState("problem"))
	require.Equal(t, "We will be right back", b.text("h1"))
	b.inspect("away")
	b.takeFaults() // the browser notes the status
}

func testBrowserUnknown(t *testing.T, browser context.Context) {
	b := newTab(t, browser)
	address := shared.PageURL() + "/" + checkout.NewID(checkout.PrefixSession)
	response := get(b, chromedp.NavigateResponse(address))
	require.EqualValues(t, http.StatusNotFound, response.Status)
	b.do(seeState("problem"))
	require.Equal(t, "Page not found", b.text("h1"))
	b.inspect("unknown")
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
	b.shootOnce("receiver")

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

// shootOnce writes one picture of the page as it is.
func (b *tab) shootOnce(name string) {
	b.t.Helper()
	b.keep(name, get(b, chromedp.FullScreenshot(100)))
	shown := get(b, chromedp.Evaluate[string](`document.body.innerText`))
	for _, personal := range []string{"ann@example.com", cardSucceeds, cardDeclined, "order-1042"} {
		require.NotContains(b.t, shown, personal, name)
	}
}
