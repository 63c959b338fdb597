package stripe_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	api "github.com/stripe/stripe-go/v85"

	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// contract is what the service relies on. Every part makes payments of its own.
var contract = map[string]func(*world){
	"a card is charged once":                          chargesOnce,
	"many confirmations at once charge once":          confirmsAtOnce,
	"an untried payment says so":                      untried,
	"a declined card":                                 declined,
	"a declined card is never charged after a cancel": declinedThenCanceled,
	"every failure has our code":                      failureCodes,
	"what may be shown of the card":                   shownCards,
	"a token that does not exist":                     unknownToken,
	"a token that was used":                           usedToken,
	"a canceled payment is never charged":             canceledIsNeverCharged,
	"cancel after success says succeeded":             cancelAfterSuccess,
	"cancel twice":                                    cancelTwice,
	"prepare twice":                                   prepareTwice,
	"an intent with other facts is not charged":       otherFacts,
	"an intent that nobody knows":                     unknownIntent,
	"an amount below the network's minimum":           belowMinimum,
	"a browser cannot confirm":                        browserCannotConfirm,
	"a refund is made once":                           refundOnce,
	"a refund of nothing":                             refundNothing,
	"a disputed charge is not refunded":               refundDisputed,
	"a refund that waits":                             refundWaits,
	"3-D Secure waits at the bank's page":             bankAsks,
	"3-D Secure passed":                               bankAgrees,
	"3-D Secure failed":                               bankRefuses,
	"3-D Secure abandoned":                            bankAbandoned,
	"3-D Secure passed and the card declined":         bankAgreesCardDeclines,
	"a lost answer of a confirmation":                 lostConfirm,
	"a lost answer of prepare":                        lostPrepare,
	"a lost answer of cancel":                         lostCancel,
	"a lost answer of refund":                         lostRefund,
	"a saved 500 before the charge":                   savedFault,
	"a saved 500 after the charge":                    savedFaultAfterCharge,
	"a saved 500 after the bank's yes":                savedFaultAfterBank,
	"too many requests":                               tooMany,
	"forgotten keys":                                  forgottenKeys,
	"forgotten keys of a refund":                      forgottenRefundKey,
	"charges are listed":                              listsCharges,
	"movements of the balance are listed":             listsMovements,
}

func chargesOnce(w *world) {
	req, reference := w.prepare("visa")
	require.Equal(w.t, 0, w.charges(reference), "prepare charges nothing")
	got := w.confirm(reference, 1, req)
	require.Equal(w.t, checkout.OutcomeSucceeded, got.Outcome)
	require.Equal(w.t, got, w.payment(reference))
	require.Equal(w.t, got, w.confirm(reference, 1, req), "a repeat charges nothing")
	require.Equal(w.t, got, w.confirm(reference, 2, req), "a new number charges nothing either")
	require.Equal(w.t, 1, w.charges(reference))
}

func confirmsAtOnce(w *world) {
	req, reference := w.prepare("visa")
	var all sync.WaitGroup
	for number := range 8 {
		all.Go(func() {
			got, err := w.network.Confirm(w.t.Context(), reference, 1+number/2, req)
			if err == nil && got.Outcome != checkout.OutcomeSucceeded {
				w.t.Errorf("confirmation %d: %+v", number, got)
			}
		})
	}
	all.Wait()
	require.Equal(w.t, checkout.OutcomeSucceeded, w.payment(reference).Outcome)
	require.Equal(w.t, 1, w.charges(reference))
}

func untried(w *world) {
	_, reference := w.prepare("visa")
	require.Equal(w.t, checkout.OutcomeUntried, w.payment(reference).Outcome)
}

// declined: the network itself would let a declined intent be paid with another card.
func declined(w *world) {
	req, reference := w.prepare("visa_chargeDeclined")
	got := w.confirm(reference, 1, req)
	require.Equal(w.t, checkout.OutcomeFailed, got.Outcome)
	require.Equal(w.t, checkout.FailureCardDeclined, got.Failure)
	require.Equal(w.t, "0002", got.Method.Last4)
	require.Equal(w.t, got, w.payment(reference))
	req.Token = w.newRequest("visa").Token
	require.Equal(w.t, got, w.confirm(reference, 2, req))
	require.Equal(w.t, 0, w.charges(reference))
}

