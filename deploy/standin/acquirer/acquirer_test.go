package acquirer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85/webhook"

	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/storage/pgtemp"
)

func TestStart_ListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	database := pgtemp.ForTest(t, nil)
	for _, address := range []string{"0.0.0.0:0", ":0", "10.0.0.1:0", "[::]:0", "example.com:0"} {
		_, err := acquirer.Start(t.Context(), acquirer.Options{DatabaseURL: database, PageAddress: address})
		require.ErrorContains(t, err, "not on loopback", address)
	}
}

func TestAPI_RefusesWhatStripeRefuses(t *testing.T) {
	t.Parallel()
	a := start(t, acquirer.Options{})
	intent := newIntent(t, a.APIURL())
	mustDo(t, a.APIURL(), confirmCall(intent, newToken(t, a.APIURL(), "visa")))
	for name, c := range map[string]struct {
		call   call
		status int
		words  string
	}{
		"a wrong key":         {call{method: "GET", path: "/v1/events", secret: "sk_test_other"}, 401, "Invalid API Key"},
		"a field that is not": {call{method: "POST", path: "/v1/payment_intents", form: with(intentForm(), "colour", "red")}, 400, "additional properties"},
		"too much":            {call{method: "POST", path: "/v1/payment_intents", form: with(intentForm(), "amount", "100000000")}, 400, "eight digits"},
		"a publishable key":   {call{method: "POST", path: "/v1/payment_intents", form: intentForm(), secret: "pk_test_1"}, 403, "secret key"},
		"an unknown path":     {call{method: "GET", path: "/v1/nothing"}, 404, "Unrecognized"},
		"a paid intent":       {confirmCall(intent, newToken(t, a.APIURL(), "visa")), 400, "status of succeeded"},
		"canceling it":        {call{method: "POST", path: "/v1/payment_intents/" + intent + "/cancel"}, 400, "status of succeeded"},
		"a foreign secret":    {call{method: "GET", path: "/v1/payment_intents/" + intent + "?client_secret=x", secret: "pk_test_1"}, 404, "No such"},
		"an unknown cursor":   {call{method: "GET", path: "/v1/events?ending_before=evt_none"}, 400, "No such"},
	} {
		status, body, _ := do(t, a.APIURL(), c.call)
		require.Equal(t, c.status, status, "%s: %v", name, body)
		require.Contains(t, body["error"].(map[string]any)["message"], c.words, name)
	}
}

func with(form url.Values, name, value string) url.Values {
	form.Set(name, value)
	return form
}

// What is refused for its shape is not saved. activities/stripe repeats the other requests in its contract.
func TestAPI_SavesAnAnswerForTheSameParameters(t *testing.T) {
	t.Parallel()
	a := start(t, acquirer.Options{})
	create := call{method: "POST", path: "/v1/payment_intents", key: "k1", form: with(intentForm(), "amount", "ten")}
	status, _, _ := do(t, a.APIURL(), create)
	require.Equal(t, 400, status)
	create.form = intentForm()
	first := mustDo(t, a.APIURL(), create)
	_, again, replayed := do(t, a.APIURL(), create)
	require.True(t, replayed)
	require.Equal(t, first, again)
	create.form = with(intentForm(), "amount", "1051")
	status, body, _ := do(t, a.APIURL(), create)
	require.Equal(t, 400, status)
	require.Equal(t, "idempotency_error", body["error"].(map[string]any)["type"])
}

func TestAPI_AnIntentThatABrowserMayConfirmIsChargedByTheBanksPage(t *testing.T) {
	t.Parallel()
	a := start(t, acquirer.Options{})
	form := intentForm()
	form.Del("confirmation_method")
	intent := mustDo(t, a.APIURL(), call{method: "POST", path: "/v1/payment_intents", form: form})["id"].(string)
	waits := mustDo(t, a.APIURL(), confirmCall(intent, newToken(t, a.APIURL(), "threeDSecure2Required")))
	page := waits["next_action"].(map[string]any)["redirect_to_url"].(map[string]any)["url"].(string)
	response, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).
		PostForm(page, url.Values{"answer": {"confirm"}})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	got := mustDo(t, a.APIURL(), call{method: "GET", path: "/v1/payment_intents/" + intent})
	require.Equal(t, "succeeded", got["status"], "this is what manual confirmation prevents")
}

