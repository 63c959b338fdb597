// Package page tests the hosted page in a real browser.
package page

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

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"example.com/checkout/api/hosted"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

func TestMain(m *testing.M) { e2e.Main(m) }

const (
	card3DSFails = "4000008400001629"
	cardCVCWrong = "4000000000000127"
)

// TestBrowser uses the hosted page the way customers do, in a real Chromium.
func TestBrowser(t *testing.T) {
	t.Parallel()
	browser := chrome.StartBrowser(t)
	for name, test := range map[string]func(*testing.T, *e2e.Merchant, *chrome.Tab){
		"pays and returns to the merchant":  testBrowserPays,
		"declined, then paid":               testBrowserDeclined,
		"a tab that is out of date":         testBrowserStaleTab,
		"what is bought":                    testBrowserItems,
		"shows pictures":                    testBrowserPictures,
		"3-D Secure":                        testBrowser3DS,
		"waits for a slow card":             testBrowserSlowCard,
		"expires while it is open":          testBrowserExpires,
		"pays without JavaScript":           testBrowserNoScript,
		"double click charges once":         testBrowserDoubleClick,
		"offline while it pays":             testBrowserOffline,
		"the merchant expires it":           testBrowserMerchantExpires,
		"a slip costs nothing":              testBrowserSlip,
		"back and reload charge once":       testBrowserBack,
		"typing and pasting a card":         testBrowserCardField,
		"with the keyboard alone":           testBrowserKeyboard,
		"the button while it is paying":     testBrowserPaying,
		"a clock that is wrong":             testBrowserClock,
		"every language":                    testBrowserLanguages,
		"a merchant's color and logo":       testBrowserBrand,
		"zoom, motion and paper":            testBrowserZoom,
		"markup stays text":                 testBrowserMarkup,
		"a session that failed":             testBrowserFailed,
		"when nobody answers":               testBrowserAway,
		"the tests see what a page refuses": testBrowserSeesFaults,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e2e.NewMerchant(t, e2e.Shared), chrome.NewTab(t, browser))
		})
	}
}

// open goes to a session's page, which must be in a state.
func open(b *chrome.Tab, m *e2e.Merchant, id, state string) {
	b.Do(chromedp.Navigate(m.Stack.PageURL()+"/"+id), seeState(state))
}

// openNew creates a session and opens its form.
func openNew(b *chrome.Tab, m *e2e.Merchant, terms string) (id string) {
	id = m.Create(terms)
	open(b, m, id, "form")
	return id
}

func seeState(state string) chromedp.Action[chromedp.Void] {
	return chrome.See(`body[data-state="` + state + `"]`)
}

// fill fills the whole form in, key by key.
func fill(b *chrome.Tab, card string) {
	b.Do(chrome.TypeInto("#email", "ann@example.com"))
	fillCard(b, card)
}

// fillCard fills in what a second try asks for.
func fillCard(b *chrome.Tab, card string) {
	b.Do(chrome.TypeInto("#card_number", card), chrome.Empty("#exp"), chrome.TypeInto("#exp", "1240"), chrome.TypeInto("#cvc", "123"),
		chrome.Empty("#name"), chrome.TypeInto("#name", "Ann Example"))
}

// pay fills the form in and sends it. then awaits what was not visible before.
func pay(b *chrome.Tab, card string, then ...chromedp.Action[chromedp.Void]) {
	b.Do(chrome.TypeInto("#email", "ann@example.com"))
	payAgain(b, card, then...)
}

// payAgain is pay for a form that has the customer's address.
func payAgain(b *chrome.Tab, card string, then ...chromedp.Action[chromedp.Void]) {
	fillCard(b, card)
	b.Do(chrome.Click("#pay-button"))
	b.Do(then...)
}

