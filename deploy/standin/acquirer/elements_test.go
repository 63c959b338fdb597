package acquirer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/storage/pgtemp"
)

// TestTokens_TheNumberIsNotKept: the frame sends the number to its origin, which gives a token for it. The browser of
// deploy/proof/e2e/money types the card into the frame.
func TestTokens_TheNumberIsNotKept(t *testing.T) {
	t.Parallel()
	databaseURL := pgtemp.ForTest(t, nil)
	a := start(t, acquirer.Options{DatabaseURL: databaseURL})
	page := strings.TrimSuffix(a.ScriptURL(), "/dahlia/stripe.js")
	token := func(number string) (status int, got map[string]any) {
		response, err := http.Post(page+"/tokens", "application/json", strings.NewReader(
			`{"number": "`+number+`", "exp_month": 12, "exp_year": 2099, "cvc": "123"}`))
		require.NoError(t, err)
		defer response.Body.Close()
		require.NoError(t, json.NewDecoder(response.Body).Decode(&got))
		return response.StatusCode, got
	}
	status, refused := token("4242424242424241")
	require.Equal(t, http.StatusPaymentRequired, status)
	require.Equal(t, "Your card number is invalid.", refused["error"].(map[string]any)["message"])

	_, made := token("4242424242424242")
	got := mustDo(t, a.APIURL(), confirmCall(newIntent(t, a.APIURL()), made["id"].(string)))
	require.Equal(t, "succeeded", got["status"])
	requireNowhere(t, databaseURL, "4242424242424242")
}

// requireNowhere checks that no row of the double holds the text.
func requireNowhere(t *testing.T, databaseURL, text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var rows, holding int
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT count(*), count(*) FILTER (WHERE body::text LIKE '%' || $1 || '%') FROM acquirer.object`, text).Scan(&rows, &holding))
	require.NotZero(t, rows)
	require.Zero(t, holding)
}

func TestBank_TheCustomerConfirmsRefusesOrLeaves(t *testing.T) {
	t.Parallel()
	a := start(t, acquirer.Options{})
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>Back</title><link rel="icon" href="data:,"><p id="back">back</p>`)
	}))
	t.Cleanup(shop.Close)
	browser := chrome.StartBrowser(t)
	for answer, want := range map[string]string{
		"#confirm": "requires_confirmation", "#refuse": "requires_payment_method", "#abandon": "requires_action",
	} {
		intent := newIntent(t, a.APIURL())
		confirm := confirmCall(intent, newToken(t, a.APIURL(), "threeDSecure2Required"))
		confirm.form.Set("return_url", shop.URL+"/return?lang=de")
		waits := mustDo(t, a.APIURL(), confirm)
		page := waits["next_action"].(map[string]any)["redirect_to_url"].(map[string]any)["url"].(string)
		tab := chrome.NewTab(t, browser)
		tab.Do(chromedp.Navigate(page), chrome.See("#confirm"))
		require.Contains(t, tab.Text("main"), "10.50 EUR, card •••• 3220")
		tab.Do(chrome.Click(answer), chrome.See("#back"))
		address, err := url.Parse(chrome.Get(tab, chromedp.Evaluate[string]("location.href")))
		require.NoError(t, err)
		require.Equal(t, "de", address.Query().Get("lang"))
		require.Equal(t, intent, address.Query().Get("payment_intent"))
		got := mustDo(t, a.APIURL(), call{method: "GET", path: "/v1/payment_intents/" + intent})
		require.Equal(t, want, got["status"], answer)
		tab.TakeFaults() // the bank's page has no icon
	}
}