func declinedThenCanceled(w *world) {
	req, reference := w.prepare("visa_chargeDeclined")
	w.confirm(reference, 1, req)
	got := w.cancel(reference, checkout.FailureCardDeclined)
	require.Equal(w.t, checkout.OutcomeFailed, got.Outcome)
	require.Equal(w.t, checkout.FailureCardDeclined, got.Failure)
	require.Equal(w.t, "0002", got.Method.Last4, "what the merchant sees of the card stays")

	good := w.newRequest("visa")
	req.Token = good.Token
	require.Equal(w.t, checkout.OutcomeFailed, w.confirm(reference, 2, req).Outcome)
	w.requireDead(reference, w.newRequest("visa").Token)
}

// requireDead tries to charge a canceled intent past the adapter.
func (w *world) requireDead(reference, token string) {
	w.t.Helper()
	_, err := w.api.V1PaymentIntents.Confirm(w.t.Context(), reference, &api.PaymentIntentConfirmParams{
		ConfirmationToken: api.String(token), ReturnURL: api.String("https://pay.example/"),
	})
	require.Error(w.t, err)
	require.Equal(w.t, 0, w.charges(reference))
	require.Equal(w.t, checkout.OutcomeFailed, w.payment(reference).Outcome)
}

func failureCodes(w *world) {
	for card, want := range map[string]checkout.FailureCode{
		"visa_chargeDeclined":                  checkout.FailureCardDeclined,
		"visa_chargeDeclinedLostCard":          checkout.FailureCardDeclined,
		"visa_chargeDeclinedInsufficientFunds": checkout.FailureInsufficientFunds,
		"chargeDeclinedExpiredCard":            checkout.FailureExpiredCard,
		"chargeDeclinedIncorrectCvc":           checkout.FailureIncorrectCVC,
		"chargeDeclinedProcessingError":        checkout.FailureProcessingError,
		"radarBlock":                           checkout.FailureFraudBlocked,
	} {
		req, reference := w.prepare(card)
		got := w.confirm(reference, 1, req)
		require.Equal(w.t, checkout.OutcomeFailed, got.Outcome, card)
		require.Equal(w.t, want, got.Failure, card)
		require.Equal(w.t, want, w.payment(reference).Failure, card)
		require.Equal(w.t, 0, w.charges(reference), card)
	}
}

func shownCards(w *world) {
	for card, want := range map[string]checkout.PaymentMethod{
		"visa":       {Type: "card", Brand: "visa", Last4: "4242", Country: "US"},
		"mastercard": {Type: "card", Brand: "mastercard", Last4: "4444", Country: "US"},
		"amex":       {Type: "card", Brand: "amex", Last4: "0005", Country: "US"},
		"jcb":        {Type: "card", Brand: "jcb", Last4: "0505", Country: "JP"},
	} {
		req, reference := w.prepare(card)
		got := w.confirm(reference, 1, req).Method
		require.NotZero(w.t, got.ExpMonth, card)
		require.GreaterOrEqual(w.t, got.ExpYear, time.Now().Year(), card)
		got.ExpMonth, got.ExpYear = 0, 0
		if w.double == nil {
			got.Last4, want.Last4 = "", "" // Stripe documents numbers for tests by hand only
		}
		require.Equal(w.t, want, got, card)
	}
}

// unknownToken: no repeat mends a token that was made up, so the customer must be able to go on.
func unknownToken(w *world) {
	req, reference := w.prepare("visa")
	req.Token = "ctoken_thatNobodyMade"
	got := w.confirm(reference, 1, req)
	require.Equal(w.t, checkout.OutcomeFailed, got.Outcome)
	require.Equal(w.t, checkout.FailureProcessingError, got.Failure)
	require.Equal(w.t, checkout.OutcomeFailed, w.cancel(reference, got.Failure).Outcome)
	require.Equal(w.t, 0, w.charges(reference))
}

func usedToken(w *world) {
	req, _ := w.paid("visa")
	other, second := w.prepare("visa")
	other.Token = req.Token
	got := w.confirm(second, 1, other)
	require.Equal(w.t, checkout.OutcomeFailed, got.Outcome)
	require.Equal(w.t, 0, w.charges(second))
}

