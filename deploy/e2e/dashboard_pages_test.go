package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// TestDashboard_EveryPage looks at every page, on a phone and on a computer, light
// and dark: nothing sticks out, and axe-core finds nothing.
func TestDashboard_EveryPage(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	paid := m.create(`{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "customer_email": "ann@example.com", "metadata": {"order_id": "o-1", "gift": true}}`)
	m.mustPay(paid, cardDeclined)
	m.mustPay(paid, cardSucceeds)
	m.awaitStatus(paid, checkout.StatusCompleted, 10*time.Second)
	m.arrivals(3, 20*time.Second)
	m.create(terms)
	delivery := deliveryOf(t, shared, paid, "checkout.completed")
	endpoint := query[string](t, shared, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1`, m.id)
	replay := m.must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+endpoint+"/replay", `{"since": "2026-01-01T00:00:00Z"}`).field("id").(string)

	b := newTab(t, browser)
	b.do(chromedp.Navigate(m.stack.DashboardURL()+"/signin"), see("#email"))
	b.inspectPage("dashboard-signin")
	b.signIn(m, m.newMember(checkout.RoleOwner))
	for _, path := range []string{
		"/test/", "/live/", "/test/sessions", "/live/sessions", "/test/sessions?status=expired", "/test/sessions/" + paid,
		"/test/deliveries", "/live/deliveries", "/test/deliveries/" + delivery,
		"/test/webhooks", "/live/webhooks", "/test/webhooks/" + endpoint, "/test/webhooks/" + endpoint + "/replay", "/test/replays/" + replay,
		"/test/keys", "/live/keys", "/test/settings", "/live/settings", "/test/members", "/test/audit", "/account",
	} {
		b.page(m, path)
		b.inspectPage("dashboard" + strings.NewReplacer("/", "-", "?", "-", "=", "-", paid, "one", delivery, "one", endpoint, "one", replay, "one").Replace(path))
	}
	b.page(m, "/test/nothing")
	b.inspectPage("dashboard-not-found")
	require.Len(t, b.takeFaults(), 1, "the browser notes the 404")
	b.page(m, "/test/settings")
	b.do(empty("#address_BTC"), typeInto("#address_BTC", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), click("main section:first-of-type button"), see("#password"))
	b.inspectPage("dashboard-payout")
	b.page(m, "/test/members")
	b.do(typeInto("#email", m.id+"@axe.example"), click(".narrow button"), see("#link"))
	b.inspectPage("dashboard-invited")
	link := b.text("#link")
	b.do(click(".who button"), see("#password"), chromedp.Navigate(link), see("#password_again"))
	b.inspectPage("dashboard-invitation")
}

// inspectPage proves in each look that the page is not wider than the window and
// that axe finds nothing.
func (b *tab) inspectPage(name string) {
	b.t.Helper()
	b.eachLook(name, func(what string, _ size) {
		b.requireNoSideways(what)
		b.axe(what)
	})
}
