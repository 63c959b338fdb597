package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// confirms says yes to every question of the page.
func (b *tab) confirms() { b.script(`window.confirm = () => true`) }

// TestDashboard_WebhookFromAddingToDeleting is what a developer does with one.
func TestDashboard_WebhookFromAddingToDeleting(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	dev := newDashboard(t, browser, m, checkout.RoleDeveloper)
	dev.page(m, "/test/webhooks")
	dev.do(click(`.head [role="button"]`), see("#url"), typeInto("#url", "https://127.0.0.2.invalid/"), click(`input[value="merchant.updated"]`))
	dev.shoot("dashboard-webhook-new")
	dev.axe("webhook-new")
	dev.do(chromedp.Clear(chromedp.CSS("#url")), typeInto("#url", "not an address"), click("form.narrow button"), see("#url-fault"))
	require.Contains(t, dev.text("#url-fault"), "must be an absolute http or https URL")
	require.Len(t, dev.takeFaults(), 1, "the browser notes the 422")
	dev.do(chromedp.Clear(chromedp.CSS("#url")), typeInto("#url", "http://127.0.0.1:9/nobody-listens"), typeInto("#description", "Second"), click("form.narrow button"), see("#secret"))
	secret := dev.text("#secret")
	require.Regexp(t, `^whsec_[0-9a-f]{64}$`, secret)
	dev.shoot("dashboard-webhook-secret")
	dev.axe("webhook-secret")
	dev.do(click(`main > p [role="button"]`), see("#type"))
	require.NotContains(t, get(dev, chromedp.Evaluate[string](`document.documentElement.outerHTML`)), secret, "it was shown once")

	dev.do(click(`form[action$="/test"] button`), see(".notice"), seeIn(".head .status", "failed"))
	dev.page(m, "/test/webhooks/"+query[string](t, m.stack, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1 AND description = 'Second'`, m.id))
	dev.confirms()
	dev.do(click(`form[action$="/rotate"] button`), see("#secret"))
	require.NotEqual(t, secret, dev.text("#secret"))
	require.Contains(t, dev.text(".once"), "both secrets")
	dev.do(click(`main > p [role="button"]`), see("#hours"), click(`form[action$="/hold"] button`), see(".warning"))
	dev.shoot("dashboard-webhook-held")
	dev.axe("webhook-held")
	dev.do(click(`form[action$="/resume"] button`), see(`form[action$="/hold"]`))
	dev.do(click(`a[href$="/delete"]`), see("form .danger"))
	dev.shoot("dashboard-webhook-delete")
	dev.axe("webhook-delete")
	dev.do(click("form .danger"), see(".notice"), seeIn(".notice", "deleted"))
	require.NotContains(t, dev.text("main"), "Second")
}

// TestDashboard_LiveLog: what happens appears without a reload, and one delivery
// is steered from its page.
func TestDashboard_LiveLog(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	b := newDashboard(t, browser, m, checkout.RoleDeveloper)
	b.page(m, "/test/deliveries")
	require.Contains(t, b.text("#log"), "Nothing was sent yet.")
	b.script(`window.sameDocument = true`)
	held := m.refusedDelivery()
	m.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/hold", "")
	row := "tr[id=" + held + "]"
	b.do(see(row), seeIn(row, "on hold"), seeIn(row, "500"))
	require.True(t, get(b, chromedp.Evaluate[bool](`window.sameDocument === true`)), "without a reload")
	require.True(t, get(b, chromedp.Evaluate[bool](fmt.Sprintf(`document.querySelector(%q).classList.contains("fresh")`, row))), "marked")
	b.shoot("dashboard-deliveries")
	b.axe("deliveries")

	b.do(click(row+" a"), see("#resume"))
	require.Contains(t, b.text("#state"), "no attempt is used up")
	b.shoot("dashboard-delivery-held")
	b.axe("delivery-held")
	m.receiver.Answer(http.StatusOK)
	b.script(`window.sameDocument = true`)
	m.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/resume", "")
	b.do(seeIn(".head .status", "delivered"), see("#replay"))
	require.True(t, get(b, chromedp.Evaluate[bool](`window.sameDocument === true`)), "without a reload")
	require.Contains(t, b.text("#state"), "Your server accepted it")
	b.shoot("dashboard-delivery")
	b.axe("delivery")
	before, _ := m.receiver.Arrivals()
	b.do(click("#replay"), see(".notice"), seeIn("#state", "Run 2"))
	m.arrivals(len(before)+1, 20*time.Second)

	b.page(m, "/test/deliveries?status=failed")
	b.do(seeIn("#log", "No delivery is like that."))

	// A page that is open when its reader signs out elsewhere asks to sign in again.
	b.page(m, "/test/deliveries")
	query[int](t, m.stack, `WITH gone AS (DELETE FROM member_session s USING member m WHERE m.id = s.member_id AND m.merchant_id = $1) SELECT 1`, m.id)
	b.do(see("#password"))
	b.takeFaults() // the stream that was refused
}

// TestDashboard_BulkReplay counts, starts, watches and finds the replay again.
func TestDashboard_BulkReplay(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	for range 4 {
		m.mustPay(m.create(terms), cardDeclined)
	}
	m.arrivals(4, 30*time.Second)
	registration := m.registration()
	await(t, "the deliveries are delivered", 20*time.Second, func() bool {
		return query[int](t, m.stack, `SELECT count(*)::int FROM webhook_delivery WHERE merchant_id = $1 AND status = 'delivered'`, m.id) == 4
	})
	b := newDashboard(t, browser, m, checkout.RoleDeveloper)
	b.page(m, "/test/webhooks/"+registration+"/replay")
	b.script(`document.querySelector("#status").value = "delivered", document.querySelector("#rate").value = "1"`)
	b.do(click(".filters button"), see("#start"))
	require.Equal(t, "4 deliveries", b.text("#preview-title"))
	b.shoot("dashboard-replay-preview")
	b.axe("replay-preview")
	b.do(click("#start"), see("#progress"))
	b.script(`window.sameDocument = true`)
	b.shoot("dashboard-replay")
	b.axe("replay")
	b.do(seeIn("#progress", "It is complete."))
	require.True(t, get(b, chromedp.Evaluate[bool](`window.sameDocument === true`)), "without a reload")
	require.Contains(t, b.text("#progress"), "4 of 4 sent again")
	m.arrivals(8, 30*time.Second)

	b.page(m, "/test/webhooks/"+registration+"/replay")
	b.script(`document.querySelector("#status").value = "delivered", document.querySelector("#rate").value = "1"`)
	b.do(click(".filters button"), click("#start"), click("#cancel button"), see(".status.canceled"))
	await(t, "the replay is canceled", 20*time.Second, func() bool {
		return query[int](t, m.stack, `SELECT count(*)::int FROM webhook_replay WHERE merchant_id = $1 AND status = 'canceled'`, m.id) == 1
	})
	b.page(m, "/test/webhooks/"+registration+"/replay")
	require.Equal(t, 2, strings.Count(b.text("tbody"), " of 4"))
}
