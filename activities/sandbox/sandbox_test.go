package sandbox

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// newNetwork returns the world of a test. The test runs beside others.
func newNetwork(t *testing.T) *CardNetwork {
	t.Parallel()
	return &CardNetwork{Sandbox: storagetest.New(t).Open(t, 0).Sandbox, ChallengeURL: "http://bank.example/3ds"}
}

// charge tokenizes a card and charges it once.
func charge(t *testing.T, n *CardNetwork, number string) (checkout.ChargeRequest, checkout.ChargeResult, error) {
	token, _, err := n.Tokenize(t.Context(), checkout.Card{Number: number, ExpMonth: 12, ExpYear: 2099, CVC: "123"})
	require.NoError(t, err)
	req := checkout.ChargeRequest{
		TransactionID: checkout.NewID(checkout.PrefixTransaction), SessionID: checkout.NewID(checkout.PrefixSession), Attempt: 1,
		Token: token, Amount: 1050, Currency: money.EUR, ReturnURL: "http://pay.example/return",
	}
	got, err := n.Confirm(t.Context(), req.TransactionID, 1, req)
	return req, got, err
}

func TestCards_EveryDocumentedCardDoesWhatItSays(t *testing.T) {
	n := newNetwork(t)
	for number, want := range map[string]checkout.ChargeResult{
		"4242424242424242": {Outcome: checkout.OutcomeSucceeded}, "5555555555554444": {Outcome: checkout.OutcomeSucceeded},
		"378282246310005": {Outcome: checkout.OutcomeSucceeded}, "6011111111111117": {Outcome: checkout.OutcomeSucceeded},
		"3056930009020004": {Outcome: checkout.OutcomeSucceeded}, "3566002020360505": {Outcome: checkout.OutcomeSucceeded},
		"6200000000000005": {Outcome: checkout.OutcomeSucceeded},
		"4000000000000002": {Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined},
		"4000000000009995": {Outcome: checkout.OutcomeFailed, Failure: checkout.FailureInsufficientFunds},
		"4000000000000069": {Outcome: checkout.OutcomeFailed, Failure: checkout.FailureExpiredCard},
		"4000000000000127": {Outcome: checkout.OutcomeFailed, Failure: checkout.FailureIncorrectCVC},
		"4000000000000119": {Outcome: checkout.OutcomeFailed, Failure: checkout.FailureProcessingError},
		"4100000000000019": {Outcome: checkout.OutcomeFailed, Failure: checkout.FailureFraudBlocked},
		"4000000000003220": {Outcome: checkout.OutcomeActionRequired}, "4000008400001629": {Outcome: checkout.OutcomeActionRequired},
		"4000000000003063": {Outcome: checkout.OutcomeActionRequired}, "4000000000000077": {Outcome: checkout.OutcomeProcessing},
		"4000000000000267": {Outcome: checkout.OutcomeSucceeded}, "4000000000000275": {Outcome: checkout.OutcomeSucceeded},
		"4000000000007726": {Outcome: checkout.OutcomeSucceeded}, "4000000000005126": {Outcome: checkout.OutcomeSucceeded},
		"4000000000000283": {Outcome: checkout.OutcomeSucceeded}, "4000000000000291": {Outcome: checkout.OutcomeSucceeded},
		"4000000000001976": {Outcome: checkout.OutcomeSucceeded}, "4000000000005423": {Outcome: checkout.OutcomeSucceeded},
		"4111111111111111": {Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined}, // not documented
	} {
		req, got, err := charge(t, n, number)
		require.NoError(t, err, number)
		require.Equal(t, want.Outcome, got.Outcome, number)
		require.Equal(t, want.Failure, got.Failure, number)
		require.Equal(t, number[len(number)-4:], got.Method.Last4, number)
		again, err := n.Confirm(t.Context(), req.TransactionID, 1, req)
		require.NoError(t, err, number)
		require.Equal(t, got, again, "a repeat has the first outcome: %s", number)
	}
	require.Len(t, cards, 27, "a new card needs a row here and in api/README.md")
}

