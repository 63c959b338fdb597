package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// A desk has the payment activities in test mode, with two card networks and two chains that record their calls.
type desk struct {
	*activities.Payments
	Store *storage.Store

	t     *testing.T
	owner checkout.Owner
	asked []string // "stripe Prepare", "sandbox Quote", in order
}

const testChain = "eip155:31337"

// newDesk returns the world of a test. The test runs beside others.
func newDesk(t *testing.T) *desk {
	t.Parallel()
	store := storagetest.New(t).Open(t, 0)
	m := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard", FeeBasisPoints: 100, PaymentAttempts: 3}
	require.NoError(t, store.Merchants.CreateMerchant(t.Context(), m, checkout.ModeTest, nil))
	d := &desk{Store: store, t: t, owner: m.Owner(checkout.ModeTest)}
	d.Payments = &activities.Payments{Payouts: store.Payouts, Sessions: store.Sessions, Webhooks: store.Webhooks.WebhookReader, Test: activities.SandboxNetworks(d.cards("sandbox"), d.chain("sandbox"))}
	return d
}

// onNetworks adds the other card network and the other chain, as the settings of test networks do.
func (d *desk) onNetworks() {
	d.Test.Cards[checkout.AcquirerStripe] = d.cards("stripe")
	d.Test.Chains[testChain] = d.chain(testChain)
}

func (d *desk) cards(name string) checkout.CardNetwork { return noting{d: d, name: name} }

func (d *desk) chain(name string) activities.PayoutRoute {
	return activities.PayoutRoute{Rates: noting{d: d, name: name}, Payouts: noting{d: d, name: name}}
}

// noting is a card network, a source of rates and a sender of payouts that notes the questions. A field that is set
// changes an answer.
type noting struct {
	checkout.CardNetwork
	d    *desk
	name string

	prepare func() error                 // what happens during Prepare
	outcome checkout.PaymentOutcome      // of Confirm
	payment chan checkout.PaymentOutcome // the answers to Payment, and success when it is closed
	held    checkout.PayoutHold          // of Transfer
	away    error                        // of Transfer
}

func (n noting) note(what string) { n.d.asked = append(n.d.asked, n.name+" "+what) }

func (n noting) Quote(context.Context, money.Currency, money.PayoutCurrency) (checkout.Quote, error) {
	n.note("Quote")
	return checkout.Quote{Rate: money.MustRate("1.08")}, nil
}

func (n noting) Prepare(_ context.Context, req checkout.ChargeRequest) (string, error) {
	n.note("Prepare")
	if n.prepare != nil {
		if err := n.prepare(); err != nil {
			return "", err
		}
	}
	return "ref_" + req.TransactionID, nil
}

func (n noting) Confirm(context.Context, string, int, checkout.ChargeRequest) (checkout.ChargeResult, error) {
	n.note("Confirm")
	switch n.outcome {
	case "":
		return checkout.ChargeResult{Outcome: checkout.OutcomeActionRequired, ActionURL: "https://bank.example/"}, nil
	case checkout.OutcomeFailed:
		return checkout.ChargeResult{Outcome: n.outcome, Failure: checkout.FailureCardDeclined}, nil
	}
	return checkout.ChargeResult{Outcome: n.outcome}, nil
}

func (n noting) Payment(context.Context, string) (checkout.ChargeResult, error) {
	n.note("Payment")
	if n.payment != nil {
		if outcome, ok := <-n.payment; ok {
			return checkout.ChargeResult{Outcome: outcome}, nil
		}
	}
	return checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}, nil
}

func (n noting) Cancel(context.Context, string, checkout.FailureCode) (checkout.ChargeResult, error) {
	n.note("Cancel")
	return checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureProcessingError}, nil
}

func (n noting) Transfer(context.Context, storage.PayoutToSend) (treasury.TransferOutcome, error) {
	n.note("Transfer")
	return treasury.TransferOutcome{Held: n.held}, n.away
}

// payment creates a session with a payment of the networks.
func (d *desk) payment(acquirer checkout.Acquirer, chain string) activities.PaymentInput {
	s := storagetest.Session(d.t, d.Store, d.owner)
	p := storagetest.Payment(s.Ref)
	p.Acquirer, p.ChainRef = acquirer, chain
	require.NoError(d.t, d.Store.Sessions.CreatePayment(d.t.Context(), p))
	return activities.PaymentInput{Ref: s.Ref, TransactionID: p.ID}
}

