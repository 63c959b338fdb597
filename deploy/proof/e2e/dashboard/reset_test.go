package dashboard

import (
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/workflows/merchant"
)

// TestDashboard_ForgottenPassword asks for a mail, follows its link and signs in with the new password.
func TestDashboard_ForgottenPassword(t *testing.T) {
	t.Parallel()
	const other = "another one to know"
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	email := newMember(m, merchant.RoleViewer)
	b := chrome.NewTab(t, browser)
	b.Do(chromedp.Navigate(m.Stack.DashboardURL()+"/signin"), chrome.Click(`a[href="/password/forgot"]`), chrome.See(`form[action="/password/forgot"]`))
	inspectPage(b, "dashboard-forgot")
	b.Do(chrome.TypeInto("#email", email), chrome.Click("main button"), chrome.See("#code"))
	inspectPage(b, "dashboard-reset")
	e2e.Await(t, "the mail", 20*time.Second, func() bool { return len(m.Stack.Mailbox.Mails(email)) == 1 })
	link := regexp.MustCompile(`http\S+#\S+`).FindString(m.Stack.Mailbox.Mails(email)[0].Text)
	require.Contains(t, link, m.Stack.DashboardURL()+"/password/reset#")

	b.Do(chromedp.Navigate(m.Stack.ReceiverURL()+"/mails"), chrome.See("h2"))
	require.Contains(t, b.Text("body"), link)
	b.Do(chromedp.Navigate(link), chrome.See("#code"))
	require.Contains(t, link, "#"+b.Value("#code"))
	require.NotEmpty(t, b.Value("#code"))
	require.NotContains(t, chrome.Get(b, chromedp.Evaluate[string](`location.href`)), "#", "the code is out of the address")
	b.Do(chrome.TypeInto("#password", other), chrome.TypeInto("#password_again", other), chrome.Click("main button"), chrome.See("#email"))
	b.Do(chrome.TypeInto("#email", email), chrome.TypeInto("#password", other), chrome.Click("main button"), chrome.See(".sections"))
	e2e.Await(t, "the notice", 20*time.Second, func() bool { return len(m.Stack.Mailbox.Mails(email)) == 2 })
}
