package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// seeIn waits until an element says something.
func seeIn(selector, what string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](fmt.Sprintf("(document.querySelector(%q)?.innerText ?? '').includes(%q)", selector, what))
}

// noReload marks the document, and fails the test at the end of check when it
// was loaded again.
func (b *tab) noReload() (check func()) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	return func() {
		b.t.Helper()
		require.True(b.t, get(b, chromedp.Evaluate[bool](`window.sameDocument === true`)), "without a reload")
	}
}

// wouldRefresh reports whether a part of the page would come anew if its time
// had come.
func (b *tab) wouldRefresh(id string) bool {
	b.t.Helper()
	return get(b, chromedp.Evaluate[bool](fmt.Sprintf(`document.getElementById(%q).dispatchEvent(
		new CustomEvent("htmx:beforeRequest", {bubbles: true, cancelable: true, detail: {elt: document.getElementById(%[1]q)}}))`, id)))
}

// TestDashboard_Sessions follows one session from its creation to its payout,
// and ends another.
func TestDashboard_Sessions(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	b := newDashboard(t, browser, m, checkout.RoleDeveloper)
	require.Contains(t, b.text("main"), "Nothing has happened here yet")
	b.do(click(`.sections a[href="/test/sessions"]`), see("#sessions .empty"))
	require.Contains(t, b.text("main"), "There is no session yet")

	same := b.noReload()
	id := m.create(`{"amount": 1234.50, "currency": "EUR", "payout_currency": "USDC", "customer_email": "ann@example.com",
		"metadata": {"order_id": "order-1042", "<b>gift</b>": "<script>alert(1)</script>"}, "redirect_url": "https://shop.example/thanks"}`)
	b.do(seeIn("#sessions", "1,234.50 EUR"))
	same()
	b.do(click("#open-"+id), see("#session"))
	require.Contains(t, b.text("#session h1"), "pending")
	require.Contains(t, b.text(".tree"), "<script>alert(1)</script>", "as text")
	require.Equal(t, m.stack.PageURL()+"/"+id, get(b, chromedp.Evaluate[string](`document.getElementById("hosted").href`)))

	same = b.noReload()
	m.mustPay(id, cardDeclined)
	b.do(seeIn("#session", "Declined by the card's bank"))
	m.mustPay(id, cardSucceeds)
	b.do(seeIn("#session h1", "completed"), seeIn(".timeline", "Payout sent"),
		chromedp.Poll[chromedp.Void](`document.querySelectorAll(".delivery .status.delivered").length === 3`))
	same()
	for _, want := range []string{"Visa •••• 4242", "0002", "sandbox:shop", "checkout.failed", "checkout.completed", "payout.sent", m.url, "answered 200"} {
		require.Contains(t, b.text(".tree"), want)
	}
	run := get(b, chromedp.Evaluate[string](`document.getElementById("run-session").href`))
	require.Equal(t, shared.UIURL()+"/namespaces/checkout/workflows/"+id, run)
	b.shoot("dashboard-session")

	other := m.create(terms)
	b.page(m, "/test/sessions?status=pending")
	b.do(click("#open-"+other), see("#expire-ask"))
	require.True(t, b.wouldRefresh("session"))
	b.do(click("#expire-ask"), see("#expire form button"))
	require.False(t, b.wouldRefresh("session"), "not while somebody is about to confirm something")
	b.do(click("#expire form button"), see(".notice"))
	require.Contains(t, b.text(".notice"), "has expired")
	require.Contains(t, b.text("#session h1"), "expired")
	require.Equal(t, "expired", m.session(other).field("status"))
	b.page(m, "/test/audit")
	require.Contains(t, b.text("main"), "session.expiry_requested")

	b.page(m, "/test/sessions")
	b.shoot("dashboard-sessions")
	for _, search := range []string{"ANN@example.com", "order-1042", id} {
		b.page(m, "/test/sessions")
		b.do(typeInto("#search", search), click(".filters button"), see(`#search[value="`+search+`"]`))
		require.Contains(t, b.text("#sessions"), "1,234.50 EUR")
		require.Equal(t, 1, get(b, chromedp.Evaluate[int](`document.querySelectorAll("#sessions tbody tr").length`)), search)
	}
	b.page(m, "/live/sessions/"+id)
	require.Contains(t, b.text("h1"), "Not found")
	for _, fault := range b.takeFaults() { // the browser notes what the test asked for
		require.Contains(t, fault, "404")
	}

	b.page(m, "/test/")
	require.Contains(t, b.text("#summary"), "1,234.50 EUR")
	require.Contains(t, b.text("#summary"), "100 %")
	b.do(see("#hours-table"), click("#hours-table-title"), see("#hours-table table"))
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("summary").dataset.old = "", void htmx.ajax("GET", "/test/", {target: "#summary", select: "#summary", swap: "outerHTML"})`),
		chromedp.Poll[chromedp.Void](`!("old" in document.getElementById("summary").dataset)`), see("#hours-table table")) // still unfolded
	require.Positive(t, get(b, chromedp.Evaluate[float64](`document.querySelector(".chart rect.completed").getBoundingClientRect().height`)))
	b.shoot("dashboard-home")
}

// TestDashboard_Keys makes a key, replaces it as the interface document says,
// and revokes the old one.
func TestDashboard_Keys(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	b := newDashboard(t, browser, m, checkout.RoleDeveloper)
	made := func() string { // by the form as it is
		b.do(click("#create form > button"), see("#key"))
		require.Contains(t, b.text(".once"), "shown only this once")
		return b.text("#key")
	}
	b.page(m, "/test/keys")
	b.do(typeInto("#label", "web shop"))
	old := made()
	b.shoot("dashboard-key-shown-once")
	require.True(t, strings.HasPrefix(old, "sk_test_"))
	group := `section[aria-label="web shop"]`
	require.Contains(t, b.text(group), "not used yet")

	same := b.noReload()
	m.key = old
	id := m.create(terms)
	b.do(seeIn(group, "just now"))
	same()

	b.page(m, "/test/keys")
	require.NotContains(t, b.text("main"), old)
	b.do(click(group+" > header a"), see(`#label[value="web shop"]`))
	next := made()
	require.NotEqual(t, old, next)
	b.do(seeIn(group+" li.now", "Deploy it"))
	m.key = next
	require.Equal(t, "pending", m.session(id).field("status"))
	b.do(seeIn(group+" li.now", "See here"), seeIn(group+" li.now", "just now"))
	b.shoot("dashboard-key-rotation")

	row := group + " tbody tr:nth-child(2)" // the newest comes first
	b.do(click(row+" summary"), see(row+" form button"), click(row+" form button"), see(".notice"))
	require.Contains(t, b.text(".notice"), "The key is revoked.")
	require.Contains(t, b.text(group), "revoked")
	require.NotContains(t, b.text(group), "Deploy it")
	require.Equal(t, "pending", m.session(id).field("status"), "the new one goes on")
	m.key = old
	got, err := m.call(http.MethodGet, "/v1/checkout/"+id, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, got.Status)
	b.page(m, "/live/keys")
	require.Contains(t, b.text("main"), "Live keys charge real cards.")
}
