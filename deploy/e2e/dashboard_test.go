package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/api/dashboard"
	"example.com/checkout/workflows/checkout"
)

const dashboardPassword = "correct horse battery"

// newMember makes somebody who signs in to the dashboard of the merchant with
// dashboardPassword, and returns the e-mail address.
func (m *merchant) newMember(role checkout.Role) string {
	m.t.Helper()
	store := openStore(m.t, m.stack)
	id := checkout.NewID(checkout.PrefixMember)
	member := checkout.Member{ID: id, MerchantID: m.id, Email: id + "@shop.example", Role: role}
	token, err := dashboard.Invite(m.t.Context(), &store.Accounts, member, "test")
	require.NoError(m.t, err)
	_, err = dashboard.Accept(m.t.Context(), &store.Accounts, token, dashboardPassword)
	require.NoError(m.t, err)
	return member.Email
}

// newDashboard is a tab in which a new member of the merchant is signed in.
func newDashboard(t *testing.T, browser context.Context, m *merchant, role checkout.Role) *tab {
	t.Helper()
	b := newTab(t, browser)
	b.signIn(m, m.newMember(role))
	return b
}

func (b *tab) signIn(m *merchant, email string) {
	b.t.Helper()
	b.do(chromedp.Navigate(m.stack.DashboardURL()+"/signin"), typeInto("#email", email), typeInto("#password", dashboardPassword),
		click("main button"), see(".sections"))
}

// page goes to a page of the dashboard.
func (b *tab) page(m *merchant, path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(m.stack.DashboardURL()+path), see("main h1"))
}

// TestDashboard_People is what an owner and somebody who is invited do.
func TestDashboard_People(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	owner := newDashboard(t, browser, m, checkout.RoleOwner)
	require.Contains(t, owner.text(".testing"), "Test mode.")
	owner.page(m, "/test/members")
	owner.do(typeInto("#email", m.id+"@bob.example"), click(".narrow button"), see("#link"))
	link := owner.text("#link")
	owner.shoot("dashboard-people")

	bob := newTab(t, browser)
	bob.do(chromedp.Navigate(link), typeInto("#password", dashboardPassword), typeInto("#password_again", dashboardPassword), click("main button"), see(".sections"))
	require.Contains(t, bob.text(".who"), "viewer")
	bob.do(chromedp.Navigate(m.stack.DashboardURL()+"/live/members"), see("main h1"))
	require.False(t, get(bob, chromedp.Evaluate[bool](`!!document.querySelector(".testing")`)), "live is not test")
	require.NotContains(t, bob.text("main"), "Invite")

	owner.page(m, "/test/audit")
	require.True(t, strings.Contains(owner.text("main"), "as viewer"))
	owner.do(click(".who button"), see("#password"))
	owner.do(chromedp.Navigate(m.stack.DashboardURL()+"/test/"), see("#password"))
}

// TestDashboard_Settings changes a payout address and looks at what the merchant
// is told.
func TestDashboard_Settings(t *testing.T) {
	t.Parallel()
	const address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	browser, m := startBrowser(t), newMerchant(t, shared)
	owner := newDashboard(t, browser, m, checkout.RoleOwner)
	owner.page(m, "/test/settings")
	owner.shoot("dashboard-settings")
	owner.do(chromedp.Clear(chromedp.CSS("#address_USDC")), typeInto("#address_USDC", address[:41]+"e"), click("main section:first-of-type button"), see("#address_USDC-fault"))
	require.Contains(t, owner.text("#address_USDC-fault"), "checksum")
	require.Len(t, owner.takeFaults(), 1, "the browser notes the 422")
	owner.do(chromedp.Clear(chromedp.CSS("#address_USDC")), typeInto("#address_USDC", address), click("main section:first-of-type button"), see("#password"))
	require.Contains(t, owner.text("main"), "What is sent to a wrong address is lost.")
	owner.shoot("dashboard-payout")
	owner.do(typeInto("#password", dashboardPassword), click("main button"), see(".notice"))

	got := m.arrivals(1, 20*time.Second)[0]
	require.Equal(t, "merchant.updated", got.Type)
	require.Contains(t, string(got.Body), `"changed":["payout_addresses"]`)
	require.Contains(t, string(got.Body), address)
	event := query[string](t, shared, `SELECT id FROM event WHERE merchant_id = $1`, m.id)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, statusOf(t, temporalClient(t, shared), event))
}
