package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Runs is what Housekeeping needs of runs.Client, which it cannot import.
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
type Orphan struct {
	checkout.Ref // of a session, payout, delivery or bulk replay; its id is the workflow id

	ExpiresAt  time.Time         `json:"expires_at,omitzero"`  // of a session
	PaymentID  string            `json:"payment_id,omitempty"` // of a session's payment in flight
	EventType  webhook.EventType `json:"event_type,omitempty"` // of a delivery
	EndpointID string            `json:"endpoint_id,omitempty"`
	Host       string            `json:"host,omitempty"` // of a delivery
}

// Sizes and times of Reconcile.
const (
	overdueMargin    = 30 * time.Second // what is late by less is about to happen
	terminatedWithin = 10 * time.Minute // several times the interval of Reconcile
	housekeepingPage = 200
	maxOrphans       = 200 // started again in one go; their runs are children of one Reconcile
)

// patience is how many rows may fail in one go, each for itself. When more do,
// PostgreSQL or Temporal is away, and trying the others is of no use.
const patience = 5

// failures counts the rows that failed.
type failures int

// pass logs that a row failed, so that the others get their turn; the row gets its
// own with the next Reconcile. It returns err when too many have failed.
func (f *failures) pass(ctx context.Context, id string, err error) error {
	if err == nil {
		return nil
	}
	if *f++; *f > patience || ctx.Err() != nil {
		return err
	}
	logger(ctx).ErrorContext(ctx, "left to the next Reconcile", "id", id, "error", err)
	return nil
}

// FindOrphans returns rows that should have a run and have none: their workflow
// was terminated, or never started. What Temporal's list knows of terminated
// runs makes it quick; what is overdue makes it sure, also when the list fails.
func (h *Housekeeping) FindOrphans(ctx context.Context) ([]Orphan, error) {
	var failed failures
	orphans, err := h.terminated(ctx, &failed)
	if err != nil {
		return nil, asFinal(ctx, err, "")
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
		found, err := h.withoutRun(ctx, rows, &failed)
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

// terminated returns the orphans among what Temporal's list knows of terminated
// runs. Without the list they are found when they are overdue.
func (h *Housekeeping) terminated(ctx context.Context, failed *failures) ([]Orphan, error) {
	ids, err := h.Runs.Terminated(ctx, terminatedWithin)
	if err != nil {
		logger(ctx).ErrorContext(ctx, "terminated runs not listed: they start again when they are overdue", "error", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := h.Store.Unfinished(ctx, ids)
	if err != nil {
		return nil, err
	}
	return h.withoutRun(ctx, rows, failed)
}

// withoutRun returns those of rows that have no open run. A row is read again
// after that was seen: a run may have ended meanwhile, and its row with it.
func (h *Housekeeping) withoutRun(ctx context.Context, rows []storage.Overdue, failed *failures) ([]Orphan, error) {
	var ids []string
	for _, row := range rows {
		activity.RecordHeartbeat(ctx)
		open, err := h.Runs.Open(ctx, row.ID)
		if err := failed.pass(ctx, row.ID, err); err != nil {
			return nil, err
		}
		if err == nil && !open {
			ids = append(ids, row.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	unfinished, err := h.Store.Unfinished(ctx, ids)
	orphans := make([]Orphan, 0, len(unfinished))
	for _, row := range unfinished {
		orphans = append(orphans, Orphan(row))
	}
	return orphans, err
}

// ResumeParked wakes the deliveries that came due while on hold and are on hold
// no longer. It returns how many.
func (h *Housekeeping) ResumeParked(ctx context.Context) (int, error) {
	return h.steer(ctx, h.Store.ParkedDeliveries, func(ref checkout.Ref) error {
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
	return h.steer(ctx, h.Store.OrphanedDeliveries, func(ref checkout.Ref) error {
		err := h.Runs.CancelDelivery(ctx, ref.ID) // its run ends the row
		if errors.Is(err, checkout.ErrNotFound) {
			_, err := h.Store.EndDelivery(ctx, ref, "", webhook.DeliveryCanceled)
			return err
		}
		return err
	})
}

// steer calls do with every delivery that find finds, and returns how many it
// went well with.
func (h *Housekeeping) steer(ctx context.Context, find func(context.Context, string, int) ([]checkout.Ref, error), do func(checkout.Ref) error) (int, error) {
	var (
		n      int
		failed failures
	)
	err := eachPage(ctx, func(after string) (string, error) {
		refs, err := find(ctx, after, housekeepingPage)
		if err != nil || len(refs) == 0 {
			return "", err
		}
		for _, ref := range refs {
			activity.RecordHeartbeat(ctx, n)
			err := do(ref)
			if err := failed.pass(ctx, ref.ID, err); err != nil {
				return "", err
			}
			if err == nil {
				n++
			}
		}
		return refs[len(refs)-1].ID, nil
	})
	return n, asFinal(ctx, err, "")
}

// DeleteFinishedInput says how old a finished delivery becomes.
type DeleteFinishedInput struct {
	Age time.Duration `json:"age"`
}

// retentionPage is how many rows one statement of Retention removes. When they are
// so large, or the disk so slow, that it takes too long, the next removes a tenth.
const retentionPage = 1000

// sweep is a part of Retention: it removes pages of what is old.
type sweep struct {
	limit int
	page  func(limit int) (more bool, err error)
}

// next removes a page, and says whether there may be more to do.
func (s *sweep) next() (more bool, err error) {
	more, err = s.page(s.limit)
	if storage.TookTooLong(err) && s.limit > 1 {
		s.limit /= 10
		return true, nil
	}
	return more && err == nil, err
}

// DeleteFinished removes deliveries that are older, and events without any; and
// idempotent requests, token buckets and secrets to be shown that are of no use any
// more. Each part stands by itself: they take turns, a page at a time, so that neither
// an error nor a backlog of one keeps the others from theirs. It returns how many
// deliveries and events went.
func (h *Housekeeping) DeleteFinished(ctx context.Context, in DeleteFinishedInput) (int, error) {
	var (
		total     int
		lastEvent string
		bucket    storage.Bucket
		errs      []error
	)
	parts := []*sweep{
		{retentionPage, func(limit int) (bool, error) {
			n, err := h.Store.DeleteFinished(ctx, in.Age, limit)
			total += n
			return n > 0, err
		}},
		{retentionPage, func(limit int) (bool, error) {
			last, n, err := h.Store.DeleteUnsentEvents(ctx, in.Age, lastEvent, limit)
			if err == nil {
				lastEvent = last
			}
			total += n
			return last != "", err
		}},
		{retentionPage, func(limit int) (bool, error) {
			n, err := h.Store.DeleteOldRequests(ctx, limit)
			return n > 0, err
		}},
		{retentionPage, func(limit int) (bool, error) {
			last, err := h.Store.DeleteOldBuckets(ctx, in.Age, bucket, limit)
			if err == nil {
				bucket = last
			}
			return last.Owner != "", err
		}},
		{1, func(int) (bool, error) { return false, h.Store.ForgetReveals(ctx) }},
	}
	for len(parts) > 0 && ctx.Err() == nil {
		parts = slices.DeleteFunc(parts, func(s *sweep) bool {
			activity.RecordHeartbeat(ctx, total)
			more, err := s.next()
			errs = append(errs, err)
			return !more
		})
	}
	return total, asFinal(ctx, errors.Join(append(errs, ctx.Err())...), "")
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