// shop is a merchant's page to which customers return. It shows where the browser says that it comes from.
func shop(t *testing.T) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<!doctype html><title>Shop</title><link rel="icon" href="data:,">
			<h1 id="thanks">Thanks` + r.Referer() + `</h1>`)) // the browser has gone
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// leaveLate makes the next page of a tab wait a hundred seconds before it goes on to the shop, and not five.
func leaveLate(b *chrome.Tab) {
	chrome.Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `const every = setInterval; setInterval = (tick, ms) => every(tick, 20 * ms)`,
	})
}

func testBrowserPays(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	address := shop(t)
	back := address + "/thanks?order=1&name=%C3%A9"
	id := openNew(b, m, `{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "metadata": {"order_id": "order-1042"}, "redirect_url": "`+back+`"}`)
	require.Regexp(t, `^\d{1,4}:\d\d$`, b.Text("#countdown"))
	require.Contains(t, b.Text(".summary"), "order-1042")
	require.Contains(t, b.Text("#pay-button"), "10.50")
	b.Inspect("form")
	fill(b, e2e.CardSucceeds)
	require.Equal(t, "4242 4242 4242 4242", b.Value("#card_number"), "in groups of four")
	require.Equal(t, "12 / 40", b.Value("#exp"))
	require.Equal(t, "Visa", b.Text("#brand"))
	require.Equal(t, "#mark-visa", b.Attribute("#brand-mark", "href"))
	b.Inspect("form-filled")
	leaveLate(b)
	b.Do(chrome.Click("#pay-button"), seeState("completed"))
	require.Equal(t, back, chrome.Eval[string](b, `document.getElementById("return").href`))
	require.Contains(t, b.Text("#soon"), strings.TrimPrefix(address, "http://"), "where it goes")
	b.Do(chrome.Click("#stay"))
	require.Equal(t, "return", focused(b))
	require.Contains(t, b.Text("#soon"), "You stay on this page.")
	b.Inspect("completed-with-return")
	b.Do(chrome.Click("#return"), chrome.See("#thanks"))
	require.Equal(t, back, chrome.Get(b, chromedp.Location()), "character for character")
	require.Equal(t, "Thanks", b.Text("#thanks"), "nobody learns the session's address")
	m.AwaitStatus(id, checkout.StatusCompleted, chrome.BrowserTimeout)
	require.Equal(t, 1, m.Charges(id))
}

func testBrowserDeclined(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	id := m.Create(e2e.Terms)
	for !declinesInPlace(b, m.Stack.PageURL()+"/"+id) {
		m = e2e.NewMerchant(t, e2e.Shared)
		id = m.Create(e2e.Terms)
	}
	b.Do(chrome.Empty("#card_number"))
	payAgain(b, e2e.CardSucceeds, seeState("completed"))
	b.Inspect("success")

	m.AwaitStatus(id, checkout.StatusCompleted, chrome.BrowserTimeout)
	var types []string
	for _, a := range m.Arrivals(4, chrome.BrowserTimeout) {
		require.NoError(t, a.Signature)
		types = append(types, a.Type)
	}
	require.ElementsMatch(t, []string{"checkout.failed", "checkout.failed", "checkout.completed", "payout.sent"}, types)
}

// declinesInPlace opens a session's page and is declined twice, without losing the typed text. It returns false when a
// busy computer decided so late that the browser went on to the waiting page, which loses the text.
func declinesInPlace(b *chrome.Tab, page string) bool {
	t := b.T
	stayed := chromedp.Evaluate[bool](`document.body.classList.contains("typed")`)
	b.Do(chromedp.Navigate(page))
	fill(b, e2e.CardDeclined)
	b.Script(`document.body.classList.add("typed")`)
	b.Do(chrome.Click("#pay-button"), chrome.See("#decline"))
	require.Contains(t, b.Text("#decline"), checkout.FailureCardDeclined.Message())
	if !chrome.Get(b, stayed) {
		return false
	}
	require.Equal(t, "alert", b.Attribute("#decline", "role"))
	require.Equal(t, "decline", focused(b), "read out first")
	require.Equal(t, "ann@example.com", b.Value("#email"))
	require.Equal(t, []string{"", "12 / 40", "", "Ann Example"},
		[]string{b.Value("#card_number"), b.Value("#exp"), b.Value("#cvc"), b.Value("#name")}, "another card of the same person")
	b.Inspect("decline")
	payAgain(b, cardCVCWrong, chrome.See("#cvc-error:not(:empty), body:not(.typed) #decline"))
	if !chrome.Get(b, stayed) {
		return false
	}
	require.Contains(t, b.Text("#cvc-error"), checkout.FailureIncorrectCVC.Message())
	require.Equal(t, "cvc", focused(b))
	require.Equal(t, []string{"4000 0000 0000 0127", ""}, []string{b.Value("#card_number"), b.Value("#cvc")}, "only the code was wrong")
	require.True(t, chrome.Eval[bool](b, `document.getElementById("decline").hidden`), "said once")
	b.Inspect("decline-cvc")
	return true
}

// testBrowserStaleTab pays in a tab that another tab has overtaken.
func testBrowserStaleTab(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	id := m.Create(e2e.Terms)
	// The page would load again when it sees the other tab's payment in flight, perhaps while the form is filled in.
	blind := chrome.Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `const real = fetch; fetch = (to, o) => o.method === "POST" ? real(to, o) : new Promise(() => {})`})
	open(b, m, id, "form")
	chrome.Call(b, page.RemoveScriptToEvaluateOnNewDocument, page.RemoveScriptToEvaluateOnNewDocumentParams(blind))
	m.MustPay(id, e2e.CardDeclined) // the other tab
	pay(b, e2e.CardSucceeds, chrome.See("#decline"))
	require.Contains(t, b.Text("#decline"), "This form was out of date")
	require.NotContains(t, b.Text("#decline"), checkout.FailureCardDeclined.Message())
	require.Equal(t, 1, m.Charges(id))
	b.Inspect("stale-tab")
	payAgain(b, e2e.CardSucceeds, seeState("completed"))
	require.Equal(t, 2, m.Charges(id))
}

// testBrowserItems opens a session with line items, and goes back to the shop.
func testBrowserItems(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	address := shop(t)
	body := func(locale string, more int) string {
		items := ""
		for i := range more {
			items += fmt.Sprintf(`,{"name": "Coffee of the month, number %d, whole beans in a paper bag", "quantity": 1, "unit_amount": 10.00}`, i+1)
		}
		return fmt.Sprintf(`{"amount": %d.80, "currency": "EUR", "payout_currency": "USDC", "description": "Your coffee for the spring, sent in March",
			"locale": %q, "metadata": {"order_id": "order-1042"}, "cancel_url": "%s/cart?session={CHECKOUT_SESSION_ID}",
			"line_items": [{"name": "Espresso beans, 1 kg", "quantity": 2, "unit_amount": 24.95}, {"name": "Grinder", "quantity": 1, "unit_amount": 99.90}%s]}`,
			149+10*more, locale, address, items)
	}
	contact := people.Contact{Support: "help@shop.example", TermsURL: "https://shop.example/terms", PrivacyURL: "https://shop.example/privacy"}
	require.NoError(t, e2e.OpenStore(t, e2e.Shared).People.SetBrand(t.Context(), m.ID, people.BrandChange{Contact: &contact}))
	for locale, more := range map[string]int{"en": 1, "es": 0, "de": 12} {
		id := openNew(b, m, strings.Replace(body(locale, more), "order-1042", "order-"+locale, 1))
		b.Do(seeState("form"), chrome.See(`html[lang="`+locale+`"]`))
		require.Equal(t, 2+more, chrome.Eval[int](b, `document.querySelectorAll(".items li").length`))
		b.Inspect("items-" + locale)
		b.Do(chromedp.EmulateViewport(390, 844))
		require.Less(t, chrome.Eval[float64](b, `document.querySelector("h1").getBoundingClientRect().top`), 844.0, "the form begins on the first screen")
		b.Do(chrome.Click(".back a"), chrome.See("#thanks"))
		require.Equal(t, address+"/cart?session="+id, chrome.Get(b, chromedp.Location()))
		b.Do(chromedp.EmulateReset())
		require.Empty(t, b.TakeFaults(), locale)
	}
}

// testBrowserPictures looks at a session whose items have pictures, one of which cannot be had.
func testBrowserPictures(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	drawn := func(width, height int, c color.Color) []byte {
		picture := image.NewNRGBA(image.Rect(0, 0, width, height)) // its edge is clear
		draw.Draw(picture, picture.Bounds().Inset(width/8), image.NewUniform(c), image.Point{}, draw.Src)
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, picture))
		return b.Bytes()
	}
	files := map[string][]byte{
		"/beans.png": drawn(600, 900, color.NRGBA{R: 0x7a, G: 0x43, B: 0x1d, A: 0xff}), "/grinder.png": drawn(800, 500, color.NRGBA{G: 0x6e, B: 0x8c, A: 0xff}),
	}
	var asked sync.Map
	merchants := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Path, r.Header.Get("User-Agent"))
		if files[r.URL.Path] == nil {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(files[r.URL.Path]) // the client may hang up
	}))
	t.Cleanup(merchants.Close)
	id := m.Create(fmt.Sprintf(`{"amount": 154.80, "currency": "EUR", "payout_currency": "USDC", "line_items": [
		{"name": "Espresso beans, 1 kg", "quantity": 2, "unit_amount": 24.95, "image_url": "%[1]s/beans.png?token=1"},
		{"name": "Grinder", "quantity": 1, "unit_amount": 99.90, "image_url": "%[1]s/grinder.png"},
		{"name": "Paper filters", "quantity": 1, "unit_amount": 5.00, "image_url": "%[1]s/gone.png"}]}`, merchants.URL))
	e2e.AwaitQuery(t, "every picture is fetched or given up", 20*time.Second, e2e.Shared, 3, `SELECT count(*) FROM picture WHERE merchant_id = $1 AND status <> 'pending'`, m.ID)
	open(b, m, id, "form")
	b.Do(chrome.Poll(`Array.from(document.querySelectorAll("img.picture")).every((p) => p.complete)`))
	got := chrome.Eval[[]string](b,
		`Array.from(document.querySelectorAll("img.picture")).map((p) => p.naturalWidth + "x" + p.naturalHeight + " in " + p.offsetWidth)`)
	require.Equal(t, []string{"128x192 in 48", "192x120 in 48"}, got)
	b.Inspect("pictures")
	asked.Range(func(path, agent any) bool {
		require.Equal(t, webhook.UserAgent, agent, "the customer's browser asks only us: %s", path)
		return true
	})
}

// testBrowser3DS refuses at the bank, fails there and confirms, in one session.
func testBrowser3DS(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	id := openNew(b, m, e2e.Terms)

	pay(b, e2e.Card3DS, chrome.See("#confirm"))
	require.Contains(t, b.Text("main"), "3220")
	b.Inspect("3ds")
	b.Do(chrome.Click("#refuse"), chrome.See("#decline"))
	require.Contains(t, b.Text("#decline"), checkout.FailureThreeDSAbandoned.Message())

	payAgain(b, card3DSFails, chrome.See("#confirm"), chrome.Click("#confirm"), chrome.See("#decline"))
	require.Contains(t, b.Text("#decline"), checkout.FailureThreeDSFailed.Message())
	require.Equal(t, "pending", m.Session(id).Field("status"))

	payAgain(b, e2e.Card3DS, chrome.See("#confirm"))
	// A customer who finds the way back is asked again.
	open(b, m, id, "action")
	b.Inspect("action")
	b.Do(chrome.Click("#continue"), chrome.See("#confirm"), chrome.Click("#confirm"), seeState("completed"))
	m.AwaitStatus(id, checkout.StatusCompleted, chrome.BrowserTimeout)
	require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT count(*) FROM sandbox_charge WHERE session_id = $1 AND outcome = 'succeeded'`, id))
	require.Equal(t, true, m.Session(id).Field("transaction.payment_method.three_d_secure"))
}