func canceledIsNeverCharged(w *world) {
	req, reference := w.prepare("visa")
	got := w.cancel(reference, checkout.FailureProcessingError)
	require.Equal(w.t, checkout.OutcomeFailed, got.Outcome)
	require.Equal(w.t, checkout.FailureProcessingError, got.Failure)
	require.Equal(w.t, checkout.OutcomeFailed, w.confirm(reference, 1, req).Outcome)
	w.requireDead(reference, req.Token)
}

func cancelAfterSuccess(w *world) {
	_, reference := w.paid("visa")
	require.Equal(w.t, checkout.OutcomeSucceeded, w.cancel(reference, checkout.FailureProcessingError).Outcome)
	require.Equal(w.t, 1, w.charges(reference))
}

func cancelTwice(w *world) {
	_, reference := w.prepare("visa")
	first := w.cancel(reference, checkout.FailureThreeDSAbandoned)
	require.Equal(w.t, checkout.FailureThreeDSAbandoned, first.Failure)
	require.Equal(w.t, first, w.cancel(reference, checkout.FailureThreeDSAbandoned))
	require.Equal(w.t, checkout.FailureThreeDSAbandoned, w.payment(reference).Failure)
}

// prepareTwice: the second reference is never confirmed, so it is worth nothing.
func prepareTwice(w *world) {
	w = w.alone()
	req, reference := w.prepare("visa")
	again, err := w.network.Prepare(w.t.Context(), req)
	require.NoError(w.t, err)
	require.Equal(w.t, reference, again, "within the memory of the network it is the same one")
	if w.double != nil {
		require.NoError(w.t, w.double.ForgetKeys(w.t.Context()))
		again, err = w.network.Prepare(w.t.Context(), req)
		require.NoError(w.t, err)
		require.NotEqual(w.t, reference, again)
		require.Equal(w.t, checkout.OutcomeUntried, w.payment(again).Outcome)
	}
	require.Equal(w.t, checkout.OutcomeSucceeded, w.confirm(reference, 1, req).Outcome)
	require.Equal(w.t, 1, w.charges(reference))
	if again != reference {
		require.Equal(w.t, 0, w.charges(again))
	}
}

func otherFacts(w *world) {
	req, reference := w.prepare("visa")
	for what, change := range map[string]func(*checkout.ChargeRequest){
		"another transaction":      func(r *checkout.ChargeRequest) { r.TransactionID = checkout.NewID(checkout.PrefixTransaction) },
		"another session":          func(r *checkout.ChargeRequest) { r.SessionID = checkout.NewID(checkout.PrefixSession) },
		"its amount is 1050":       func(r *checkout.ChargeRequest) { r.Amount = 1051 },
		"its currency is not USD":  func(r *checkout.ChargeRequest) { r.Currency = money.USD },
		`currency "JPY" is not`:    func(r *checkout.ChargeRequest) { r.Currency = "JPY" },
		"amount 0 is not above":    func(r *checkout.ChargeRequest) { r.Amount = 0 },
		"amount -1050 is not abov": func(r *checkout.ChargeRequest) { r.Amount = -1050 },
	} {
		changed := req
		change(&changed)
		_, err := w.network.Confirm(w.t.Context(), reference, 1, changed)
		require.ErrorContains(w.t, err, what)
	}
	require.Equal(w.t, 0, w.charges(reference))

	foreign, err := w.api.V1PaymentIntents.Create(w.t.Context(), &api.PaymentIntentCreateParams{
		Amount: api.Int64(1050), Currency: api.String("eur"), PaymentMethodTypes: []*string{api.String("card")},
		Metadata: map[string]string{"transaction_id": req.TransactionID, "session_id": req.SessionID},
	})
	require.NoError(w.t, err)
	_, err = w.network.Confirm(w.t.Context(), foreign.ID, 1, req)
	require.ErrorContains(w.t, err, "confirmation method is not manual")
	_, err = w.network.Payment(w.t.Context(), foreign.ID)
	require.ErrorContains(w.t, err, "confirmation method is not manual")
}

