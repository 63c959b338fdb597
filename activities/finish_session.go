package activities

import (
	"context"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// FinishPayment decides a payment by what the card network said of it, in one
// transaction with everything that follows. Run again it returns the same. It fails
// with SessionNotFound, with PaymentUndecided when the answer was lost, and with
// SessionNotPending when the session ended without this payment.
func (a *Payments) FinishPayment(ctx context.Context, in PaymentInput) (Settlement, error) {
	got, err := a.Store.FinishPayment(ctx, in.Ref, in.TransactionID)
	if err == nil {
		countSession(ctx, in.Mode, got.Status)
	}
	return Settlement(got), asFinal(ctx, err, ErrTypeSessionNotFound)
}

// ExpireSessionResult says how the session stands. One that is still pending has a
// payment that must be decided first, or time left.
type ExpireSessionResult struct {
	Status   checkout.Status `json:"status,omitempty"`
	InFlight string          `json:"in_flight,omitempty"` // the payment
	Left     time.Duration   `json:"left,omitempty"`      // by PostgreSQL's clock
}

// ExpireSessionInput names the session by its time as well: the run of a creation
// that was rolled back must not end the session that the next try made.
type ExpireSessionInput struct {
	checkout.Ref

	ExpiresAt time.Time `json:"expires_at"`
	// OnTime leaves a session alone whose time is not over by PostgreSQL's clock:
	// nobody asked for its end but the timer.
	OnTime bool `json:"on_time,omitempty"`
}

// ExpireSession ends a session without a payment. It fails with SessionNotFound.
func (a *Payments) ExpireSession(ctx context.Context, in ExpireSessionInput) (ExpireSessionResult, error) {
	x := storage.Expiry{At: in.ExpiresAt, Early: !in.OnTime}
	if a.Now != nil {
		x.Now = a.Now()
	}
	got, err := a.Store.ExpireSession(ctx, in.Ref, x)
	if err == nil {
		countSession(ctx, in.Mode, got.Status)
	}
	return ExpireSessionResult(got), asFinal(ctx, err, ErrTypeSessionNotFound)
}