func testBrowserSlowCard(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	id := openNew(b, m, e2e.Terms)
	pay(b, e2e.CardSlow, seeState("processing"))
	mend := cutLine(b) // the page stays
	b.Inspect("processing")
	mend()
	b.Do(seeState("completed"))
	require.Equal(t, 1, m.Charges(id))
}

// cutLine makes every request of the page's script fail until mend is called.
func cutLine(b *chrome.Tab) (mend func()) {
	b.Script(`window.line = window.fetch, window.fetch = () => Promise.reject(new TypeError("Failed to fetch"))`)
	return func() { b.Script(`window.fetch = window.line`) }
}

// testBrowserOffline pays while the line is away. The form stays, and goes on by itself.
func testBrowserOffline(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	id := openNew(b, m, e2e.Terms)
	fill(b, e2e.CardSucceeds)
	mend := cutLine(b)
	b.Do(chrome.Click("#pay-button"), chrome.See("#decline"))
	require.Contains(t, b.Text("#decline"), "You are offline")
	require.Equal(t, []string{"4242 4242 4242 4242", "123"}, []string{b.Value("#card_number"), b.Value("#cvc")})
	b.Inspect("offline")
	require.Zero(t, m.Charges(id))
	mend()
	b.Do(seeState("completed"))
	require.Equal(t, 1, m.Charges(id))
}

