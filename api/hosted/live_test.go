package hosted

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/failure"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

const canaryToken = "ctoken_1SzCanary_9"

// newStripe is a page that takes the cards of a mode with Stripe.
func newStripe(t *testing.T, mode checkout.Mode, chain string) *harness {
	h := newHarness(t)
	acquirer, err := NewAcquirer(mode, "pk_"+string(mode)+"_51abc", "https://js.stripe.com/dahlia/stripe.js", false)
	require.NoError(t, err)
	h.server.Config.Chains = map[checkout.Mode]map[money.PayoutCurrency]string{mode: {money.USDC: chain}}
	h.acquirer(mode, acquirer)
	return h
}

// newLiveHarness is newStripe for live mode, with a live session.
func newLiveHarness(t *testing.T) (h *harness, id string) {
	h = newStripe(t, checkout.ModeLive, "eip155:1")
	id = h.session(live)
	return h, id
}

// acquirer makes a the acquirer of a mode.
func (h *harness) acquirer(mode checkout.Mode, a *Acquirer) {
	h.server.Config.Acquirers = map[checkout.Mode]*Acquirer{mode: a}
	h.server = newServer(h.server.Config)
	h.handler = h.server.handler()
}

func live(n *storage.NewSession, _ *merchant.Merchant) { n.Mode = checkout.ModeLive }

func goodToken() url.Values {
	return url.Values{fieldConfirmation: {canaryToken}, fieldEmail: {"ada@example.com"}}
}

func TestLive_TheFormHasNoFieldForACard(t *testing.T) {
	h, id := newLiveHarness(t)
	w := h.get("/" + id)
	require.Equal(t, stripePolicy, w.Header().Get("Content-Security-Policy"))
	body := w.Body.String()
	for _, want := range []string{
		`data-script="https://js.stripe.com/dahlia/stripe.js"`, `data-key="pk_live_51abc"`, `data-amount="1050"`, `data-currency="USD"`,
		`name="confirmation_token"`, `name="email"`, `value="ada@example.com"`, `src="/checkout/static/live.js?v=`, "<noscript>", english.Texts.ScriptNeeded,
		`action="/checkout/` + id + `"`, `id="away"`, `id="countdown"`,
	} {
		require.Contains(t, body, want)
	}
	for _, not := range []string{`name="card_number"`, `name="exp"`, `name="cvc"`, `name="name"`, "cc-", "card.js", "Test mode", " 4242", "Simulated"} {
		require.NotContains(t, body, not)
	}

	require.NotContains(t, h.get("/"+h.session()).Body.String(), "stripe", "a test session knows nothing of the acquirer")
}

func TestLive_PaysWithAConfirmationToken(t *testing.T) {
	h, id := newLiveHarness(t)
	h.pay = func(h *harness, ref checkout.Ref, txn string) (contract.PaymentResult, error) {
		charge, err := h.store.Sessions.Charge(t.Context(), ref, txn)
		require.NoError(t, err)
		require.Equal(t, canaryToken, charge.Token)
		return takes(h, ref, txn)
	}
	sent := goodToken()
	sent.Set(fieldAttempt, "0")
	payment := checkout.NewID(checkout.PrefixTransaction)
	sent.Set(fieldPayment, payment)
	h.requireRedirect(h.post("/"+id, sent), "/checkout/"+id)
	require.Equal(t, []string{payment}, h.paid)
	require.Empty(t, h.cards.seen, "nothing of live mode reaches the test network")
	require.NotContains(t, h.log.String(), canaryToken)

	h.pay = succeeds
	id = h.session(live)
	require.Contains(t, h.follow(h.post("/"+id, goodToken())), "Visa •••• 4242", "what the acquirer said about the card")
}

