package stripe_test

import (
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	api "github.com/stripe/stripe-go/v85"

	"example.com/checkout/activities/stripe"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// A world is an acquirer with our adapter before it: the double, or Stripe's test mode.
type world struct {
	*testing.T

	network *stripe.Network
	api     *api.Client        // speaks to the same account, past the adapter
	double  *acquirer.Acquirer // nil at Stripe: nothing can be made to go wrong there
	apiURL  string
}

const testKey = "sk_test_contract"

// newDouble starts a double of its own for the test.
func newDouble(t *testing.T) *world {
	double := must.Get(acquirer.Start(t.Context(), acquirer.Options{
		DatabaseURL: pgtemp.ForTest(t, nil), SecretKey: testKey,
	}))(t)
	t.Cleanup(double.Stop)
	return newWorld(t, testKey, compared(t, double.APIURL()), double)
}

func newWorld(t *testing.T, key, apiURL string, double *acquirer.Acquirer) *world {
	network := must.Get(stripe.New(stripe.Options{
		SecretKey: key, Mode: checkout.ModeTest, APIURL: apiURL, Simulated: apiURL != "",
	}))(t)
	config := &api.BackendConfig{
		MaxNetworkRetries: api.Int64(0), LeveledLogger: &api.LeveledLogger{Level: api.LevelNull},
	}
	if apiURL != "" {
		config.URL = api.String(apiURL)
	}
	client := api.NewClient(key, api.WithBackends(api.NewBackendsWithConfig(config)))
	return &world{T: t, network: network, api: client, double: double, apiURL: apiURL}
}

// TestContract_Stripe runs the same contract against Stripe's test mode, without the faults and the browser.
func TestContract_Double(t *testing.T) {
	t.Parallel()
	newDouble(t).holds(t)
}

func TestContract_Stripe(t *testing.T) {
	t.Parallel()
	key := os.Getenv("STRIPE_TEST_KEY")
	if key == "" {
		t.Skip("STRIPE_TEST_KEY holds no test key of Stripe's")
	}
	newWorld(t, key, "", nil).holds(t)
}

func (w *world) holds(t *testing.T) {
	for name, part := range contract {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(w.in(t))
		})
	}
}

// A double of test mode does not pass for one of live mode.
func TestSimulation_OfLiveModeNeedsALiveDouble(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{true, false} {
		double := must.Get(acquirer.Start(t.Context(), acquirer.Options{
			DatabaseURL: pgtemp.ForTest(t, nil), SecretKey: testKey, Livemode: live,
		}))(t)
		t.Cleanup(double.Stop)
		w := newWorld(t, testKey, double.APIURL(), nil)
		w.network = must.Get(stripe.New(stripe.Options{
			SecretKey: testKey, Mode: checkout.ModeLive, APIURL: double.APIURL(), Simulated: true,
		}))(t)
		req := w.newRequest("visa")
		reference, err := w.network.Prepare(t.Context(), req)
		if !live {
			require.ErrorContains(t, err, "livemode is false")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, checkout.OutcomeSucceeded, w.confirm(reference, 1, req).Outcome)
	}
}

func (w *world) in(t *testing.T) *world {
	other := *w
	other.T = t
	return &other
}

// newRequest returns a request for a new transaction with one of Stripe's test cards (pm_card_…).
func (w *world) newRequest(card string) checkout.ChargeRequest {
	token := must.Get(w.api.V1TestHelpersConfirmationTokens.Create(w.Context(),
		&api.TestHelpersConfirmationTokenCreateParams{PaymentMethod: api.String("pm_card_" + card)}))(w)
	return checkout.ChargeRequest{
		TransactionID: checkout.NewID(checkout.PrefixTransaction), SessionID: checkout.NewID(checkout.PrefixSession),
		Attempt: 1, Token: token.ID, Amount: 1050, Currency: money.EUR, ReturnURL: "https://pay.example/cs_1/return",
	}
}

func (w *world) prepare(card string) (checkout.ChargeRequest, string) {
	req := w.newRequest(card)
	reference := must.Get(w.network.Prepare(w.Context(), req))(w)
	return req, reference
}

func (w *world) confirm(reference string, number int, req checkout.ChargeRequest) checkout.ChargeResult {
	return must.Get(w.network.Confirm(w.Context(), reference, number, req))(w)
}

// paid makes a payment with a card that is charged at once.
func (w *world) paid(card string) (checkout.ChargeRequest, string) {
	req, reference := w.prepare(card)
	require.Equal(w, checkout.OutcomeSucceeded, w.confirm(reference, 1, req).Outcome)
	return req, reference
}

// refund gives back all of a charge of newRequest.
func (w *world) refund(reference, id string) checkout.RefundResult {
	return w.refundPart(reference, id, 1050)
}

func (w *world) refundPart(reference, id string, amount money.Amount) checkout.RefundResult {
	return must.Get(w.network.Refund(w.Context(), checkout.RefundRequest{
		ID: id, Reference: reference, Amount: amount, Reason: checkout.RefundRequested,
	}))(w)
}

func (w *world) payment(reference string) checkout.ChargeResult {
	return must.Get(w.network.Payment(w.Context(), reference))(w)
}

func (w *world) cancel(reference string, reason checkout.FailureCode) checkout.ChargeResult {
	return must.Get(w.network.Cancel(w.Context(), reference, reason))(w)
}

// charges returns how often money was taken for the intent.
func (w *world) charges(reference string) int {
	paid := 0
	params := &api.ChargeListParams{PaymentIntent: api.String(reference)}
	for charge, err := range w.api.V1Charges.List(w.Context(), params).All(w.Context()) {
		require.NoError(w, err)
		if charge.Paid {
			paid++
		}
	}
	return paid
}

// needDouble skips what Stripe cannot be asked for.
func (w *world) needDouble() {
	if w.double == nil {
		w.Skip("Stripe's test mode does not fail, forget or go to the bank on command")
	}
}

// atBank answers the bank's question as a browser does and returns where the customer is sent.
func (w *world) atBank(page, answer string) string {
	w.needDouble() // Stripe's own page needs a browser
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response := must.Get(client.PostForm(page, url.Values{"answer": {answer}}))(w)
	require.NoError(w, response.Body.Close())
	require.Equal(w, http.StatusSeeOther, response.StatusCode)
	return response.Header.Get("Location")
}

// address is that of the API.
func (w *world) address() string {
	if w.apiURL == "" {
		return api.APIURL
	}
	return w.apiURL
}

// publishableKey is the key that every page holds.
func (w *world) publishableKey() string {
	if w.double != nil {
		return "pk_test_contract"
	}
	key := os.Getenv("STRIPE_TEST_PUBLISHABLE_KEY")
	if key == "" {
		w.Skip("STRIPE_TEST_PUBLISHABLE_KEY holds no key")
	}
	return key
}