// testBrowserMerchantExpires: an open form notices it by itself.
func testBrowserMerchantExpires(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	id := openNew(b, m, e2e.Terms)
	m.Must(http.StatusOK, "POST", "/v1/checkout/"+id+"/expire", "")
	b.Do(chrome.See("#expired"))
	require.Equal(t, "This session has expired – Shop", chrome.Get(b, chromedp.Title()))
}

func testBrowserExpires(t *testing.T, _ *e2e.Merchant, b *chrome.Tab) {
	stack := e2e.Beside(t, devstack.Options{SessionLifetime: "30s", Env: []string{"CHECKOUT_FORM_RATE_LIMIT=0.1"}})
	m := e2e.NewMerchant(t, stack)
	id := openNew(b, m, e2e.Terms)
	require.Regexp(t, `^0:(0[1-9]|[12]\d|30)$`, b.Text("#countdown"))
	b.Do(chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`), chrome.TypeInto("#card_number", e2e.CardSucceeds), chrome.See("#expired"))
	require.Equal(t, []string{"true", "alert", "0:00", "This session has expired", "This session has expired – Shop", "", "0", "0"},
		chrome.Eval[[]string](b, `[
			window.sameDocument, document.getElementById("expired").getAttribute("role"), document.getElementById("countdown").textContent,
			document.querySelector("h1").innerText, document.title, document.getElementById("card_number").value,
			Array.from(document.querySelectorAll("#pay, #countdown, #test-card")).filter((e) => e.offsetParent !== null).length,
			document.querySelectorAll("#pay :enabled").length,
		].map(String)`), "without a reload; there is no form, no time left, no card to pay with, and nothing to type or send")
	b.Inspect("form-expired")
	open(b, m, id, "expired")
	b.Inspect("expired")
	m.AwaitStatus(id, checkout.StatusExpired, chrome.BrowserTimeout)
	require.Zero(t, m.Charges(id))
	tooMany(b, m)
}

// tooMany sends forms until the page answers "Too many attempts".
func tooMany(b *chrome.Tab, m *e2e.Merchant) {
	pgtemp.StopTime(b.T, m.Stack.DatabaseURL(), "token_bucket", "at")

	for range 12 { // as many at once as the setting of testBrowserExpires allows, and more
		_, _, err := m.Pay(m.Create(e2e.Terms), e2e.CardDeclined)
		require.NoError(b.T, err)
	}
	openNew(b, m, e2e.Terms)
	b.Do(chromedp.Evaluate[chromedp.Void](`void document.getElementById("pay").submit()`), seeState("problem"))
	require.Equal(b.T, "Too many attempts", b.Text("h1"))
	b.Inspect("too-many")
	b.TakeStatus("429")
}

// testBrowserNoScript makes a slip, is declined and pays, in German.
func testBrowserNoScript(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	address := shop(t)
	b.NoScript()
	id := openNew(b, m, `{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "redirect_url": "`+address+`/thanks"}`)
	require.Contains(t, b.Text("#countdown"), "Pay before", "nothing counts")
	b.Do(chrome.Click(`.foot a[hreflang="de"]`), chrome.See(`html[lang="de"]`))
	pay(b, "4242424242424241", chrome.See("#decline"))
	require.Contains(t, b.Text("#decline"), "Bitte prüfen Sie die markierten Felder")
	require.Equal(t, "Diese Kartennummer ist ungültig. Prüfen Sie jede Ziffer.", b.Text("#card_number-error"))
	e2e.Await(t, "the field is focused", chrome.BrowserTimeout, func() bool { return focused(b) == "card_number" })
	require.Equal(t, "Ann Example", b.Value("#name"))
	require.Empty(t, b.Value("#cvc"))
	b.TakeStatus("422")

	fillCard(b, e2e.CardDeclined)
	require.Equal(t, e2e.CardDeclined, b.Value("#card_number"), "no script groups the digits")
	b.Do(chrome.Click("#pay-button"), chrome.See("#card_number:not([aria-invalid])"), chrome.See("#decline"))
	payAgain(b, e2e.CardSlow, seeState("processing"), chrome.See(`html[lang="de"] body[data-state="completed"]`), chrome.See("#thanks"))
	m.AwaitStatus(id, checkout.StatusCompleted, chrome.BrowserTimeout)
	require.Equal(t, 2, m.Charges(id))
}

func testBrowserDoubleClick(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	for _, script := range []bool{true, false} { // without it the browser sends the form twice
		if !script {
			b.NoScript()
		}
		id := openNew(b, m, e2e.Terms)
		fill(b, e2e.CardSucceeds)
		b.Do(doubleClick("#pay-button"), seeState("completed"))
		m.AwaitStatus(id, checkout.StatusCompleted, chrome.BrowserTimeout)
		require.Equal(t, 1, m.Charges(id), "with JavaScript: %t", script)
		require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT count(*) FROM event WHERE session_id = $1 AND type = 'checkout.completed'`, id))
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

