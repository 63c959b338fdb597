// Package money tests live mode with simulated money: a real Ethereum node, the acquirer's double, and a customer in a
// real browser.
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
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

func TestMain(m *testing.M) { e2e.MainWithoutShared(m) }

// Test cards of the acquirer.
const (
	cardSucceeds = "4242424242424242"
	cardDeclined = "4000000000000002"
	card3DS      = "4000000000003220"
)

// live is the demo merchant of a stack with a simulated live mode.
type live struct{ *e2e.Merchant }

// in returns the merchant for a part of the test.
func (l live) in(t *testing.T) live {
	own := *l.Merchant
	own.T = t
	return live{&own}
}

func startLive(t *testing.T) live {
	stack := e2e.OwnStack(t, devstack.Options{LiveDouble: true, Bitcoin: time.Second, Env: []string{
		"CHECKOUT_RECONCILE_INTERVAL=2s", "OTEL_TRACES_EXPORTER=console",
		"CHECKOUT_DECLINE_LIMIT=12", "CHECKOUT_LIMITS_SUSPEND=true",
	}})
	return live{&e2e.Merchant{T: t, Stack: stack, ID: stack.Demo.MerchantID, Key: stack.Demo.LiveKey}}
}

func (l live) payTo(payees map[money.PayoutCurrency]string) {
	var addresses []merchant.PayoutAddress
	for c, address := range payees {
		addresses = append(addresses, merchant.PayoutAddress{Currency: c, Network: c.Network(), Address: address})
	}
	must.Get(e2e.OpenStore(l.T, l.Stack).Merchants.ChangeMerchant(l.T.Context(), storage.MerchantChange{
		MerchantID: l.ID, Mode: checkout.ModeTest, Addresses: addresses,
		By: merchant.AuditEntry{ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: l.ID},
	}))(l.T)
}

func terms(c money.PayoutCurrency) string {
	return fmt.Sprintf(`{"amount": 10.50, "currency": "EUR", "payout_currency": %q}`, c)
}

var scriptOrigin = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/dahlia`)

func (l live) token(number string) string {
	return tokenOf(l.T, l.Stack.Live.Acquirer.ScriptURL(), number)
}

// tokenOf types a card into the frame of the acquirer whose script is at an address, and returns the confirmation
// token, without a browser.
func tokenOf(t *testing.T, script, number string) string {
	origin := strings.TrimSuffix(scriptOrigin.FindString(script), "/dahlia")
	body := fmt.Sprintf(`{"number": %q, "exp_month": 12, "exp_year": 2040, "cvc": "917"}`, number)
	answer := e2e.Ask(t, http.MethodPost, origin+"/tokens", body, "Origin", origin)
	got, _ := answer.Field("id").(string)
	require.NotEmpty(t, got, string(answer.Body))
	return got
}

func (l live) pay(id, number string) { l.send(id, l.form(number)) }

// payAgain sends the form after one failed payment.
func (l live) payAgain(id, number string) {
	form := l.form(number)
	form.Set("attempt", "1")
	l.send(id, form)
}

func (l live) form(number string) url.Values {
	return url.Values{"email": {"ann@example.com"}, "confirmation_token": {l.token(number)}}
}

// send sends the page's form. The customer is sent on, or sees the form again when the card was declined at once.
func (l live) send(id string, form url.Values) {
	got := e2e.PostForm(l.T, l.Stack.PageURL()+"/"+id, form)
	require.Contains(l.T, []int{http.StatusSeeOther, http.StatusOK}, got.Status)
}

// facts returns the intents and charges of a session at the acquirer.
func (l live) facts(id string) (intents []acquirer.IntentFact, charges []acquirer.ChargeFact) {
	all := must.Get(l.Stack.Live.Acquirer.Facts(l.T.Context()))(l.T)
	of := map[string]bool{}
	ids := e2e.Query[[]string](l.T, l.Stack, `SELECT coalesce(array_agg(id), '{}') FROM transaction WHERE session_id = $1`, id)
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
	e2e.Await(l.T, "the bank asks about "+id, 10*time.Second, func() bool {
		bank = e2e.Query[string](l.T, l.Stack, `
			SELECT coalesce(max(action_url), '') FROM transaction WHERE session_id = $1 AND status = 'processing'`, id)
		return bank != ""
	})
	return bank
}

// answerBank answers the bank's question about a session's payment, on the bank's page.
func (l live) answerBank(id, answer string) {
	got := e2e.PostForm(l.T, l.awaitBank(id), url.Values{"answer": {answer}})
	require.Equal(l.T, http.StatusSeeOther, got.Status)
	require.Equal(l.T, l.Stack.PageURL()+"/"+id+"/return", strings.Split(got.Header.Get("Location"), "?")[0])
}

// paidOut waits until the session's payout was broadcast, and returns its amount.
func (l live) paidOut(id string) decimal.Decimal {
	l.awaitPayout(id, "status", "sent")
	amount, _ := l.Session(id).Field("payout.amount").(string)
	got, err := decimal.NewFromString(amount)
	require.NoError(l.T, err, amount)
	return got
}

func (l live) awaitPayout(id, field string, want any) {
	e2e.Await(l.T, fmt.Sprintf("payout.%s of %s is %v", field, id, want), 20*time.Second, func() bool {
		return l.Session(id).Field("payout."+field) == want
	})
}

func (l live) balance(c money.PayoutCurrency) decimal.Decimal {
	units := must.Get(l.Stack.Live.Balance(l.T.Context(), c))(l.T)
	return decimal.NewFromBigInt(new(big.Int).Set(units), -c.Places())
}

func (l live) confirmed(id string) bool {
	return l.Session(id).Field("payout.confirmed_at") != nil
}
