package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/sandbox"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

const (
	cardRefundPends   = "4000000000007726"
	cardRefundRefused = "4000000000000283"
)

// refund orders the refund of a payment with a test card. The merchant has an endpoint for all of its events.
func (w *world) refund(card string) checkout.Ref {
	w.endpoint(webhook.RefundSucceeded, webhook.RefundFailed)
	s, _ := w.session()
	w.pay(s, card)
	order := storage.RefundOrder{ID: checkout.NewID(checkout.PrefixRefund), Session: s.Ref}
	return must.Get(w.Refunds.OrderRefund(w.t.Context(), order))(w.t).Ref
}

// runRefund runs the workflow of a refund. It returns the result, and what the workflow took.
func (w *world) runRefund(ref checkout.Ref) (contract.RefundResult, time.Duration) {
	env := w.env(ref.ID, time.Now())
	before(env, w.payments.SendRefund, func(context.Context) {}).After(20 * time.Second)
	began := env.Now()
	got := execute[contract.RefundResult](w.t, env, contract.TypeRefund, ref)
	return got, env.Now().Sub(began)
}

func TestRefund_TellsTheMerchantHowItEnds(t *testing.T) {
	t.Parallel()
	for card, want := range map[string]struct {
		status checkout.RefundStatus
		event  webhook.EventType
	}{
		cardSucceeds:      {checkout.RefundSucceeded, webhook.RefundSucceeded},
		cardRefundRefused: {checkout.RefundFailed, webhook.RefundFailed},
	} {
		t.Run(string(want.status), func(t *testing.T) {
			w := newWorld(t)
			ref := w.refund(card)
			for range 2 { // a repeat tells nothing again
				got, _ := w.runRefund(ref)
				require.Equal(t, contract.RefundResult{Status: want.status}, got)
				require.Equal(t, []string{string(want.event)}, w.receiver.types())
			}
		})
	}
}

// A run that waited for days would pin the build of its worker.
func TestRefund_EndsWhileTheBankHasNotDecided(t *testing.T) {
	w := newWorld(t)
	ref := w.refund(cardRefundPends)
	got, _ := w.runRefund(ref)
	require.Equal(t, contract.RefundResult{Status: checkout.RefundPending, Waits: contract.RefundWaitsBank}, got)
	require.Empty(t, w.overdue(ref), "it is followed a minute later")
	w.Exec(t, `UPDATE refund SET next_action_at = now() - interval '1 second'`)
	require.Len(t, w.overdue(ref), 1, "Reconcile starts it again")

	w.Exec(t, `UPDATE sandbox_refund SET later_at = now()`)
	got, _ = w.runRefund(ref)
	require.Equal(t, contract.RefundResult{Status: checkout.RefundSucceeded}, got)
	require.Equal(t, []string{string(webhook.RefundSucceeded)}, w.receiver.types())
	require.Empty(t, w.overdue(ref))
}

func (w *world) overdue(ref checkout.Ref) []storage.Overdue {
	return must.Get(w.Installation.Overdue(w.t.Context(), 0, ref.ID[:3], 10))(w.t)
}

func TestRefund_EndsWhenTheCardNetworkIsAwayForMinutes(t *testing.T) {
	w := newWorld(t)
	ref := w.refund(cardSucceeds)
	w.payments.Test.Cards[checkout.AcquirerSandbox] = &awayNetwork{CardNetwork: w.cards}
	got, took := w.runRefund(ref)
	require.Equal(t, contract.RefundResult{Waits: contract.RefundWaitsNetwork}, got)
	require.LessOrEqual(t, took, 6*time.Minute, "of the workflow's time")
	require.Equal(t, checkout.RefundPending, must.Get(w.Refunds.Refund(t.Context(), ref))(t).Status)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM refund WHERE next_action_at > now()`))
}

// awayNetwork is a card network that makes no refund.
type awayNetwork struct{ *sandbox.CardNetwork }

func (*awayNetwork) Refund(context.Context, checkout.RefundRequest) (checkout.RefundResult, error) {
	return checkout.RefundResult{}, errors.New("the card network is away")
}

func TestRefund_OfNoRowFails(t *testing.T) {
	w := newWorld(t)
	env := w.env("re_none", time.Now())
	env.ExecuteWorkflow(contract.TypeRefund, w.owner().Ref("re_none"))
	require.Equal(t, contract.ErrTypeRefundNotFound, errType(env.GetWorkflowError()))
}