// The card is unknown until the acquirer has answered.
func TestLive_TheCardIsLeftOutWhileItIsUnknown(t *testing.T) {
	h, id := newLiveHarness(t)
	var stored checkout.PaymentMethod
	h.pay = func(h *harness, ref checkout.Ref, txn string) (contract.PaymentResult, error) {
		_, err := h.store.Sessions.BeginPayment(t.Context(), ref, txn, checkout.Quote{Rate: money.MustRate("1.08")}, txn)
		require.NoError(t, err)
		_, _, err = h.store.Sessions.RecordCharge(t.Context(), ref, txn, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
		require.NoError(t, err)
		_, err = h.store.Sessions.FinishPayment(t.Context(), ref, txn)
		require.NoError(t, err)
		stored = h.read(id).Transaction().PaymentMethod
		return contract.PaymentResult{Outcome: checkout.OutcomeSucceeded}, nil
	}
	body := h.follow(h.post("/"+id, goodToken()))
	require.Equal(t, checkout.PaymentMethod{Type: "card"}, stored)
	require.Contains(t, body, "Payment successful")
	require.NotContains(t, body, "••••")
	require.NotContains(t, body, "<dt>"+english.Texts.PaidWith+"</dt>")
}

func TestCardLabel(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]checkout.PaymentMethod{
		"Visa •••• 4242": {Type: "card", Brand: "visa", Last4: "4242"}, "Card •••• 4242": {Type: "card", Brand: "eftpos_au", Last4: "4242"},
		"Visa": {Type: "card", Brand: "visa"}, "": {Type: "card"},
	} {
		require.Equal(t, want, cardLabel(&english.Texts, m))
	}
}

// A card number that is sent to a live session is refused by the names of the form's fields.
func TestLive_AFormWithACardIsRefusedUnread(t *testing.T) {
	h, id := newLiveHarness(t)
	without := func(h *harness) { h.acquirer(checkout.ModeLive, nil) }
	for _, prepare := range []func(*harness){func(*harness) {}, without} {
		prepare(h)
		for _, field := range []string{"card_number=", "exp=", "cvc=", "name=", "card%5Fnumber=", "card_number", "%63vc=", "exp=&exp="} {
			body := goodToken().Encode() + "&" + field + canaryCard
			if !strings.Contains(field, "=") {
				body = field + "&" + goodToken().Encode()
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, testURL+"/"+id, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := h.do(r)
			require.Equal(t, http.StatusBadRequest, w.Code, field)
			require.Contains(t, w.Body.String(), english.Texts.UnreadableText)
			require.NotContains(t, h.log.String(), canaryCard)
		}
	}
	require.Empty(t, h.paid)
	require.Empty(t, h.cards.seen)
	require.Zero(t, h.read(id).Attempts)
}

func TestReadForm_DecodesNoValueOfARefusedForm(t *testing.T) {
	t.Parallel()
	for _, refused := range [][]string{nil, cardFields} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, testURL, strings.NewReader("email=a&cvc=%39"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		err := readForm(httptest.NewRecorder(), r, refused...)
		if refused == nil {
			require.NoError(t, err)
			require.Equal(t, url.Values{fieldEmail: {"a"}, fieldCVC: {"9"}}, r.PostForm)
			continue
		}
		require.ErrorIs(t, err, failure.Invalid)
		require.Nil(t, r.PostForm)
	}
}

func TestLive_TokensHaveOneShape(t *testing.T) {
	h, id := newLiveHarness(t)
	h.pay = takes
	for _, token := range []string{
		"", "ctoken_", "ctoken", "pm_123", "tok_1", "ctoken_" + strings.Repeat("a", 256), "ctoken_a b", "ctoken_a\n", "ctoken_ä", "ctoken_a-b", "xctoken_a",
		"ctoken_<b>", "CTOKEN_a", canaryCard,
	} {
		form := goodToken()
		form.Set(fieldConfirmation, token)
		w := h.post("/"+id, form)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, token)
		require.Contains(t, w.Body.String(), english.Texts.CardFault)
		require.NotContains(t, w.Body.String(), "ctoken_")
	}
	form := goodToken()
	form.Set(fieldEmail, "ada@")
	w := h.post("/"+id, form)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), english.Texts.EmailBad)
	require.Contains(t, w.Body.String(), english.Texts.FixLive)
	require.NotContains(t, w.Body.String(), canaryToken, "it is used up by the next form")
	form.Set(fieldEmail, canaryCard)
	require.Equal(t, http.StatusUnprocessableEntity, h.post("/"+id, form).Code)
	require.Empty(t, h.paid)

	form = goodToken()
	form.Set(fieldConfirmation, "ctoken_"+strings.Repeat("a", 255))
	h.requireRedirect(h.post("/"+id, form), "/checkout/"+id)
}

func TestLive_CannotBePaidWithout(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(h *harness){
		"an acquirer": func(h *harness) { h.acquirer(checkout.ModeLive, nil) },
		"a chain":     func(h *harness) { h.server.Config.Chains = nil },
	} {
		t.Run(name, func(t *testing.T) {
			h, id := newLiveHarness(t)
			remove(h)

			body := h.get("/" + id).Body.String()
			w := h.post("/"+id, goodToken())

			require.Contains(t, body, english.Texts.NotReady)
			for _, not := range []string{"Test mode", "4242 4242", "<form", "<input", `id="card"`, "live.js"} {
				require.NotContains(t, body, not)
			}
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Contains(t, w.Body.String(), english.Texts.NotReady)
			require.Empty(t, h.paid)
		})
	}
}

