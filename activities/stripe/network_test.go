package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/stripe"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

func TestNew_RefusesKeysAndAddressesThatDoNotFitTogether(t *testing.T) {
	t.Parallel()
	const local = "http://127.0.0.1:1"
	for _, c := range []struct {
		options stripe.Options
		want    string // "" is accepted
	}{
		{stripe.Options{SecretKey: "sk_live_1", Mode: checkout.ModeLive}, ""},
		{stripe.Options{SecretKey: "rk_live_1", Mode: checkout.ModeLive}, ""},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeTest}, ""},
		{stripe.Options{SecretKey: "rk_test_1", Mode: checkout.ModeTest}, ""},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeLive}, "is a test key, and this is live mode"},
		{stripe.Options{SecretKey: "rk_test_1", Mode: checkout.ModeLive}, "is a test key, and this is live mode"},
		{stripe.Options{SecretKey: "sk_live_1", Mode: checkout.ModeTest}, "is a live key, and this is test mode"},
		{stripe.Options{SecretKey: "pk_live_1", Mode: checkout.ModeLive}, "not a secret or restricted key"},
		{stripe.Options{SecretKey: "sk_live_", Mode: checkout.ModeLive}, "not a secret or restricted key"},
		{stripe.Options{SecretKey: "", Mode: checkout.ModeLive}, "not a secret or restricted key"},
		{stripe.Options{SecretKey: "whsec_1", Mode: checkout.ModeLive}, "not a secret or restricted key"},
		{stripe.Options{SecretKey: "sk_live_1"}, "neither test nor live"},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeLive, APIURL: local, Simulated: true}, ""},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeTest, APIURL: "http://[::1]:5", Simulated: true}, ""},
		{stripe.Options{SecretKey: "sk_live_1", Mode: checkout.ModeLive, APIURL: local, Simulated: true}, "is a live key, and this is a simulation"},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeLive, Simulated: true}, "needs the address of the double"},
		{stripe.Options{SecretKey: "sk_live_1", Mode: checkout.ModeLive, APIURL: local}, "allowed in a simulation only"},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeLive, APIURL: "https://api.stripe.com", Simulated: true}, "not on loopback"},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeLive, APIURL: "http://10.0.0.1", Simulated: true}, "not on loopback"},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeLive, APIURL: "http://localhost.evil.example", Simulated: true}, "not on loopback"},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeLive, APIURL: "http://u:p@127.0.0.1", Simulated: true}, "not a plain http"},
		{stripe.Options{SecretKey: "sk_test_1", Mode: checkout.ModeLive, APIURL: "ftp://127.0.0.1", Simulated: true}, "not a plain http"},
	} {
		_, err := stripe.New(c.options)
		if c.want == "" {
			require.NoError(t, err, "%+v", c.options)
			continue
		}
		require.ErrorContains(t, err, c.want, "%+v", c.options)
		if c.options.SecretKey != "" {
			require.NotContains(t, err.Error(), c.options.SecretKey)
		}
	}
}

// imitate returns a network whose API answers everything in the same way.
func imitate(t *testing.T, answer http.HandlerFunc) *stripe.Network {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return must.Get(stripe.New(stripe.Options{
		SecretKey: "sk_test_verysecret", Mode: checkout.ModeTest, APIURL: server.URL, Simulated: true,
	}))(t)
}

