package workflows_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/activities/sandbox"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

func startOptions(id string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: id, TaskQueue: contract.TaskQueueCheckout}
}

// runSession runs the session's workflow to its end and returns its result.
func runSession(t *testing.T, env *testsuite.TestWorkflowEnvironment, in contract.CheckoutSessionInput) contract.CheckoutSessionResult {
	return execute[contract.CheckoutSessionResult](t, env, contract.TypeCheckoutSession, in)
}

func errType(err error) string {
	var failure *temporal.ApplicationError
	if errors.As(err, &failure) {
		return failure.Type()
	}
	return ""
}

func TestCheckoutSession_ExpiresAtItsAbsoluteTime(t *testing.T) {
	w := newWorld(t)
	s, in := w.session()
	late := s.CreatedAt.Add(20 * time.Minute) // no worker was there before
	env := w.env(s.ID, late)
	got := runSession(t, env, in)
	require.Equal(t, checkout.StatusExpired, got.Status)
	require.Equal(t, 40*time.Minute, env.Now().Sub(late).Round(time.Second))
	require.Equal(t, checkout.StatusExpired, w.read(s.ID).Status)
	require.Empty(t, w.receiver.types(), "expiry has no event")
}

// children notes the types of the children that start.
func children(env *testsuite.TestWorkflowEnvironment) *[]string {
	var started []string
	env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		started = append(started, info.WorkflowType.Name)
	})
	return &started
}

// payoutCutShort returns a function that reports whether the payout's try took longer than its second, as it may on a
// busy machine: a Payout then goes on.
func payoutCutShort(w *run) func() bool {
	var try context.Context
	before(w.env, w.payments.SendSandboxPayout, func(ctx context.Context) { try = ctx })
	return func() bool { return try != nil && errors.Is(try.Err(), context.DeadlineExceeded) }
}

