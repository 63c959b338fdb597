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

// Runs is the part of runs.Client that Housekeeping uses. Importing runs would be an import cycle.
type Runs interface {
	// Open reports whether a workflow id has an open run.
	Open(ctx context.Context, id string) (bool, error)
	// Terminated returns the workflow ids of runs that were terminated less than within ago.
	Terminated(ctx context.Context, within time.Duration) ([]string, error)
	// ResumeDelivery wakes a parked delivery. It returns checkout.ErrNotFound when there is no run.
	ResumeDelivery(ctx context.Context, id string) error
	// CancelDelivery cancels a delivery's run. It returns checkout.ErrNotFound when there is no
	// run.
	CancelDelivery(ctx context.Context, id string) error
}

// Housekeeping holds the activities that keep PostgreSQL and Temporal in agreement. They work for
// all merchants.
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

// Limits of one Reconcile.
const (
	overdueMargin    = 30 * time.Second // a shorter delay is normal
	terminatedWithin = 10 * time.Minute // several times the interval of Reconcile
	housekeepingPage = 200
	maxOrphans       = 200 // restarted at once; their runs are children of one Reconcile
)

// patience is how many rows may fail on their own. More failures mean that PostgreSQL or Temporal
// is down, so trying the other rows is useless.
const patience = 5

// failures counts the rows that failed.
type failures int

// pass logs the failure of one row, so that the other rows get their turn. The next Reconcile tries
// the row again. It returns err after too many failures.
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

// FindOrphans returns rows that should have a run and have none: the run was terminated or never
// started. Temporal's list of terminated runs finds some of them quickly. The search for overdue
// rows finds all of them, even when the list fails.
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
			return "", err // the next Reconcile finds the rest
		}
		return rows[len(rows)-1].ID, err
	})
	return orphans, asFinal(ctx, err, "")
}

// terminated returns the orphans among the terminated runs in Temporal's list. When the list fails,
// FindOrphans finds them once they are overdue.
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

// withoutRun returns the rows that have no open run. It reads these rows again, because a run may
// have ended its row in the meantime.
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

// ResumeParked wakes the deliveries that came due while on hold and are no longer on hold. It
// returns their number.
func (h *Housekeeping) ResumeParked(ctx context.Context) (int, error) {
	return h.steer(ctx, h.Store.ParkedDeliveries, func(ref checkout.Ref) error {
		err := h.Runs.ResumeDelivery(ctx, ref.ID)
		if errors.Is(err, checkout.ErrNotFound) {
			return h.Store.UnparkDelivery(ctx, ref) // the next FindOrphans finds it
		}
		return err
	})
}

// CancelOrphaned cancels the pending deliveries of deleted registrations. It returns their number.
func (h *Housekeeping) CancelOrphaned(ctx context.Context) (int, error) {
	return h.steer(ctx, h.Store.OrphanedDeliveries, func(ref checkout.Ref) error {
		err := h.Runs.CancelDelivery(ctx, ref.ID) // the run ends the row
		if errors.Is(err, checkout.ErrNotFound) {
			_, err := h.Store.EndDelivery(ctx, ref, "", webhook.DeliveryCanceled)
			return err
		}
		return err
	})
}

// steer calls do for every delivery that find returns. It returns the number of successful calls.
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

// DeleteFinishedInput holds the age at which finished deliveries are deleted.
type DeleteFinishedInput struct {
	Age time.Duration `json:"age"`
}

// retentionPage is how many rows one statement deletes. When a statement reaches its time-out,
// because the rows are large or the disk is slow, the next one deletes a tenth.
const retentionPage = 1000

// sweep deletes one kind of old rows, page by page.
type sweep struct {
	limit int
	page  func(limit int) (more bool, err error)
}

// next deletes one page and reports whether more pages may follow.
func (s *sweep) next() (more bool, err error) {
	more, err = s.page(s.limit)
	if storage.TookTooLong(err) && s.limit > 1 {
		s.limit /= 10
		return true, nil
	}
	return more && err == nil, err
}

// DeleteFinished deletes finished deliveries older than in.Age, and old events without a delivery.
// It also deletes old idempotent requests, token buckets and secrets that waited for their page.
// The kinds take turns, one page each, so an error or a backlog of one kind does not block the
// others. It returns the number of deleted deliveries and events.
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

// eachPage calls next with the id that next returned last, until next returns "".
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
