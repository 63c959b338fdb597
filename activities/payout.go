package activities

import (
	"context"

	"go.temporal.io/sdk/temporal"

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
	route, err := a.route(p.Mode, p.Chain)
	if err != nil {
		return treasury.TransferOutcome{}, asFinal(ctx, err, "")
	}
	// On a real chain: treasury.Treasury.Transfer, through modeTreasury in worker/mode_treasury.go.
	got, err := route.Payouts.Transfer(ctx, p)
	if why, ok := held[got.Held]; ok {
		raiseAlarm(ctx, p.Mode, why.alarm, why.says+p.ID)
	}
	return got, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
}

// HoldPayout notes that a payout waits, because BroadcastPayout got no answer for some minutes. It decides nothing. The
// result is that of BroadcastPayout when the payout is decided by now. It fails with PayoutNotFound.
func (a *Payments) HoldPayout(ctx context.Context, in checkout.Ref) (treasury.TransferOutcome, error) {
	got, err := a.Payouts.HoldAwayPayout(ctx, in)
	return got, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
}

// SendSandboxPayout calls BroadcastPayout and FinishPayout for a payout of the sandbox. It fails with their errors.
// After an error it may be repeated, and so may each of the two. It fails with PayoutTakesLonger for a payout on a real
// chain and for one on hold, and sends nothing.
func (a *Payments) SendSandboxPayout(ctx context.Context, in checkout.Ref) (FollowUp, error) {
	p, err := a.Payouts.PayoutToSend(ctx, in)
	if err != nil {
		return FollowUp{}, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
	}
	if p.Chain != checkout.ChainSandbox {
		return FollowUp{}, temporal.NewNonRetryableApplicationError(
			"the payout is on a real chain", contract.ErrTypePayoutTakesLonger, nil)
	}
	sent, err := a.broadcast(ctx, p)
	if err != nil {
		return FollowUp{}, err
	}
	if sent.Held != "" {
		return FollowUp{}, temporal.NewNonRetryableApplicationError(
			"the payout waits", contract.ErrTypePayoutTakesLonger, nil)
	}
	return a.FinishPayout(ctx, FinishPayoutInput{Ref: in, Failure: sent.Failure, Generation: sent.Generation})
}

// FinishPayoutInput is the end of a payout.
type FinishPayoutInput struct {
	checkout.Ref

	Failure    checkout.PayoutFailure `json:"failure,omitempty"`
	Generation int                    `json:"generation,omitempty"` // as in TransferOutcome; 0 is the present one
}

// FinishPayout decides the payout, in one transaction with its event and deliveries. It fails with PayoutNotFound.
func (a *Payments) FinishPayout(ctx context.Context, in FinishPayoutInput) (FollowUp, error) {
	got, err := a.Payouts.FinishPayout(ctx, in.Ref, in.Generation, in.Failure)
	return got, asFinal(ctx, err, contract.ErrTypePayoutNotFound)
}
