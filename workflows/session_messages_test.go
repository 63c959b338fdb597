package workflows_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// An operator reset the run, which forgot that a card waits for 3-D Secure.
func TestCheckoutSession_AnExpireThatIsRefusedHasNoEffectLater(t *testing.T) {
	w := newRun(t)
	forgotten := w.payment(w.s.ID, card3DS)
	w.charge(w.s, forgotten)
	refused := update(w.env, time.Minute, contract.UpdateExpire, "e")
	paid := update(w.env, 30*time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: w.payment(w.s.ID, cardSucceeds)})
	require.Equal(t, checkout.StatusCompleted, runSession(t, w.env, w.in).Status)
	require.Equal(t, contract.ErrTypePaymentInFlight, errType(refused.err))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM transaction WHERE id = $1 AND status = 'failed'`, forgotten))
	require.NoError(t, paid.err, "the session is open once the forgotten payment has failed")
}

func TestCheckoutSession_AnExpireFindsASessionThatWasPaid(t *testing.T) {
	w := newRun(t)
	w.pay(w.s) // by a run that is lost
	refused := update(w.env, time.Minute, contract.UpdateExpire, "e")
	require.Equal(t, checkout.StatusCompleted, runSession(t, w.env, w.in).Status)
	require.Equal(t, contract.ErrTypeSessionNotPending, errType(refused.err))
}

func TestCheckoutSession_AnExpireOfASessionWithoutARowIsAnswered(t *testing.T) {
	w := newWorld(t)
	in := contract.CheckoutSessionInput{
		Ref:       w.owner().Ref(checkout.NewID(checkout.PrefixSession)),
		ExpiresAt: time.Now().Add(time.Hour), ActionTimeout: contract.ActionTimeout,
	}
	env := w.env(in.ID, time.Now())
	refused := update(env, time.Minute, contract.UpdateExpire, "e")
	require.Empty(t, runSession(t, env, in).Status)
	require.True(t, refused.done)
	require.Equal(t, contract.ErrTypeSessionNotPending, errType(refused.err))
}

// Messages that come while the card network is asked share the answer to the next question.
func TestCheckoutSession_ThoseWhoAskAtOnceShareAnAnswer(t *testing.T) {
	w := newRun(t)
	id := w.payment(w.s.ID, cardSlow)
	asked := 0
	before(w.env, w.payments.ConfirmPayment, func(context.Context) {
		if asked++; asked == 2 {
			bankDecides(checkout.OutcomeSucceeded, "")(w.world, id)
		}
	}).After(10 * time.Second)
	update(w.env, time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: id})
	first := update(w.env, 2*time.Minute, contract.UpdateComplete, "first", contract.CompleteInput{TransactionID: id})
	var later []*reply
	for i := range 5 {
		later = append(later, update(w.env, 2*time.Minute+time.Duration(i+1)*time.Second, contract.UpdateComplete, "c"+strconv.Itoa(i),
			contract.CompleteInput{TransactionID: id}))
	}
	require.Equal(t, checkout.StatusCompleted, runSession(t, w.env, w.in).Status)
	require.Equal(t, 2, asked)
	require.NoError(t, first.err)
	require.Equal(t, contract.PaymentResult{Outcome: checkout.OutcomeProcessing, Status: checkout.StatusPending}, first.result)
	for _, r := range later {
		require.NoError(t, r.err)
		require.Equal(t, contract.PaymentResult{Outcome: checkout.OutcomeSucceeded, Status: checkout.StatusCompleted}, r.result)
	}
}
