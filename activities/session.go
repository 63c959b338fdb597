package activities

import (
	"context"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// ExpireSessionResult is the state of the session.
type ExpireSessionResult = storage.Expired

// ExpireSessionInput names the session by its id and its expiry time. A creation that was rolled
// back may have left a run; that run must not end the session that the retry created.
type ExpireSessionInput struct {
	checkout.Ref

	ExpiresAt time.Time `json:"expires_at"`
	// OnTime makes ExpireSession wait for PostgreSQL's clock, because only the timer requested the end.
	OnTime bool `json:"on_time,omitempty"`
}

// ExpireSession ends a session without a payment. It fails with SessionNotFound.
func (a *Payments) ExpireSession(ctx context.Context, in ExpireSessionInput) (ExpireSessionResult, error) {
	x := storage.Expiry{At: in.ExpiresAt, Early: !in.OnTime}
	if a.Now != nil {
		x.Now = a.Now()
	}
	got, err := a.Sessions.ExpireSession(ctx, in.Ref, x)
	if err == nil {
		countSession(ctx, in.Mode, got.Status)
	}
	return got, asFinal(ctx, err, contract.ErrTypeSessionNotFound)
}

// FinishPayment decides a payment by the recorded answer of the card network, in one transaction with everything that
// follows. A repeat returns the same follow-up. It fails with SessionNotFound, with PaymentUndecided when no answer is
// recorded, and with SessionNotPending when the session ended without this payment.
func (a *Payments) FinishPayment(ctx context.Context, in PaymentInput) (FollowUp, error) {
	got, err := a.Sessions.FinishPayment(ctx, in.Ref, in.TransactionID)
	if err == nil {
		countSession(ctx, in.Mode, got.Status)
	}
	return got, asFinal(ctx, err, contract.ErrTypeSessionNotFound)
}

// EventDeliveries returns the deliveries of an event. It returns none when no registration gets the event.
func (a *Payments) EventDeliveries(ctx context.Context, in checkout.Ref) ([]webhook.Dispatch, error) {
	refs, err := a.Webhooks.EventDeliveries(ctx, in)
	return refs, asFinal(ctx, err, "")
}
