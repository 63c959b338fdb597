package money

import (
	"context"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
)

// TestLive runs live mode on one stack. Until the last test the card network's reports are held back, so
// everything is found by asking.
func TestLive(t *testing.T) {
	t.Parallel()
	l := startLive(t)
	require.NoError(t, l.Stack.Live.Acquirer.HoldWebhooks())
	// Alone, because it compares the merchant's balance to the last unit.
	t.Run("a customer pays in a browser", func(t *testing.T) { testBrowser(t, l.in(t)) })
	t.Run("at once", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, live){
			"the bank agrees and the customer does not return": testBankAgrees,
			"the bank refuses": testBankRefuses,
			"a declined card":  testDeclined,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, l.in(t))
			})
		}
	})
	// Alone, because the next payout pays what the merchant owes.
	t.Run("a dispute", func(t *testing.T) { testDispute(t, l.in(t)) })
	t.Run("a restarted API sells at once", func(t *testing.T) { testRestartedAPI(t, l.in(t)) })
	l.Stack.Live.Acquirer.ReleaseWebhooks()
	t.Run("a frozen treasury pays nobody", func(t *testing.T) { testFrozen(t, l.in(t)) })
	t.Run("a burst of declined cards suspends the merchant", func(t *testing.T) { testCardTesting(t, l.in(t)) })
}

// testRestartedAPI: an API that is ready refuses no live session, because its prices and the bounds of payouts are
// there.
func testRestartedAPI(t *testing.T, l live) {
	require.NoError(t, l.Stack.API.Stop(20*time.Second))
	require.NoError(t, l.Stack.StartAPI(t.Context()))
	e2e.Await(t, "a live session is created", 5*time.Second, func() bool {
		_, err := l.TryCreate(terms(money.USDC))
		return err == nil
	})
}

// testBankAgrees: the customer closes the window after the bank's yes. The payment completes.
func testBankAgrees(t *testing.T, l live) {
	id := l.Create(terms(money.USDC))
	l.pay(id, card3DS)
	l.awaitBank(id)
	_, charges := l.facts(id)
	require.Empty(t, charges, "nothing is charged before the bank agrees")
	l.answerBank(id, "confirm")
	l.AwaitStatus(id, checkout.StatusCompleted, 20*time.Second)
	intents, charges := l.facts(id)
	require.Len(t, intents, 1)
	require.Len(t, charges, 1, "charged once")
	require.EqualValues(t, 1050, charges[0].Amount)
	l.paidOut(id)
	require.Equal(t, true, l.Session(id).Field("transaction.payment_method.three_d_secure"))
}

// testDispute: only the card network's list tells of it. The payout is signed, so it is booked and found.
func testDispute(t *testing.T, l live) {
	id := l.Create(terms(money.USDC))
	l.pay(id, cardSucceeds)
	l.paidOut(id)
	intents, _ := l.facts(id)
	require.NoError(t, l.Stack.Live.Acquirer.Dispute(t.Context(), intents[0].ID))
	l.booksNow()
	e2e.AwaitQuery(t, "the dispute is found", 30*time.Second, l.Stack, 1, `
			SELECT count(*) FROM finding f JOIN charge_risk r ON r.id = f.subject JOIN transaction t ON t.id = r.transaction_id
			WHERE f.kind = 'charge_disputed' AND f.detail LIKE '%is signed%' AND t.session_id = $1`, id)
	e2e.Await(t, "it is known when the money is available", 30*time.Second, func() bool {
		return e2e.Query[bool](t, l.Stack, `
			SELECT coalesce(bool_or(available_at > now() + interval '1 day'), false) FROM transaction WHERE session_id = $1`, id)
	})
	require.Equal(t, 1050, e2e.Query[int](t, l.Stack, `
		SELECT p.amount::int FROM ledger_posting p JOIN ledger_entry e ON e.id = p.entry_id
		JOIN charge_risk r ON r.id = e.subject JOIN transaction t ON t.id = r.transaction_id
		WHERE p.account = 'acquirer:disputed' AND t.session_id = $1`, id))

	next := l.Create(strings.Replace(terms(money.USDC), "10.50", "60.00", 1))
	l.pay(next, cardSucceeds)
	l.paidOut(next)
	require.Equal(t, 2550, e2e.Query[int](t, l.Stack, `SELECT deducted::int FROM payout WHERE session_id = $1`, next),
		"10.50 and the fee of 15.00")
}

// booksNow starts Books.
func (l live) booksNow() {
	books := e2e.TemporalClient(l.T, l.Stack).ScheduleClient().GetHandle(l.T.Context(), runs.ScheduleBooks)
	require.NoError(l.T, books.Trigger(l.T.Context(), client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE}))
}

