package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/money"
)

// Whatever goes wrong while a payment is in flight, the run goes on with it until it is decided.
func TestCheckoutSession_NoErrorLeavesAPaymentThatNobodyFollows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		card   string
		breaks func(*testsuite.TestWorkflowEnvironment, *world)
		want   checkout.Status
	}{
		"the decision is refused, for another run made it": {cardSucceeds, finishing(func(w *world, in activities.PaymentInput) error {
			must.Get(w.payments.FinishPayment(context.Background(), in))(w.t)
			return final(contract.ErrTypeSessionNotPending)
		}), checkout.StatusCompleted},
		"the decision finds no session": {cardSucceeds, finishing(func(*world, activities.PaymentInput) error {
			return final(contract.ErrTypeSessionNotFound)
		}), checkout.StatusCompleted},
		"the answer is lost before the decision": {cardSucceeds, finishing(func(w *world, _ activities.PaymentInput) error {
			w.Exec(w.t, `UPDATE transaction SET outcome = 'processing'`)
			return nil
		}), checkout.StatusCompleted},
		"the decision fails":                         {cardSucceeds, finishing(func(*world, activities.PaymentInput) error { return final("Anything") }), checkout.StatusCompleted},
		"an operator fails the giving up":            {card3DS, givingUp(final("Anything"), activities.PaymentAnswer{}), checkout.StatusExpired},
		"the network does not give up":               {card3DS, givingUp(nil, activities.PaymentAnswer{Outcome: checkout.OutcomeProcessing}), checkout.StatusExpired},
		"the network knows no payment that it asked": {card3DS, forgetful, checkout.StatusExpired},
	} {
		for way, start := range map[string]func(*testsuite.TestWorkflowEnvironment, *contract.CheckoutSessionInput, string){
			"paid": func(env *testsuite.TestWorkflowEnvironment, _ *contract.CheckoutSessionInput, id string) {
				update(env, time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: id})
			},
			"adopted": func(_ *testsuite.TestWorkflowEnvironment, in *contract.CheckoutSessionInput, id string) {
				in.PaymentID = id
			},
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				w := newRun(t)
				id := w.payment(w.s.ID, c.card)
				if start(w.env, &w.in, id); w.in.PaymentID != "" {
					w.charge(w.s, id)
				}
				c.breaks(w.env, w.world)
				require.Equal(t, c.want, runSession(t, w.env, w.in).Status)
				require.Less(t, w.env.Now().Sub(w.s.CreatedAt), 2*time.Hour)
				require.Equal(t, c.want, w.read(w.s.ID).Status)
				require.Zero(t, w.count(`SELECT count(*) FROM transaction WHERE status = 'processing'`))
				require.Equal(t, 1, w.count(`SELECT count(*) FROM event WHERE type LIKE 'checkout.%'`))
			})
		}
	}
}

func final(errType string) error {
	return temporal.NewNonRetryableApplicationError("broken", errType, nil)
}

// charge begins a payment and charges its card, as a run that is gone has done.
func (w *world) charge(s checkout.Session, id string) {
	w.begin(s, id)
	c := must.Get(w.Sessions.Charge(w.t.Context(), s.Ref, id))(w.t)
	must.Get(w.cards.Confirm(w.t.Context(), id, 1, c.ChargeRequest))(w.t)
}

func (w *world) begin(s checkout.Session, id string) {
	must.Get(w.Sessions.BeginPayment(w.t.Context(), s.Ref, id, checkout.Quote{Rate: money.MustRate("1.08")}, id))(w.t)
}

// finishing lets the first FinishPayment fail; without an error it goes on.
func finishing(first func(*world, activities.PaymentInput) error) func(*testsuite.TestWorkflowEnvironment, *world) {
	return func(env *testsuite.TestWorkflowEnvironment, w *world) {
		times := 0
		env.OnActivity(w.payments.FinishPayment, mock.Anything, mock.Anything).Return(
			func(ctx context.Context, in activities.PaymentInput) (activities.FollowUp, error) {
				if times++; times == 1 {
					if err := first(w, in); err != nil {
						return activities.FollowUp{}, err
					}
				}
				return w.payments.FinishPayment(ctx, in)
			})
	}
}

