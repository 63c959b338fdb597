package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/workflows/merchant"
)

// TestDashboard_EveryPage looks at every page, on a phone and on a computer, light
// and dark: nothing sticks out, and axe-core finds nothing.
func TestDashboard_EveryPage(t *testing.T) {
	t.Parallel()
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	paid := m.Create(`{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "customer_email": "ann@example.com",
		"description": "Two mugs", "locale": "en", "cancel_url": "https://shop.example/cart",
		"line_items": [{"name": "Blue mug with a long name", "quantity": 2, "unit_amount": 5.25}], "metadata": {"order_id": "o-1", "gift": true}}`)
	m.MustPay(paid, e2e.CardDeclined)
	m.Complete(paid)
	m.Arrivals(3, 20*time.Second)
	for range 20 { // so that a replay of one delivery a second runs for a while
		m.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+m.Create(e2e.Terms)+"/expire", "")
	}
	m.Must(http.StatusCreated, http.MethodPost, "/v1/checkout/"+paid+"/refund", `{"amount": 2.50, "reason": "duplicate"}`)
	asked := m.Sell("4000000000001976") // the bank asks about it
	e2e.AwaitQuery(t, "an inquiry", 60*time.Second, e2e.Shared, 1, `
		SELECT count(*)::int FROM charge_risk r JOIN transaction t ON t.id = r.transaction_id WHERE t.session_id = $1`, asked)
	m.Create(e2e.Terms)
	e2e.Query[string](t, e2e.Shared, `UPDATE payout_address SET address = 'sandbox:invalid' WHERE merchant_id = $1 RETURNING address`, m.ID)
	unpaid := m.Sell(e2e.CardSucceeds)
	e2e.Await(t, "the payout fails", 10*time.Second, func() bool { return m.Session(unpaid).Field("payout.status") == "failed" })
	delivery := e2e.DeliveryOf(t, e2e.Shared, paid, "checkout.completed")
	endpoint := e2e.Query[string](t, e2e.Shared, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1`, m.ID)
	url := e2e.Query[string](t, e2e.Shared, `SELECT url FROM webhook_endpoint WHERE id = $1`, endpoint)
	for _, path := range []string{"orders", "stock", "mail", "ledger"} {
		m.Must(http.StatusCreated, http.MethodPost, "/v1/webhooks", `{"url": "`+url+`/`+path+`", "events": ["payout.sent"], "description": "For `+path+`"}`)
	}
	e2e.Query[string](t, e2e.Shared, `
		INSERT INTO webhook_endpoint_failure (endpoint_id, since, last_at, marked_at, held_at) -- that it works changes nothing
		SELECT id, now() - interval '2 days', now(), now(), now() FROM webhook_endpoint WHERE merchant_id = $1
		RETURNING endpoint_id`, m.ID)

	b := chrome.NewTab(t, browser)
	b.Do(chromedp.Navigate(m.Stack.DashboardURL()+"/signin"), chrome.See("#email"))
	inspectPage(b, "dashboard-signin")
	other, email := e2e.NewMerchant(t, e2e.Shared), newMember(m, merchant.RoleOwner)
	e2e.AddMember(t, e2e.OpenStore(t, e2e.Shared), other.ID, merchant.RoleOwner, email)
	signIn(b, m, email)
	b.Do(chromedp.Navigate(m.Stack.DashboardURL()+"/m/"+other.ID+"/test/keys"), chrome.See("#password"))
	inspectPage(b, "dashboard-signin-other")
	b.Do(chrome.TypeInto("#password", e2e.DashboardPassword), chrome.Click("main button"), chrome.See("#create"))
	page(b, m, "/test/account")
	b.Do(chrome.See(`a[href="/m/` + other.ID + `/"]`))
	replay := m.Must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+endpoint+"/replay", `{"since": "2026-01-01T00:00:00Z", "status": "delivered", "rate": 1}`).Field("id").(string)
	page(b, m, "/test/replays/"+replay)
	b.Do(chrome.See("#cancel"))
	b.Axe("replay that runs")
	const preview = "?since=2026-01-01T00:00&status=delivered&rate=1"
	for _, path := range []string{
		"/test/", "/live/", "/test/sessions", "/live/sessions", "/test/sessions?status=expired", "/test/sessions/" + paid, "/test/sessions/" + unpaid,
		"/test/payouts", "/live/payouts", "/test/balance", "/live/balance", "/test/refunds", "/live/refunds", "/test/disputes",
		"/live/disputes", "/test/sessions/" + paid + "/refund", "/test/sessions/" + asked, "/test/deliveries", "/live/deliveries", "/test/deliveries/" + delivery,
		"/test/webhooks", "/live/webhooks", "/test/webhooks/" + endpoint, "/test/webhooks/" + endpoint + "/replay",
		"/test/webhooks/" + endpoint + "/replay" + preview, "/test/replays/" + replay,
		"/test/keys", "/live/keys", "/test/requests", "/live/requests", "/test/requests?status=refused", "/test/settings", "/live/settings", "/test/members", "/test/audit", "/test/account",
	} {
		page(b, m, path)
		b.RequireTablesFit(path)
		inspectPage(b, "dashboard"+strings.NewReplacer(preview, "-preview", "/", "-", "?", "-", "=", "-", paid, "one", unpaid, "unpaid", delivery, "one", endpoint, "one", replay, "one").Replace(path))
	}
	page(b, m, "/test/sessions/"+unpaid)
	b.Do(chrome.Click("#retry-ask"), chrome.See("#retry-payout form button"))
	inspectPage(b, "dashboard-session-retry")
	page(b, m, "/test/payouts")
	b.Do(chrome.Click(".more summary"), chrome.See(".more form button"))
	inspectPage(b, "dashboard-payouts-retry")
	page(b, m, "/test/nothing")
	inspectPage(b, "dashboard-not-found")
	require.Len(t, b.TakeFaults(), 1, "the browser notes the 404")
	page(b, m, "/test/settings")
	b.Do(chrome.Empty("#address_BTC"), chrome.TypeInto("#address_BTC", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), chrome.Click("main section:first-of-type button"), chrome.See("#password"))
	inspectPage(b, "dashboard-payout")
	b.Do(chrome.TypeInto("#password", e2e.DashboardPassword), chrome.Click("main button"), chrome.See(".notice"))
	e2e.AwaitQuery(t, "the merchant is told", 20*time.Second, e2e.Shared, 1, `SELECT count(*) FROM webhook_delivery d JOIN event e
		ON e.id = d.event_id WHERE d.merchant_id = $1 AND e.type = 'merchant.updated' AND d.status = 'delivered'`, m.ID)
	e2e.Query[string](t, e2e.Shared, `INSERT INTO payout_address (merchant_id, mode, currency, network, address)
		VALUES ($1, 'live', 'ETH', 'ethereum', '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed') RETURNING address`, m.ID)
	page(b, m, "/live/settings")
	b.Do(chrome.Empty("#address_ETH"), chrome.TypeInto("#address_ETH", "0x52908400098527886E0F7030069857D2E4169EE7"),
		chrome.Click(`form[action$="/live/settings/payout"] button`), chrome.See("#password"))
	inspectPage(b, "dashboard-payout-live")
	b.Do(chrome.TypeInto("#password", e2e.DashboardPassword), chrome.Click("main button"), chrome.See("div.warning")) // the question before it is a paragraph
	inspectPage(b, "dashboard-announced")
	page(b, m, "/test/keys")
	require.False(t, chrome.Eval[bool](b, `document.querySelector(".choices").checkVisibility()`), "single scopes are not to be ticked beside everything")
	b.Do(chrome.Click(`input[name="access"][value="some"]`), chrome.See(".choices"), chrome.Click(`input[value="full"]`))
	b.Do(chrome.TypeInto("#label", "web shop"), chrome.Click("#create form > button"), chrome.See("#key"))
	b.Axe("key-secret")
	page(b, m, "/test/members")
	link := invited(b, m, m.ID+"@axe.example")
	inspectPage(b, "dashboard-invited")
	b.Do(chrome.Click(".who button"), chrome.See("#password"), chromedp.Navigate(link), chrome.See("#password_again"))
	inspectPage(b, "dashboard-invitation")
}

// compact returns what a phone would show too high or cut off: a bar of more than one line, and a list that scrolls
// sideways in its box. The figures of the charts may: they are a table of numbers.
const compact = `innerWidth > 760 ? [] : Array.from(document.querySelectorAll(".bar, .testing, .scroll:not(#charts-table-scroll)"))
	.filter((e) => e.matches(".scroll") ? e.scrollWidth > e.clientWidth : e.offsetHeight > (e.matches(".bar") ? 56 : 24))
	.map((e) => e.outerHTML.slice(0, 90) + " is " + e.scrollWidth + " x " + e.offsetHeight)`

// inspectPage proves in each look that the page is not wider than the window, that a phone has the most of it, and
// that axe finds nothing.
func inspectPage(b *chrome.Tab, name string) {
	b.EachLook(name, func(what string, l chrome.Look) {
		b.RequireNoSideways(what)
		require.Empty(b.T, chrome.Eval[[]string](b, compact), what)
		b.AxeIn(l, what)
	})
}