func testBrowserSlip(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	id := openNew(b, m, e2e.Terms)
	pay(b, "4242424242424241", chrome.See("#card_number-error"))
	require.Equal(t, "card_number", focused(b))
	require.Equal(t, "This card number is not valid. Check every digit.", b.Text("#card_number-error"))
	require.Equal(t, "true", b.Attribute("#card_number", "aria-invalid"))
	ring := func(id string) string {
		return chrome.Eval[string](b, fmt.Sprintf(`getComputedStyle(document.getElementById(%q)).outlineColor`, id))
	}
	require.Equal(t, "rgb(179, 38, 30)", ring("card_number"), "the ring of the field to mend is red")
	require.True(t, chrome.Eval[bool](b, `document.getElementById("faults").hidden`), "one fault is said once")
	b.Inspect("form-slip")
	b.Do(chrome.Empty("#exp"), chrome.Click("#pay-button"), chrome.See("#faults"))
	require.Equal(t, "alert", b.Attribute("#faults", "role"))
	require.Equal(t, "Check the marked fields", b.Text("#faults"), "what is wrong stands beside each field")
	require.Equal(t, "Enter the expiry date of your card.", b.Text("#exp-error"))
	require.Equal(t, "card_number", focused(b))
	b.Inspect("form-slips")
	require.Zero(t, m.Charges(id))
}

// testBrowserBack goes back after a payment and loads the page again: the form is gone, and nothing is charged twice.
func testBrowserBack(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	b.Do(chromedp.Navigate("about:blank"))
	id := openNew(b, m, e2e.Terms)
	pay(b, e2e.CardSucceeds, seeState("completed"))
	b.Do(chromedp.Reload(), seeState("completed"))
	b.Do(chromedp.NavigateBack(), chromedp.NavigateForward(), seeState("completed"))
	open(b, m, id, "completed")
	require.Equal(t, 1, m.Charges(id))
	require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT attempts FROM checkout_session WHERE id = $1`, id))
}

func caret(b *chrome.Tab, id string) int {
	return chrome.Eval[int](b, fmt.Sprintf(`document.getElementById(%q).selectionStart`, id))
}

func setCaret(b *chrome.Tab, id string, at int) {
	b.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void document.getElementById(%q).setSelectionRange(%d, %d)`, id, at, at)))
}

// paste replaces the selected text, as the clipboard does.
func paste(b *chrome.Tab, selector, what string) {
	b.Do(chromedp.Focus(chromedp.CSS(selector)), chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`(() => { const f = document.querySelector(%q); f.select(); document.execCommand("insertText", false, %q); })()`, selector, what)))
}

func testBrowserCardField(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	openNew(b, m, e2e.Terms)
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
		b.Do(chrome.Empty("#card_number"), chrome.TypeInto("#card_number", c.typed))
		require.Equal(t, c.shown, b.Value("#card_number"))
		require.Equal(t, c.brand, chrome.Eval[string](b, `document.getElementById("brand").textContent`))
		require.Equal(t, c.cvc, b.Attribute("#cvc", "maxlength"))
	}
	for _, pasted := range []string{"4242424242424242", " 4242-4242-4242-4242 ", "4242\u00a04242\u00a04242\u00a04242"} {
		paste(b, "#card_number", pasted)
		require.Equal(t, "4242 4242 4242 4242", b.Value("#card_number"), pasted)
	}
	paste(b, "#card_number", "42424242424242424242")
	require.Equal(t, "42424242424242424242", b.Value("#card_number"), "nothing is cut off silently")

	// A digit in the middle: the caret stays behind it.
	paste(b, "#card_number", "424242424242424")
	setCaret(b, "card_number", 2)
	b.Do(chromedp.KeyEvent("7"))
	require.Equal(t, "4274 2424 2424 2424", b.Value("#card_number"))
	require.Equal(t, 3, caret(b, "card_number"))
	// Backspace at the beginning of a group takes the digit before the space.
	setCaret(b, "card_number", 5)
	b.Do(chromedp.KeyEvent(kb.Backspace))
	require.Equal(t, "4272 4242 4242 424", b.Value("#card_number"))
	require.Equal(t, 3, caret(b, "card_number"))
	setCaret(b, "card_number", 4)
	b.Do(chromedp.KeyEvent(kb.Delete))
	require.Equal(t, "4272 2424 2424 24", b.Value("#card_number"))

	for typed, shown := range map[string]string{"1240": "12 / 40", "440": "04 / 40", "1340": "01 / 340", "12/40": "12 / 40", "4/40": "04 / 40", "12 / 40": "12 / 40"} {
		b.Do(chrome.Empty("#exp"), chrome.TypeInto("#exp", typed))
		require.Equal(t, shown, b.Value("#exp"), typed)
	}
	b.Do(chrome.Empty("#exp"), chrome.TypeInto("#exp", "12"))
	require.Equal(t, "12 / ", b.Value("#exp"))
	b.Do(chromedp.KeyEvent(kb.Backspace), chromedp.KeyEvent(kb.Backspace))
	require.Equal(t, "1", b.Value("#exp"), "the slash does not come back")
	for _, pasted := range []string{"1 / 40", "１／４０"} {
		paste(b, "#exp", pasted)
		require.Equal(t, "01 / 40", b.Value("#exp"), pasted)
	}
	paste(b, "#card_number", "４２４２４２４２４２４２４２４２")
	require.Equal(t, "4242 4242 4242 4242", b.Value("#card_number"), "wide digits")
	paste(b, "#exp", "12/2040")
	require.Equal(t, "12/2040", b.Value("#exp"))
}

