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

// TestDashboard_AnotherOwnerStopsAChangedAddress announces a live payout address as one owner, and stops it as another
// who got the mail.
func TestDashboard_AnotherOwnerStopsAChangedAddress(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	const first, other = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0x52908400098527886E0F7030069857D2E4169EE7"
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	owner := newDashboard(t, browser, m, checkout.RoleOwner)
	watcher := newMember(m, checkout.RoleOwner)
	change := func(address string) {
		page(owner, m, "/live/settings")
		owner.Do(chrome.Empty("#address_ETH"), chrome.TypeInto("#address_ETH", address),
			chrome.Click(`form[action$="/live/settings/payout"] button`), chrome.See("#password"))
		if address == other {
			inspectPage(owner, "dashboard-payout-live")
		}
		owner.Do(chrome.TypeInto("#password", dashboardPassword), chrome.Click("main button"), chrome.See(".notice"))
	}
	change(first)
	change(other)
	inspectPage(owner, "dashboard-announced")
	e2e.Await(t, "the mail", 20*time.Second, func() bool {
		mails := m.Stack.Mailbox.Mails(watcher)
		return len(mails) > 0 && mails[len(mails)-1].Subject == "A payout address will change"
	})
	second := chrome.NewTab(t, chrome.StartBrowser(t))
	signIn(second, m, watcher)
	second.Do(chromedp.Navigate(m.Stack.DashboardURL()+"/live/settings"), chrome.See(".warning"))
	require.Contains(t, second.Text(".warning"), other)
	second.Do(chrome.Click(".warning button"), chrome.See(".notice"))
	require.Contains(t, second.Text("main"), "The change is stopped.")
	require.Equal(t, first, second.Value("#address_ETH"))
}