// do executes an activity and returns what was asked meanwhile.
func (d *desk) do(result, activity, in any) ([]string, error) {
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(d.Payments)
	d.asked = nil
	value, err := env.ExecuteActivity(activity, in)
	if err == nil && result != nil {
		require.NoError(d.t, value.Get(result))
	}
	return d.asked, err
}

func (d *desk) must(activity, in any) []string { return must.Get(d.do(nil, activity, in))(d.t) }

// A payment and its payout go to the networks that the payment began with, also after the settings have changed.
func TestPayments_StayWithTheirNetworks(t *testing.T) {
	d := newDesk(t)
	old := d.payment(checkout.AcquirerSandbox, checkout.ChainSandbox)
	var answer activities.PaymentAnswer
	asked := must.Get(d.do(&answer, d.ChargeCard, old))(t)
	require.Equal(t, []string{"sandbox Quote", "sandbox Prepare", "sandbox Confirm"}, asked)
	require.Equal(t, activities.PaymentAnswer{Outcome: checkout.OutcomeActionRequired}, answer, "the sandbox reports its decision")

	d.onNetworks()
	require.Equal(t, []string{"sandbox Payment"}, d.must(d.ConfirmPayment, old))
	require.Equal(t, []string{"sandbox Transfer"}, d.must(d.BroadcastPayout, d.payout(old)))

	new := d.payment(checkout.AcquirerStripe, testChain)
	asked = must.Get(d.do(&answer, d.ChargeCard, new))(t)
	require.Equal(t, []string{testChain + " Quote", "stripe Prepare", "stripe Confirm"}, asked)
	require.True(t, answer.Watch, "nobody tells of Stripe's decision")
	require.Equal(t, []string{"stripe Payment"}, d.must(d.WatchPayment, new))
	require.Equal(t, []string{"stripe Payment"}, d.must(d.ConfirmPayment, new))
	require.Equal(t, []string{testChain + " Transfer"}, d.must(d.BroadcastPayout, d.payout(new)))
}

// payout decides a charged payment and returns its payout.
func (d *desk) payout(in activities.PaymentInput) checkout.Ref {
	got := must.Get(d.Store.Sessions.FinishPayment(d.t.Context(), in.Ref, in.TransactionID))(d.t)
	return in.Owner.Ref(got.PayoutID)
}

// Without its network a payment is not charged and a payout not sent. A payment that has not begun can be given up.
func TestPayments_WaitForTheirNetwork(t *testing.T) {
	d := newDesk(t)
	d.onNetworks()
	begun, paid := d.payment(checkout.AcquirerStripe, testChain), d.payment(checkout.AcquirerStripe, testChain)
	d.must(d.ChargeCard, begun)
	d.must(d.ChargeCard, paid)
	d.must(d.ConfirmPayment, paid)
	payout := d.payout(paid)
	d.Test = activities.SandboxNetworks(d.cards("sandbox"), d.chain("sandbox"))

	untried := d.payment(checkout.AcquirerStripe, checkout.ChainSandbox)
	foreign := d.payment(checkout.AcquirerSandbox, testChain) // the sandbox's cards, another chain
	for name, try := range map[string]struct{ activity, in any }{
		"ConfirmPayment": {d.ConfirmPayment, begun}, "CancelPayment": {d.CancelPayment, begun}, "WatchPayment": {d.WatchPayment, begun},
		"ChargeCard": {d.ChargeCard, untried}, "ChargeCard on another chain": {d.ChargeCard, foreign}, "BroadcastPayout": {d.BroadcastPayout, payout},
	} {
		asked, err := d.do(nil, try.activity, try.in)
		require.ErrorContains(t, err, activities.ErrNoNetwork.Error(), name)
		failure, ok := errors.AsType[*temporal.ApplicationError](err)
		require.True(t, ok && !failure.NonRetryable(), "%s is tried again", name)
		require.Empty(t, asked, name)
	}
	var answer activities.PaymentAnswer
	asked := must.Get(d.do(&answer, d.CancelPayment, untried))(t)
	require.Empty(t, asked)
	require.Equal(t, activities.PaymentAnswer{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureProcessingError}, answer)

	d.onNetworks()
	require.Equal(t, []string{testChain + " Transfer"}, d.must(d.BroadcastPayout, payout))
}