func focused(b *chrome.Tab) string {
	return chrome.Eval[string](b, `document.activeElement.id || document.activeElement.className || document.activeElement.tagName`)
}

func testBrowserKeyboard(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	id := openNew(b, m, e2e.Terms)
	tab := chromedp.KeyEvent(kb.Tab)
	b.Do(tab)
	require.Equal(t, "skip", focused(b))
	b.Do(chromedp.KeyEvent(kb.Enter), tab)
	for _, field := range []struct{ id, typed string }{
		{"email", "ann@example.com"}, {"card_number", ""}, {"exp", "1240"}, {"cvc", "123"}, {"name", "Ann Example"},
	} {
		require.Equal(t, field.id, focused(b))
		require.Equal(t, "3px", chrome.Eval[string](b, `getComputedStyle(document.activeElement).outlineWidth.replace("2px", "3px")`), "the focus is seen")
		b.Do(chromedp.KeyEvent(field.typed), tab)
	}
	require.Equal(t, "pay-button", focused(b))
	b.Do(chromedp.KeyEvent(kb.Enter), chrome.See("#card_number-error"))
	require.Equal(t, "card_number", focused(b), "the first error")
	require.Contains(t, b.Attribute("#card_number", "aria-describedby"), "card_number-error")
	require.NotEmpty(t, b.Text("#card_number-error"))
	b.Do(chromedp.KeyEvent(e2e.CardSucceeds), chromedp.KeyEvent(kb.Enter), seeState("completed"))
	require.Equal(t, 1, m.Charges(id))
}

func testBrowserPaying(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	id := openNew(b, m, `{"amount": 120, "currency": "EUR", "payout_currency": "USDC"}`)
	require.Equal(t, "Pay €120.00", b.Text("#pay-button"))
	fill(b, e2e.CardSucceeds)
	require.Equal(t, []any{true, true, "Paying…", "Paying…"}, chrome.Eval[[]any](b, `(() => {
		const button = document.getElementById("pay-button");
		button.click();
		button.click();
		return [button.disabled, getComputedStyle(button, "::before").animationName === "turn", button.textContent,
			document.getElementById("announce").textContent];
	})()`))
	b.Do(seeState("completed"))
	require.Equal(t, 1, m.Charges(id))
}

