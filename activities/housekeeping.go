package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// Runs is the part of runs.Client that Housekeeping uses. Importing runs would be an import cycle.
type Runs interface {
	// Open reports whether a workflow id has an open run.
	Open(ctx context.Context, id string) (bool, error)
	// StartRun starts the run of a row and reports whether it did: an open run goes on. With again it
	// also starts one when Temporal has a closed run of the id.
	StartRun(ctx context.Context, run contract.RunRequest, again bool) (bool, error)
	// Terminated returns the workflow ids of runs that were terminated less than within ago.
	Terminated(ctx context.Context, within time.Duration) ([]string, error)
	// ResumeDelivery wakes a parked delivery. It returns checkout.ErrNotFound when there is no run.
	ResumeDelivery(ctx context.Context, id string) error
	// CancelDelivery cancels a delivery's run. It returns checkout.ErrNotFound when there is no run.
	CancelDelivery(ctx context.Context, id string) error
}

// Housekeeping holds the activities that keep PostgreSQL and Temporal in agreement. They work for all merchants.
type Housekeeping struct {
	Installation *storage.Installation
	Merchants    *storage.Merchants
	Secrets      *people.Secrets
	Webhooks     *storage.Webhooks
	Runs         Runs
	Balances     *BalancePayer
	// Failure defines when failing registrations are marked and put on hold. Its zero value does neither.
	Failure storage.FailureRules
}

// OverdueMargin is how late a row may be. A shorter delay is normal.
const OverdueMargin = 30 * time.Second

// Limits of one Reconcile.
const (
	terminatedWithin = 10 * time.Minute // several times the interval of Reconcile
	housekeepingPage = 200
)

// patience is how many rows may fail one after the other. More failures mean that PostgreSQL, Temporal or the card
// network is down, so trying the other rows is useless.
const patience = 5

// failures counts the rows that failed since one did not.
type failures int

// pass logs the failure of one row, so that the other rows get their turn. The next round tries
// the row again. It returns err after too many failures in a row.
func (f *failures) pass(ctx context.Context, id string, err error) error {
	if err == nil {
		*f = 0
		return nil
	}
	countReconciled(ctx, "failed", 1)
	if *f++; *f > patience || ctx.Err() != nil {
		return err
	}
	logger(ctx).ErrorContext(ctx, "left to the next round", "id", id, "error", err)
	return nil
}

// steer calls do for every delivery that find returns. It returns the number of successful calls, and
// counts them as outcome.
func (h *Housekeeping) steer(
	ctx context.Context, outcome string, find func(context.Context, string, int) ([]checkout.Ref, error),
	do func(checkout.Ref) error,
) (int, error) {
	n := 0
	page := func(after string) ([]checkout.Ref, error) { return find(ctx, after, housekeepingPage) }
	err := eachRow(ctx, page, checkout.Ref.PublicID, func(ref checkout.Ref) error {
		err := do(ref)
		if err == nil {
			n++
		}
		return err
	})
	countReconciled(ctx, outcome, n)
	return n, asFinal(ctx, err, "")
}

// place is the last row that eachRow has visited. A try of the activity that ended early leaves it to the next one, so
// rows that always fail do not hold up those behind them.
type place struct {
	After string `json:"after"`
}

// eachRow calls do for every row, page by page. find returns the rows after an id, ordered by id; none when there
// are no more. A row that fails is left to the next round, see failures; what is behind too many of them, to the next
// try. An activity may call it once, and must record no other heartbeat: the place would be lost.
func eachRow[T any](
	ctx context.Context, find func(after string) ([]T, error), id func(T) string, do func(T) error,
) error {
	var (
		failed failures
		at     place
	)
	if activity.GetHeartbeatDetails(ctx, &at) != nil {
		at = place{} // the first try, or one that ended elsewhere
	}
	for {
		rows, err := find(at.After)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			at.After = id(row)
			activity.RecordHeartbeat(ctx, at)
			if err := failed.pass(ctx, at.After, do(row)); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// ResumeParked wakes the deliveries that came due while on hold and are no longer on hold. It returns their number.
func (h *Housekeeping) ResumeParked(ctx context.Context) (int, error) {
	return h.steer(ctx, "resumed", h.Webhooks.ParkedDeliveries, func(ref checkout.Ref) error {
		err := h.Runs.ResumeDelivery(ctx, ref.ID)
		if errors.Is(err, checkout.ErrNotFound) {
			return h.Webhooks.UnparkDelivery(ctx, ref) // the next RestartOrphans finds it
		}
		return err
	})
}

// CancelOrphaned cancels the pending deliveries of deleted registrations. It returns their number.
func (h *Housekeeping) CancelOrphaned(ctx context.Context) (int, error) {
	return h.steer(ctx, "canceled", h.Webhooks.OrphanedDeliveries, func(ref checkout.Ref) error {
		err := h.Runs.CancelDelivery(ctx, ref.ID) // the run ends the row
		if errors.Is(err, checkout.ErrNotFound) {
			_, err := h.Webhooks.EndDelivery(ctx, ref, "", webhook.DeliveryCanceled)
			return err
		}
		return err
	})
}

// judgeEndpoints marks the webhook registrations that fail, and puts on hold those that failed for too long. An error
// about one registration holds up no other.
func (h *Housekeeping) judgeEndpoints(ctx context.Context) {
	var failed failures
	due, err := h.Webhooks.FailingEndpoints(ctx, h.Failure, housekeepingPage)
	for _, ref := range due {
		if err = failed.pass(ctx, ref.ID, h.Webhooks.JudgeEndpoint(ctx, ref, h.Failure)); err != nil {
			break
		}
	}
	if err != nil {
		logger(ctx).ErrorContext(ctx, "failing webhooks left to the next Reconcile", "error", err)
	}
}
