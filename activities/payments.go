// Package activities holds the Temporal activities: all code of the workflows that does I/O. Each
// activity is safe to run twice.
package activities

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Error types that workflows look at. Temporal never retries them.
const (
	ErrTypeSessionNotFound    = "SessionNotFound"
	ErrTypeSessionNotPending  = "SessionNotPending"
	ErrTypePaymentNotFound    = "PaymentNotFound"
	ErrTypePaymentInFlight    = "PaymentInFlight"
	ErrTypePaymentUndecided   = "PaymentUndecided"
	ErrTypePaymentNotPossible = "PaymentNotPossible"
	ErrTypePayoutNotFound     = "PayoutNotFound"
	ErrTypeDeliveryNotFound   = "DeliveryNotFound"
)

// Networks holds what one mode needs of the outside.
type Networks struct {
	Cards   checkout.CardNetwork
	Rates   checkout.RateSource
	Payouts PayoutSender
}

// PayoutSender sends payouts. A repeat never sends a payout twice. An error means that the outcome is
// unknown and that the caller must repeat the call.
type PayoutSender interface {
	// Transfer sends a pending payout, or says why not. It returns checkout.ErrNotFound.
	Transfer(ctx context.Context, ref checkout.Ref) (checkout.TransferOutcome, error)
}

// Payments holds the activities of sessions and payouts.
type Payments struct {
	Store       *storage.Store
	Test, Live  Networks // Live is empty until live adapters are configured
	CheckoutURL string   // base of the hosted page, without a trailing slash
	// Now is the clock of tests that skip time. Nil means PostgreSQL's clock.
	Now func() time.Time
}

// ErrNoNetwork: no live card network, rate source or treasury is configured. Temporal retries it, so
// a session waits for the configuration. A live session is never charged in the sandbox instead.
var ErrNoNetwork = errors.New("no network is configured for this mode")

func (a *Payments) networks(mode checkout.Mode) (Networks, error) {
	n := a.Test
	if mode.Live() {
		n = a.Live
	}
	if n.Cards == nil || n.Rates == nil || n.Payouts == nil {
		return Networks{}, ErrNoNetwork
	}
	return n, nil
}

// Settlement lists the runs that the workflow must start after a decision.
type Settlement struct {
	Status     checkout.Status    `json:"status,omitempty"` // of the session
	EventType  webhook.EventType  `json:"event_type"`
	Deliveries []webhook.Dispatch `json:"deliveries,omitempty"`
	PayoutID   string             `json:"payout_id,omitempty"`
}

// asFinal turns errors that no retry can mend into non-retryable ones. notFound is the error type
// for a missing row. With "" the workflow has no answer to a missing row, so Temporal retries. The
// errors are returned without wrapping: the server would see neither the type nor the flag of a
// wrapped error.
func asFinal(ctx context.Context, err error, notFound string) error {
	switch {
	case err == nil:
		return nil
	case notFound != "" && (errors.Is(err, checkout.ErrNotFound) || storage.Malformed(err)):
		return temporal.NewNonRetryableApplicationError("not found", notFound, nil)
	case errors.Is(err, checkout.ErrPaymentUndecided):
		return temporal.NewNonRetryableApplicationError(
			"no final answer of the card network is stored", ErrTypePaymentUndecided, nil)
	case errors.Is(err, checkout.ErrNoRate):
		return temporal.NewNonRetryableApplicationError(checkout.ErrNoRate.Error(), ErrTypePaymentNotPossible, nil)
	case errors.Is(err, checkout.ErrNotPending):
		return temporal.NewNonRetryableApplicationError("session is not pending",
			ErrTypeSessionNotPending, nil)
	}
	return asUnavailable(ctx, err)
}

// asUnavailable returns an error that Temporal retries.
func asUnavailable(ctx context.Context, err error) error {
	// Only the log gets the error chain: it may quote values that Temporal's UI must not show.
	logger(ctx).WarnContext(ctx, "activity failed", "error", err)
	return temporal.NewApplicationError(publicReason(err), "Unavailable")
}

// publicReason returns a fixed text about the error, for Temporal's UI.
func publicReason(err error) string {
	switch {
	case errors.Is(err, ErrNoNetwork):
		return ErrNoNetwork.Error()
	case errors.Is(err, checkout.ErrNoRate):
		return checkout.ErrNoRate.Error()
	case errors.Is(err, storage.ErrWrongMasterKey):
		return storage.ErrWrongMasterKey.Error()
	case storage.Unavailable(err):
		return "PostgreSQL did not answer"
	}
	return "a network did not answer; see the worker's log"
}

// logger adds the ids of the run, which operators search by.
func logger(ctx context.Context) *slog.Logger {
	info := activity.GetInfo(ctx)
	return slog.With("activity", info.ActivityType.Name, "workflow_id", info.WorkflowExecution.ID,
		"run_id", info.WorkflowExecution.RunID, "attempt", info.Attempt)
}