func unknownIntent(w *world) {
	req := w.newRequest("visa")
	for _, reference := range []string{"pi_3NobodyMadeThisOne", "", "txn_1", "pi_1/confirm", "pi_1?expand=x"} {
		_, err := w.network.Confirm(w.t.Context(), reference, 1, req)
		require.Error(w.t, err, reference)
		_, err = w.network.Payment(w.t.Context(), reference)
		require.Error(w.t, err, reference)
		_, err = w.network.Cancel(w.t.Context(), reference, checkout.FailureProcessingError)
		require.Error(w.t, err, reference)
		_, err = w.network.Refund(w.t.Context(), reference, "re_1")
		require.Error(w.t, err, reference)
	}
}

func belowMinimum(w *world) {
	req := w.newRequest("visa")
	req.Amount = 10
	_, err := w.network.Prepare(w.t.Context(), req)
	require.ErrorContains(w.t, err, "amount_too_small")
}

// browserCannotConfirm: the client secret is in the address bar of a customer who returns from the bank,
// and the publishable key is in every page. Both together must not confirm the payment.
func browserCannotConfirm(w *world) {
	key := w.publishableKey()
	req, reference := w.prepare("visa")
	i, err := w.api.V1PaymentIntents.Retrieve(w.t.Context(), reference, nil)
	require.NoError(w.t, err)
	form := url.Values{
		"confirmation_token": {req.Token}, "client_secret": {i.ClientSecret}, "return_url": {"https://pay.example/"},
	}
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost,
		w.address()+"/v1/payment_intents/"+reference+"/confirm", strings.NewReader(form.Encode()))
	require.NoError(w.t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	require.NoError(w.t, err)
	require.NoError(w.t, response.Body.Close())
	require.GreaterOrEqual(w.t, response.StatusCode, 400)
	require.Equal(w.t, checkout.OutcomeUntried, w.payment(reference).Outcome)
	require.Equal(w.t, 0, w.charges(reference))
}

func refundOnce(w *world) {
	req, reference := w.paid("visa")
	id := newRefundID()
	first := w.refund(reference, id)
	require.Equal(w.t, checkout.RefundSucceeded, first.Status)
	require.NotEmpty(w.t, first.Reference)
	require.Equal(w.t, req.Amount, first.Amount)
	again := w.refund(reference, id)
	require.Equal(w.t, first, again)
	other := w.refund(reference, newRefundID())
	require.Equal(w.t, checkout.RefundResult{Status: checkout.RefundFailed, Why: "charge_already_refunded"}, other,
		"there is nothing left to give back")
	require.EqualValues(w.t, 1050, w.refunded(reference))
}

// refunded returns how much of the intent's charges went back, in minor units.
func (w *world) refunded(reference string) int64 {
	w.t.Helper()
	var sum int64
	params := &api.ChargeListParams{PaymentIntent: api.String(reference)}
	for charge, err := range w.api.V1Charges.List(w.t.Context(), params).All(w.t.Context()) {
		require.NoError(w.t, err)
		sum += charge.AmountRefunded
	}
	return sum
}

func newRefundID() string { return "re_" + checkout.NewID(checkout.PrefixTransaction) }

func refundNothing(w *world) {
	_, reference := w.prepare("visa")
	got := w.refund(reference, newRefundID())
	require.Equal(w.t, []any{checkout.RefundFailed, ""}, []any{got.Status, got.Reference})
}

func refundDisputed(w *world) {
	w.needDouble() // at Stripe the dispute comes some seconds later
	_, reference := w.paid("createDispute")
	got := w.refund(reference, newRefundID())
	require.Equal(w.t, checkout.RefundResult{Status: checkout.RefundFailed, Why: "charge_disputed"}, got)
	require.EqualValues(w.t, 0, w.refunded(reference))
}

func refundWaits(w *world) {
	for card, want := range map[string][2]checkout.RefundStatus{
		"pendingRefund": {checkout.RefundPending, checkout.RefundSucceeded},
		"refundFail":    {checkout.RefundSucceeded, checkout.RefundFailed},
	} {
		req, reference := w.paid(card)
		id := newRefundID()
		got := w.refund(reference, id)
		require.Equal(w.t, want[0], got.Status, card)
		if w.double == nil {
			continue // Stripe's own time
		}
		require.NoError(w.t, w.double.SettleRefunds(w.t.Context()))
		after := w.refund(reference, id)
		require.Equal(w.t, want[1], after.Status, card)
		require.Equal(w.t, []any{got.Reference, req.Amount}, []any{after.Reference, after.Amount}, card)
	}
}

