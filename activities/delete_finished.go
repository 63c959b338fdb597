package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
)

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