// testCardTesting: the finding suspends the payments, and an operator resumes them.
func testCardTesting(t *testing.T, l live) {
	e2e.Exec(t, l.Stack, `UPDATE transaction SET completed_at = completed_at - interval '10 minutes' WHERE status <> 'processing'`)
	for range 12 {
		l.pay(l.Create(terms(money.USDC)), cardDeclined)
	}
	l.booksNow()
	e2e.Await(t, "payments are suspended", 30*time.Second, func() bool {
		got, err := l.CallWith(checkout.NewID("test"), http.MethodPost, "/v1/checkout", terms(money.USDC))
		return err == nil && got.Status == http.StatusForbidden && got.Field("error") == "merchant_suspended"
	})
	require.Regexp(t, `card_testing +\S+ +`+l.ID+` +12 cards were declined within 10 minutes, and 0 payments succeeded\.`,
		e2e.MustCommand(t, l.Stack, "finding", "list"))
	require.Regexp(t, `(?m)^`+l.ID+` .* payments$`, e2e.MustCommand(t, l.Stack, "merchant", "list"))
	e2e.MustCommand(t, l.Stack, "merchant", "resume", l.ID, "--all")
	l.Create(terms(money.USDC))
}

// testFrozen: payouts wait while an operator has frozen the account, and go on
// afterwards, each once. Nothing is refunded meanwhile. A payment that is refunded later is never paid out.
func testFrozen(t *testing.T, l live) {
	command := func(args ...string) string {
		out := e2e.MustCommand(t, l.Stack, args...)
		return out
	}
	operator := func(args ...string) string { return command(append([]string{"treasury"}, args...)...) }
	l.awaitFollowed(checkout.ModeLive)
	first := l.Create(terms(money.USDC))
	l.pay(first, cardSucceeds)
	l.paidOut(first)
	account := regexp.MustCompile(`(tre_[0-9a-z]+) +eip155`).FindStringSubmatch(operator("show"))[1]
	require.Contains(t, operator("freeze", account, "--reason", "a test of the stop button"), "is frozen")
	require.Contains(t, operator("show"), "a test of the stop button")
	out := e2e.RequireRefused(t, l.Stack, "the treasury account is frozen since ", "treasury", "freeze", account, "--reason", "another reason")
	require.Contains(t, out, ": a test of the stop button")

	before := l.balance(money.USDC)
	held, back := l.awaitFrozen(), l.awaitFrozen()
	refunded := e2e.Query[string](t, l.Stack, `SELECT id FROM transaction WHERE session_id = $1`, back)
	e2e.RequireRefused(t, l.Stack, "the treasury account is frozen: "+account+": a test of the stop button", "refund", refunded)
	intents, _ := l.facts(back) // the bank's warning holds its payout when the account is thawed
	require.NoError(t, l.Stack.Live.Acquirer.Warn(t.Context(), intents[0].ID))
	e2e.Await(t, "the warning is reported", 30*time.Second, func() bool {
		return e2e.Query[int](t, l.Stack, `SELECT count(*) FROM acquirer_event WHERE reference = $1 AND type LIKE 'radar.%'`, intents[0].ID) > 0
	})
	require.Contains(t, operator("thaw", account), "signs again")
	require.Contains(t, command("refund", refunded), "the worker sends it now")
	l.requireRefunded(back)
	require.Contains(t, command("refund", refunded), "is made")
	e2e.RequireRefused(t, l.Stack, "nothing is refunded: a transfer of", "refund", e2e.Query[string](t, l.Stack, `SELECT id FROM transaction WHERE session_id = $1`, first))
	e2e.Query[string](t, l.Stack, `UPDATE payout SET next_action_at = now() - interval '1 minute' WHERE session_id = $1 RETURNING id`, held)
	amount := l.paidOut(held)
	e2e.Await(t, "the coins are on the chain", 30*time.Second, func() bool { return l.balance(money.USDC).GreaterThanOrEqual(before.Add(amount)) })
	require.Equal(t, 1, e2e.Query[int](t, l.Stack, `
		SELECT count(*) FROM transfer_payout x JOIN payout p ON p.id = x.payout_id WHERE p.session_id = $1`, held))
	l.requireRefunded(back)
}

// awaitFollowed waits until a round has compared the account of each chain of the mode: before that no payment is
// refunded, and a worker that has just started may have no prices.
func (l live) awaitFollowed(mode checkout.Mode) {
	followed := 1
	if l.Stack.Live.Bitcoin != nil {
		followed = 2
	}
	e2e.AwaitQuery(l.T, "each chain is followed", time.Minute, l.Stack, followed, `SELECT count(*) FROM treasury_account WHERE mode = $1 AND compared_at IS NOT NULL`, mode)
}

