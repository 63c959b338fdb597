// Package dashboard tests the dashboard in a real browser.
package dashboard

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// newMember makes somebody of the merchant's dashboard and returns the e-mail address.
func newMember(m *e2e.Merchant, role merchant.Role) string {
	return e2e.AddMember(m.T, e2e.OpenStore(m.T, m.Stack), m.ID, role, checkout.NewID(checkout.PrefixMember)+"@shop.example").Email
}

// newDashboard is an empty tab in which a new member of the merchant is signed in.
func newDashboard(t *testing.T, browser context.Context, m *e2e.Merchant, role merchant.Role) *chrome.Tab {
	b := chrome.NewTab(t, browser)
	cookie := network.SetCookieParams{Name: "member", Value: m.SignIn(newMember(m, role)), URL: m.Stack.DashboardURL()}
	chrome.Call(b, network.SetCookie, cookie)
	return b
}

func signIn(b *chrome.Tab, m *e2e.Merchant, email string) {
	b.Do(chromedp.Navigate(m.Stack.DashboardURL()+"/signin"), chrome.TypeInto("#email", email), chrome.TypeInto("#password", e2e.DashboardPassword),
		chrome.Click("main button"), chrome.See(".sections"))
}

func page(b *chrome.Tab, m *e2e.Merchant, path string) {
	b.Do(chromedp.Navigate(m.Stack.DashboardURL()+"/m/"+m.ID+path), chrome.See("main h1"))
}

// invited invites a person on the page that is open. It returns the link, which is in the mailbox only.
func invited(owner *chrome.Tab, m *e2e.Merchant, email string) string {
	owner.Do(chrome.TypeInto("#email", email), chrome.Click(".narrow button"), chrome.See(".notice"))
	require.NotContains(owner.T, owner.Text("body"), "/invitation/")
	e2e.Await(owner.T, "the mail", 20*time.Second, func() bool { return len(m.Stack.Mailbox.Mails(email)) == 1 })
	mail := m.Stack.Mailbox.Mails(email)[0]
	require.Equal(owner.T, "You are invited to a merchant's dashboard", mail.Subject)
	return regexp.MustCompile(`http\S+/invitation/\S+`).FindString(mail.Text)
}