// testBrowserClock sets the browser's clock: the page warns at a few moments,
// and asks the server before it says that the time is over.
func testBrowserClock(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	openNew(b, m, e2e.Terms)
	said := `document.getElementById("announce").textContent`
	require.Empty(t, chrome.Eval[string](b, said))
	until := func(left time.Duration) chromedp.Action[chromedp.Void] {
		return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
			const [minutes, seconds] = document.getElementById("countdown").textContent.split(":").map(Number), real = Date.now
			Date.now = () => real() + (minutes * 60 + seconds - %d) * 1000
		})()`, int(left.Seconds())))
	}
	hear := func(words string, left time.Duration) {
		// On a busy computer the page may ask the service for the time before it looks at its clock, which then must go
		// wrong again.
		e2e.Await(t, words, 20*time.Second, func() bool {
			b.Do(until(left))
			for range 30 {
				if chrome.Eval[string](b, said) == words {
					return true
				}
				time.Sleep(100 * time.Millisecond)
			}
			return false
		})
	}
	hear("Five minutes left to pay.", 290*time.Second)
	require.Regexp(t, `^4:\d\d$`, b.Text("#countdown"))
	hear("One minute left to pay.", 50*time.Second)
	b.Do(until(-time.Minute), chrome.Poll(`/^5\d:\d\d$/.test(document.getElementById("countdown").textContent)`))
	require.Equal(t, true, chrome.Eval[bool](b, `document.getElementById("expired").hidden && !document.getElementById("pay-button").disabled`))
}

func testBrowserLanguages(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	unpaid, paid := m.Create(e2e.Terms), m.Create(e2e.Terms)
	m.MustPay(paid, e2e.CardSucceeds)
	seen := map[string]bool{}
	for _, tag := range []string{"de", "en", "fr", "es", "pt", "it", "nl", "pl", "sv", "ja"} { // TestLanguages has the texts
		open(b, m, unpaid, "form")
		b.Do(chrome.Click(`.foot a[hreflang="`+tag+`"]`), chrome.See(`html[lang="`+tag+`"] .foot a[aria-current]`))
		b.Resized(func() {
			b.Do(chromedp.EmulateViewport(390, 844))
			require.Equal(t, 0.0, chrome.Eval[float64](b,
				`document.getElementById("exp").getBoundingClientRect().top - document.getElementById("cvc").getBoundingClientRect().top`), "at one height")
		})
		b.Do(chrome.Click("#pay-button"), chrome.See("#card_number-error"))
		said := b.Text("#card_number-error")
		require.False(t, seen[said], "%s is another language's", said)
		seen[said] = true
		b.Glance("faults-" + tag)
		open(b, m, paid, "completed")
		require.Equal(t, tag, b.Attribute("html", "lang"), "the cookie holds for what follows")
		b.Resized(func() {
			b.Do(chromedp.EmulateViewport(320, 800))
			b.RequireNoSideways("completed-" + tag)
		})
	}

	// The tab is Japanese now.
	open(b, m, unpaid, "form")
	pay(b, e2e.CardDeclined, chrome.See("#decline"))
	require.Contains(t, b.Text("#decline"), "カードが承認されませんでした。別のカードをお試しください。")
	payAgain(b, e2e.CardSucceeds, seeState("completed"))
	require.Equal(t, "お支払いが完了しました", b.Text("h1"))
}

// testBrowserBrand looks at colors that are hard to read, and at a logo.
func testBrowserBrand(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	picture := image.NewNRGBA(image.Rect(0, 0, 300, 100))
	draw.Draw(picture, picture.Bounds(), image.NewUniform(color.NRGBA{R: 0x5b, G: 0x2b, B: 0xe0, A: 0xff}), image.Point{}, draw.Src)
	var upload bytes.Buffer
	require.NoError(t, png.Encode(&upload, picture))
	logo := must.Get(people.EncodeLogo(&upload))(t)
	store := e2e.OpenStore(t, e2e.Shared)
	for name, c := range map[string]struct{ color, button string }{
		"yellow": {"#ffe600", "rgb(255, 230, 0)"}, "black": {"#000000", "rgb(0, 0, 0)"}, "white": {"#ffffff", "rgb(255, 255, 255)"},
		"gray": {"#767676", "rgb(118, 118, 118)"}, "purple": {"#5b2be0", "rgb(91, 43, 224)"},
	} {
		require.NoError(t, store.People.SetBrand(t.Context(), m.ID, people.BrandChange{Color: &c.color, Logo: &logo}))
		id := openNew(b, m, e2e.Terms)
		b.Do(seeState("form"), chrome.Poll(`document.querySelector(".logo").naturalWidth > 0`))
		require.Equal(t, c.button, chrome.Eval[string](b, `getComputedStyle(document.getElementById("pay-button")).backgroundColor`))
		b.Inspect("brand-" + name)
		if name == "yellow" {
			pay(b, e2e.Card3DS, chrome.See("#confirm"))
			open(b, m, id, "action")
			b.Inspect("brand-" + name + "-action")
		}
		require.Empty(t, b.TakeFaults(), name)
	}
}

func testBrowserZoom(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	openNew(b, m, `{"amount": 999999.99, "currency": "CAD", "payout_currency": "USDC", "metadata": {"order_id": "`+strings.Repeat("Long", 100)+`"}}`)
	for _, width := range []int64{320, 360, 640, 720, 899, 900, 1024, 1440, 2560} { // 640 and 720 are 1280 and 1440 at 200 %
		b.Do(chromedp.EmulateViewport(width, 600))
		b.RequireFits(fmt.Sprint(width), false)
	}
	b.Do(chromedp.EmulateViewport(640, 600), chromedp.Evaluate[chromedp.Void](`void (document.documentElement.style.fontSize = "200%")`))
	b.RequireFits("letters of twice the size", false)
	b.Do(chromedp.Evaluate[chromedp.Void](`void (document.documentElement.style.fontSize = "")`), chromedp.EmulateReset())

	b.Emulate("prefers-reduced-motion", "reduce")
	b.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("pay-button").classList.add("busy")`))
	require.Equal(t, "none", chrome.Eval[string](b, `getComputedStyle(document.getElementById("pay-button"), "::before").animationName`))
	b.Emulate(chrome.ColorScheme, "dark")
	require.Equal(t, "rgb(18, 22, 25)", chrome.Eval[string](b, `getComputedStyle(document.body).backgroundColor`))
	b.Emulate(chrome.ColorScheme, "")

	fill(b, e2e.CardSucceeds)
	b.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("pay-button").classList.remove("busy")`), chrome.Click("#pay-button"), seeState("completed"))
	chrome.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	printed := chrome.Eval[string](b, `document.body.innerText`)
	require.Contains(t, printed, "Paid to")
	require.Contains(t, printed, "txn_")
	require.NotContains(t, printed, "Print receipt")
	require.NotContains(t, printed, "Deutsch")
	b.Do(chromedp.EmulateViewport(1200, 800)) // as wide as paper in landscape
	require.Less(t, chrome.Eval[float64](b, `document.querySelector(".merchant").getBoundingClientRect().left`), 100.0)
	b.Do(chromedp.EmulateReset())
	pdf := chrome.Get(b, chromedp.PrintToPDF())
	require.Equal(t, 1, bytes.Count(pdf, []byte("/Type /Page\n")), "one sheet")
}

// testBrowserMarkup opens pages full of what would like to be markup. A script
// that ran would open a dialog or complain, and the tab notices both.
func testBrowserMarkup(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	shopURL := shop(t)
	leaveLate(b)
	for i, payload := range []string{
		`<script>throw new Error("ran")</script>`, `"><img src=x onerror='throw new Error("ran")'>`, `'><svg onload=console.error("ran")>`,
		`</title><script>console.error("ran")</script>`, `</script><script>console.error("ran")</script>`, `" autofocus onfocus="console.error(1)`,
		`<iframe srcdoc="<script>parent.console.error(1)</script>">`, `<a href="javascript:console.error(1)">x</a>`, `{{constructor.constructor("console.error(1)")()}}`,
		`<base href=//other.invalid>`, `<meta http-equiv=refresh content="0;url=//other.invalid">`, `<style>*{display:none}</style>`, `<!--`, `]]><x>`,
	} {
		e2e.Query[string](t, e2e.Shared, `UPDATE merchant SET name = $2 WHERE id = $1 RETURNING id`, m.ID, payload)
		body := must.Get(json.Marshal(map[string]any{
			"amount": 10.5, "currency": "EUR", "payout_currency": "USDC", "metadata": map[string]string{"order_id": payload, "note": payload},
			"description": payload, "line_items": []any{map[string]any{"name": payload, "quantity": 1, "unit_amount": 10.5}},
			"redirect_url": shopURL + "/?q=" + url.QueryEscape(payload) + "#';alert(1)//",
		}))(t)
		openNew(b, m, string(body))
		for _, place := range []string{".merchant span:last-child", ".facts dd", ".about", ".items li span"} {
			require.Equal(t, payload, chrome.Eval[string](b, `document.querySelector("`+place+`").textContent`), place)
		}
		require.Contains(t, chrome.Eval[string](b, `document.title`), strings.Join(strings.Fields(payload), " "))
		b.Do(chromedp.SetValue(chromedp.CSS("#email"), payload), chromedp.SetValue(chromedp.CSS("#name"), payload), chrome.Click("#pay-button"), chrome.See("#faults"))
		require.Equal(t, 0, chrome.Eval[int](b, `document.querySelectorAll("iframe, base, style, main img:not(.logo)").length`))
		require.Empty(t, b.TakeFaults(), payload)
		if i%4 > 0 { // four of them are paid: the other pages come from the same templates
			continue
		}
		b.Do(chrome.Empty("#email"))
		fill(b, e2e.CardSucceeds)
		b.Do(chromedp.SetValue(chromedp.CSS("#name"), payload), chrome.Click("#pay-button"), seeState("completed"), chrome.Click("#stay"))
		require.Contains(t, b.Text("#return"), strings.Join(strings.Fields(payload), " "), i)
		require.Equal(t, payload, chrome.Eval[string](b, `document.querySelectorAll(".receipt dd")[2].textContent`), "description")
		require.True(t, strings.HasPrefix(chrome.Eval[string](b, `document.getElementById("return").href`), shopURL+"/"))
		require.Equal(t, 0, chrome.Eval[int](b, `document.querySelectorAll("iframe, base, style, main img, main script").length`))
		require.Empty(t, b.TakeFaults(), payload)
	}
}