// What the network does not take at once, a Payout follows to its end.
func TestCheckoutSession_APayoutThatIsNotTakenAtOnceGetsARun(t *testing.T) {
	w := newRun(t)
	w.endpoint(webhook.CheckoutCompleted, webhook.PayoutSent)
	chain, tries := &sandbox.Payouts{Sandbox: w.Store.Sandbox}, atomic.Int32{} // a try that is over may still run
	w.payments.Test.Chains[checkout.ChainSandbox] = activities.PayoutRoute{Rates: sandbox.Rates{}, Payouts: sends(
		func(ctx context.Context, p storage.PayoutToSend) (treasury.TransferOutcome, error) {
			try := tries.Add(1)
			if try == 1 {
				<-ctx.Done()
			}
			if try <= 3 {
				return treasury.TransferOutcome{}, context.DeadlineExceeded
			}
			return chain.Transfer(ctx, p)
		})}
	started := children(w.env)
	paid := update(w.env, time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: w.payment(w.s.ID, cardSucceeds)})
	require.Equal(t, checkout.StatusCompleted, runSession(t, w.env, w.in).Status)
	require.NoError(t, paid.err)
	require.Equal(t, checkout.OutcomeSucceeded, paid.result.(contract.PaymentResult).Outcome, "the customer has the answer")
	require.Equal(t, checkout.PayoutSent, w.read(w.s.ID).Payout.Status)
	require.Equal(t, []string{contract.TypeWebhookDelivery, contract.TypePayout, contract.TypeWebhookDelivery}, *started)
	require.EqualValues(t, 4, tries.Load(), "once by the session, the others by the Payout")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM sandbox_transfer`))
	require.ElementsMatch(t, []string{"checkout.completed", "payout.sent"}, w.receiver.types(), "in any order")
}

// sends is a sender of payouts.
type sends func(context.Context, storage.PayoutToSend) (treasury.TransferOutcome, error)

func (s sends) Transfer(ctx context.Context, p storage.PayoutToSend) (treasury.TransferOutcome, error) {
	return s(ctx, p)
}

func TestPayout_SendsAndTells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		card    string
		want    checkout.PayoutStatus
		event   string
		failure checkout.PayoutFailure
	}{
		"sent":          {cardSucceeds, checkout.PayoutSent, "payout.sent", ""},
		"network error": {cardPayoutBroken, checkout.PayoutFailed, "payout.failed", checkout.PayoutNetworkError},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.endpoint(webhook.PayoutSent, webhook.PayoutFailed)
			payoutID := w.completed(c.card)
			env := w.env(payoutID, time.Now())
			got := execute[contract.PayoutResult](t, env, contract.TypePayout, w.owner().Ref(payoutID))
			require.Equal(t, c.failure, got.Failure)
			require.Equal(t, []string{c.event}, w.receiver.types())
			require.Equal(t, 1, w.count(`SELECT count(*) FROM payout WHERE status = $1`, c.want))
		})
	}
}

func TestPayout_WithoutARowFails(t *testing.T) {
	w := newWorld(t)
	env := w.env("po_forged", time.Now())
	env.ExecuteWorkflow(contract.TypePayout, w.owner().Ref("po_forged"))
	require.Equal(t, contract.ErrTypePayoutWithoutRow, errType(env.GetWorkflowError()))
}

// completed brings a session to completed without a workflow and returns its payout's id.
func (w *world) completed(card string) string {
	s, _ := w.session()
	return w.pay(s, card)
}

// pay charges the card and decides the payment without a workflow.
func (w *world) pay(s checkout.Session, card ...string) string {
	in := activities.PaymentInput{Ref: s.Ref, TransactionID: w.payment(s.ID, append(card, cardSucceeds)[0])}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet)
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(w.payments)
	must.Get(env.ExecuteActivity(w.payments.ChargeCard, in))(w.t)
	return must.Get(w.payments.FinishPayment(w.t.Context(), in))(w.t).PayoutID
}

func TestCheckoutSession_ADeclineLeavesItPendingUntilTheThird(t *testing.T) {
	w := newRun(t)
	var replies []*reply
	for i := range 4 {
		replies = append(replies, update(w.env, time.Duration(i+1)*time.Minute, contract.UpdatePay, fmt.Sprint(i),
			contract.PayInput{TransactionID: w.payment(w.s.ID, cardDeclined)}))
	}
	got := runSession(t, w.env, w.in)
	require.Equal(t, checkout.StatusFailed, got.Status)
	for i, want := range []checkout.Status{checkout.StatusPending, checkout.StatusPending, checkout.StatusFailed} {
		require.NoError(t, replies[i].err)
		require.Equal(t, contract.PaymentResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined, Status: want}, replies[i].result)
	}
	require.False(t, replies[3].accepted)
	require.Equal(t, 3, w.count(`SELECT count(*) FROM event WHERE type = 'checkout.failed'`))
}

// Each payment is made after a minute.
func TestCheckoutSession_EndsByItsPayment(t *testing.T) {
	t.Parallel()
	nothing := func(*run, string) {}
	complete := func(w *run, id string) {
		update(w.env, 3*time.Minute, contract.UpdateComplete, "c", contract.CompleteInput{TransactionID: id})
	}
	signal := func(w *run, id string) {
		w.after(3*time.Minute, func() { w.env.SignalWorkflow(contract.SignalComplete, contract.CompleteInput{TransactionID: id}) })
	}
	bank := func(outcome checkout.PaymentOutcome, failure checkout.FailureCode, then func(*run, string)) func(*run, string) {
		return func(w *run, id string) {
			w.after(2*time.Minute, func() { bankDecides(outcome, failure)(w.world, id) })
			then(w, id)
		}
	}
	for name, c := range map[string]struct {
		card  string
		steer func(w *run, id string)
		want  checkout.Status
		rows  map[string]int // by their table and condition
	}{
		"blocked as fraud":                         {cardFraud, nothing, checkout.StatusFailed, nil},
		"3-D Secure passed":                        {card3DS, bank(checkout.OutcomeSucceeded, "", complete), checkout.StatusCompleted, nil},
		"3-D Secure passed, by a signal":           {card3DS, bank(checkout.OutcomeSucceeded, "", signal), checkout.StatusCompleted, nil},
		"3-D Secure failed":                        {card3DS, bank(checkout.OutcomeFailed, checkout.FailureThreeDSFailed, complete), checkout.StatusExpired, failed("three_ds_failed")},
		"3-D Secure: a signal alone moves nothing": {card3DS, signal, checkout.StatusExpired, failed("three_ds_abandoned")},
		"3-D Secure abandoned":                     {card3DS, nothing, checkout.StatusExpired, failed("three_ds_abandoned")},
		"its first answer is lost": {cardLostAnswer, nothing, checkout.StatusCompleted, map[string]int{
			"sandbox_charge": 1, "sandbox_charge WHERE calls = 1": 1, // the repeat asks before it charges
		}},
		// The worker may die after the charge and before it is noted. The rate was stored before the charge.
		"the note of its charge is lost": {cardSucceeds, func(w *run, _ string) {
			w.refuse("UPDATE OF outcome ON transaction")
			w.after(5*time.Minute, func() { w.Exec(w.t, `DROP TRIGGER away ON transaction`) })
		}, checkout.StatusCompleted, map[string]int{"payout WHERE exchange_rate = '1.08'": 1}},
		"the network calls back five times": {cardSlow, func(w *run, id string) {
			w.after(2*time.Minute, func() {
				bankDecides(checkout.OutcomeSucceeded, "")(w.world, id)
				for range 5 {
					w.env.SignalWorkflow(contract.SignalComplete, contract.CompleteInput{TransactionID: id})
				}
			})
		}, checkout.StatusCompleted, map[string]int{"event WHERE type = 'checkout.completed'": 1}},
		"canceled during its charge": {cardSucceeds, func(w *run, _ string) {
			w.slowCharge(w.env, 10*time.Second)
			w.after(65*time.Second, w.env.CancelWorkflow)
		}, checkout.StatusCompleted, nil},
		"the network never answers": {cardSucceeds, func(w *run, _ string) {
			w.payments.Test.Cards[checkout.AcquirerSandbox] = deafNetwork{w.cards}
		}, checkout.StatusExpired, map[string]int{
			"transaction WHERE failure = 'processing_error'": 1, "sandbox_charge WHERE outcome = 'succeeded'": 0, // nor can it be charged later
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRun(t)
			id := w.payment(w.s.ID, c.card)
			pay := update(w.env, time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: id})
			c.steer(w, id)
			require.Equal(t, c.want, runSession(t, w.env, w.in).Status)
			require.Equal(t, c.card == card3DS, pay.result.(contract.PaymentResult).Outcome == checkout.OutcomeActionRequired)
			for rows, n := range c.rows {
				require.Equal(t, n, w.count(`SELECT count(*) FROM `+rows), rows)
			}
		})
	}
}

// failed are the rows of a payment that failed.
func failed(failure string) map[string]int {
	return map[string]int{
		"transaction WHERE status = 'failed' AND failure = '" + failure + "'": 1, "event WHERE type = 'checkout.failed'": 1,
	}
}

// deafNetwork never answers a charge.
type deafNetwork struct{ checkout.CardNetwork }

func (deafNetwork) Confirm(context.Context, string, int, checkout.ChargeRequest) (checkout.ChargeResult, error) {
	return checkout.ChargeResult{}, context.DeadlineExceeded
}

// A run that was terminated while a payment was in flight is started again, and
// asks what became of it: long before the session's time is over.
func TestCheckoutSession_FollowsThePaymentOfALostRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		card    string // "": the run was lost before the charge
		bank    func(w *world, transactionID string)
		failure string // "": it was paid; else the customer pays again
	}{
		"paid":                         {cardSucceeds, nil, ""},
		"confirmed before the new run": {card3DS, bankDecides(checkout.OutcomeSucceeded, ""), ""},
		"declined":                     {cardDeclined, nil, "card_declined"},
		"abandoned":                    {card3DS, nil, "three_ds_abandoned"},
		"never told to the network":    {"", nil, "processing_error"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRun(t)
			w.in.PaymentID = w.payment(w.s.ID, cmp.Or(c.card, cardSucceeds))
			if c.card != "" {
				w.charge(w.s, w.in.PaymentID)
			} else {
				w.begin(w.s, w.in.PaymentID)
			}
			if c.bank != nil {
				c.bank(w.world, w.in.PaymentID)
			}
			paidBy := w.in.PaymentID
			if c.failure != "" {
				paidBy = w.payment(w.s.ID, cardSucceeds)
				update(w.env, 40*time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: paidBy})
			}
			require.Equal(t, checkout.StatusCompleted, runSession(t, w.env, w.in).Status)
			require.True(t, w.env.Now().Before(w.s.ExpiresAt))
			require.Equal(t, 1, w.count(`SELECT count(*) FROM payout WHERE transaction_id = $1`, paidBy))
			failed := w.count(`SELECT count(*) FROM transaction WHERE id = $1 AND failure = $2 AND status = 'failed'`, w.in.PaymentID, c.failure)
			require.Equal(t, c.failure != "", failed == 1)
		})
	}
}

func bankDecides(outcome checkout.PaymentOutcome, failure checkout.FailureCode) func(*world, string) {
	return func(w *world, transactionID string) {
		must.Get(w.Sandbox.DecideSandboxCharge(context.Background(), transactionID, outcome, failure))(w.t)
	}
}

func TestCheckoutSession_AnyNumberOfSignalsAsksTheNetworkAFewTimes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		apart time.Duration // between the signals
		most  int
	}{
		"at once":         {0, 2}, // the one under way, and one for those that came meanwhile
		"one after other": {2 * time.Second, 20},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRun(t)
			id := w.payment(w.s.ID, card3DS)
			asked := 0
			before(w.env, w.payments.ConfirmPayment, func(context.Context) { asked++ })
			update(w.env, time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: id})
			for i := range 50 {
				w.env.RegisterDelayedCallback(func() {
					w.env.SignalWorkflow(contract.SignalComplete, contract.CompleteInput{TransactionID: id})
				}, 2*time.Minute+time.Duration(i)*c.apart)
			}
			last := update(w.env, 5*time.Minute, contract.UpdateComplete, "c", contract.CompleteInput{TransactionID: id})
			require.Equal(t, checkout.StatusExpired, runSession(t, w.env, w.in).Status, "the payment's deadline decides it")
			require.LessOrEqual(t, asked, c.most+1)
			require.Equal(t, c.most < 20, last.accepted, "what changes nothing is refused before it leaves a trace")
		})
	}
}

func TestCheckoutSession_APaymentInFlightHoldsExpiryBack(t *testing.T) {
	w := newRun(t)
	id := w.payment(w.s.ID, card3DS)
	update(w.env, time.Hour-time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: id})
	refused := update(w.env, time.Hour-time.Second, contract.UpdateExpire, "e")
	w.env.RegisterDelayedCallback(func() { bankDecides(checkout.OutcomeSucceeded, "")(w.world, id) }, time.Hour+time.Minute)
	update(w.env, time.Hour+2*time.Minute, contract.UpdateComplete, "c", contract.CompleteInput{TransactionID: id})
	require.Equal(t, checkout.StatusCompleted, runSession(t, w.env, w.in).Status)
	require.Equal(t, contract.ErrTypePaymentInFlight, errType(refused.err))
}

func TestCheckoutSession_TheTestClockReachesTheExpiry(t *testing.T) {
	w := newRun(t)
	advanced := update(w.env, time.Minute, contract.UpdateAdvance, "a")
	require.Equal(t, checkout.StatusExpired, runSession(t, w.env, w.in).Status)
	require.Equal(t, time.Minute, w.env.Now().Sub(w.s.CreatedAt).Round(time.Second))
	require.NoError(t, advanced.err)
	require.Equal(t, contract.SessionState{Status: checkout.StatusExpired}, advanced.result)
	require.Equal(t, checkout.StatusExpired, w.read(w.s.ID).Status)
}

func TestCheckoutSession_APaymentInFlightHoldsTheTestClockBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		outcome checkout.PaymentOutcome
		failure checkout.FailureCode
		want    checkout.Status
	}{
		"paid":     {checkout.OutcomeSucceeded, "", checkout.StatusCompleted},
		"declined": {checkout.OutcomeFailed, checkout.FailureCardDeclined, checkout.StatusExpired}, // no further try
	} {
		t.Run(name, func(t *testing.T) {
			w := newRun(t)
			id := w.payment(w.s.ID, card3DS)
			update(w.env, time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: id})
			advanced := update(w.env, 2*time.Minute, contract.UpdateAdvance, "a")
			w.env.RegisterDelayedCallback(func() {
				require.True(t, advanced.done, "nobody waits for the customer's bank")
				bankDecides(tc.outcome, tc.failure)(w.world, id)
			}, 3*time.Minute)
			update(w.env, 3*time.Minute, contract.UpdateComplete, "c", contract.CompleteInput{TransactionID: id})
			require.Equal(t, tc.want, runSession(t, w.env, w.in).Status)
			require.Equal(t, contract.SessionState{Status: checkout.StatusPending, PaymentInFlight: true}, advanced.result)
			require.Equal(t, 3*time.Minute, w.env.Now().Sub(w.s.CreatedAt).Round(time.Minute))
		})
	}
}

func TestCheckoutSession_MalformedAndUnknownMessagesChangeNothing(t *testing.T) {
	w := newRun(t)
	w.env.RegisterDelayedCallback(func() {
		w.env.SignalWorkflow(contract.SignalComplete, 42)
		w.env.SignalWorkflow(contract.SignalComplete, contract.CompleteInput{TransactionID: "txn_forged"})
		w.env.SignalWorkflow("unknown", "x")
	}, time.Minute)
	var forged []*reply
	for i, id := range []string{"", "txn_forged", "\x00", "' or 1=1", checkout.NewID(checkout.PrefixTransaction), w.s.ID} {
		forged = append(forged, update(w.env, 2*time.Minute+time.Duration(i)*time.Second, contract.UpdatePay, "p"+id, contract.PayInput{TransactionID: id}))
	}
	got := runSession(t, w.env, w.in)
	require.Equal(t, checkout.StatusExpired, got.Status)
	for _, f := range forged {
		require.Equal(t, contract.ErrTypePaymentNotFound, errType(f.err))
	}
	require.Equal(t, time.Hour, w.env.Now().Sub(w.s.CreatedAt).Round(time.Second))
}

func TestCheckoutSession_AnOperatorsSignalOrCancelExpiresIt(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(env *testsuite.TestWorkflowEnvironment){
		"signal":            func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(contract.SignalExpire, nil) },
		"signal, malformed": func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(contract.SignalExpire, "now!") },
		"cancel":            func(env *testsuite.TestWorkflowEnvironment) { env.CancelWorkflow() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newRun(t)
			w.env.RegisterDelayedCallback(func() { act(w.env) }, time.Minute)
			require.Equal(t, checkout.StatusExpired, runSession(t, w.env, w.in).Status)
			require.Equal(t, time.Minute, w.env.Now().Sub(w.s.CreatedAt).Round(time.Second))
			require.Equal(t, checkout.StatusExpired, w.read(w.s.ID).Status)
		})
	}
}

func TestCheckoutSession_AResetRunSettlesThePaymentItDoesNotKnow(t *testing.T) {
	w := newRun(t)
	// The earlier run charged a card that waits for 3-D Secure; this one begins anew.
	unknown := w.payment(w.s.ID, card3DS)
	other := w.payment(w.s.ID, cardSucceeds)
	w.charge(w.s, unknown)

	refused := update(w.env, time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: other})
	w.env.RegisterDelayedCallback(func() {
		require.Equal(t, 1, w.count(`SELECT count(*) FROM transaction WHERE id = $1 AND failure = 'three_ds_abandoned'`, unknown), "the customer may pay again")
	}, 15*time.Minute)
	require.Equal(t, checkout.StatusExpired, runSession(t, w.env, w.in).Status)
	require.Equal(t, contract.ErrTypePaymentInFlight, errType(refused.err))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM event WHERE type = 'checkout.failed'`))
	require.Equal(t, 0, w.count(`SELECT count(*) FROM sandbox_charge WHERE outcome = 'succeeded'`))
}