func TestLive_ATestSessionTakesNoToken(t *testing.T) {
	h, _ := newLiveHarness(t)
	h.pay = succeeds
	id := h.session()
	require.Equal(t, http.StatusUnprocessableEntity, h.post("/"+id, goodToken()).Code)
	require.Empty(t, h.paid)
	form := goodCard()
	form.Set(fieldConfirmation, canaryToken)
	h.requireRedirect(h.post("/"+id, form), "/checkout/"+id)
	require.Equal(t, []string{canaryCard + " " + canaryCVC}, h.cards.seen)
}

func TestLive_EveryPageSaysThatItIsSimulated(t *testing.T) {
	h, real := newLiveHarness(t)
	require.NotContains(t, h.get("/"+real).Body.String(), english.Texts.Simulated)
	double, err := NewAcquirer(checkout.ModeLive, "pk_test_1", "http://127.0.0.1:12111/dahlia/stripe.js", true)
	require.NoError(t, err)
	require.Equal(t, "default-src 'none'; style-src 'self'; script-src 'self' http://127.0.0.1:12111; img-src 'self'; font-src 'self'; "+
		"connect-src 'self' http://127.0.0.1:12111; frame-src http://127.0.0.1:12111; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		double.policy())
	// The policy is that of another acquirer, and harness.do knows one only.
	double.Sources = stripeSources
	h.acquirer(checkout.ModeLive, double)

	expired := h.session(live, func(n *storage.NewSession, _ *merchant.Merchant) { n.Lifetime = -time.Second })
	for _, pay := range []func(*harness, checkout.Ref, string) (contract.PaymentResult, error){succeeds, asksBank, takes, unknown} {
		h.pay = pay
		id := h.session(live)
		for _, l := range languages {
			require.Contains(t, h.get("/"+id+"?lang="+l.tag).Body.String(), l.Texts.Simulated)
		}
		require.Contains(t, h.follow(h.post("/"+id, goodToken())), "<span id=\"simulated\">Simulated: no real card is charged</span>")
	}
	require.Contains(t, h.get("/"+expired).Body.String(), english.Texts.Simulated)
	require.NotContains(t, h.get("/"+h.session()).Body.String(), english.Texts.Simulated, "a test session has its own badge")
}

func TestNewAcquirer_RefusesWhatWouldBeDangerous(t *testing.T) {
	t.Parallel()
	const stripeJS, double = "https://js.stripe.com/dahlia/stripe.js", "http://127.0.0.1:12111/dahlia/stripe.js"
	_, err := NewAcquirer(checkout.ModeTest, "pk_test_1", stripeJS, false)
	require.NoError(t, err)
	_, err = NewAcquirer(checkout.ModeTest, "pk_live_1", stripeJS, false)
	require.ErrorContains(t, err, "not one of test mode")
	for _, c := range []struct {
		key, script string
		simulated   bool
		want        string
	}{
		{"pk_live_1", stripeJS, false, ""},
		{"pk_test_1", double, true, ""},
		{"pk_1", "http://localhost:1/x.js", true, ""},
		{"sk_live_secret", stripeJS, false, "does not begin with pk_"},
		{"rk_live_secret", stripeJS, false, "does not begin with pk_"},
		{"", stripeJS, false, "does not begin with pk_"},
		{"pk_live_1 \"", stripeJS, false, "does not begin with pk_"},
		{"pk_test_1", stripeJS, false, "not one of live mode"},
		{"pk_live_1", double, true, "of the real one"},
		{"pk_live_1", double, false, "must come from https://js.stripe.com"},
		{"pk_live_1", "https://js.stripe.com.evil.example/stripe.js", false, "must come from https://js.stripe.com"},
		{"pk_live_1", "http://js.stripe.com/stripe.js", false, "must come from https://js.stripe.com"},
		{"pk_test_1", stripeJS, true, "from loopback"},
		{"pk_test_1", "http://10.0.0.1/stripe.js", true, "from loopback"},
		{"pk_test_1", "http://127.0.0.1.evil.example/stripe.js", true, "from loopback"},
		{"pk_live_1", "", false, "not an absolute"},
		{"pk_live_1", "/stripe.js", false, "not an absolute"},
		{"pk_live_1", "javascript:alert(1)", false, "not an absolute"},
		{"pk_live_1", "https://u@js.stripe.com/stripe.js", false, "not an absolute"},
		{"pk_test_1", "http://127.0.0.1;script-src/stripe.js", true, "not an absolute"},
		{"pk_test_1", "http://127.0.0.1:1 'unsafe-inline'/stripe.js", true, "not an absolute"},
	} {
		a, err := NewAcquirer(checkout.ModeLive, c.key, c.script, c.simulated)
		if c.want == "" {
			require.NoError(t, err)
			require.Equal(t, c.simulated, a.Simulated)
			continue
		}
		require.ErrorContains(t, err, c.want, c.script)
		require.NotContains(t, err.Error(), "secret")
	}
}

func newTestNetworks(t *testing.T) *harness {
	return newStripe(t, checkout.ModeTest, "eip155:11155111")
}

func TestTestNetworks_TheFormIsTheAcquirersAndSaysTestMode(t *testing.T) {
	h := newTestNetworks(t)
	id := h.session()
	w := h.get("/" + id)
	require.Equal(t, stripePolicy, w.Header().Get("Content-Security-Policy"))
	for _, want := range []string{"Test mode", english.Texts.TestLead, "4242 4242 4242 4242", `data-key="pk_test_51abc"`, `name="confirmation_token"`, "live.js"} {
		require.Contains(t, w.Body.String(), want)
	}
	for _, not := range []string{`name="card_number"`, "card.js", english.Texts.Simulated} {
		require.NotContains(t, w.Body.String(), not)
	}
	live := h.session(live)
	require.Contains(t, h.get("/"+live).Body.String(), english.Texts.NotReady, "live mode has no acquirer by that")
}

func TestTestNetworks_APaymentKeepsWhereItsTokenIsFrom(t *testing.T) {
	var charge storage.Charge
	keeps := func(h *harness, ref checkout.Ref, txn string) (contract.PaymentResult, error) {
		var err error
		charge, err = h.store.Sessions.Charge(t.Context(), ref, txn)
		require.NoError(t, err)
		return takes(h, ref, txn)
	}
	h := newTestNetworks(t)
	h.pay = keeps
	id := h.session()
	h.requireRedirect(h.post("/"+id, goodToken()), "/checkout/"+id)
	require.Equal(t, [3]string{canaryToken, "stripe", "eip155:11155111"}, [3]string{charge.Token, string(charge.Acquirer), charge.ChainRef})
	require.Equal(t, http.StatusBadRequest, h.post("/"+h.session(), goodCard()).Code, "a card number is refused unread")
	require.Empty(t, h.cards.seen)

	h = newHarnessAlone(t)
	h.pay = keeps
	id = h.session()
	h.requireRedirect(h.post("/"+id, goodCard()), "/checkout/"+id)
	require.Equal(t, [2]string{"sandbox", "sandbox"}, [2]string{string(charge.Acquirer), charge.ChainRef})
}

// The customer of the sandbox's bank comes back after the setting has changed, and the reverse.
func TestTestNetworks_TheReturnAsksTheNetworkOfThePayment(t *testing.T) {
	t.Parallel()
	for acquirer, want := range map[checkout.Acquirer]int{checkout.AcquirerSandbox: 0, checkout.AcquirerStripe: 1} {
		t.Run(string(acquirer), func(t *testing.T) {
			h := newTestNetworks(t)
			h.cards.undecided = true // the sandbox waits for its bank
			asked := 0
			h.complete = func(*harness, checkout.Ref, string) (contract.PaymentResult, error) {
				asked++
				return contract.PaymentResult{}, nil
			}
			id, txn := h.session(), checkout.NewID(checkout.PrefixTransaction)
			require.NoError(t, h.store.Sessions.CreatePayment(t.Context(), storage.NewPayment{ID: txn, SessionID: id, CardToken: "t", Acquirer: acquirer, ChainRef: checkout.ChainSandbox}))
			_, err := h.store.Sessions.BeginPayment(t.Context(), h.refs[id], txn, checkout.Quote{Rate: money.MustRate("1.08")}, txn)
			require.NoError(t, err)
			h.requireRedirect(h.get("/"+id+"/return"), "/checkout/"+id)
			require.Equal(t, want, asked, acquirer)
		})
	}
}