// A payout that waits for its batch is looked at every 15 s, for as long as its run waits. Nothing is wrong meanwhile.
func TestPayments_APayoutWaitsForItsBatch(t *testing.T) {
	d := newDesk(t)
	d.onNetworks()
	paid := d.payment(checkout.AcquirerStripe, testChain)
	d.must(d.ChargeCard, paid)
	d.must(d.ConfirmPayment, paid)
	d.Test.Chains[testChain] = activities.PayoutRoute{Payouts: noting{d: d, away: treasury.ErrAwaitsBatch}}
	failure, ok := errors.AsType[*temporal.ApplicationError](must.Err(d.do(nil, d.BroadcastPayout, d.payout(paid))))
	require.True(t, ok)
	require.Equal(t, "the payout waits for its batch", failure.Message())
	require.Equal(t, 15*time.Second, failure.NextRetryDelay())
	require.Equal(t, temporal.ApplicationErrorCategoryBenign, failure.Category())
	require.False(t, failure.NonRetryable())
}

// A payout on a real chain is not sent within a workflow task, and a payout on hold never counts as sent.
func TestSendSandboxPayout_IsForTheSandbox(t *testing.T) {
	d := newDesk(t)
	d.onNetworks()
	inSandbox, onChain := d.payment(checkout.AcquirerStripe, checkout.ChainSandbox), d.payment(checkout.AcquirerStripe, testChain)
	for _, in := range []activities.PaymentInput{inSandbox, onChain} {
		d.must(d.ChargeCard, in)
		d.must(d.ConfirmPayment, in)
	}
	require.Equal(t, []string{"sandbox Transfer"}, d.must(d.SendSandboxPayout, d.payout(inSandbox)))

	payout := d.payout(onChain)
	asked, err := d.do(nil, d.SendSandboxPayout, payout)
	failure, ok := errors.AsType[*temporal.ApplicationError](err)
	require.True(t, ok && failure.Type() == contract.ErrTypePayoutTakesLonger, err)
	require.Empty(t, asked)
	require.ErrorIs(t, must.Err(d.Store.Payouts.FinishPayout(t.Context(), payout, 0, "")), checkout.ErrConflict, "nothing was signed")
	require.ErrorContains(t, must.Err(d.do(nil, d.SendSandboxPayout, d.owner.Ref("po_unknown"))), "not found")
}

// A round of one mode never touches charges of the other.
func TestBooks_AreOfOneMode(t *testing.T) {
	b := newBooks(t)
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(b.Books)
	for _, activity := range []any{b.ReconcileCharges, b.BookOldCharges, b.LookAtCharges} {
		for mode, want := range map[checkout.Mode]bool{"": false, checkout.ModeLive: true, checkout.ModeTest: false} {
			_, err := env.ExecuteActivity(activity, contract.ModeInput{Mode: mode})
			require.Equal(t, want, err == nil, mode)
		}
	}
}

// noRates is a source without rates.
type noRates struct{}

func (noRates) Quote(context.Context, money.Currency, money.PayoutCurrency) (checkout.Quote, error) {
	return checkout.Quote{}, fmt.Errorf("%w from EUR to USDC: one source alone", checkout.ErrNoRate)
}

// refused makes sure that a payment has not begun and can be dropped.
func (d *desk) refused(in activities.PaymentInput) {
	charge := must.Get(d.Store.Sessions.Charge(d.t.Context(), in.Ref, in.TransactionID))(d.t)
	require.False(d.t, charge.Began(), "no attempt is used up")
	require.NoError(d.t, d.Store.Sessions.DropPayment(d.t.Context(), in.ID, in.TransactionID))
	require.False(d.t, must.Get(d.Store.Sessions.HasPayment(d.t.Context(), in.ID, in.TransactionID))(d.t))
}

