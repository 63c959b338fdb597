package workflows_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities"
	"example.com/checkout/activities/sandbox"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/treasury"
)

// quietBank is a card network that tells nobody of its decisions. The bank agrees as soon as it was asked.
type quietBank struct {
	checkout.CardNetwork
	confirms atomic.Int32
}

func (b *quietBank) Prepare(_ context.Context, req checkout.ChargeRequest) (string, error) {
	return "pi_" + req.TransactionID, nil
}

func (b *quietBank) Confirm(context.Context, string, int, checkout.ChargeRequest) (checkout.ChargeResult, error) {
	if b.confirms.Add(1) == 1 {
		return checkout.ChargeResult{Outcome: checkout.OutcomeActionRequired, ActionURL: "https://bank.example/"}, nil
	}
	return checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}, nil
}

func (b *quietBank) Payment(context.Context, string) (checkout.ChargeResult, error) {
	return checkout.ChargeResult{Outcome: checkout.OutcomeAgreed}, nil
}

// TestCheckoutSession_OnTestNetworks: a test session watches a payment whose network tells nobody, and its
// payout on a real chain has a run. A payout on hold is not sent.
func TestCheckoutSession_OnTestNetworks(t *testing.T) {
	w := newRun(t)
	bank, asked := &quietBank{}, atomic.Int32{}
	empty := sends(func(context.Context, storage.PayoutToSend) (treasury.TransferOutcome, error) {
		asked.Add(1)
		return treasury.TransferOutcome{Held: checkout.HoldFloat}, nil
	})
	w.payments.Test.Cards[checkout.AcquirerStripe] = bank
	w.payments.Test.Chains["eip155:31337"] = activities.PayoutRoute{Rates: sandbox.Rates{}, Payouts: empty}
	id := checkout.NewID(checkout.PrefixTransaction)
	require.NoError(t, w.Sessions.CreatePayment(t.Context(), storage.NewPayment{
		ID: id, SessionID: w.s.ID, CardToken: "ctoken_1", Acquirer: checkout.AcquirerStripe, ChainRef: "eip155:31337",
	}))
	started := children(w.env)
	pay := update(w.env, time.Minute, contract.UpdatePay, "p", contract.PayInput{TransactionID: id})
	require.Equal(t, checkout.StatusCompleted, runSession(t, w.env, w.in).Status, "nobody told the session of the bank's yes")
	require.Equal(t, checkout.OutcomeActionRequired, pay.result.(contract.PaymentResult).Outcome)
	require.EqualValues(t, 2, bank.confirms.Load())
	require.Equal(t, []string{contract.TypePayout}, *started)
	require.EqualValues(t, 1, asked.Load(), "by the payout's own run only")
	require.Equal(t, checkout.PayoutPending, w.read(w.s.ID).Payout.Status)
}