func testBrowserFailed(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	openNew(b, m, e2e.Terms)
	pay(b, "4100000000000019", seeState("failed"))
	require.Contains(t, b.Text("main"), checkout.FailureFraudBlocked.Message())
	b.Inspect("failed")
}

// testBrowserAway sees what a customer sees while it is not known whether a
// payment has begun, cancels that payment, and loses PostgreSQL too.
func testBrowserAway(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	store := e2e.OpenStore(t, e2e.Shared)
	temporal, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1", Logger: sdklog.NewStructuredLogger(e2e.Discard)})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	address := serve(t, store, hosted.Config{Runs: &runs.Client{Temporal: temporal}}, bare)
	id := m.Create(e2e.Terms)
	b.Do(chromedp.Navigate(address+"/"+id), seeState("form"))
	pay(b, e2e.CardSucceeds, seeState("checking"))
	b.Inspect("checking")
	b.Do(chrome.Click("main button"), seeState("form"))
	require.Zero(t, m.Charges(id))
	require.Zero(t, e2e.Query[int](t, e2e.Shared, `SELECT count(*) FROM transaction WHERE session_id = $1`, id))
	store.Close()
	b.Do(chromedp.Navigate(address+"/"+id), seeState("problem"))
	require.Equal(t, "We will be right back", b.Text("h1"))
	b.Inspect("away")
	b.TakeStatus("503")
}

// testBrowserSeesFaults makes sure that the other tests would notice.
func testBrowserSeesFaults(t *testing.T, m *e2e.Merchant, b *chrome.Tab) {
	openNew(b, m, e2e.Terms)
	for script, want := range map[string]string{
		`void setTimeout(function () { throw new Error("thrown") })`:                   "thrown",
		`void console.error("told")`:                                                   "told",
		`void document.body.setAttribute("style", "color: red")`:                       "style-src",
		`void (document.body.appendChild(new Image()).src = "https://other.invalid/")`: "img-src",
	} {
		b.RequireComplaint(script, want)
	}
	b.Expect("-src") // some are told twice
}