func TestCards_ErrorsThatPass(t *testing.T) {
	n := newNetwork(t)
	for number, lost := range map[string]int{"4000000000000341": 1, "4000000000000259": 2} {
		req, _, err := charge(t, n, number)
		for range lost {
			require.Error(t, err, number)
			var got checkout.ChargeResult
			if got, err = n.Confirm(t.Context(), req.TransactionID, 1, req); err == nil {
				require.Equal(t, checkout.OutcomeSucceeded, got.Outcome, number)
			}
		}
		require.NoError(t, err, number)
	}
}

func TestCards_AnExpiredDateIsDeclined(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, declines, lookup(checkout.Card{Number: "4242424242424242", ExpMonth: 2, ExpYear: 2026}, now).behavior)
	require.Equal(t, succeeds, lookup(checkout.Card{Number: "4242424242424242", ExpMonth: 3, ExpYear: 2026}, now).behavior)
}

func TestCancel_OfAnUnknownTransactionMakesALaterChargeFail(t *testing.T) {
	n := newNetwork(t)
	token, _, err := n.Tokenize(t.Context(), checkout.Card{Number: "4242424242424242", ExpMonth: 12, ExpYear: 2099, CVC: "123"})
	require.NoError(t, err)
	id := checkout.NewID(checkout.PrefixTransaction)
	got := must.Get(n.Cancel(t.Context(), id, checkout.FailureProcessingError))(t)
	require.Equal(t, checkout.OutcomeFailed, got.Outcome)
	got = must.Get(n.Confirm(t.Context(), id, 1, checkout.ChargeRequest{TransactionID: id, Token: token}))(t)
	require.Equal(t, checkout.OutcomeFailed, got.Outcome)
}

func TestCancel_OfAPaidTransactionSaysThatItWasPaid(t *testing.T) {
	n := newNetwork(t)
	req, _, err := charge(t, n, "4242424242424242")
	require.NoError(t, err)
	got := must.Get(n.Cancel(t.Context(), req.TransactionID, checkout.FailureProcessingError))(t)
	require.Equal(t, checkout.OutcomeSucceeded, got.Outcome)
}

func TestCallbacks_AreMadeSeveralTimesAndSurviveARestart(t *testing.T) {
	n := newNetwork(t)
	req, _, err := charge(t, n, "4000000000000077") // due at once, because SettleAfter is 0
	require.NoError(t, err)
	count := 0
	for range 5 { // each round stands for a new process
		require.NoError(t, n.callBackDue(t.Context(), Callbacks{PaymentDecided: func(_ context.Context, sessionID, transactionID string) error {
			require.Equal(t, req.SessionID, sessionID)
			require.Equal(t, req.TransactionID, transactionID)
			count++
			return checkout.ErrNotFound // the session has closed: the later callbacks are duplicates
		}}))
	}
	require.Equal(t, callbacks, count)
	got := must.Get(n.Payment(t.Context(), req.TransactionID))(t)
	require.Equal(t, checkout.OutcomeSucceeded, got.Outcome)
}

// Temporal refuses further signals to a session that got too many.
func TestCallbacks_OneThatIsRefusedHoldsUpNoOther(t *testing.T) {
	n := newNetwork(t)
	full, _, err := charge(t, n, "4000000000000077")
	require.NoError(t, err)
	next, _, err := charge(t, n, "4000000000000077") // due later than the first
	require.NoError(t, err)
	calls := map[string]int{}
	for range callbacks {
		require.NoError(t, n.callBackDue(t.Context(), Callbacks{PaymentDecided: func(_ context.Context, sessionID, _ string) error {
			calls[sessionID]++
			if sessionID == full.SessionID {
				return errors.New("it takes no more signals")
			}
			return nil
		}}))
	}
	require.Equal(t, callbacks, calls[next.SessionID])
	require.Equal(t, 1, calls[full.SessionID], "it comes again, but not at once")
	c := must.Get(n.Sandbox.SandboxCharge(t.Context(), full.TransactionID))(t)
	require.Equal(t, callbacks, c.Callbacks, "none of its callbacks was made")
	require.WithinDuration(t, time.Now().Add(callbackRetry), *c.SettleAt, time.Minute)
	require.Equal(t, checkout.OutcomeSucceeded, c.Outcome, "the session finds it when it asks")
}

