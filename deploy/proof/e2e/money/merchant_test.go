package money

import (
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/money"
)

// Test cards of the acquirer.
const (
	cardSucceeds = "4242424242424242"
	cardDeclined = "4000000000000002"
	card3DS      = "4000000000003220"
)

// live is the demo merchant of a stack with a simulated live mode.
type live struct {
	*e2e.Merchant

	stack *devstack.Stack
}

func startLive(t *testing.T) live {
	t.Helper()
	stack := e2e.OwnStack(t, devstack.Options{LiveDouble: true, Bitcoin: time.Second, Env: []string{
		"CHECKOUT_RECONCILE_INTERVAL=2s", "OTEL_TRACES_EXPORTER=console",
	}})
	return live{&e2e.Merchant{T: t, Stack: stack, ID: stack.Demo.MerchantID, Key: stack.Demo.LiveKey}, stack}
}

func terms(c money.PayoutCurrency) string {
	return fmt.Sprintf(`{"amount": 10.50, "currency": "EUR", "payout_currency": %q}`, c)
}

var scriptOrigin = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/dahlia`)

func (l live) token(number string) string {
	return tokenOf(l.T, l.stack.Live.Acquirer.ScriptURL(), number)
}

// tokenOf types a card into the frame of the acquirer whose script is at an address, and returns the confirmation token,
// without a browser.
func tokenOf(t *testing.T, script, number string) string {
	t.Helper()
	origin := strings.TrimSuffix(scriptOrigin.FindString(script), "/dahlia")
	body := fmt.Sprintf(`{"number": %q, "exp_month": 12, "exp_year": 2040, "cvc": "917"}`, number)
	answer := e2e.Ask(t, http.MethodPost, origin+"/tokens", body, "Origin", origin)
	got, _ := answer.Field("id").(string)
	require.NotEmpty(t, got, string(answer.Body))
	return got
}

// pay sends the page's form.
func (l live) pay(id, number string) {
	l.T.Helper()
	l.send(id, l.form(number))
}

// payAgain sends the form after one failed payment.
func (l live) payAgain(id, number string) {
	l.T.Helper()
	form := l.form(number)
	form.Set("attempt", "1")
	l.send(id, form)
}

func (l live) form(number string) url.Values {
	return url.Values{"email": {"ann@example.com"}, "confirmation_token": {l.token(number)}}
}

// send sends the page's form. The customer is sent on, or sees the form again when the card was declined at once.
func (l live) send(id string, form url.Values) {
	l.T.Helper()
	got := e2e.PostForm(l.T, l.stack.PageURL()+"/"+id, form)
	require.Contains(l.T, []int{http.StatusSeeOther, http.StatusOK}, got.Status)
}

// facts returns the intents and charges of a session at the acquirer.
func (l live) facts(id string) (intents []acquirer.IntentFact, charges []acquirer.ChargeFact) {
	l.T.Helper()
	all, err := l.stack.Live.Acquirer.Facts(l.T.Context())
	require.NoError(l.T, err)
	of := map[string]bool{}
	ids := e2e.Query[[]string](l.T, l.stack, `SELECT coalesce(array_agg(id), '{}') FROM transaction WHERE session_id = $1`, id)
	for _, transaction := range ids {
		of[transaction] = true
	}
	for _, i := range all.Intents {
		if of[i.TransactionID] {
			intents = append(intents, i)
		}
	}
	for _, c := range all.Charges {
		if of[c.TransactionID] && c.Paid {
			charges = append(charges, c)
		}
	}
	return intents, charges
}

// awaitBank waits until the bank asks about a session's payment, and returns the bank's page.
func (l live) awaitBank(id string) (bank string) {
	l.T.Helper()
	e2e.Await(l.T, "the bank asks about "+id, 10*time.Second, func() bool {
		bank = e2e.Query[string](l.T, l.stack, `
			SELECT coalesce(max(action_url), '') FROM transaction WHERE session_id = $1 AND status = 'processing'`, id)
		return bank != ""
	})
	return bank
}

// answerBank answers the bank's question about a session's payment, on the bank's page.
func (l live) answerBank(id, answer string) {
	l.T.Helper()
	got := e2e.PostForm(l.T, l.awaitBank(id), url.Values{"answer": {answer}})
	require.Equal(l.T, http.StatusSeeOther, got.Status)
	require.Equal(l.T, l.stack.PageURL()+"/"+id+"/return", strings.Split(got.Header.Get("Location"), "?")[0])
}

// paidOut waits until the session's payout was broadcast, and returns its amount.
func (l live) paidOut(id string) decimal.Decimal {
	l.T.Helper()
	l.awaitPayout(id, "status", "sent")
	amount, _ := l.Session(id).Field("payout.amount").(string)
	got, err := decimal.NewFromString(amount)
	require.NoError(l.T, err, amount)
	return got
}

func (l live) awaitPayout(id, field string, want any) {
	l.T.Helper()
	e2e.Await(l.T, fmt.Sprintf("payout.%s of %s is %v", field, id, want), 20*time.Second, func() bool {
		return l.Session(id).Field("payout."+field) == want
	})
}

func (l live) balance(c money.PayoutCurrency) decimal.Decimal {
	l.T.Helper()
	units, err := l.stack.Live.Balance(l.T.Context(), c)
	require.NoError(l.T, err)
	return decimal.NewFromBigInt(new(big.Int).Set(units), -c.Places())
}

// confirmed reports whether the session's transfer is final.
func (l live) confirmed(id string) bool {
	return l.Session(id).Field("payout.confirmed_at") != nil
}