func refuse(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// ours is the request whose intent is the one below.
var ours = checkout.ChargeRequest{
	TransactionID: "txn_1", SessionID: "cs_1", Token: "ctoken_1", Amount: 1050, Currency: money.EUR,
}

// intent is the JSON of an intent of ours with these fields besides.
func intent(fields string) string {
	return `{"id": "pi_1", "object": "payment_intent", "amount": 1050, "amount_received": 1050, "currency": "eur",
		"capture_method": "automatic", "confirmation_method": "manual", "livemode": false,
		"client_secret": "pi_1_secret_x", "metadata": {"transaction_id": "txn_1", "session_id": "cs_1"}, ` + fields + `}`
}

func TestPayment_SaysWhatTheIntentsStateMeans(t *testing.T) {
	t.Parallel()
	const declined = `"status": "requires_payment_method", "last_payment_error": {"code": "card_declined", "decline_code": "do_not_honor"}`
	for fields, want := range map[string]string{ // the outcome and the failure, or the error
		`"status": "succeeded"`:               "succeeded ",
		`"status": "processing"`:              "processing ",
		`"status": "requires_confirmation"`:   "agreed ",
		`"status": "requires_payment_method"`: "untried ",
		declined:                              "failed card_declined",
		declined + `, "latest_charge": {"id": "ch_1", "outcome": {"type": "blocked"}}`:                                 "failed fraud_blocked",
		`"status": "requires_payment_method", "last_payment_error": {"code": "payment_intent_authentication_failure"}`: "failed three_ds_failed",
		`"status": "canceled", "last_payment_error": {"code": "expired_card", "decline_code": "expired_card"}`:         "failed expired_card",
		`"status": "canceled", "cancellation_reason": "abandoned"`:                                                     "failed three_ds_abandoned",
		`"status": "canceled"`: "failed processing_error",
		`"status": "requires_action", "next_action": {"type": "redirect_to_url", "redirect_to_url": {"url": "https://b.example/"}}`: "action_required ",
		`"status": "requires_action", "next_action": {"type": "use_stripe_sdk"}`:                                                    "names no page",
		`"status": "requires_capture"`:                              "a state that is unknown here",
		`"status": "of next year"`:                                  "a state that is unknown here",
		`"status": "succeeded", "amount_received": 1`:               "1 of 1050 were received",
		`"status": "succeeded", "livemode": true`:                   "livemode is true",
		`"status": "succeeded", "id": "pi_2"`:                       "another one",
		`"status": "succeeded", "confirmation_method": "automatic"`: "not manual",
		`"status": "succeeded", "capture_method": "manual"`:         "not automatic",
		`"status": "succeeded", "metadata": null`:                   "names no transaction",
	} {
		network := imitate(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, intent(fields)) })
		got, err := network.Payment(t.Context(), "pi_1")
		if err != nil {
			require.ErrorContains(t, err, want, fields)
			require.NotContains(t, err.Error(), "secret")
			continue
		}
		require.Equal(t, want, string(got.Outcome)+" "+string(got.Failure), fields)
	}
}

// Neither failed nor succeeded may be recorded.
func TestCancel_OfAnIntentThatIsBeingDecidedIsNoAnswer(t *testing.T) {
	t.Parallel()
	network := imitate(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, intent(`"status": "processing"`)) })
	got, err := network.Cancel(t.Context(), "pi_1", checkout.FailureProcessingError)
	require.Error(t, err)
	require.Zero(t, got)
}

// The charge happens after the adapter's first look.
func TestCancel_OfAnIntentThatWasChargedMeanwhile(t *testing.T) {
	t.Parallel()
	status := `"status": "requires_confirmation"`
	network := imitate(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			status = `"status": "succeeded"`
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error": {"code": "payment_intent_unexpected_state"}}`)
			return
		}
		fmt.Fprint(w, intent(status))
	})
	got := must.Get(network.Cancel(t.Context(), "pi_1", checkout.FailureProcessingError))(t)
	require.Equal(t, checkout.OutcomeSucceeded, got.Outcome)
	require.Empty(t, got.Failure)
}

// The bank has agreed, so the caller must ask again and not report a failure to the customer.
func TestConfirm_OfAnAgreedIntentThatStripeRefusesIsNoAnswer(t *testing.T) {
	t.Parallel()
	network := imitate(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error": {"code": "parameter_unknown"}}`)
			return
		}
		fmt.Fprint(w, intent(`"status": "requires_confirmation"`))
	})
	require.ErrorIs(t, must.Err(network.Confirm(t.Context(), "pi_1", 2, ours)), stripe.ErrNotConfirmed)
}

// TestErrors_HoldNoSecret goes through everything that Stripe or the way to it can answer.
func TestErrors_HoldNoSecret(t *testing.T) {
	t.Parallel()
	const secrets = "sk_test_verysecret pi_1_secret_x ctoken_secret https://api.example/?key=secret"
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed, with the key")
	}))
	t.Cleanup(elsewhere.Close)
	for name, handler := range map[string]http.HandlerFunc{
		"refusal":  refuse(400, `{"error": {"type": "invalid_request_error", "message": "`+secrets+`", "payment_intent": `+intent(`"status": "canceled"`)+`}}`),
		"code":     refuse(400, `{"error": {"code": "`+secrets+`"}}`),
		"key":      refuse(401, `{"error": {"message": "Invalid API Key provided: sk_test_verysecret"}}`),
		"no JSON":  refuse(502, secrets),
		"no error": refuse(500, `{"`+secrets+`": 1}`),
		"cut off":  refuse(200, `{"client_secret": "pi_1_secret_x`),
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/?secret", http.StatusTemporaryRedirect)
		},
		"hang up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		network := imitate(t, handler)
		req := ours
		req.Token, req.ReturnURL = "ctoken_secret", "https://pay.example/?secret"
		_, prepare := network.Prepare(t.Context(), req)
		_, confirm := network.Confirm(t.Context(), "pi_1", 1, req)
		_, payment := network.Payment(t.Context(), "pi_1")
		_, cancel := network.Cancel(t.Context(), "pi_1", checkout.FailureProcessingError)
		_, refund := network.Refund(t.Context(), checkout.RefundRequest{ID: "re_1", Reference: "pi_1", Amount: 1050})
		evidence := network.Respond(t.Context(), "du_1", saying("secret"))
		for _, err := range []error{prepare, confirm, payment, cancel, refund, evidence} {
			require.Error(t, err, name)
			// All ways of printing, and all errors within.
			for ; err != nil; err = errors.Unwrap(err) {
				for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err)} {
					require.NotContains(t, text, "secret", name)
					require.NotContains(t, text, "127.0.0.1", name)
				}
			}
		}
	}
}

