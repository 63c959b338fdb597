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

// TestDashboard_SeveralMerchants: a person signs in to two merchants, switches, and sends a form of the wrong one.
func TestDashboard_SeveralMerchants(t *testing.T) {
	t.Parallel()
	browser := chrome.StartBrowser(t)
	first, second := e2e.NewMerchant(t, e2e.Shared), e2e.NewMerchant(t, e2e.Shared)
	email := newMember(first, checkout.RoleOwner)
	newMemberWith(second, checkout.RoleOwner, email)
	b := chrome.NewTab(t, browser)
	signIn(b, first, email)
	page(b, first, "/account")
	b.Do(chrome.Click(`a[href="/signin?other=1"]`), chrome.See("#password"))
	inspectPage(b, "dashboard-signin-other")
	b.Do(chrome.TypeInto("#password", dashboardPassword), chrome.TypeInto("#merchant", second.ID),
		chrome.Click("main button"), chrome.See(".sections"))
	page(b, first, "/account")
	require.Contains(t, b.Text(".facts"), second.ID)
	inspectPage(b, "dashboard-merchants")

	page(b, first, "/test/settings") // the second merchant's
	b.Script(`fetch("/account/merchants/` + first.ID + `", {method: "POST"}).then(() => document.title = "switched")`)
	e2e.Await(t, "the other tab has switched", 10*time.Second, func() bool { return chrome.Get(b, chromedp.Title()) == "switched" })
	b.Do(chrome.Click(`form[action="/test/settings"] button`), chrome.See(`body:not(:has(form[action="/test/settings"])) main h1`))
	require.Contains(t, b.Text("main"), "Another merchant was opened in this browser in the meantime.")
	inspectPage(b, "dashboard-other-merchant")
	b.TakeFaults() // the status 409
	page(b, first, "/account")
	require.Contains(t, b.Text(".facts"), first.ID)

	page(b, first, "/test/keys") // loads its list again and again
	of := b.Value("input[name=membership]")
	b.Script(`fetch("/account/merchants/` + second.ID + `", {method: "POST"})`)
	b.Do(chrome.See(`body[hx-headers]:not([hx-headers*="` + of + `"])`)) // the page becomes the other merchant's
	b.TakeFaults()                                                       // the status 409
}
