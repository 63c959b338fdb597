package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Runs is what Housekeeping needs of workflows.Client, which it cannot import.
type Runs interface {
	// Open reports whether a workflow id has a run that has not ended.
	Open(ctx context.Context, id string) (bool, error)
	// Terminated returns the ids whose runs were terminated in the last while.
	Terminated(ctx context.Context, within time.Duration) ([]string, error)
	// ResumeDelivery wakes a parked delivery; checkout.ErrNotFound: it has no run.
	ResumeDelivery(ctx context.Context, id string) error
	// CancelDelivery cancels a delivery's run; checkout.ErrNotFound: it has none.
	CancelDelivery(ctx context.Context, id string) error
}

// Housekeeping are the activities that keep PostgreSQL and Temporal in
// agreement, for all merchants.
type Housekeeping struct {
	Store *storage.Store
	Runs  Runs
}

// Orphan is a row that should have a run and has none.
type Orphan = storage.Overdue

// Sizes and times of Reconcile.
const (
	overdueMargin    = 30 * time.Second // what is late by less is about to happen
	terminatedWithin = 10 * time.Minute // several times the interval of Reconcile
	housekeepingPage = 200
	maxOrphans       = 200 // started again in one go; their runs are children of one Reconcile
)

// FindOrphans returns rows that should have a run and have none: their workflow
// was terminated, or never started. What Temporal's list knows of terminated
// runs makes it quick; what is overdue makes it sure.
func (h *Housekeeping) FindOrphans(ctx context.Context) ([]Orphan, error) {
	var orphans []Orphan
	terminated, err := h.Runs.Terminated(ctx, terminatedWithin)
	if err != nil {
		return nil, asFinal(ctx, err, "")
	}
	if len(terminated) > 0 {
		rows, err := h.Store.Unfinished(ctx, terminated)
		if err != nil {
			return nil, asFinal(ctx, err, "")
		}
		if orphans, err = h.withoutRun(ctx, rows); err != nil {
			return nil, asFinal(ctx, err, "")
		}
	}
	known := map[string]bool{}
	for _, o := range orphans {
		known[o.ID] = true
	}
	err = eachPage(ctx, func(after string) (string, error) {
		rows, err := h.Store.Overdue(ctx, overdueMargin, after, housekeepingPage)
		if err != nil || len(rows) == 0 {
			return "", err
		}
		found, err := h.withoutRun(ctx, rows)
		for _, o := range found {
			if !known[o.ID] {
				orphans = append(orphans, o)
			}
		}
		if len(orphans) >= maxOrphans {
			return "", err // the next Reconcile finds the others
		}
		return rows[len(rows)-1].ID, err
	})
	return orphans, asFinal(ctx, err, "")
}

// withoutRun returns those of rows that have no open run. A row is read again
// after that was seen: a run may have ended meanwhile, and its row with it.
func (h *Housekeeping) withoutRun(ctx context.Context, rows []Orphan) ([]Orphan, error) {
	var ids []string
	for _, row := range rows {
		open, err := h.Runs.Open(ctx, row.ID)
		if err != nil {
			return nil, err
		}
		if !open {
			ids = append(ids, row.ID)
		}
		activity.RecordHeartbeat(ctx)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return h.Store.Unfinished(ctx, ids)
}

// ResumeParked wakes the deliveries that came due while on hold and are on hold
// no longer. It returns how many.
func (h *Housekeeping) ResumeParked(ctx context.Context) (int, error) {
	return h.steer(ctx, h.Store.ParkedDeliveries, func(ref storage.DeliveryRef) error {
		err := h.Runs.ResumeDelivery(ctx, ref.ID)
		if errors.Is(err, checkout.ErrNotFound) {
			return h.Store.UnparkDelivery(ctx, ref) // then FindOrphans finds it
		}
		return err
	})
}

// CancelOrphaned cancels the pending deliveries of deleted registrations. It
// returns how many.
func (h *Housekeeping) CancelOrphaned(ctx context.Context) (int, error) {
	return h.steer(ctx, h.Store.OrphanedDeliveries, func(ref storage.DeliveryRef) error {
		err := h.Runs.CancelDelivery(ctx, ref.ID) // its run ends the row
		if errors.Is(err, checkout.ErrNotFound) {
			_, err := h.Store.EndDelivery(ctx, ref, "", webhook.DeliveryCanceled)
			return err
		}
		return err
	})
}

// maxSteerErrors is how many deliveries may fail to be steered before all do.
const maxSteerErrors = 10

// steer calls do with every delivery that find finds. One that cannot be steered,
// such as a run that takes no more signals, does not keep the others from it.
func (h *Housekeeping) steer(ctx context.Context, find func(context.Context, string, int) ([]storage.DeliveryRef, error), do func(storage.DeliveryRef) error) (int, error) {
	n := 0
	var failed []error
	err := eachPage(ctx, func(after string) (string, error) {
		refs, err := find(ctx, after, housekeepingPage)
		if err != nil || len(refs) == 0 {
			return "", err
		}
		for _, ref := range refs {
			switch err := do(ref); {
			case err == nil:
				n++
			case len(failed) >= maxSteerErrors:
				return "", err
			default:
				failed = append(failed, err)
			}
			activity.RecordHeartbeat(ctx, n)
		}
		return refs[len(refs)-1].ID, nil
	})
	return n, asFinal(ctx, errors.Join(append(failed, err)...), "")
}

// DeleteFinishedInput says how old a finished delivery becomes.
type DeleteFinishedInput struct {
	Age time.Duration `json:"age"`
}

// DeleteFinished removes deliveries that are older, and events without any; and
// idempotent requests and token buckets that are of no use any more. It returns
// how many deliveries and events went.
func (h *Housekeeping) DeleteFinished(ctx context.Context, in DeleteFinishedInput) (int, error) {
	const page = 1000
	if err := h.Store.DeleteOldRequests(ctx); err != nil {
		return 0, asFinal(ctx, err, "")
	}
	if err := h.Store.DeleteOldBuckets(ctx, in.Age); err != nil {
		return 0, asFinal(ctx, err, "")
	}
	total := 0
	for {
		n, err := h.Store.DeleteFinished(ctx, in.Age, page)
		if err != nil {
			return total, asFinal(ctx, err, "")
		}
		if n == 0 {
			break
		}
		total += n
		activity.RecordHeartbeat(ctx, total)
	}
	err := eachPage(ctx, func(after string) (string, error) {
		last, n, err := h.Store.DeleteUnsentEvents(ctx, in.Age, after, page)
		total += n
		activity.RecordHeartbeat(ctx, total)
		return last, err
	})
	return total, asFinal(ctx, err, "")
}

// eachPage calls next with the last id that was seen until it returns "".
func eachPage(ctx context.Context, next func(after string) (string, error)) error {
	after := ""
	for {
		var err error
		if after, err = next(after); err != nil || after == "" {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
