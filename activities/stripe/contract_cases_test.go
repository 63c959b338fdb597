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
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// contract is what the service relies on. Every part makes payments of its own.
var contract = map[string]func(*world){
	"a card is charged once": func(w *world) {
		req, reference := w.prepare("visa")
		require.Equal(w, 0, w.charges(reference), "prepare charges nothing")
		got := w.confirm(reference, 1, req)
		require.Equal(w, checkout.OutcomeSucceeded, got.Outcome)
		require.Equal(w, got, w.payment(reference))
		require.Equal(w, got, w.confirm(reference, 1, req), "a repeat charges nothing")
		require.Equal(w, got, w.confirm(reference, 2, req), "a new number charges nothing either")
		require.Equal(w, 1, w.charges(reference))
	},
	"many confirmations at once charge once": func(w *world) {
		req, reference := w.prepare("visa")
		var all sync.WaitGroup
		for number := range 8 {
			all.Go(func() {
				got, err := w.network.Confirm(w.Context(), reference, 1+number/2, req)
				if err == nil && got.Outcome != checkout.OutcomeSucceeded {
					w.Errorf("confirmation %d: %+v", number, got)
				}
			})
		}
		all.Wait()
		require.Equal(w, checkout.OutcomeSucceeded, w.payment(reference).Outcome)
		require.Equal(w, 1, w.charges(reference))
	},
	// The network itself would let a declined intent be paid with another card.
	"a declined card": func(w *world) {
		req, reference := w.prepare("visa_chargeDeclined")
		got := w.confirm(reference, 1, req)
		w.requireFailed(got, checkout.FailureCardDeclined)
		require.Equal(w, "0002", got.Method.Last4)
		require.Equal(w, got, w.payment(reference))
		req.Token = w.newRequest("visa").Token
		require.Equal(w, got, w.confirm(reference, 2, req))
		require.Equal(w, 0, w.charges(reference))
	},
	"a declined card is never charged after a cancel": func(w *world) {
		req, reference := w.prepare("visa_chargeDeclined")
		w.confirm(reference, 1, req)
		got := w.cancel(reference, checkout.FailureCardDeclined)
		w.requireFailed(got, checkout.FailureCardDeclined)
		require.Equal(w, "0002", got.Method.Last4, "what the merchant sees of the card stays")

		good := w.newRequest("visa")
		req.Token = good.Token
		require.Equal(w, checkout.OutcomeFailed, w.confirm(reference, 2, req).Outcome)
		w.requireDead(reference, w.newRequest("visa").Token)
	},
	"every failure has our code": func(w *world) {
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
			require.Equal(w, checkout.OutcomeFailed, got.Outcome, card)
			require.Equal(w, want, got.Failure, card)
			require.Equal(w, want, w.payment(reference).Failure, card)
			require.Equal(w, 0, w.charges(reference), card)
		}
	},
	"what may be shown of the card": func(w *world) {
		for card, want := range map[string]checkout.PaymentMethod{
			"visa":       {Type: "card", Brand: "visa", Last4: "4242", Country: "US"},
			"mastercard": {Type: "card", Brand: "mastercard", Last4: "4444", Country: "US"},
			"amex":       {Type: "card", Brand: "amex", Last4: "0005", Country: "US"},
			"jcb":        {Type: "card", Brand: "jcb", Last4: "0505", Country: "JP"},
		} {
			req, reference := w.prepare(card)
			got := w.confirm(reference, 1, req).Method
			require.NotZero(w, got.ExpMonth, card)
			require.GreaterOrEqual(w, got.ExpYear, time.Now().Year(), card)
			got.ExpMonth, got.ExpYear = 0, 0
			if w.double == nil {
				got.Last4, want.Last4 = "", "" // Stripe documents numbers for tests by hand only
			}
			require.Equal(w, want, got, card)
		}
	},
	// No repeat mends a token that was made up, so the customer must be able to go on.
	"a token that does not exist": func(w *world) {
		req, reference := w.prepare("visa")
		req.Token = "ctoken_thatNobodyMade"
		got := w.confirm(reference, 1, req)
		w.requireFailed(got, checkout.FailureProcessingError)
		require.Equal(w, checkout.OutcomeFailed, w.cancel(reference, got.Failure).Outcome)
		require.Equal(w, 0, w.charges(reference))
	},
	"a token that was used": func(w *world) {
		req, _ := w.paid("visa")
		other, second := w.prepare("visa")
		other.Token = req.Token
		got := w.confirm(second, 1, other)
		require.Equal(w, checkout.OutcomeFailed, got.Outcome)
		require.Equal(w, 0, w.charges(second))
	},
	"a canceled payment is never charged": func(w *world) {
		req, reference := w.prepare("visa")
		got := w.cancel(reference, checkout.FailureProcessingError)
		w.requireFailed(got, checkout.FailureProcessingError)
		require.Equal(w, checkout.OutcomeFailed, w.confirm(reference, 1, req).Outcome)
		w.requireDead(reference, req.Token)
	},
	"cancel after success says succeeded": func(w *world) {
		_, reference := w.paid("visa")
		require.Equal(w, checkout.OutcomeSucceeded, w.cancel(reference, checkout.FailureProcessingError).Outcome)
		require.Equal(w, 1, w.charges(reference))
	},
	"cancel twice": func(w *world) {
		_, reference := w.prepare("visa")
		first := w.cancel(reference, checkout.FailureThreeDSAbandoned)
		require.Equal(w, checkout.FailureThreeDSAbandoned, first.Failure)
		require.Equal(w, first, w.cancel(reference, checkout.FailureThreeDSAbandoned))
		require.Equal(w, checkout.FailureThreeDSAbandoned, w.payment(reference).Failure)
	},
	// The second reference is never confirmed, so it is worth nothing.
	"prepare twice": func(w *world) {
		w = w.alone()
		req, reference := w.prepare("visa")
		again := must.Get(w.network.Prepare(w.Context(), req))(w)
		require.Equal(w, reference, again, "within the memory of the network it is the same one")
		if w.double != nil {
			require.NoError(w, w.double.ForgetKeys(w.Context()))
			again = must.Get(w.network.Prepare(w.Context(), req))(w)
			require.NotEqual(w, reference, again)
			require.Equal(w, checkout.OutcomeUntried, w.payment(again).Outcome)
		}
		w.requireCharged(reference, 1, req)
		if again != reference {
			require.Equal(w, 0, w.charges(again))
		}
	},
	"an intent with other facts is not charged": func(w *world) {
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
			require.ErrorContains(w, must.Err(w.network.Confirm(w.Context(), reference, 1, changed)), what)
		}
		require.Equal(w, 0, w.charges(reference))

		foreign := must.Get(w.api.V1PaymentIntents.Create(w.Context(), &api.PaymentIntentCreateParams{
			Amount: api.Int64(1050), Currency: api.String("eur"), PaymentMethodTypes: []*string{api.String("card")},
			Metadata: map[string]string{"transaction_id": req.TransactionID, "session_id": req.SessionID},
		}))(w)
		require.ErrorContains(w, must.Err(w.network.Confirm(w.Context(), foreign.ID, 1, req)), "confirmation method is not manual")
		require.ErrorContains(w, must.Err(w.network.Payment(w.Context(), foreign.ID)), "confirmation method is not manual")
	},
	"an intent that nobody knows": func(w *world) {
		req := w.newRequest("visa")
		for _, reference := range []string{"pi_3NobodyMadeThisOne", "", "txn_1", "pi_1/confirm", "pi_1?expand=x"} {
			require.Error(w, must.Err(w.network.Confirm(w.Context(), reference, 1, req)), reference)
			require.Error(w, must.Err(w.network.Payment(w.Context(), reference)), reference)
			require.Error(w, must.Err(w.network.Cancel(w.Context(), reference, checkout.FailureProcessingError)), reference)
			refund := checkout.RefundRequest{ID: "re_1", Reference: reference, Amount: 1050}
			require.Error(w, must.Err(w.network.Refund(w.Context(), refund)), reference)
		}
	},
	"an amount below the network's minimum": func(w *world) {
		req := w.newRequest("visa")
		req.Amount = 10
		require.ErrorContains(w, must.Err(w.network.Prepare(w.Context(), req)), "amount_too_small")
	},
	// The client secret is in the address bar of a customer who returns from the bank, and the publishable key is in
	// every page. Both together must not confirm the payment.
	"a browser cannot confirm": func(w *world) {
		key := w.publishableKey()
		req, reference := w.prepare("visa")
		i := must.Get(w.api.V1PaymentIntents.Retrieve(w.Context(), reference, nil))(w)
		form := url.Values{
			"confirmation_token": {req.Token}, "client_secret": {i.ClientSecret}, "return_url": {"https://pay.example/"},
		}
		request := must.Get(http.NewRequestWithContext(w.Context(), http.MethodPost,
			w.address()+"/v1/payment_intents/"+reference+"/confirm", strings.NewReader(form.Encode())))(w)
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response := must.Get(http.DefaultClient.Do(request))(w)
		require.NoError(w, response.Body.Close())
		require.GreaterOrEqual(w, response.StatusCode, 400)
		require.Equal(w, checkout.OutcomeUntried, w.payment(reference).Outcome)
		require.Equal(w, 0, w.charges(reference))
	},
	"a refund is made once": func(w *world) {
		req, reference := w.paid("visa")
		id := newRefundID()
		first := w.refund(reference, id)
		require.Equal(w, checkout.RefundSucceeded, first.Status)
		require.NotEmpty(w, first.Reference)
		require.Equal(w, req.Amount, first.Amount)
		again := w.refund(reference, id)
		require.Equal(w, first, again)
		other := w.refund(reference, newRefundID())
		require.Equal(w, checkout.RefundResult{Status: checkout.RefundFailed, Why: "charge_already_refunded"}, other,
			"there is nothing left to give back")
		require.EqualValues(w, 1050, w.refunded(reference))
	},
	"a charge is refunded in parts": func(w *world) {
		_, reference := w.paid("visa")
		id := newRefundID()
		for range 2 { // the repeat gives nothing back
			got := w.refundPart(reference, id, 300)
			require.Equal(w, []any{checkout.RefundSucceeded, money.Amount(300)}, []any{got.Status, got.Amount})
		}
		require.Equal(w, money.Amount(700), w.refundPart(reference, newRefundID(), 700).Amount)
		require.EqualValues(w, 1000, w.refunded(reference))

		got := w.refundPart(reference, newRefundID(), 51)
		require.Equal(w, []any{checkout.RefundFailed, ""}, []any{got.Status, got.Reference}, "more than what is left")
		for _, amount := range []money.Amount{0, -1} {
			got := w.refundPart(reference, newRefundID(), amount)
			require.Equal(w, checkout.RefundResult{Status: checkout.RefundFailed, Why: "parameter_invalid_integer"}, got)
		}
		require.Equal(w, checkout.RefundSucceeded, w.refundPart(reference, newRefundID(), 50).Status)
		require.EqualValues(w, 1050, w.refunded(reference))

		var parts []int64
		params := &api.RefundListParams{PaymentIntent: api.String(reference)}
		for r, err := range w.api.V1Refunds.List(w.Context(), params).All(w.Context()) {
			require.NoError(w, err)
			require.Equal(w, api.RefundReasonRequestedByCustomer, r.Reason)
			parts = append(parts, r.Amount)
		}
		require.Equal(w, []int64{50, 700, 300}, parts)
	},
	// Each refund fits alone. One transaction of the network decides about each.
	"many refunds at once give back no more than the charge": func(w *world) {
		_, reference := w.paid("visa")
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				got, err := w.network.Refund(w.Context(), checkout.RefundRequest{ID: newRefundID(), Reference: reference, Amount: 400})
				if err == nil && got.Status == checkout.RefundPending {
					w.Errorf("refund: %+v", got)
				}
			})
		}
		all.Wait()
		require.EqualValues(w, 800, w.refunded(reference))
	},
	"a refund of nothing": func(w *world) {
		_, reference := w.prepare("visa")
		got := w.refund(reference, newRefundID())
		require.Equal(w, []any{checkout.RefundFailed, ""}, []any{got.Status, got.Reference})
	},
	"a disputed charge is not refunded": func(w *world) {
		w.needDouble() // at Stripe the dispute comes some seconds later
		_, reference := w.paid("createDispute")
		got := w.refund(reference, newRefundID())
		require.Equal(w, checkout.RefundResult{Status: checkout.RefundFailed, Why: "charge_disputed"}, got)
		require.EqualValues(w, 0, w.refunded(reference))
	},
	"a refund that waits": func(w *world) {
		for card, want := range map[string][2]checkout.RefundStatus{
			"pendingRefund": {checkout.RefundPending, checkout.RefundSucceeded},
			"refundFail":    {checkout.RefundSucceeded, checkout.RefundFailed},
		} {
			req, reference := w.paid(card)
			id := newRefundID()
			got := w.refund(reference, id)
			require.Equal(w, want[0], got.Status, card)
			if w.double == nil {
				continue // Stripe's own time
			}
			require.NoError(w, w.double.SettleRefunds(w.Context()))
			after := w.refund(reference, id)
			require.Equal(w, want[1], after.Status, card)
			require.Equal(w, []any{got.Reference, req.Amount}, []any{after.Reference, after.Amount}, card)
		}
	},
	"3-D Secure waits at the bank's page": func(w *world) {
		req, reference := w.prepare("threeDSecure2Required")
		got := w.confirm(reference, 1, req)
		require.Equal(w, checkout.OutcomeActionRequired, got.Outcome)
		require.True(w, strings.HasPrefix(got.ActionURL, "http"), got.ActionURL)
		require.True(w, got.Method.ThreeDSecure)
		require.Equal(w, got.Outcome, w.confirm(reference, 1, req).Outcome)
		require.Equal(w, got.Outcome, w.confirm(reference, 2, req).Outcome, "it does not go past the bank")
		require.Equal(w, 0, w.charges(reference))
	},
	"3-D Secure passed": func(w *world) {
		req, reference := w.prepare("threeDSecure2Required")
		page := w.confirm(reference, 1, req).ActionURL
		back := w.atBank(page, "confirm")
		require.True(w, strings.HasPrefix(back, req.ReturnURL+"?"), back)
		got := w.payment(reference)
		require.Equal(w, checkout.OutcomeAgreed, got.Outcome)
		require.Equal(w, 0, w.charges(reference), "the bank's page charges nothing")
		got = w.confirm(reference, 2, req)
		require.Equal(w, checkout.OutcomeSucceeded, got.Outcome)
		require.True(w, got.Method.ThreeDSecure)
		require.Equal(w, 1, w.charges(reference))
	},
	"3-D Secure failed": func(w *world) {
		req, reference := w.prepare("threeDSecure2Required")
		w.atBank(w.confirm(reference, 1, req).ActionURL, "refuse")
		got := w.payment(reference)
		w.requireFailed(got, checkout.FailureThreeDSFailed)
		require.True(w, got.Method.ThreeDSecure)
		require.Equal(w, checkout.FailureThreeDSFailed, w.cancel(reference, got.Failure).Failure)
		w.requireDead(reference, w.newRequest("visa").Token)
	},
	// The customer may finish at the bank after the cancel, and comes back then.
	"3-D Secure abandoned": func(w *world) {
		req, reference := w.prepare("threeDSecure2Required")
		page := w.confirm(reference, 1, req).ActionURL
		require.Equal(w, checkout.OutcomeActionRequired, w.payment(reference).Outcome)
		got := w.cancel(reference, checkout.FailureThreeDSAbandoned)
		require.Equal(w, checkout.FailureThreeDSAbandoned, got.Failure)
		w.requireDead(reference, w.newRequest("visa").Token)

		back := w.atBank(page, "confirm")
		require.True(w, strings.HasPrefix(back, req.ReturnURL+"?"), back)
		require.Equal(w, checkout.FailureThreeDSAbandoned, w.payment(reference).Failure)
		w.requireDead(reference, w.newRequest("visa").Token)
	},
	"3-D Secure passed and the card declined": func(w *world) {
		req, reference := w.prepare("threeDSecureRequiredChargeDeclined")
		w.atBank(w.confirm(reference, 1, req).ActionURL, "confirm")
		require.Equal(w, checkout.OutcomeAgreed, w.payment(reference).Outcome)
		got := w.confirm(reference, 2, req)
		w.requireFailed(got, checkout.FailureCardDeclined)
		require.Equal(w, 0, w.charges(reference))
	},
	"a lost answer of a confirmation": func(w *world) {
		req, reference := w.prepare("visa")
		w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: reference + "/confirm", Count: often})
		got := w.confirm(reference, 1, req)
		require.Equal(w, checkout.OutcomeSucceeded, got.Outcome, "the state is asked")

		req, reference = w.prepare("visa")
		w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: reference + "/confirm", Count: often})
		w.fault(acquirer.Fault{Kind: acquirer.FaultBroken, Match: "GET /v1/payment_intents/" + reference, Count: 1})
		require.Error(w, must.Err(w.network.Confirm(w.Context(), reference, 1, req)))
		require.Equal(w, checkout.OutcomeUntried, w.payment(reference).Outcome, "it was not sent")
		require.NoError(w, w.double.Plan(acquirer.Fault{
			Kind: acquirer.FaultSlow, Match: "GET /v1/payment_intents/" + reference, Count: 1, Delay: 50,
		}))
		w.requireCharged(reference, 2, req)
	},
	"a lost answer of prepare": func(w *world) {
		w.needDouble()
		w = w.alone()
		req := w.newRequest("visa")
		w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: "POST /v1/payment_intents", Count: often})
		require.Error(w, must.Err(w.network.Prepare(w.Context(), req)))
		w.double.Clear()
		reference := must.Get(w.network.Prepare(w.Context(), req))(w)
		facts := must.Get(w.double.Facts(w.Context()))(w)
		require.Equal(w, []acquirer.IntentFact{{
			ID: reference, TransactionID: req.TransactionID, Status: "requires_payment_method", Amount: 1050, Currency: "eur",
		}}, facts.Intents)
	},
	"a lost answer of cancel": func(w *world) {
		_, reference := w.prepare("visa")
		w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: reference + "/cancel", Count: often})
		require.Equal(w, checkout.OutcomeFailed, w.cancel(reference, checkout.FailureProcessingError).Outcome)
	},
	"a lost answer of refund": func(w *world) {
		w.needDouble()
		w = w.alone()
		_, reference := w.paid("visa")
		w.fault(acquirer.Fault{Kind: acquirer.FaultLost, Match: "POST /v1/refunds", Count: often})
		got := w.refund(reference, newRefundID())
		require.Equal(w, checkout.RefundSucceeded, got.Status)
		require.EqualValues(w, 1050, w.refunded(reference))
	},
	"a saved 500 before the charge": func(w *world) {
		req, reference := w.prepare("visa")
		w.fault(acquirer.Fault{Kind: acquirer.FaultBroken, Match: reference + "/confirm", Count: 1})
		for range 2 { // the second time nothing is broken any more, and the 500 comes from memory
			_, err := w.network.Confirm(w.Context(), reference, 1, req)
			require.ErrorContains(w, err, "the confirmation has not taken place")
			require.ErrorContains(w, err, "Stripe answered 500")
		}
		require.Equal(w, checkout.OutcomeUntried, w.payment(reference).Outcome)
		w.requireCharged(reference, 2, req)
	},
	"a saved 500 after the charge": func(w *world) {
		req, reference := w.prepare("visa")
		w.fault(acquirer.Fault{Kind: acquirer.FaultBroken, Match: reference + "/confirm", Count: 1, AfterEffect: true})
		w.requireCharged(reference, 1, req)
	},
	"a saved 500 after the bank's yes": func(w *world) {
		req, reference := w.prepare("threeDSecure2Required")
		w.needDouble()
		w.atBank(w.confirm(reference, 1, req).ActionURL, "confirm")
		w.fault(acquirer.Fault{Kind: acquirer.FaultBroken, Match: reference + "/confirm", Count: 1})
		require.ErrorContains(w, must.Err(w.network.Confirm(w.Context(), reference, 2, req)), "the confirmation has not taken place")
		require.Equal(w, checkout.OutcomeAgreed, w.payment(reference).Outcome)
		w.requireCharged(reference, 3, req)
	},
	"too many requests": func(w *world) {
		req, reference := w.prepare("visa")
		w.fault(acquirer.Fault{Kind: acquirer.FaultTooMany, Match: reference + "/confirm", Count: 1})
		require.ErrorContains(w, must.Err(w.network.Confirm(w.Context(), reference, 1, req)), "Stripe answered 429, code rate_limit, request req_")
		require.Equal(w, checkout.OutcomeSucceeded, w.confirm(reference, 2, req).Outcome)
	},
	"forgotten keys": func(w *world) {
		w.needDouble()
		w = w.alone()
		req, reference := w.prepare("visa")
		require.NoError(w, w.double.ForgetKeys(w.Context()))
		require.Equal(w, checkout.OutcomeSucceeded, w.confirm(reference, 1, req).Outcome)
		require.NoError(w, w.double.ForgetKeys(w.Context()))
		require.Equal(w, checkout.OutcomeSucceeded, w.confirm(reference, 1, req).Outcome)
		_, err := w.api.V1PaymentIntents.Confirm(w.Context(), reference, &api.PaymentIntentConfirmParams{
			ConfirmationToken: api.String(w.newRequest("visa").Token),
		})
		require.Error(w, err, "not the key but the state prevents a second charge")
		require.Equal(w, 1, w.charges(reference))
	},
	"forgotten keys of a refund": func(w *world) {
		w.needDouble()
		w = w.alone()
		_, reference := w.paid("visa")
		id := newRefundID()
		first := w.refund(reference, id)
		require.NoError(w, w.double.ForgetKeys(w.Context()))
		again := w.refund(reference, id)
		require.Equal(w, first, again)

		// A refund that the bank returned leaves a charge that could be refunded once more.
		_, reference = w.paid("refundFail")
		id = newRefundID()
		w.refund(reference, id)
		require.NoError(w, w.double.SettleRefunds(w.Context()))
		require.NoError(w, w.double.ForgetKeys(w.Context()))
		again = w.refund(reference, id)
		require.Equal(w, checkout.RefundFailed, again.Status)
		require.EqualValues(w, 0, w.refunded(reference))
	},
	"charges are listed": func(w *world) {
		since := time.Now().Add(-time.Minute)
		req, reference := w.paid("visa")
		_, untried := w.prepare("visa")
		found := false
		for got, err := range w.network.Succeeded(w.Context(), since, time.Now().Add(time.Minute)) {
			require.NoError(w, err)
			require.NotEqual(w, untried, got.Reference)
			if got.Reference != reference {
				continue
			}
			found = true
			require.WithinDuration(w, time.Now(), got.CreatedAt, time.Minute)
			require.Equal(w, req.TransactionID, got.TransactionID)
			require.Equal(w, req.SessionID, got.SessionID)
			require.Equal(w, money.Amount(1050), got.Amount)
			require.Equal(w, money.EUR, got.Currency)
			require.Zero(w, got.Refunded)
			require.NotNil(w, got.Cost)
			require.True(w, got.Cost.Currency != "" && got.Cost.Cost > 0 && got.Cost.Cost < got.Cost.Gross, "%+v", got.Cost)
			if got.Cost.Currency == money.EUR {
				require.Equal(w, money.Amount(1050), got.Cost.Gross)
			}
			require.True(w, got.Cost.AvailableAt.After(got.CreatedAt), "%v", got.Cost.AvailableAt)
			require.Equal(w, got, must.Get(w.network.Charged(w.Context(), reference))(w))
		}
		require.True(w, found)
		require.ErrorIs(w, must.Err(w.network.Charged(w.Context(), "pi_unknown")), checkout.ErrNotFound)
	},
	"movements of the balance are listed": func(w *world) {
		since := time.Now().Add(-time.Minute)
		_, reference := w.paid("visa")
		w.refund(reference, newRefundID())
		seen := map[books.MovementKind]bool{}
		for m, err := range w.network.Movements(w.Context(), since, time.Now().Add(time.Minute)) {
			require.NoError(w, err)
			require.True(w, m.ID != "" && m.Currency != "" && m.Amount != 0, "%+v", m)
			seen[m.Kind] = true
		}
		require.True(w, seen[books.MovementCharge] && seen[books.MovementCustomer], "%v", seen)
	},
}

