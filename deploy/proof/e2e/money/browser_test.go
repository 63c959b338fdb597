package money

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/money"
)

// testBrowser pays a session of each payout currency, the first one with a card that is typed into the acquirer's
// frame. The merchant's balance on its chain grows by payout.amount, the transfer becomes final, and the card number
// is nowhere in the service.
func testBrowser(t *testing.T, l live) {
	browser := chrome.StartBrowser(t)
	var ids []string
	before := map[money.PayoutCurrency]decimal.Decimal{}
	for i, c := range money.PayoutCurrencies {
		before[c] = l.balance(c)
		id := l.Create(terms(c))
		ids = append(ids, id)
		if i > 0 {
			l.pay(id, cardSucceeds)
			continue
		}
		b := chrome.NewTab(t, browser)
		b.Do(chromedp.Navigate(l.stack.PageURL()+"/"+id), chrome.See("#pay-button:enabled"))
		require.Equal(t, "Simulated: no real card is charged", b.Text(".test"))
		tab := chromedp.KeyEvent(kb.Tab)
		b.Do(chrome.TypeInto("#email", "ann@example.com"), tab, chromedp.KeyEvent(cardSucceeds), tab, chromedp.KeyEvent("1240"), tab,
			chromedp.KeyEvent("917"), chrome.Click("#pay-button"), chrome.See(`body[data-state="completed"]`))
		require.Contains(t, b.Text("main"), "Visa •••• 4242")
		b.Inspect("live-paid")
	}
	for i, c := range money.PayoutCurrencies {
		amount := l.paidOut(ids[i])
		require.True(t, amount.IsPositive())
		e2e.Await(t, "the coins are on the chain", 20*time.Second, func() bool { return l.balance(c).Equal(before[c].Add(amount)) })
		e2e.Await(t, "the transfer is final", time.Minute, func() bool { return l.confirmed(ids[i]) })
	}
	l.seesMoney(browser, ids[1])
	require.Zero(t, e2e.Query[int](t, l.stack, `SELECT count(*) FROM finding`))
	log := e2e.Log(t, l.stack, "worker")
	require.Contains(t, log, "TraceID", "spans are in the log, and are searched too")
	requireNowhere(t, l, cardSucceeds, devstack.AcquirerKey, l.stack.Live.WebhookSecret)
}

// requireNowhere looks for secrets in every log and span, and in every table of the service and of
// Temporal, whose histories are tables too. The acquirer's own database is not the service's.
func requireNowhere(t *testing.T, l live, secrets ...string) {
	t.Helper()
	var canaries []invariant.Canary
	for _, secret := range secrets {
		canaries = append(canaries, invariant.Canary{Name: secret, Value: secret})
	}
	leaks, _, err := invariant.FindLeaks(t.Context(), l.stack.Postgres.URL("checkout"), filepath.Dir(l.stack.Log("api")), canaries)
	require.NoError(t, err)
	require.Empty(t, leaks)
}

// seesMoney signs the owner in and opens the page of a session whose transfer is final: it shows the charge, the prices, the
// transfer and the ledger.
func (l live) seesMoney(browser context.Context, id string) {
	l.T.Helper()
	b := chrome.NewTab(l.T, browser)
	b.Do(chromedp.Navigate(l.stack.DashboardURL()+"/signin"), chrome.TypeInto("#email", devstack.DemoOwner),
		chrome.TypeInto("#password", l.stack.Demo.Password), chrome.Click("main button"), chrome.See(".sections"),
		chromedp.Navigate(l.stack.DashboardURL()+"/live/sessions/"+id), chrome.See("#session h1"))
	hash, _ := l.Session(id).Field("payout.tx_hash").(string)
	intents, _ := l.facts(id)
	for _, want := range []string{
		intents[0].ID, "kraken", "coinbase", hash, "in the block", "confirmed", "proved final", "Slot",
		"acquirer:receivable", "merchant:payable", "Transfer confirmed", "expense:gas",
	} {
		require.Contains(l.T, b.Text("#session"), want)
	}
	b.RequireReadable("live-session")
	b.RequireTablesFit("live-session")
}
