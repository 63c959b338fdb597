package acquirer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/storage/pgtemp"
)

// shopScript does what the hosted page does with Stripe.js.
const shopScript = `
const stripe = Stripe('pk_test_double')
const elements = stripe.elements({ mode: 'payment', amount: 1050, currency: 'eur', locale: 'de',
  paymentMethodTypes: ['card'], appearance: { variables: { colorPrimary: '#123456' } } })
const card = elements.create('payment')
card.on('ready', () => document.body.classList.add('ready'))
card.on('change', (e) => document.body.classList.toggle('complete', e.complete))
card.on('focus', () => document.body.classList.add('focused'))
card.mount('#card')
document.querySelector('form').addEventListener('submit', async (event) => {
  event.preventDefault()
  const say = (error) => { document.getElementById('fault').textContent = error.message }
  const checked = await elements.submit()
  if (checked.error) return say(checked.error)
  const got = await stripe.createConfirmationToken({ elements })
  if (got.error) return say(got.error)
  event.target.elements.confirmation_token.value = got.confirmationToken.id
  event.target.submit()
})`

// A shop is a page like our hosted one: it includes a script of another origin.
type shop struct {
	*httptest.Server
	mu   sync.Mutex
	sent []url.Values // the forms that reached the shop
}

func newShop(t *testing.T, scriptURL string) *shop {
	t.Helper()
	script, err := url.Parse(scriptURL)
	require.NoError(t, err)
	origin := "http://" + script.Host
	s := &shop{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self' "+origin+"; frame-src "+origin+
			"; connect-src 'self'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Permissions-Policy", "payment=()")
		w.Header().Set("Referrer-Policy", "no-referrer")
		fmt.Fprintf(w, `<!doctype html><html lang="de"><title>Shop</title><link rel="icon" href="data:,">
			<form method="post" action="/pay"><div id="card"></div><input type="hidden" name="confirmation_token">
			<p id="fault"></p><button id="pay">Pay</button></form>
			<script src="%s"></script><script src="/shop.js"></script></html>`, scriptURL)
	})
	mux.HandleFunc("GET /shop.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, shopScript)
	})
	mux.HandleFunc("POST /pay", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, r.PostForm)
		fmt.Fprint(w, `<!doctype html><title>Paid</title><link rel="icon" href="data:,"><p id="done">done</p>`)
	})
	mux.HandleFunc("GET /return", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>Back</title><link rel="icon" href="data:,"><p id="back">back</p>`)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// typeCard types into the frame's fields, as a customer does: with the tab key from one to the next.
func typeCard(tab *chrome.Tab, number, expiry, cvc string) {
	tab.Script("card.focus()")
	tab.Do(chrome.See("body.focused"), chromedp.KeyEvent(number), chromedp.KeyEvent("\t"), chromedp.KeyEvent(expiry), chromedp.KeyEvent("\t"),
		chromedp.KeyEvent(cvc))
}

func TestElements_TheCardIsTypedIntoAForeignFrameAndTheShopGetsATokenOnly(t *testing.T) {
	t.Parallel()
	databaseURL := pgtemp.ForTest(t, nil)
	a := start(t, acquirer.Options{DatabaseURL: databaseURL})
	s := newShop(t, a.ScriptURL())
	tab := chrome.NewTab(t, chrome.StartBrowser(t))
	tab.Do(chromedp.Navigate(s.URL), chrome.See("body.ready"))

	tab.Do(chrome.Click("#pay"), chrome.See("#fault:not(:empty)"))
	require.Equal(t, "Ihre Kartendaten sind unvollständig.", tab.Text("#fault"))
	typeCard(tab, "4242424242424242", "12"+"99", "123")
	tab.Do(chrome.See("body.complete"))
	require.Equal(t, "blocked", chrome.Get(tab, chromedp.Evaluate[string](
		`(() => { try { return document.querySelector('iframe').contentWindow.document.body.innerText } catch { return 'blocked' } })()`)))
	tab.Do(chrome.Click("#pay"), chrome.See("#done"))
	require.Len(t, s.sent, 1)
	require.Len(t, s.sent[0], 1)
	token := s.sent[0].Get("confirmation_token")
	require.True(t, strings.HasPrefix(token, "ctoken_"), token)

	got := mustDo(t, a.APIURL(), confirmCall(newIntent(t, a.APIURL()), token))
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

func TestElements_AWrongNumberIsSaidInTheFrame(t *testing.T) {
	t.Parallel()
	a := start(t, acquirer.Options{})
	s := newShop(t, a.ScriptURL())
	tab := chrome.NewTab(t, chrome.StartBrowser(t))
	tab.Do(chromedp.Navigate(s.URL), chrome.See("body.ready"))
	typeCard(tab, "4242424242424241", "1299", "123")
	tab.Do(chrome.See("body.complete"), chrome.Click("#pay"), chrome.See("#fault:not(:empty)"))
	require.Equal(t, "Your card number is invalid.", tab.Text("#fault"))
	require.Empty(t, s.sent)
	require.Len(t, tab.TakeFaults(), 1, "the answer 402 in the console")
}

func TestBank_TheCustomerConfirmsRefusesOrLeaves(t *testing.T) {
	t.Parallel()
	a := start(t, acquirer.Options{})
	s := newShop(t, a.ScriptURL())
	browser := chrome.StartBrowser(t)
	for answer, want := range map[string]string{
		"#confirm": "requires_confirmation", "#refuse": "requires_payment_method", "#abandon": "requires_action",
	} {
		intent := newIntent(t, a.APIURL())
		confirm := confirmCall(intent, newToken(t, a.APIURL(), "threeDSecure2Required"))
		confirm.form.Set("return_url", s.URL+"/return?lang=de")
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
