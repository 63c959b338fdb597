package dashboard

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// newMember makes somebody of the merchant's dashboard and returns the e-mail address.
func newMember(m *e2e.Merchant, role merchant.Role) string {
	m.T.Helper()
	return e2e.AddMember(m.T, e2e.OpenStore(m.T, m.Stack), m.ID, role, checkout.NewID(checkout.PrefixMember)+"@shop.example").Email
}

// newDashboard is an empty tab in which a new member of the merchant is signed in.
func newDashboard(t *testing.T, browser context.Context, m *e2e.Merchant, role merchant.Role) *chrome.Tab {
	t.Helper()
	b := chrome.NewTab(t, browser)
	cookie := network.SetCookieParams{Name: "member", Value: m.SignIn(newMember(m, role)), URL: m.Stack.DashboardURL()}
	chrome.Call(b, network.SetCookie, cookie)
	return b
}

func signIn(b *chrome.Tab, m *e2e.Merchant, email string) {
	b.T.Helper()
	b.Do(chromedp.Navigate(m.Stack.DashboardURL()+"/signin"), chrome.TypeInto("#email", email), chrome.TypeInto("#password", e2e.DashboardPassword),
		chrome.Click("main button"), chrome.See(".sections"))
}

// page goes to a page of the dashboard.
func page(b *chrome.Tab, m *e2e.Merchant, path string) {
	b.T.Helper()
	b.Do(chromedp.Navigate(m.Stack.DashboardURL()+"/m/"+m.ID+path), chrome.See("main h1"))
}

// invited invites a person on the page that is open. It returns the link, which is in the mailbox only.
func invited(owner *chrome.Tab, m *e2e.Merchant, email string) string {
	owner.T.Helper()
	owner.Do(chrome.TypeInto("#email", email), chrome.Click(".narrow button"), chrome.See(".notice"))
	require.NotContains(owner.T, owner.Text("body"), "/invitation/")
	e2e.Await(owner.T, "the mail", 20*time.Second, func() bool { return len(m.Stack.Mailbox.Mails(email)) == 1 })
	mail := m.Stack.Mailbox.Mails(email)[0]
	require.Equal(owner.T, "You are invited to a merchant's dashboard", mail.Subject)
	return regexp.MustCompile(`http\S+/invitation/\S+`).FindString(mail.Text)
}

// TestDashboard_Settings changes a payout address and looks at what the merchant
// is told.
func TestDashboard_Settings(t *testing.T) {
	t.Parallel()
	const address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	owner := newDashboard(t, browser, m, merchant.RoleOwner)
	page(owner, m, "/test/settings")
	owner.Do(chromedp.Clear(chromedp.CSS("#address_USDC")), chrome.TypeInto("#address_USDC", address[:41]+"e"), chrome.Click("main section:first-of-type button"), chrome.See("#address_USDC-fault"))
	require.Contains(t, owner.Text("#address_USDC-fault"), "checksum")
	require.Len(t, owner.TakeFaults(), 1, "the browser notes the 422")
	owner.Do(chromedp.Clear(chromedp.CSS("#address_USDC")), chrome.TypeInto("#address_USDC", address), chrome.Click("main section:first-of-type button"), chrome.See("#password"))
	require.Contains(t, owner.Text("main"), "Money sent to a wrong address is lost.")
	owner.Do(chrome.TypeInto("#password", e2e.DashboardPassword), chrome.Click("main button"), chrome.See(".notice"))

	got := m.Arrivals(1, 20*time.Second)[0]
	require.Equal(t, "merchant.updated", got.Type)
	require.Contains(t, string(got.Body), `"changed":["payout_addresses"]`)
	require.Contains(t, string(got.Body), address)
	event := e2e.Query[string](t, e2e.Shared, `SELECT id FROM event WHERE merchant_id = $1`, m.ID)
	c := e2e.TemporalClient(t, e2e.Shared)
	e2e.AwaitRun(t, c, event, "the run ends after the delivery's has begun", 20*time.Second, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
}
