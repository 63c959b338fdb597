package activities

import (
	"context"
	"errors"
	"time"

	"example.com/checkout/workflows/checkout"
)

// FinishPayment decides a payment by what the card network said of it, in one
// transaction with everything that follows. It fails with SessionNotFound and
// SessionNotPending.
func (a *Payments) FinishPayment(ctx context.Context, in PaymentInput) (Settlement, error) {
	got, err := a.Store.FinishPayment(ctx, in.ref(), in.TransactionID)
	if err == nil {
		countSession(ctx, in.Mode, got.Status)
	}
	return Settlement(got), asFinal(ctx, err, ErrTypeSessionNotFound)
}

// ExpireSessionResult says how the session stands.
type ExpireSessionResult struct {
	Status   checkout.Status `json:"status,omitempty"`
	InFlight string          `json:"in_flight,omitempty"` // the payment that must be settled first
}

// ExpireSessionInput names the session by its time as well: the run of a creation
// that was rolled back must not end the session that the next try made.
type ExpireSessionInput struct {
	SessionInput
	ExpiresAt time.Time `json:"expires_at"`
}

// ExpireSession ends a session without a payment. It fails with SessionNotFound.
func (a *Payments) ExpireSession(ctx context.Context, in ExpireSessionInput) (ExpireSessionResult, error) {
	status, err := a.Store.ExpireSession(ctx, in.ref(), in.ExpiresAt)
	if errors.Is(err, checkout.ErrPaymentInFlight) {
		transactionID, _, err := a.Store.PaymentAction(ctx, in.SessionID)
		return ExpireSessionResult{InFlight: transactionID}, asFinal(ctx, err, "")
	}
	if err == nil {
		countSession(ctx, in.Mode, status)
	}
	return ExpireSessionResult{Status: status}, asFinal(ctx, err, ErrTypeSessionNotFound)
}