// givingUp answers the first CancelPayment.
func givingUp(err error, answer activities.PaymentAnswer) func(*testsuite.TestWorkflowEnvironment, *world) {
	return func(env *testsuite.TestWorkflowEnvironment, w *world) {
		times := 0
		env.OnActivity(w.payments.CancelPayment, mock.Anything, mock.Anything).Return(
			func(ctx context.Context, in activities.PaymentInput) (activities.PaymentAnswer, error) {
				if times++; times == 1 {
					return answer, err
				}
				return w.payments.CancelPayment(ctx, in)
			})
	}
}

func forgetful(_ *testsuite.TestWorkflowEnvironment, w *world) {
	w.payments.Test.Cards[checkout.AcquirerSandbox] = &forgetfulNetwork{CardNetwork: w.cards}
}

// forgetfulNetwork does not know the payment that is given up, at first.
type forgetfulNetwork struct {
	checkout.CardNetwork
	asked int
}

func (n *forgetfulNetwork) Cancel(ctx context.Context, id string, reason checkout.FailureCode) (checkout.ChargeResult, error) {
	if n.asked++; n.asked <= 2 {
		return checkout.ChargeResult{}, checkout.ErrNotFound
	}
	return n.CardNetwork.Cancel(ctx, id, reason)
}

// The timer is Temporal's, and so is its clock; the session's time is PostgreSQL's.
func TestCheckoutSession_AClockOfTemporalsThatIsAheadEndsNoSessionEarly(t *testing.T) {
	t.Parallel()
	const ahead = 10 * time.Second
	for name, c := range map[string]struct {
		do   func(env *testsuite.TestWorkflowEnvironment, transactionID string)
		want checkout.Status
		ends time.Duration // by Temporal's clock
	}{
		"nobody pays": {func(*testsuite.TestWorkflowEnvironment, string) {}, checkout.StatusExpired, time.Hour + ahead},
		"the customer pays in the last seconds": {func(env *testsuite.TestWorkflowEnvironment, id string) {
			update(env, time.Hour+5*time.Second, contract.UpdatePay, "p", contract.PayInput{TransactionID: id})
		}, checkout.StatusCompleted, time.Hour + 5*time.Second},
		"the merchant expires it in the last seconds": {func(env *testsuite.TestWorkflowEnvironment, _ string) {
			update(env, time.Hour+5*time.Second, contract.UpdateExpire, "e")
		}, checkout.StatusExpired, time.Hour + 5*time.Second},
		"the merchant expires it as the timer fires": {func(env *testsuite.TestWorkflowEnvironment, _ string) {
			update(env, time.Hour, contract.UpdateExpire, "e")
		}, checkout.StatusExpired, time.Hour},
		"the test clock reaches its end in the last seconds": {func(env *testsuite.TestWorkflowEnvironment, _ string) {
			update(env, time.Hour+5*time.Second, contract.UpdateAdvance, "a")
		}, checkout.StatusExpired, time.Hour + 5*time.Second},
		"an operator cancels it in the last seconds": {func(env *testsuite.TestWorkflowEnvironment, _ string) {
			env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour+5*time.Second)
		}, checkout.StatusExpired, time.Hour + 5*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRun(t)
			w.payments.Now = func() time.Time { return w.env.Now().Add(-ahead) }
			c.do(w.env, w.payment(w.s.ID, cardSucceeds))
			require.Equal(t, c.want, runSession(t, w.env, w.in).Status)
			require.Equal(t, c.want, w.read(w.s.ID).Status)
			require.Equal(t, c.ends, w.env.Now().Sub(w.s.CreatedAt).Round(time.Second))
		})
	}
}