// TestKill_ForgetsNothing: the answers before the kill, the saved ones included, are those after it. Another double
// gives them, which has nothing of the first but its database and its addresses.
func TestKill_ForgetsNothing(t *testing.T) {
	t.Parallel()
	o := acquirer.Options{DatabaseURL: pgtemp.ForTest(t, nil)}
	killed := start(t, o)
	apiURL := killed.APIURL()
	o.APIAddress, o.ControlAddress = host(t, apiURL), host(t, killed.ControlURL())
	o.PageAddress = host(t, killed.ScriptURL())
	intent, token := newIntent(t, apiURL), newToken(t, apiURL, "visa")
	waiting := newIntent(t, apiURL)
	waits := mustDo(t, apiURL, confirmCall(waiting, newToken(t, apiURL, "threeDSecure2Required")))

	// The card is charged, the answer is lost, and the double is killed.
	require.NoError(t, killed.Plan(acquirer.Fault{Kind: acquirer.FaultLost, Match: "/confirm", Count: 50}))
	confirm := confirmCall(intent, token)
	confirm.key = "k1"
	_, err := send(t, apiURL, confirm)
	require.Error(t, err)
	killed.Kill()
	require.Error(t, killed.Plan(acquirer.Fault{}), "a killed double takes nothing")
	require.Error(t, killed.HoldWebhooks())

	a := start(t, o)
	require.Equal(t, apiURL, a.APIURL())
	status, got, replayed := do(t, apiURL, confirm)
	require.Equal(t, 200, status)
	require.True(t, replayed)
	require.Equal(t, "succeeded", got["status"])
	require.Equal(t, waits, mustDo(t, apiURL, call{method: "GET", path: "/v1/payment_intents/" + waiting}))
	facts, err := a.Facts(t.Context())
	require.NoError(t, err)
	require.Len(t, facts.Charges, 1)
	require.Equal(t, intent, facts.Charges[0].IntentID)
	require.True(t, facts.Charges[0].Paid)
}

func host(t *testing.T, address string) string {
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u.Host
}

// TestKill_AWebhookUnderWayComesAgain: it is neither lost nor marked as taken or tried.
func TestKill_AWebhookUnderWayComesAgain(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 2)
	hang := make(chan struct{})
	r := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-hang
	}))
	t.Cleanup(r.Close)
	databaseURL := pgtemp.ForTest(t, nil)
	a := start(t, acquirer.Options{DatabaseURL: databaseURL, Webhooks: acquirer.Webhooks{URL: r.URL}})
	newIntent(t, a.APIURL())
	<-came
	a.Kill()
	count := func(condition string) int { return count(t, databaseURL, "webhook WHERE "+condition) }
	require.Equal(t, 1, count(`taken_at IS NULL AND tries = 0`))
	close(hang)
	require.NoError(t, a.Restart(t.Context()))
	<-came
	eventually(t, func() bool { return count(`taken_at IS NOT NULL`) == 1 })
}

// TestControl_AnswersWhatTheGuideShows: deploy/standin/devstack/README.md has these requests.
func TestControl_AnswersWhatTheGuideShows(t *testing.T) {
	t.Parallel()
	a := start(t, acquirer.Options{})
	ask := func(method, path string, want int) []byte {
		response, err := send(t, a.ControlURL(), call{method: method, path: path})
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, want, response.StatusCode, "%s %s: %s", method, path, body)
		return body
	}
	status := func(kind string) any {
		return mustDo(t, a.APIURL(), call{method: "GET", path: "/v1/" + kind})["data"].([]any)[0].(map[string]any)["status"]
	}
	paid, refunded := newIntent(t, a.APIURL()), newIntent(t, a.APIURL())
	mustDo(t, a.APIURL(), confirmCall(paid, newToken(t, a.APIURL(), "visa")))
	mustDo(t, a.APIURL(), confirmCall(refunded, newToken(t, a.APIURL(), "pendingRefund")))
	mustDo(t, a.APIURL(), call{method: "POST", path: "/v1/refunds", form: url.Values{"payment_intent": {refunded}}})
	require.Equal(t, "pending", status("refunds"))
	for _, c := range []struct{ path, kind, want string }{
		{"/disputes/" + paid, "disputes", "needs_response"},
		{"/disputes/" + paid + "/won", "disputes", "won"},
		{"/disputes/" + paid + "/lost", "disputes", "lost"},
		{"/refunds/settle", "refunds", "succeeded"},
		{"/refunds/" + refunded + "/failed", "refunds", "failed"},
	} {
		ask("POST", c.path, 200)
		require.Equal(t, c.want, status(c.kind), c.path)
	}
	ask("POST", "/warnings/"+paid, 200)
	ask("POST", "/disputes/"+paid+"/odd", 400)
	ask("POST", "/disputes/pi_none", 404)

	var shown acquirer.Facts
	require.NoError(t, json.Unmarshal(ask("GET", "/facts", 200), &shown))
	facts, err := a.Facts(t.Context())
	require.NoError(t, err)
	require.Equal(t, facts, shown)
	require.Len(t, shown.Intents, 2)
}