func bankAsks(w *world) {
	req, reference := w.prepare("threeDSecure2Required")
	got := w.confirm(reference, 1, req)
	require.Equal(w.t, checkout.OutcomeActionRequired, got.Outcome)
	require.True(w.t, strings.HasPrefix(got.ActionURL, "http"), got.ActionURL)
	require.True(w.t, got.Method.ThreeDSecure)
	require.Equal(w.t, got.Outcome, w.confirm(reference, 1, req).Outcome)
	require.Equal(w.t, got.Outcome, w.confirm(reference, 2, req).Outcome, "it does not go past the bank")
	require.Equal(w.t, 0, w.charges(reference))
}

func bankAgrees(w *world) {
	req, reference := w.prepare("threeDSecure2Required")
	page := w.confirm(reference, 1, req).ActionURL
	back := w.atBank(page, "confirm")
	require.True(w.t, strings.HasPrefix(back, req.ReturnURL+"?"), back)
	got := w.payment(reference)
	require.Equal(w.t, checkout.OutcomeAgreed, got.Outcome)
	require.Equal(w.t, 0, w.charges(reference), "the bank's page charges nothing")
	got = w.confirm(reference, 2, req)
	require.Equal(w.t, checkout.OutcomeSucceeded, got.Outcome)
	require.True(w.t, got.Method.ThreeDSecure)
	require.Equal(w.t, 1, w.charges(reference))
}

func bankRefuses(w *world) {
	req, reference := w.prepare("threeDSecure2Required")
	w.atBank(w.confirm(reference, 1, req).ActionURL, "refuse")
	got := w.payment(reference)
	require.Equal(w.t, checkout.OutcomeFailed, got.Outcome)
	require.Equal(w.t, checkout.FailureThreeDSFailed, got.Failure)
	require.True(w.t, got.Method.ThreeDSecure)
	require.Equal(w.t, checkout.FailureThreeDSFailed, w.cancel(reference, got.Failure).Failure)
	w.requireDead(reference, w.newRequest("visa").Token)
}

// bankAbandoned: the customer may finish at the bank after the cancel, and comes back then.
func bankAbandoned(w *world) {
	req, reference := w.prepare("threeDSecure2Required")
	page := w.confirm(reference, 1, req).ActionURL
	require.Equal(w.t, checkout.OutcomeActionRequired, w.payment(reference).Outcome)
	got := w.cancel(reference, checkout.FailureThreeDSAbandoned)
	require.Equal(w.t, checkout.FailureThreeDSAbandoned, got.Failure)
	w.requireDead(reference, w.newRequest("visa").Token)

	back := w.atBank(page, "confirm")
	require.True(w.t, strings.HasPrefix(back, req.ReturnURL+"?"), back)
	require.Equal(w.t, checkout.FailureThreeDSAbandoned, w.payment(reference).Failure)
	w.requireDead(reference, w.newRequest("visa").Token)
}

func bankAgreesCardDeclines(w *world) {
	req, reference := w.prepare("threeDSecureRequiredChargeDeclined")
	w.atBank(w.confirm(reference, 1, req).ActionURL, "confirm")
	require.Equal(w.t, checkout.OutcomeAgreed, w.payment(reference).Outcome)
	got := w.confirm(reference, 2, req)
	require.Equal(w.t, checkout.OutcomeFailed, got.Outcome)
	require.Equal(w.t, checkout.FailureCardDeclined, got.Failure)
	require.Equal(w.t, 0, w.charges(reference))
}

// often is more than Go's HTTP client silently repeats when a connection breaks.
const often = 50

// alone returns a double that no other part of the contract uses: keys are forgotten for all, and some
// requests hold nothing by which a fault could choose them. Stripe stays as it is.
func (w *world) alone() *world {
	if w.double == nil {
		return w
	}
	return newDouble(w.t)
}

// fault plans a fault for this intent alone. The other parts of the contract run at the same time.
func (w *world) fault(f acquirer.Fault) {
	w.t.Helper()
	w.needDouble()
	require.NoError(w.t, w.double.Plan(f))
}

