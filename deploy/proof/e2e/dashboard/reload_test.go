package dashboard

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/workflows/checkout"
)

// TestDashboard_AReloadMakesNothingTwice loads the page after rotating a secret,
// making a key and adding a webhook again, as people do.
func TestDashboard_AReloadMakesNothingTwice(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	dev := newDashboard(t, browser, m, checkout.RoleDeveloper)
	registration := m.Registration()
	page(dev, m, "/test/webhooks/"+registration)
	confirms(dev)
	dev.Do(chrome.Click(`form[action$="/rotate"] button`), chrome.See("#secret"))
	secret := dev.Text("#secret")
	dev.Do(chromedp.Reload(), chrome.See(".notice"))
	require.Contains(t, dev.Text(".notice"), "A secret is shown only once.")
	require.NotContains(t, chrome.Get(dev, chromedp.Evaluate[string](`document.documentElement.outerHTML`)), secret)
	require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT count(*)::int FROM audit_entry WHERE merchant_id = $1 AND action = 'webhook.secret_rotated'`, m.ID))
	dev.Do(chrome.Click(`form[action$="/test"] button`), chrome.See("#state"), seeIn(".head .status", "delivered"))
	require.NoError(t, m.Arrivals(1, 20*time.Second)[0].Signature, "the secret that the server had before verifies it still")
	dev.Do(chromedp.Reload(), chrome.See(".head .status"))
	require.False(t, chrome.Get(dev, chromedp.Evaluate[bool](`!!document.querySelector(".notice")`)), "what was done is said once")

	page(dev, m, "/test/keys")
	require.False(t, chrome.Get(dev, chromedp.Evaluate[bool](`document.querySelector(".choices").checkVisibility()`)), "single scopes are not to be ticked beside everything")
	dev.Do(chrome.Click(`input[name="access"][value="some"]`), chrome.See(".choices"), chrome.Click(`input[value="full"]`))
	dev.Do(chrome.TypeInto("#label", "once"), chrome.Click("#create form > button"), chrome.See("#key"))
	dev.Axe("key-secret")
	dev.Do(chromedp.Reload(), chrome.See(".notice"))
	require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT count(*)::int FROM api_key WHERE merchant_id = $1 AND label = 'once'`, m.ID))

	page(dev, m, "/test/webhooks/new")
	dev.Do(chrome.TypeInto("#url", "http://127.0.0.1:9/nobody-listens"), chrome.Click("form.narrow button"), chrome.See("#secret"))
	dev.Do(chromedp.Reload(), chrome.See(".notice"))
	require.Equal(t, 2, e2e.Query[int](t, e2e.Shared, `SELECT count(*)::int FROM webhook_endpoint WHERE merchant_id = $1 AND session_id IS NULL`, m.ID))
}

// TestDashboard_AnOwnerIsInvitedWithThePassword takes the steps that a person does.
func TestDashboard_AnOwnerIsInvitedWithThePassword(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	owner := newDashboard(t, browser, m, checkout.RoleOwner)
	page(owner, m, "/test/members")
	owner.Script(`document.querySelector("#role").value = "owner"`)
	owner.Do(chrome.TypeInto("#email", m.ID+"@second.example"), chrome.Click(".narrow button"), chrome.See("#password"))
	require.Contains(t, owner.Text("main"), "will be invited as an owner")
	owner.Shoot("dashboard-confirm")
	owner.Axe("confirm")
	owner.Do(chrome.TypeInto("#password", dashboardPassword), chrome.Click("main button"), chrome.See(".notice"))
	owner.Do(chromedp.Reload(), chrome.See("main h1"))
	require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT count(*)::int FROM member WHERE merchant_id = $1 AND email = $2`, m.ID, m.ID+"@second.example"))
}