// An open session may be older than the bounds. No intent exists, no attempt is used up, and the payment can be dropped.
func TestChargeCard_ChargesNothingThatCannotBePaidOut(t *testing.T) {
	d := newDesk(t)
	d.onNetworks()
	within := func(bounds checkout.PayoutBounds, known bool) activities.PayoutRoute {
		route := d.chain(testChain)
		route.Bounds = func(from money.Currency, to money.PayoutCurrency) (checkout.PayoutBounds, bool) {
			require.Equal(t, money.EUR, from)
			require.Equal(t, money.USDC, to)
			return bounds, known
		}
		return route
	}
	// Of 10.50 there are 10.39 left after the fee.
	for name, route := range map[string]activities.PayoutRoute{
		"the limit was lowered":   within(checkout.PayoutBounds{Least: 1, Most: 1038}, true),
		"the network became dear": within(checkout.PayoutBounds{Least: 1040, Most: 100_000}, true),
		"nothing is known yet":    within(checkout.PayoutBounds{}, false),
		"there is no rate":        {Rates: noRates{}},
	} {
		d.Test.Chains[testChain] = route
		in := d.payment(checkout.AcquirerStripe, testChain)
		asked, err := d.do(nil, d.ChargeCard, in)
		failure, ok := errors.AsType[*temporal.ApplicationError](err)
		require.True(t, ok && failure.Type() == contract.ErrTypePaymentNotPossible && failure.NonRetryable(), "%s: %v", name, err)
		require.NotContains(t, asked, "stripe Prepare", name)
		d.refused(in)
	}
	d.Test.Chains[testChain] = within(checkout.PayoutBounds{Least: 1039, Most: 1039}, true)
	require.Contains(t, d.must(d.ChargeCard, d.payment(checkout.AcquirerStripe, testChain)), "stripe Confirm")
}

// Nothing is decided meanwhile, and nothing is charged again.
func TestChargeCard_AnIntentThatIsBeingDecidedIsAskedAgain(t *testing.T) {
	d := newDesk(t)
	d.onNetworks()
	answers := make(chan checkout.PaymentOutcome, 4)
	d.Test.Cards[checkout.AcquirerStripe] = noting{d: d, name: "stripe", outcome: checkout.OutcomeProcessing, payment: answers}
	in := d.payment(checkout.AcquirerStripe, testChain)
	waits := activities.PaymentAnswer{Outcome: checkout.OutcomeProcessing, Watch: true}
	for _, activity := range []any{d.ChargeCard, d.ChargeCard, d.ConfirmPayment} {
		answers <- checkout.OutcomeProcessing // for the repeats, which ask before they confirm
		var got activities.PaymentAnswer
		require.NoError(t, must.Err(d.do(&got, activity, in)))
		require.Equal(t, waits, got)
	}
	charge := must.Get(d.Store.Sessions.Charge(t.Context(), in.Ref, in.TransactionID))(t)
	require.Equal(t, 1, charge.Confirms, "it is not confirmed again")
	require.ErrorIs(t, must.Err(d.Store.Sessions.FinishPayment(t.Context(), in.Ref, in.TransactionID)), checkout.ErrPaymentUndecided)

	close(answers) // one that is being decided is left, then it has succeeded
	began := time.Now()
	d.must(d.WatchPayment, in)
	require.Greater(t, time.Since(began), 4*time.Second, "it is polled")
	var got activities.PaymentAnswer
	require.NoError(t, must.Err(d.do(&got, d.ConfirmPayment, in)))
	require.Equal(t, activities.PaymentAnswer{Outcome: checkout.OutcomeSucceeded}, got)
}

// Two executions prepare the same charge. The slower one confirms nothing, and its repeat asks the network.
func TestChargeCard_OneExecutionConfirms(t *testing.T) {
	d := newDesk(t)
	d.onNetworks()
	in := d.payment(checkout.AcquirerStripe, testChain)
	d.Test.Cards[checkout.AcquirerStripe] = noting{d: d, name: "stripe", prepare: func() error {
		first := must.Get(d.Store.Sessions.BeginPayment(t.Context(), in.Ref, in.TransactionID, checkout.Quote{Rate: money.MustRate("1.08")}, "ref_other"))(t)
		require.True(t, first)
		return nil
	}}

	asked, err := d.do(nil, d.ChargeCard, in)
	failure, ok := errors.AsType[*temporal.ApplicationError](err)
	require.True(t, ok && !failure.NonRetryable(), err)
	require.Equal(t, []string{testChain + " Quote", "stripe Prepare"}, asked)

	require.Equal(t, []string{"stripe Payment"}, d.must(d.ChargeCard, in))
}

// Otherwise the network would let the customer confirm it again.
func TestChargeCard_CancelsADeclinedCharge(t *testing.T) {
	d := newDesk(t)
	d.onNetworks()
	d.Test.Cards[checkout.AcquirerStripe] = noting{d: d, name: "stripe", outcome: checkout.OutcomeFailed}

	asked := d.must(d.ChargeCard, d.payment(checkout.AcquirerStripe, testChain))
	require.Equal(t, []string{testChain + " Quote", "stripe Prepare", "stripe Confirm", "stripe Cancel"}, asked)
}