func lostConfirm(w *world) {
	req, reference := w.prepare("visa")
	w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: reference + "/confirm", Count: often})
	got := w.confirm(reference, 1, req)
	require.Equal(w.t, checkout.OutcomeSucceeded, got.Outcome, "the state is asked")

	req, reference = w.prepare("visa")
	w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: reference + "/confirm", Count: often})
	w.fault(acquirer.Fault{Kind: acquirer.FaultBroken, Match: "GET /v1/payment_intents/" + reference, Count: 1})
	_, err := w.network.Confirm(w.t.Context(), reference, 1, req)
	require.Error(w.t, err)
	require.Equal(w.t, checkout.OutcomeUntried, w.payment(reference).Outcome, "it was not sent")
	require.NoError(w.t, w.double.Plan(acquirer.Fault{
		Kind: acquirer.FaultSlow, Match: "GET /v1/payment_intents/" + reference, Count: 1, Delay: 50,
	}))
	require.Equal(w.t, checkout.OutcomeSucceeded, w.confirm(reference, 2, req).Outcome)
	require.Equal(w.t, 1, w.charges(reference))
}

func lostPrepare(w *world) {
	w.needDouble()
	w = w.alone()
	req := w.newRequest("visa")
	w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: "POST /v1/payment_intents", Count: often})
	_, err := w.network.Prepare(w.t.Context(), req)
	require.Error(w.t, err)
	w.double.Clear()
	reference, err := w.network.Prepare(w.t.Context(), req)
	require.NoError(w.t, err)
	facts, err := w.double.Facts(w.t.Context())
	require.NoError(w.t, err)
	require.Equal(w.t, []acquirer.IntentFact{{
		ID: reference, TransactionID: req.TransactionID, Status: "requires_payment_method", Amount: 1050, Currency: "eur",
	}}, facts.Intents)
}

func lostCancel(w *world) {
	_, reference := w.prepare("visa")
	w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: reference + "/cancel", Count: often})
	require.Equal(w.t, checkout.OutcomeFailed, w.cancel(reference, checkout.FailureProcessingError).Outcome)
}

func lostRefund(w *world) {
	w.needDouble()
	w = w.alone()
	_, reference := w.paid("visa")
	w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: "POST /v1/refunds", Count: often})
	got := w.refund(reference, newRefundID())
	require.Equal(w.t, checkout.RefundSucceeded, got.Status)
	require.EqualValues(w.t, 1050, w.refunded(reference))
}

func savedFault(w *world) {
	req, reference := w.prepare("visa")
	w.fault(acquirer.Fault{Kind: acquirer.FaultBroken, Match: reference + "/confirm", Count: 1})
	for range 2 { // the second time nothing is broken any more, and the 500 comes from memory
		_, err := w.network.Confirm(w.t.Context(), reference, 1, req)
		require.ErrorContains(w.t, err, "the confirmation has not taken place")
		require.ErrorContains(w.t, err, "Stripe answered 500")
	}
	require.Equal(w.t, checkout.OutcomeUntried, w.payment(reference).Outcome)
	require.Equal(w.t, checkout.OutcomeSucceeded, w.confirm(reference, 2, req).Outcome)
	require.Equal(w.t, 1, w.charges(reference))
}

func savedFaultAfterCharge(w *world) {
	req, reference := w.prepare("visa")
	w.fault(acquirer.Fault{Kind: acquirer.FaultBroken, Match: reference + "/confirm", Count: 1, AfterEffect: true})
	require.Equal(w.t, checkout.OutcomeSucceeded, w.confirm(reference, 1, req).Outcome)
	require.Equal(w.t, 1, w.charges(reference))
}

func savedFaultAfterBank(w *world) {
	req, reference := w.prepare("threeDSecure2Required")
	w.needDouble()
	w.atBank(w.confirm(reference, 1, req).ActionURL, "confirm")
	w.fault(acquirer.Fault{Kind: acquirer.FaultBroken, Match: reference + "/confirm", Count: 1})
	_, err := w.network.Confirm(w.t.Context(), reference, 2, req)
	require.ErrorContains(w.t, err, "the confirmation has not taken place")
	require.Equal(w.t, checkout.OutcomeAgreed, w.payment(reference).Outcome)
	require.Equal(w.t, checkout.OutcomeSucceeded, w.confirm(reference, 3, req).Outcome)
	require.Equal(w.t, 1, w.charges(reference))
}

