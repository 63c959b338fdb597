package dashboard

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/merchant"
)

// TestDashboard_SecondFactor turns the second factor on, and signs in and makes a live key with it.
func TestDashboard_SecondFactor(t *testing.T) {
	t.Parallel()
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	email := newMember(m, merchant.RoleOwner)
	b := chrome.NewTab(t, browser)
	signIn(b, m, email)
	page(b, m, "/test/account")
	b.Do(chrome.Click(`form[action$="/account/second_factor"] button`), chrome.See("main .warning"))
	inspectPage(b, "dashboard-confirm")
	b.Do(chrome.TypeInto("#password", e2e.DashboardPassword), chrome.Click("main button"), chrome.See(".qr"))
	inspectPage(b, "dashboard-second-factor")
	secret := strings.ReplaceAll(b.Text("#secret"), " ", "")
	code := func(after time.Duration) string {
		code := must.Get(totp.GenerateCode(secret, time.Now().Add(after)))(t)
		return code
	}
	b.Do(chrome.TypeInto("#code", "000000"), chrome.Click("main form button"), chrome.See("main .fault"))
	inspectPage(b, "dashboard-second-factor-again")
	require.Len(t, b.TakeFaults(), 1, "the browser notes the status 422")
	b.Do(chrome.TypeInto("#code", code(0)), chrome.Click("main form button"), chrome.See("#codes"))
	inspectPage(b, "dashboard-recovery-codes")
	recovery := strings.Fields(b.Text("#codes"))
	require.Len(t, recovery, 10)

	b.Do(chrome.Click(".who button"), chrome.See("#password"), chrome.TypeInto("#email", email),
		chrome.TypeInto("#password", e2e.DashboardPassword), chrome.Click("main button"), chrome.See("#code"))
	inspectPage(b, "dashboard-signin-code")
	b.Do(chrome.TypeInto("#code", recovery[0]), chrome.Click("main button"), chrome.See(".sections"))

	page(b, m, "/live/keys")
	b.Do(chrome.TypeInto("#label", "server"), chrome.Click("#create form button"), chrome.See("#code"))
	inspectPage(b, "dashboard-live-key")
	b.Do(chrome.TypeInto("#password", e2e.DashboardPassword), chrome.TypeInto("#code", recovery[1]), chrome.Click("main form button"), chrome.See("#key"))
	require.True(t, strings.HasPrefix(b.Text("#key"), "sk_live_"))
	b.Do(chromedp.Navigate(m.Stack.DashboardURL()+"/m/"+m.ID+"/test/account"), chrome.See(`form[action$="/account/second_factor/remove"]`))
	require.Contains(t, b.Text("main"), "8 recovery codes are left")
	inspectPage(b, "dashboard-account-factor")
}

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
	require.NotContains(t, chrome.Eval[string](b, `location.href`), "#", "the code is out of the address")
	b.Do(chrome.TypeInto("#password", other), chrome.TypeInto("#password_again", other), chrome.Click("main button"), chrome.See("#email"))
	b.Do(chrome.TypeInto("#email", email), chrome.TypeInto("#password", other), chrome.Click("main button"), chrome.See(".sections"))
	e2e.Await(t, "the notice", 20*time.Second, func() bool { return len(m.Stack.Mailbox.Mails(email)) == 2 })
}
