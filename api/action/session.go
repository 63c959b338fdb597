package action

import (
	"context"
	"errors"
	"fmt"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// ExpireSession ends a pending session before its time. The workflow decides, and the result is the session of the row
// afterwards. A session that has expired stays as it is. Errors: checkout.ErrNotPending for a session that has ended
// otherwise, which is the result; checkout.ErrPaymentInFlight and runs.ErrOutcomeUnknown.
func (a Actions) ExpireSession(ctx context.Context, s checkout.Session, by By) (checkout.Session, error) {
	if s.Status != checkout.StatusPending {
		return requireExpired(s)
	}
	if err := a.Store.AuditLog.Audit(ctx, by.Entry(s.Ref, "session.expiry_requested", "before its time")); err != nil {
		return s, err
	}
	_, err := a.Runs.Expire(ctx, s.ID)
	return a.readDecision(ctx, s.Ref, err)
}

// AdvanceSession moves the clock of a test session to its expiry. If a payment is in flight, its decision comes first,
// and the result is pending. Otherwise it is ExpireSession without an entry in the audit log.
func (a Actions) AdvanceSession(ctx context.Context, s checkout.Session) (checkout.Session, error) {
	if s.Status != checkout.StatusPending {
		return requireExpired(s)
	}
	state, err := a.Runs.Advance(ctx, s.ID)
	if errors.Is(err, checkout.ErrPaymentInFlight) || err == nil && state.PaymentInFlight {
		return a.Store.Sessions.Session(ctx, s.Ref)
	}
	return a.readDecision(ctx, s.Ref, err)
}

// readDecision reads a session after its workflow was asked to end it. asked is the workflow's error.
func (a Actions) readDecision(ctx context.Context, ref checkout.Ref, asked error) (checkout.Session, error) {
	if asked != nil && !errors.Is(asked, checkout.ErrNotFound) && !errors.Is(asked, checkout.ErrNotPending) {
		return checkout.Session{}, asked
	}
	s, err := a.Store.Sessions.Session(ctx, ref)
	if err != nil {
		return s, err
	}
	if s.Status == checkout.StatusPending {
		// The workflow has decided, but the row is not written yet.
		return s, fmt.Errorf("%w: the session's workflow has ended, but its row is still pending", runs.ErrOutcomeUnknown)
	}
	return requireExpired(s)
}

// requireExpired returns a session that is no longer pending, with checkout.ErrNotPending unless it has expired.
func requireExpired(s checkout.Session) (checkout.Session, error) {
	if s.Status != checkout.StatusExpired {
		return s, checkout.ErrNotPending
	}
	return s, nil
}