func tooMany(w *world) {
	req, reference := w.prepare("visa")
	w.fault(acquirer.Fault{Kind: acquirer.FaultTooMany, Match: reference + "/confirm", Count: 1})
	_, err := w.network.Confirm(w.t.Context(), reference, 1, req)
	require.ErrorContains(w.t, err, "Stripe answered 429, code rate_limit, request req_")
	require.Equal(w.t, checkout.OutcomeSucceeded, w.confirm(reference, 2, req).Outcome)
}

func forgottenKeys(w *world) {
	w.needDouble()
	w = w.alone()
	req, reference := w.prepare("visa")
	require.NoError(w.t, w.double.ForgetKeys(w.t.Context()))
	require.Equal(w.t, checkout.OutcomeSucceeded, w.confirm(reference, 1, req).Outcome)
	require.NoError(w.t, w.double.ForgetKeys(w.t.Context()))
	require.Equal(w.t, checkout.OutcomeSucceeded, w.confirm(reference, 1, req).Outcome)
	_, err := w.api.V1PaymentIntents.Confirm(w.t.Context(), reference, &api.PaymentIntentConfirmParams{
		ConfirmationToken: api.String(w.newRequest("visa").Token),
	})
	require.Error(w.t, err, "not the key but the state prevents a second charge")
	require.Equal(w.t, 1, w.charges(reference))
}

func forgottenRefundKey(w *world) {
	w.needDouble()
	w = w.alone()
	_, reference := w.paid("visa")
	id := newRefundID()
	first := w.refund(reference, id)
	require.NoError(w.t, w.double.ForgetKeys(w.t.Context()))
	again := w.refund(reference, id)
	require.Equal(w.t, first, again)

	// A refund that the bank returned leaves a charge that could be refunded once more.
	_, reference = w.paid("refundFail")
	id = newRefundID()
	w.refund(reference, id)
	require.NoError(w.t, w.double.SettleRefunds(w.t.Context()))
	require.NoError(w.t, w.double.ForgetKeys(w.t.Context()))
	again = w.refund(reference, id)
	require.Equal(w.t, checkout.RefundFailed, again.Status)
	require.EqualValues(w.t, 0, w.refunded(reference))
}

func listsMovements(w *world) {
	since := time.Now().Add(-time.Minute)
	_, reference := w.paid("visa")
	w.refund(reference, newRefundID())
	seen := map[books.MovementKind]bool{}
	for m, err := range w.network.Movements(w.t.Context(), since, time.Now().Add(time.Minute)) {
		require.NoError(w.t, err)
		require.True(w.t, m.ID != "" && m.Currency != "" && m.Amount != 0, "%+v", m)
		seen[m.Kind] = true
	}
	require.True(w.t, seen[books.MovementCharge] && seen[books.MovementCustomer], "%v", seen)
}

func listsCharges(w *world) {
	since := time.Now().Add(-time.Minute)
	req, reference := w.paid("visa")
	_, untried := w.prepare("visa")
	found := false
	for got, err := range w.network.Succeeded(w.t.Context(), since, time.Now().Add(time.Minute)) {
		require.NoError(w.t, err)
		require.NotEqual(w.t, untried, got.Reference)
		if got.Reference != reference {
			continue
		}
		found = true
		require.WithinDuration(w.t, time.Now(), got.CreatedAt, time.Minute)
		require.Equal(w.t, req.TransactionID, got.TransactionID)
		require.Equal(w.t, req.SessionID, got.SessionID)
		require.Equal(w.t, money.Amount(1050), got.Amount)
		require.Equal(w.t, money.EUR, got.Currency)
		require.Zero(w.t, got.Refunded)
		require.NotNil(w.t, got.Cost)
		require.True(w.t, got.Cost.Currency != "" && got.Cost.Cost > 0 && got.Cost.Cost < got.Cost.Gross, "%+v", got.Cost)
		if got.Cost.Currency == money.EUR {
			require.Equal(w.t, money.Amount(1050), got.Cost.Gross)
		}
		require.True(w.t, got.Cost.AvailableAt.After(got.CreatedAt), "%v", got.Cost.AvailableAt)
		alone, err := w.network.Charged(w.t.Context(), reference)
		require.NoError(w.t, err)
		require.Equal(w.t, got, alone)
	}
	require.True(w.t, found)
	_, err := w.network.Charged(w.t.Context(), "pi_unknown")
	require.ErrorIs(w.t, err, checkout.ErrNotFound)
}