func (l live) awaitFrozen() string {
	id := l.Create(terms(money.USDC))
	l.pay(id, cardSucceeds)
	l.AwaitStatus(id, checkout.StatusCompleted, 10*time.Second)
	e2e.AwaitQuery(l.T, "the payout waits", 20*time.Second, l.Stack, "frozen", `SELECT coalesce(max(hold), '') FROM payout WHERE session_id = $1`, id)
	require.Equal(l.T, "pending", l.Session(id).Field("payout.status"))
	return id
}

// requireRefunded requires that the whole payment goes back, that the payout failed, and that nothing
// was signed for it.
func (l live) requireRefunded(id string) {
	e2e.Await(l.T, "the card network has the refund", 20*time.Second, func() bool {
		_, charges := l.facts(id)
		return len(charges) == 1 && charges[0].Refunded == charges[0].Amount
	})
	e2e.AwaitQuery(l.T, "the refund is noted", 20*time.Second, l.Stack, "succeeded", `
			SELECT r.status FROM refund r JOIN transaction t ON t.id = r.transaction_id WHERE t.session_id = $1`, id)
	s := l.Session(id)
	require.Equal(l.T, []any{"completed", "failed", "refunded"},
		[]any{s.Field("status"), s.Field("payout.status"), s.Field("payout.failure.code")})
	require.Zero(l.T, e2e.Query[int](l.T, l.Stack, `
		SELECT count(*) FROM transfer_payout x JOIN payout p ON p.id = x.payout_id WHERE p.session_id = $1`, id))
	require.Equal(l.T, 1, e2e.Query[int](l.T, l.Stack, `
		SELECT count(*) FROM event WHERE session_id = $1 AND type = 'payout.failed'`, id))
}

func testBankRefuses(t *testing.T, l live) {
	id := l.Create(terms(money.USDC))
	l.pay(id, card3DS)
	l.answerBank(id, "refuse")
	l.requireFailed(id, "three_ds_failed")
}

func testDeclined(t *testing.T, l live) {
	id := l.Create(terms(money.ETH))
	l.pay(id, cardDeclined)
	l.requireFailed(id, "card_declined")
	l.payAgain(id, cardSucceeds)
	l.AwaitStatus(id, checkout.StatusCompleted, 10*time.Second)
	_, charges := l.facts(id)
	require.Len(t, charges, 1)
}

// requireFailed requires that the payment failed, can never be charged, and that the customer may try again.
func (l live) requireFailed(id, code string) {
	e2e.Await(l.T, "the payment fails", 20*time.Second, func() bool {
		return l.Session(id).Field("transaction.failure.code") == code
	})
	intents, charges := l.facts(id)
	require.Empty(l.T, charges)
	require.Equal(l.T, "canceled", intents[0].Status)
	require.Equal(l.T, "pending", l.Session(id).Field("status"))
}

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
		b.Do(chromedp.Navigate(l.Stack.PageURL()+"/"+id), chrome.See("#pay-button:enabled"))
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
	require.Zero(t, e2e.Query[int](t, l.Stack, `SELECT count(*) FROM finding`))
	log := e2e.Log(t, l.Stack, "worker")
	require.Contains(t, log, "TraceID", "spans are in the log, and are searched too")
	requireNowhere(t, l, cardSucceeds, devstack.AcquirerKey, l.Stack.Live.WebhookSecret)
}

// requireNowhere looks for secrets in every log and span, and in every table of the service and of
// Temporal, whose histories are tables too. The acquirer's own database is not the service's.
func requireNowhere(t *testing.T, l live, secrets ...string) {
	var canaries []invariant.Canary
	for _, secret := range secrets {
		canaries = append(canaries, invariant.Canary{Name: secret, Value: secret})
	}
	leaks, _, err := invariant.FindLeaks(t.Context(), l.Stack.Postgres.URL("checkout"), filepath.Dir(l.Stack.Log("api")), canaries)
	require.NoError(t, err)
	require.Empty(t, leaks)
}

// seesMoney signs the owner in and opens the page of a session whose transfer is final: it shows the charge, the
// prices, the transfer and the ledger.
func (l live) seesMoney(browser context.Context, id string) {
	b := chrome.NewTab(l.T, browser)
	b.Do(chromedp.Navigate(l.Stack.DashboardURL()+"/signin"), chrome.TypeInto("#email", devstack.DemoOwner),
		chrome.TypeInto("#password", l.Stack.Demo.Password), chrome.Click("main button"), chrome.See(".sections"),
		chromedp.Navigate(l.Stack.DashboardURL()+"/live/sessions/"+id), chrome.See("#session h1"))
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