// A decision may come while the children of an earlier one start, which takes
// long when Temporal is busy: the run must not end with it.
func TestCheckoutSession_StartsEverythingThatWasDecidedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]struct {
		do     func(*testsuite.TestWorkflowEnvironment, *world, string)
		status checkout.Status
		starts []string
	}{
		"paid": {func(env *testsuite.TestWorkflowEnvironment, w *world, id string) {
			update(env, 70*time.Second, contract.UpdatePay, "second", contract.PayInput{TransactionID: w.payment(id, cardSucceeds)})
		}, checkout.StatusCompleted, []string{contract.TypeWebhookDelivery, contract.TypeWebhookDelivery}},
		"expired": {func(env *testsuite.TestWorkflowEnvironment, _ *world, _ string) {
			update(env, 70*time.Second, contract.UpdateExpire, "expire")
		}, checkout.StatusExpired, []string{contract.TypeWebhookDelivery}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRun(t)
			w.endpoint(webhook.CheckoutFailed, webhook.CheckoutCompleted)
			started, late := children(w.env), payoutCutShort(w)
			w.env.OnWorkflow(contract.TypeWebhookDelivery, mock.Anything, mock.Anything).After(time.Minute).Return(nil, nil) // a start takes a minute
			var shown []string
			w.env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
				status, _ := args.Get(0).(temporal.SearchAttributes).GetKeyword(contract.SearchAttributeSessionStatus)
				shown = append(shown, status)
			}).Return(nil)
			update(w.env, time.Minute, contract.UpdatePay, "first", contract.PayInput{TransactionID: w.payment(w.s.ID, cardDeclined)})
			ends.do(w.env, w.world, w.s.ID)
			require.Equal(t, ends.status, runSession(t, w.env, w.in).Status)
			if !late() {
				require.Equal(t, ends.starts, *started)
			}
			require.Equal(t, []string{string(ends.status)}, shown)
		})
	}
}