// A receiver notes the events that it gets.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	refuse int // how many of the next it refuses
	got    []string
	forged int
}

func newReceiver(t *testing.T, secret string) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		event, err := webhook.ConstructEventWithOptions(body, request.Header.Get("Stripe-Signature"), secret,
			webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case err != nil:
			r.forged++
		case r.refuse > 0:
			r.refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			r.got = append(r.got, string(event.Type)+" "+event.Data.Object["id"].(string))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// count returns how often each event came.
func (r *receiver) count() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for _, event := range r.got {
		counts[event]++
	}
	return counts
}

func TestWebhooks_ComeSeveralTimesSignedAndAreHeldBackOnCommand(t *testing.T) {
	t.Parallel()
	const secret = "whsec_double"
	r := newReceiver(t, secret)
	r.refuse = 2
	databaseURL := pgtemp.ForTest(t, nil)
	a := start(t, acquirer.Options{DatabaseURL: databaseURL, Livemode: true, Webhooks: acquirer.Webhooks{
		URL: r.URL, Secret: secret, Copies: 3, Spread: 20 * time.Millisecond,
	}})
	intent := newIntent(t, a.APIURL())
	created := "payment_intent.created " + intent
	waiting := func() int { return count(t, databaseURL, "webhook WHERE taken_at IS NULL AND due_at < now()") }
	eventually(t, func() bool { return r.count()[created] == 3 && waiting() == 0 })

	require.NoError(t, a.HoldWebhooks())
	got := mustDo(t, a.APIURL(), confirmCall(intent, newToken(t, a.APIURL(), "visa")))
	charge := got["latest_charge"].(string)
	eventually(t, func() bool { return waiting() == 6 })
	require.Equal(t, map[string]int{created: 3}, r.count())

	// A restart holds nothing back, forgets faults and knows what was not sent.
	require.NoError(t, a.Plan(acquirer.Fault{Kind: acquirer.FaultBroken, Count: 1}))
	api, script, control := a.APIURL(), a.ScriptURL(), a.ControlURL()
	a.Kill()
	require.NoError(t, a.Restart(t.Context()))
	require.Equal(t, []string{api, script, control}, []string{a.APIURL(), a.ScriptURL(), a.ControlURL()})
	mustDo(t, a.APIURL(), call{method: "GET", path: "/v1/payment_intents/" + intent})
	want := map[string]int{created: 3, "charge.succeeded " + charge: 3, "payment_intent.succeeded " + intent: 3}
	eventually(t, func() bool { return len(r.count()) == 3 && waiting() == 0 })
	require.Equal(t, want, r.count())

	require.NoError(t, a.HoldWebhooks())
	newIntent(t, a.APIURL())
	eventually(t, func() bool { return waiting() == 3 })
	require.NoError(t, a.LoseWebhooks(t.Context()))
	require.Zero(t, waiting())
	a.ReleaseWebhooks()
	require.Equal(t, want, r.count(), "nobody is told")
	require.Zero(t, r.forged)

	mustDo(t, a.APIURL(), confirmCall(newIntent(t, a.APIURL()), newToken(t, a.APIURL(), "createDispute")))
	for _, path := range []string{"payment_intents", "charges", "disputes", "events"} {
		for _, o := range mustDo(t, a.APIURL(), call{method: "GET", path: "/v1/" + path})["data"].([]any) {
			require.Equal(t, true, o.(map[string]any)["livemode"], path)
		}
	}
}

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
	require.NotZero(t, count(t, databaseURL, "object"))
	require.Zero(t, count(t, databaseURL, "object WHERE body::text LIKE '%4242424242424242%'"))
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