// Only a refusal needs a person.
func TestPrepare_TellsARefusalFromANetworkThatIsAway(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{400: true, 401: true, 402: true, 403: true, 404: true, 409: false, 429: false, 500: false, 503: false} {
		network := imitate(t, refuse(status, `{"error": {"type": "invalid_request_error", "code": "parameter_unknown"}}`))
		_, err := network.Prepare(t.Context(), ours)
		require.Error(t, err)
		require.Equal(t, want, errors.Is(err, checkout.ErrChargeRefused), "%d: %v", status, err)
	}
}

// The SDK would print answers, which hold client secrets.
func TestErrors_NothingIsPrinted(t *testing.T) { //nolint:paralleltest // it looks at what the process prints
	said := must.Get(os.Create(filepath.Join(t.TempDir(), "said")))(t)
	out, errors := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = out, errors }()
	os.Stdout, os.Stderr = said, said
	network := imitate(t, refuse(http.StatusBadRequest, `{"error": {"message": "pi_1_secret_x"}}`))
	require.Error(t, must.Err(network.Payment(t.Context(), "pi_1")))
	require.Empty(t, string(must.Get(os.ReadFile(said.Name()))(t)))
}

func TestErrors_SayThatTheCallerHasGone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	network := imitate(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := network.Payment(ctx, "pi_1")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, stripe.ErrNoAnswer)
}

func TestConfirm_SendsWhatTheDesignSays(t *testing.T) {
	t.Parallel()
	var form, key string
	status := `"status": "requires_payment_method"`
	network := imitate(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_ = r.ParseForm()
			form, key = r.PostForm.Encode(), r.Header.Get("Idempotency-Key")
			if r.Header.Get("X-Stripe-Client-Telemetry") != "" {
				t.Error("telemetry is sent")
			}
			fmt.Fprint(w, intent(`"status": "succeeded"`))
			return
		}
		fmt.Fprint(w, intent(status))
	})
	req := ours
	req.ReturnURL = "https://pay.example/return"
	require.NoError(t, must.Err(network.Confirm(t.Context(), "pi_1", 7, req)))
	require.Equal(t, "txn_1:confirm:7", key)
	require.Equal(t, "confirmation_token=ctoken_1&expand%5B0%5D=latest_charge&expand%5B1%5D=payment_method&"+
		"return_url=https%3A%2F%2Fpay.example%2Freturn&use_stripe_sdk=false", form)

	status = `"status": "requires_confirmation"`
	require.NoError(t, must.Err(network.Confirm(t.Context(), "pi_1", 8, req)))
	require.Equal(t, "txn_1:confirm:8", key)
	require.NotContains(t, form, "ctoken_1", "the bank has agreed to the card that the intent holds")
}

func TestPrepare_SendsWhatTheDesignSays(t *testing.T) {
	t.Parallel()
	var form, key string
	answer := intent(`"status": "requires_payment_method"`)
	network := imitate(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		form, key = r.PostForm.Encode(), r.Header.Get("Idempotency-Key")
		fmt.Fprint(w, answer)
	})
	require.Equal(t, "pi_1", must.Get(network.Prepare(t.Context(), ours))(t))
	require.Equal(t, "txn_1:create", key)
	require.Equal(t, "amount=1050&capture_method=automatic&confirmation_method=manual&currency=eur&"+
		"metadata%5Bsession_id%5D=cs_1&metadata%5Btransaction_id%5D=txn_1&payment_method_types%5B0%5D=card", form)

	for fields, want := range map[string]string{
		`"amount": 105000`:                   "its amount is 105000, and 1050 was asked",
		`"currency": "usd"`:                  "its currency is not EUR",
		`"livemode": true`:                   "livemode is true",
		`"confirmation_method": "automatic"`: "not manual",
	} {
		answer = intent(fields)
		require.ErrorContains(t, must.Err(network.Prepare(t.Context(), ours)), want)
	}
	inYen := ours
	inYen.Currency = "JPY"
	require.ErrorContains(t, must.Err(network.Prepare(t.Context(), inYen)), `currency "JPY" is not charged with Stripe`)
}