// A creation that was rolled back comes again with the same id and a later time.
// The run of the first try may be writing its expiry just then.
func TestCheckoutSession_ARunOfAnEarlierTryDoesNotEndTheSession(t *testing.T) {
	w := newRun(t)
	w.in.ExpiresAt = w.s.ExpiresAt.Add(-30 * time.Minute)
	require.Empty(t, runSession(t, w.env, w.in).Status)
	require.Equal(t, checkout.StatusPending, w.read(w.s.ID).Status)
}

// The SDK gives a local activity up after its start-to-close time-out, with all of its attempts, unless it is told
// otherwise: ten seconds without PostgreSQL left cards charged and sessions pending for ever.
func TestCheckoutSession_DecisionsAreNotGivenUpWhilePostgresIsAway(t *testing.T) {
	w := newRun(t)
	var patience []time.Duration
	note := func(ctx context.Context) { patience = append(patience, activity.GetInfo(ctx).ScheduleToCloseTimeout) }
	before(w.env, w.payments.FinishPayment, note)
	before(w.env, w.payments.ExpireSession, note)
	update(w.env, time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: w.payment(w.s.ID, cardDeclined)})
	require.Equal(t, checkout.StatusExpired, runSession(t, w.env, w.in).Status)
	require.Len(t, patience, 2)
	for _, p := range patience {
		require.Greater(t, p, 365*24*time.Hour)
	}
}

