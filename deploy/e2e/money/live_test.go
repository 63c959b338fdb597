package money

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/e2e"
	"example.com/checkout/workflows/checkout"
)

// TestLive runs live mode on one stack. The card network's reports are held back, so everything is
// found by asking.
func TestLive(t *testing.T) {
	t.Parallel()
	l := startLive(t)
	require.NoError(t, l.stack.Live.Acquirer.Control().HoldWebhooks(t.Context()))
	for name, test := range map[string]func(*testing.T, live){
		"a customer pays in a browser":                     testBrowser,
		"the bank agrees and the customer does not return": testBankAgrees,
		"the bank refuses":                                 testBankRefuses,
		"a declined card":                                  testDeclined,
		"a form with a card number":                        testCardInForm,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merchant := *l.Merchant
			merchant.T = t
			test(t, live{&merchant, l.stack})
		})
	}
}

// testBankAgrees: the customer closes the window after the bank's yes. The payment completes.
func testBankAgrees(t *testing.T, l live) {
	id := l.Create(terms(checkout.USDC))
	require.Contains(t, l.pay(id, card3DS), "continue")
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

func testBankRefuses(t *testing.T, l live) {
	id := l.Create(terms(checkout.USDC))
	l.pay(id, card3DS)
	l.answerBank(id, "refuse")
	e2e.Await(t, "the payment fails", 20*time.Second, func() bool { return l.Session(id).Field("transaction.failure.code") == "three_ds_failed" })
	intents, charges := l.facts(id)
	require.Empty(t, charges)
	require.Equal(t, "canceled", intents[0].Status, "it can never be charged")
	require.Equal(t, "pending", l.Session(id).Field("status"), "the customer may try again")
}

func testDeclined(t *testing.T, l live) {
	id := l.Create(terms(checkout.ETH))
	l.pay(id, cardDeclined)
	require.Equal(t, "card_declined", l.Session(id).Field("transaction.failure.code"))
	intents, charges := l.facts(id)
	require.Empty(t, charges)
	require.Equal(t, "canceled", intents[0].Status)
	l.payAgain(id, cardSucceeds)
	l.AwaitStatus(id, checkout.StatusCompleted, 10*time.Second)
	_, charges = l.facts(id)
	require.Len(t, charges, 1)
}

// testCardInForm: a card number that is posted to us is not read.
func testCardInForm(t *testing.T, l live) {
	id := l.Create(terms(checkout.USDC))
	res, err := http.PostForm(l.stack.PageURL()+"/"+id, url.Values{
		"card_number": {"5555555555554444"}, "exp": {"12/40"}, "cvc": {"917"}, "email": {"ann@example.com"},
	})
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	requireNowhere(t, l, "5555555555554444")
}
