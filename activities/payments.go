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
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/treasury"
)

// Networks holds what one mode needs of the outside. A payment stays with the card network and the
// chain that it began with, so test mode keeps the sandbox beside other networks.
type Networks struct {
	Cards  map[checkout.Acquirer]checkout.CardNetwork
	Chains map[string]PayoutRoute // by checkout.ChainSandbox or the CAIP-2 name
}

// SandboxNetworks returns the networks of a mode that has the sandbox only.
func SandboxNetworks(cards checkout.CardNetwork, route PayoutRoute) Networks {
	return Networks{
		Cards:  map[checkout.Acquirer]checkout.CardNetwork{checkout.AcquirerSandbox: cards},
		Chains: map[string]PayoutRoute{checkout.ChainSandbox: route},
	}
}

// PayoutRoute prices and sends the payouts of one chain.
type PayoutRoute struct {
	Rates   checkout.RateSource
	Payouts PayoutSender
	Bounds  checkout.FindBounds // nil: everything is paid out
}

// PayoutSender sends payouts. A repeat never sends a payout twice. An error means that the outcome is
// unknown and that the caller must repeat the call. Treasury in activities/treasury sends on real chains, through
// modeTreasury in worker/mode_treasury.go, and Payouts in activities/sandbox pretends to.
type PayoutSender interface {
	// Transfer sends a pending payout, or returns why not. The payout is as it was read before.
	Transfer(ctx context.Context, p storage.PayoutToSend) (treasury.TransferOutcome, error)
}

// Payments holds the activities of sessions and payouts.
type Payments struct {
	Payouts     *storage.Payouts
	Refunds     *storage.Refunds
	Disputes    *storage.Disputes
	Sessions    *storage.Sessions
	Webhooks    *storage.WebhookReader
	Test, Live  Networks // Live is empty until live mode is configured
	CheckoutURL string   // base of the hosted page, without a trailing slash
	// Now is the clock of tests that skip time. Nil means PostgreSQL's clock.
	Now func() time.Time
}

// ErrNoNetwork: the card network or the chain of the payment is not configured. Temporal retries it, so
// a payment waits for the configuration. It never goes to another network instead.
var ErrNoNetwork = errors.New("the payment's network is not configured")

func (a *Payments) networks(mode checkout.Mode) Networks {
	if mode.Live() {
		return a.Live
	}
	return a.Test
}

func (a *Payments) route(mode checkout.Mode, chain string) (PayoutRoute, error) {
	found, ok := a.networks(mode).Chains[chain]
	if !ok {
		return PayoutRoute{}, ErrNoNetwork
	}
	return found, nil
}

// payment is a stored payment with the networks that it began with.
type payment struct {
	storage.Charge

	cards checkout.CardNetwork
	route PayoutRoute
}

// payment reads a payment. It returns checkout.ErrNotFound and ErrNoNetwork.
func (a *Payments) payment(ctx context.Context, in PaymentInput) (payment, error) {
	c, err := a.readCharge(ctx, in)
	if err != nil {
		return payment{}, err
	}
	return a.onNetworks(in.Mode, c)
}

func (a *Payments) onNetworks(mode checkout.Mode, c storage.Charge) (payment, error) {
	cards, ok := a.networks(mode).Cards[c.Acquirer]
	if !ok {
		return payment{}, ErrNoNetwork
	}
	route, err := a.route(mode, c.ChainRef)
	return payment{Charge: c, cards: cards, route: route}, err
}

// FollowUp lists the runs that the workflow must start after a decision.
type FollowUp = storage.FollowUp

// batchPoll is the time between two looks at a payout that waits for its batch. A growing backoff would see a batch
// that was signed after the longest CHECKOUT_BITCOIN_BATCH_INTERVAL only after the activity's time is over.
const batchPoll = 15 * time.Second

// asFinal turns errors that no retry can mend into non-retryable ones. notFound is the error type for a missing row.
// With "" the workflow has no answer to a missing row, so Temporal retries. The errors are returned without wrapping:
// the server would see neither the type nor the flag of a wrapped error.
func asFinal(ctx context.Context, err error, notFound string) error {
	switch {
	case err == nil:
		return nil
	case notFound != "" && (errors.Is(err, checkout.ErrNotFound) || pg.Malformed(err)):
		return temporal.NewNonRetryableApplicationError("not found", notFound, nil)
	case errors.Is(err, checkout.ErrPaymentUndecided):
		return temporal.NewNonRetryableApplicationError(
			"no final answer of the card network is stored", contract.ErrTypePaymentUndecided, nil)
	case errors.Is(err, checkout.ErrNoRate), errors.Is(err, checkout.ErrPaymentNotPossible),
		errors.Is(err, checkout.ErrMerchantSuspended):
		return temporal.NewNonRetryableApplicationError(publicReason(err), contract.ErrTypePaymentNotPossible, nil)
	case errors.Is(err, checkout.ErrNotPending):
		return temporal.NewNonRetryableApplicationError("session is not pending", contract.ErrTypeSessionNotPending, nil)
	case errors.Is(err, treasury.ErrAwaitsBatch):
		return temporal.NewApplicationErrorWithOptions(err.Error(), "AwaitsBatch", temporal.ApplicationErrorOptions{
			NextRetryDelay: batchPoll, Category: temporal.ApplicationErrorCategoryBenign,
		})
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
	case errors.Is(err, errBegunElsewhere):
		return errBegunElsewhere.Error()
	case errors.Is(err, checkout.ErrNoRate):
		return checkout.ErrNoRate.Error()
	case errors.Is(err, checkout.ErrPaymentNotPossible):
		return checkout.ErrPaymentNotPossible.Error()
	case errors.Is(err, checkout.ErrMerchantSuspended):
		return checkout.ErrMerchantSuspended.Error()
	case errors.Is(err, pg.ErrWrongMasterKey):
		return pg.ErrWrongMasterKey.Error()
	case pg.Unavailable(err):
		return "PostgreSQL did not answer"
	}
	return "the step failed; see the worker's log"
}

// logger adds the ids of the run, which operators search by.
func logger(ctx context.Context) *slog.Logger {
	info := activity.GetInfo(ctx)
	return slog.With("activity", info.ActivityType.Name, "workflow_id", info.WorkflowExecution.ID,
		"run_id", info.WorkflowExecution.RunID, "attempt", info.Attempt)
}
