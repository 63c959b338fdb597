package dashboard

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/workflows/merchant"
)

func seeIn(selector, what string) chromedp.Action[chromedp.Void] {
	return chrome.Poll(fmt.Sprintf("(document.querySelector(%q)?.innerText ?? '').includes(%q)", selector, what))
}

// noReload marks the document, and fails the test at the end of check when it was loaded again.
func noReload(b *chrome.Tab) (check func()) {
	b.Do(chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	return func() { require.True(b.T, chrome.Eval[bool](b, `window.sameDocument === true`), "without a reload") }
}

// wouldRefresh reports whether a part of the page would come anew if its time had come.
func wouldRefresh(b *chrome.Tab, id string) bool {
	return chrome.Eval[bool](b, fmt.Sprintf(`document.getElementById(%q).dispatchEvent(
		new CustomEvent("htmx:beforeRequest", {bubbles: true, cancelable: true, detail: {elt: document.getElementById(%[1]q)}}))`, id))
}

// TestDashboard_Sessions follows one session from its creation to its payout, and ends another.
func TestDashboard_Sessions(t *testing.T) {
	t.Parallel()
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	b := newDashboard(t, browser, m, merchant.RoleDeveloper)
	page(b, m, "/test/")
	require.Contains(t, b.Text("main"), "Nothing has happened here yet")
	b.Do(chrome.Click(`.sections a[href$="/test/sessions"]`), chrome.See("#sessions .empty"))
	require.Contains(t, b.Text("main"), "No sessions yet")

	same := noReload(b)
	id := m.Create(`{"amount": 1234.50, "currency": "EUR", "payout_currency": "USDC", "customer_email": "ann@example.com",
		"metadata": {"order_id": "order-1042", "<b>gift</b>": "<script>alert(1)</script>"}, "redirect_url": "https://shop.example/thanks"}`)
	b.Do(seeIn("#sessions", "1,234.50 EUR"))
	same()
	b.Do(chrome.Click("#open-"+id), chrome.See("#session"))
	require.Contains(t, b.Text("#session h1"), "pending")
	require.Contains(t, b.Text(".tree"), "<script>alert(1)</script>", "as text")
	require.Equal(t, m.Stack.PageURL()+"/"+id, chrome.Eval[string](b, `document.getElementById("hosted").href`))

	same = noReload(b)
	m.MustPay(id, e2e.CardDeclined)
	m.Arrivals(1, 20*time.Second)
	b.Do(seeIn("#session", "Declined by the card's bank"))
	m.MustPay(id, e2e.CardSucceeds)
	m.Arrivals(3, 20*time.Second)
	b.Do(seeIn("#session h1", "completed"), seeIn(".timeline", "Payout sent"),
		chrome.Poll(`document.querySelectorAll(".delivery .status.delivered").length === 3`))
	same()
	for _, want := range []string{"Visa •••• 4242", "0002", "sandbox:shop", "checkout.failed", "checkout.completed", "payout.sent", m.URL, "answered 200"} {
		require.Contains(t, b.Text(".tree"), want)
	}
	run := chrome.Eval[string](b, `document.getElementById("run-session").href`)
	require.Equal(t, e2e.Shared.UIURL()+"/namespaces/"+e2e.Shared.Temporal.Namespace()+"/workflows/"+id, run)

	other := m.Create(e2e.Terms)
	page(b, m, "/test/sessions?status=pending")
	b.Do(chrome.Click("#open-"+other), chrome.See("#expire-ask"))
	require.True(t, wouldRefresh(b, "session"))
	b.Do(chrome.Click("#expire-ask"), chrome.See("#expire form button"))
	require.False(t, wouldRefresh(b, "session"), "not while somebody is about to confirm something")
	b.Do(chrome.Click("#expire form button"), chrome.See(".notice"))
	require.Contains(t, b.Text(".notice"), "has expired")
	require.Contains(t, b.Text("#session h1"), "expired")
	require.Equal(t, "expired", m.Session(other).Field("status"))
	page(b, m, "/test/audit")
	require.Contains(t, b.Text("main"), "session.expiry_requested")

	page(b, m, "/test/sessions")
	for _, search := range []string{"ANN@example.com", "order-1042", id} {
		page(b, m, "/test/sessions")
		b.Do(chrome.TypeInto("#search", search), chrome.Click(".filters button"), chrome.See(`#search[value="`+search+`"]`))
		require.Contains(t, b.Text("#sessions"), "1,234.50 EUR")
		require.Equal(t, 1, chrome.Eval[int](b, `document.querySelectorAll("#sessions tbody tr").length`), search)
	}
	page(b, m, "/live/sessions/"+id)
	require.Contains(t, b.Text("h1"), "Not found")
	for _, fault := range b.TakeFaults() { // the browser notes what the test asked for
		require.Contains(t, fault, "404")
	}

	page(b, m, "/test/")
	require.Contains(t, b.Text("#summary"), "1,234.50 EUR")
	require.Contains(t, b.Text("#summary"), "100 %")
	b.Do(chrome.See("#charts-table"), chrome.Click("#charts-table-title"), chrome.See("#charts-table table"))
	b.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("summary").dataset.old = "", void htmx.ajax("GET", location.pathname, {target: "#summary", select: "#summary", swap: "outerHTML"})`),
		chrome.Poll(`!("old" in document.getElementById("summary").dataset)`), chrome.See("#charts-table table")) // still unfolded
	require.Positive(t, chrome.Eval[float64](b, `document.querySelector(".chart rect.completed").getBoundingClientRect().height`))
}
