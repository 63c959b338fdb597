package e2e

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// TestDashboard_AReloadMakesNothingTwice loads the page after rotating a secret,
// making a key and adding a webhook again, as people do.
func TestDashboard_AReloadMakesNothingTwice(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	dev := newDashboard(t, browser, m, checkout.RoleDeveloper)
	registration := m.registration()
	dev.page(m, "/test/webhooks/"+registration)
	dev.confirms()
	dev.do(click(`form[action$="/rotate"] button`), see("#secret"))
	secret := dev.text("#secret")
	dev.do(chromedp.Reload(), see(".notice"))
	require.Contains(t, dev.text(".notice"), "A secret is shown only once.")
	require.NotContains(t, get(dev, chromedp.Evaluate[string](`document.documentElement.outerHTML`)), secret)
	require.Equal(t, 1, query[int](t, shared, `SELECT count(*)::int FROM audit_entry WHERE merchant_id = $1 AND action = 'webhook.secret_rotated'`, m.id))
	dev.do(click(`form[action$="/test"] button`), see("#state"), seeIn(".head .status", "delivered"))
	require.NoError(t, m.arrivals(1, 20*time.Second)[0].Signature, "the secret that the server had before verifies it still")
	dev.do(chromedp.Reload(), see(".head .status"))
	require.False(t, get(dev, chromedp.Evaluate[bool](`!!document.querySelector(".notice")`)), "what was done is said once")

	dev.page(m, "/test/keys")
	require.False(t, get(dev, chromedp.Evaluate[bool](`document.querySelector(".choices").checkVisibility()`)), "single scopes are not to be ticked beside everything")
	dev.do(click(`input[name="access"][value="some"]`), see(".choices"), click(`input[value="full"]`))
	dev.do(typeInto("#label", "once"), click("#create form > button"), see("#key"))
	dev.axe("key-secret")
	dev.do(chromedp.Reload(), see(".notice"))
	require.Equal(t, 1, query[int](t, shared, `SELECT count(*)::int FROM api_key WHERE merchant_id = $1 AND label = 'once'`, m.id))

	dev.page(m, "/test/webhooks/new")
	dev.do(typeInto("#url", "http://127.0.0.1:9/nobody-listens"), click("form.narrow button"), see("#secret"))
	dev.do(chromedp.Reload(), see(".notice"))
	require.Equal(t, 2, query[int](t, shared, `SELECT count(*)::int FROM webhook_endpoint WHERE merchant_id = $1 AND session_id IS NULL`, m.id))
}

// TestDashboard_AnOwnerIsInvitedWithThePassword takes the steps that a person does.
func TestDashboard_AnOwnerIsInvitedWithThePassword(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	owner := newDashboard(t, browser, m, checkout.RoleOwner)
	owner.page(m, "/test/members")
	owner.script(`document.querySelector("#role").value = "owner"`)
	owner.do(typeInto("#email", m.id+"@second.example"), click(".narrow button"), see("#password"))
	require.Contains(t, owner.text("main"), "will be invited as an owner")
	owner.shoot("dashboard-confirm")
	owner.axe("confirm")
	owner.do(typeInto("#password", dashboardPassword), click("main button"), see("#link"))
	require.Contains(t, owner.text("#link"), "/invitation/")
	owner.do(chromedp.Reload(), see(".notice"))
	require.Equal(t, 1, query[int](t, shared, `SELECT count(*)::int FROM member WHERE merchant_id = $1 AND email = $2`, m.id, m.id+"@second.example"))
}
