package activities

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/treasury"
)

// BroadcastPayout signs and sends the transfer of a payout, or waits for the batch that pays it. A repeat never
// sends another one: a transfer is stored before it is sent. It fails with PayoutNotFound.
func (a *Payments) BroadcastPayout(ctx context.Context, in checkout.Ref) (treasury.TransferOutcome, error) {
	p, err := a.Payouts.PayoutToSend(ctx, in)
	if err != nil {
		return treasury.TransferOutcome{}, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
	}
	return a.broadcast(ctx, p)
}

func (a *Payments) broadcast(ctx context.Context, p storage.PayoutToSend) (treasury.TransferOutcome, error) {
	chain, err := a.chain(p.Mode, p.Chain)
	if err != nil {
		return treasury.TransferOutcome{}, asFinal(ctx, err, "")
	}
	// On a real chain: treasury.Treasury.Transfer, through payoutSender in worker/payout_sender.go.
	got, err := chain.Payouts.Transfer(ctx, p)
	if why, ok := held[got.Held]; ok {
		raiseAlarm(ctx, p.Mode, why.alarm, why.says+p.ID)
	}
	return got, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
}
