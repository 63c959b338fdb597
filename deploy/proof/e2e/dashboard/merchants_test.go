package dashboard

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/workflows/merchant"
)

// TestDashboard_SeveralMerchants: a person is signed in to two merchants, each in its tab, and the forms and parts of
// pages of each stay its own.
func TestDashboard_SeveralMerchants(t *testing.T) {
	t.Parallel()
	browser := chrome.StartBrowser(t)
	first, second := e2e.NewMerchant(t, e2e.Shared), e2e.NewMerchant(t, e2e.Shared)
	email := newMember(first, merchant.RoleOwner)
	e2e.AddMember(t, e2e.OpenStore(t, second.Stack), second.ID, merchant.RoleOwner, email)
	b := chrome.NewTab(t, browser)
	signIn(b, first, email)
	b.Do(chromedp.Navigate(first.Stack.DashboardURL()+"/m/"+second.ID+"/test/keys"), chrome.See("#password"))
	inspectPage(b, "dashboard-signin-other")
	require.Equal(t, second.ID, b.Value("#merchant"))
	b.Do(chrome.TypeInto("#password", e2e.DashboardPassword), chrome.Click("main button"), chrome.See("#create"))
	page(b, first, "/test/account")
	require.Contains(t, b.Text(".facts"), first.ID)
	inspectPage(b, "dashboard-merchants")
	b.Do(chrome.Click(`a[href="/m/`+second.ID+`/"]`), chrome.See(".sections a[href^='/m/"+second.ID+"/']"))

	page(b, first, "/test/settings")
	b.Script(`fetch("/m/` + second.ID + `/test/").then(() => document.title = "opened elsewhere")`) // as another tab does
	e2e.Await(t, "the other tab", 10*time.Second, func() bool { return chrome.Get(b, chromedp.Title()) == "opened elsewhere" })
	name := e2e.Query[string](t, e2e.Shared, `SELECT name FROM merchant WHERE id = $1`, second.ID)
	b.Do(chrome.Empty("#name"), chrome.TypeInto("#name", "Only the first"), chrome.Click(`form[action$="/test/settings"] button`),
		chrome.See(".notice"))
	require.Equal(t, "Only the first", e2e.Query[string](t, e2e.Shared, `SELECT name FROM merchant WHERE id = $1`, first.ID))
	require.Equal(t, name, e2e.Query[string](t, e2e.Shared, `SELECT name FROM merchant WHERE id = $1`, second.ID))
	page(b, second, "/test/settings")
	require.Equal(t, name, b.Value("#name"))
}
