package money

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/money"
)

// openSession signs the owner in and opens the page of a session.
func (l live) openSession(browser context.Context, id string) *chrome.Tab {
	l.T.Helper()
	b := chrome.NewTab(l.T, browser)
	b.Do(chromedp.Navigate(l.stack.DashboardURL()+"/signin"), chrome.TypeInto("#email", devstack.DemoOwner),
		chrome.TypeInto("#password", l.stack.Demo.Password), chrome.Click("main button"), chrome.See(".sections"),
		chromedp.Navigate(l.stack.DashboardURL()+"/live/sessions/"+id), chrome.See("#session h1"))
	return b
}

// inspectSession proves that the page of a session fits in each look and on a laptop, and that axe finds
// nothing.
func inspectSession(b *chrome.Tab, name string) {
	b.T.Helper()
	b.RequireReadable(name)
	b.Resized(func() {
		b.Do(chromedp.EmulateViewport(1280, 800))
		b.RequireNoSideways(name + " on a laptop")
	})
}

// seesMoney opens the page of a session whose transfer is final: it shows the charge, the prices, the
// transfer and the ledger.
func (l live) seesMoney(browser context.Context, id string) {
	l.T.Helper()
	b := l.openSession(browser, id)
	hash, _ := l.Session(id).Field("payout.tx_hash").(string)
	intents, _ := l.facts(id)
	for _, want := range []string{
		intents[0].ID, "kraken", "coinbase", hash, "in the block", "confirmed", "proved final", "Slot",
		"acquirer:receivable", "merchant:payable", "Transfer confirmed", "expense:gas",
	} {
		require.Contains(l.T, b.Text("#session"), want)
	}
	inspectSession(b, "live-session")
}

// testRetry: a payout to an address that cannot be paid fails before anything is signed. The owner sets
// another address and presses the button: it is paid once, and its events follow each other.
func testRetry(t *testing.T, l live) {
	payTo := func(address string) {
		require.Equal(t, address, e2e.Query[string](t, l.stack, `UPDATE payout_address SET address = $2
			WHERE merchant_id = $1 AND mode = 'live' AND currency = 'USDT' RETURNING address`, l.ID, address))
	}
	address := e2e.Query[string](t, l.stack, `SELECT address FROM payout_address WHERE merchant_id = $1 AND mode = 'live' AND currency = 'USDT'`, l.ID)
	payTo("0x000000000000000000000000000000000000nope")
	id := l.Create(terms(money.USDT))
	l.pay(id, cardSucceeds)
	l.awaitPayout(id, "status", "failed")
	require.Equal(t, "invalid_address", l.Session(id).Field("payout.failure.code"))

	browser := chrome.StartBrowser(t)
	b := l.openSession(browser, id)
	b.Do(chrome.See("#retry-ask"))
	inspectSession(b, "live-payout-failed")
	payTo(address)
	before := l.balance(money.USDT)
	b.Do(chrome.Click("#retry-ask"), chrome.See("#retry-payout form button"))
	b.Do(chrome.Click("#retry-payout form button"), chrome.See(".notice"))
	amount := l.paidOut(id)
	e2e.Await(t, "the transfer is final", time.Minute, func() bool { return l.confirmed(id) })
	require.True(t, l.balance(money.USDT).Equal(before.Add(amount)), "paid once")
	require.Equal(t, address, l.Session(id).Field("payout.destination"))
	payout, _ := l.Session(id).Field("payout.id").(string)
	require.Equal(t, "payout.failed 1, payout.sent 2", e2e.Query[string](t, l.stack, `
		SELECT string_agg(type || ' ' || generation, ', ' ORDER BY id) FROM event WHERE subject_id = $1`, payout))
	require.Equal(t, 1, e2e.Query[int](t, l.stack, `SELECT count(*) FROM transfer_payout WHERE payout_id = $1`, payout))
	require.Contains(t, b.Text("#session"), "Before: failed")
}