func (w *world) requireFailed(got checkout.ChargeResult, why checkout.FailureCode) {
	require.Equal(w, []string{string(checkout.OutcomeFailed), string(why)}, []string{string(got.Outcome), string(got.Failure)})
}

// requireCharged confirms, and money is taken once.
func (w *world) requireCharged(reference string, number int, req checkout.ChargeRequest) {
	require.Equal(w, checkout.OutcomeSucceeded, w.confirm(reference, number, req).Outcome)
	require.Equal(w, 1, w.charges(reference))
}

// requireDead tries to charge a canceled intent past the adapter.
func (w *world) requireDead(reference, token string) {
	_, err := w.api.V1PaymentIntents.Confirm(w.Context(), reference, &api.PaymentIntentConfirmParams{
		ConfirmationToken: api.String(token), ReturnURL: api.String("https://pay.example/"),
	})
	require.Error(w, err)
	require.Equal(w, 0, w.charges(reference))
	require.Equal(w, checkout.OutcomeFailed, w.payment(reference).Outcome)
}

// refunded returns how much of the intent's charges went back, in minor units.
func (w *world) refunded(reference string) int64 {
	var sum int64
	params := &api.ChargeListParams{PaymentIntent: api.String(reference)}
	for charge, err := range w.api.V1Charges.List(w.Context(), params).All(w.Context()) {
		require.NoError(w, err)
		sum += charge.AmountRefunded
	}
	return sum
}

func newRefundID() string { return "re_" + checkout.NewID(checkout.PrefixTransaction) }

// often is more than Go's HTTP client silently repeats when a connection breaks.
const often = 50

// alone returns a double for one part of the contract, because some faults hit every request. Stripe stays shared.
func (w *world) alone() *world {
	if w.double == nil {
		return w
	}
	return newDouble(w.T)
}

// fault plans a fault for this intent alone. The other parts of the contract run at the same time.
func (w *world) fault(f acquirer.Fault) {
	w.needDouble()
	require.NoError(w, w.double.Plan(f))
}
