package activities

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// BroadcastPayoutResult says what became of the transfer.
type BroadcastPayoutResult struct {
	Failure checkout.PayoutFailure `json:"failure,omitempty"` // "" when the network accepted it, or when it waits
	// Held says why a payout on a real chain waits. Reconcile starts it again.
	Held checkout.PayoutHold `json:"held,omitempty"`
	// Generation of the payout that this is about. A run that goes on after a retry must not decide the
	// retried payout by it.
	Generation int `json:"generation,omitempty"`
}

// BroadcastPayout signs and sends the transfer of a payout, or waits for the batch that pays it. A repeat never
// sends another one: a transfer is stored before it is sent. It fails with PayoutNotFound.
func (a *Payments) BroadcastPayout(ctx context.Context, in checkout.Ref) (BroadcastPayoutResult, error) {
	p, err := a.Store.PayoutToSend(ctx, in)
	if err != nil {
		return BroadcastPayoutResult{}, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
	}
	return a.broadcast(ctx, p)
}

func (a *Payments) broadcast(ctx context.Context, p storage.PayoutToSend) (BroadcastPayoutResult, error) {
	chain, err := a.chain(p.Mode, p.Chain)
	if err != nil {
		return BroadcastPayoutResult{}, asFinal(ctx, err, "")
	}
	got, err := chain.Payouts.Transfer(ctx, p)
	if why, ok := held[got.Held]; ok {
		raise(ctx, p.Mode, why.alarm, why.says+p.ID)
	}
	return BroadcastPayoutResult{got.Failure, got.Held, got.Generation}, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
}