func TestChallenge_EndsAsTheCardSays(t *testing.T) {
	n := newNetwork(t)
	for _, c := range []struct {
		number, answer string
		outcome        checkout.PaymentOutcome
		failure        checkout.FailureCode
	}{
		{"4000000000003220", "confirm", checkout.OutcomeSucceeded, ""},
		{"4000000000003220", "refuse", checkout.OutcomeFailed, checkout.FailureThreeDSAbandoned},
		{"4000008400001629", "confirm", checkout.OutcomeFailed, checkout.FailureThreeDSFailed},
		{"4000000000003063", "confirm", checkout.OutcomeFailed, checkout.FailureThreeDSAbandoned},
	} {
		req, asked, err := charge(t, n, c.number)
		require.NoError(t, err)
		require.Equal(t, "http://bank.example/3ds/"+req.TransactionID, asked.ActionURL)
		page := ask(t, n, http.MethodGet, req.TransactionID, "")
		require.Equal(t, http.StatusOK, page.Code)
		require.Contains(t, page.Body.String(), "10.50 EUR")
		require.NotContains(t, page.Body.String(), c.number)
		answered := ask(t, n, http.MethodPost, req.TransactionID, c.answer)
		require.Equal(t, http.StatusSeeOther, answered.Code)
		require.Equal(t, req.ReturnURL, answered.Header().Get("Location"))
		got := must.Get(n.Payment(t.Context(), req.TransactionID))(t)
		require.Equal(t, c.outcome, got.Outcome)
		require.Equal(t, c.failure, got.Failure)
		ask(t, n, http.MethodPost, req.TransactionID, "refuse")
		require.Equal(t, got, must.Get(n.Payment(t.Context(), req.TransactionID))(t), "decided once")
	}
	require.Equal(t, http.StatusNotFound, ask(t, n, http.MethodGet, checkout.NewID("txn"), "").Code)
	require.Equal(t, http.StatusNotFound, ask(t, n, http.MethodGet, "<script>", "").Code)
}

func ask(t *testing.T, n *CardNetwork, method, id, answer string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), method, "/x", strings.NewReader(url.Values{"answer": {answer}}.Encode()))
	r.URL.Path = "/" + id
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	Challenge{Cards: n}.ServeHTTP(w, r)
	return w
}

func TestPayouts_PriceSignAndBroadcastOnce(t *testing.T) {
	n := newNetwork(t)
	p := &Payouts{Sandbox: n.Sandbox}
	require.Equal(t, "0.000016875", must.Get(Rates{}.Quote(t.Context(), money.EUR, money.BTC))(t).Rate.String())
	require.Error(t, must.Err(Rates{}.Quote(t.Context(), "XXX", money.BTC)))

	ask := storage.PayoutToSend{Payout: checkout.Payout{Ref: checkout.Ref{ID: "po_1"}, Destination: "0xabc",
		SourceAmount: 100, SourceCurrency: money.USD, Currency: money.ETH, ExchangeRate: money.MustRate("1.000000000000000001")}}
	got := must.Get(signTransfer(ask))(t)
	require.Equal(t, "0.001000000000000001", got.Fee.String(), "rounded up to 18 places")
	require.Equal(t, "0.999000000000000000", got.Amount.String())
	require.Equal(t, got, must.Get(signTransfer(ask))(t))
	for range 2 {
		failure := must.Get(p.broadcast(t.Context(), "po_1", got.Signed))(t)
		require.Empty(t, failure)
	}
	require.Error(t, must.Err(p.broadcast(t.Context(), "po_2", got.Signed)), "another payout's transfer")

	for address, want := range map[string]checkout.PayoutFailure{
		"": checkout.PayoutInvalidAddress, "sandbox:invalid": checkout.PayoutInvalidAddress, "sandbox:no-liquidity": checkout.PayoutInsufficientLiquidity,
	} {
		ask.Destination = address
		got := must.Get(signTransfer(ask))(t)
		require.Equal(t, want, got.Failed, address)
	}
	ask.Destination = "sandbox:network-error"
	got = must.Get(signTransfer(ask))(t)
	failure := must.Get(p.broadcast(t.Context(), "po_1", got.Signed))(t)
	require.Equal(t, checkout.PayoutNetworkError, failure)
}