// TestCheckoutSession_OneWinner goes through the interleavings of pay, expire
// and the timer, with charges that are quick, slow, and slow across the expiry.
func TestCheckoutSession_OneWinner(t *testing.T) {
	moments := []time.Duration{
		0, time.Second, time.Hour - 2*time.Second, time.Hour - time.Second, time.Hour - time.Millisecond, time.Hour, time.Hour + time.Millisecond,
	}
	winners := map[checkout.Status]int{}
	w := newWorld(t)
	for _, payAt := range moments {
		for _, expireAt := range moments {
			for _, takes := range []time.Duration{0, time.Second, 5 * time.Second} {
				name := fmt.Sprintf("pay at %s for %s, expire at %s", payAt, takes, expireAt)
				s, in := w.session()
				env := w.env(s.ID, s.CreatedAt)
				w.slowCharge(env, takes)
				pay := update(env, payAt, contract.UpdatePay, "p", contract.PayInput{TransactionID: w.payment(s.ID, cardSucceeds)})
				expire := update(env, expireAt, contract.UpdateExpire, "e")
				got := runSession(t, env, in)
				winners[got.Status]++

				require.Equal(t, got.Status, w.read(s.ID).Status, name)
				charged := w.count(`SELECT count(*) FROM sandbox_charge WHERE session_id = $1 AND outcome = 'succeeded'`, s.ID)
				events := w.count(`SELECT count(*) FROM event WHERE session_id = $1 AND type LIKE 'checkout.%'`, s.ID)
				switch got.Status {
				case checkout.StatusCompleted:
					require.Equal(t, 1, charged, name)
					require.Equal(t, 1, events, name)
					require.Equal(t, checkout.StatusCompleted, pay.result.(contract.PaymentResult).Status, name)
					if expire.done {
						require.Contains(t, []string{contract.ErrTypePaymentInFlight, contract.ErrTypeSessionNotPending}, errType(expire.err), name)
					}
				case checkout.StatusExpired:
					require.Zero(t, charged, name)
					require.Zero(t, events, name)
					if pay.done {
						require.Equal(t, contract.ErrTypeSessionNotPending, errType(pay.err), name)
					}
					if expire.done {
						require.NoError(t, expire.err, name)
					}
				default:
					t.Fatalf("%s: %s", name, got.Status)
				}
			}
		}
	}
	t.Logf("winners: %v", winners)
	require.Greater(t, winners[checkout.StatusCompleted], 20)
	require.Greater(t, winners[checkout.StatusExpired], 20)
}
