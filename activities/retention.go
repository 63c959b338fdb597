package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/contract"
)

// deleted counts what DeleteFinished has deleted so far. Its heartbeats show it.
type deleted struct {
	Log     int `json:"log"` // deliveries and events
	Session int `json:"session"`
	Audit   int `json:"audit"`
	Sandbox int `json:"sandbox"`
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
	if pg.TookTooLong(err) && s.limit > 1 {
		s.limit /= 10
		return true, nil
	}
	return more && err == nil, err
}

// deleteAll returns a sweep that ends when do deletes nothing. It adds the deleted rows to total.
func deleteAll(total *int, do func(limit int) (int, error)) *sweep {
	return &sweep{retentionPage, func(limit int) (bool, error) {
		n, err := do(limit)
		*total += n
		return n > 0, err
	}}
}

// deleteFrom returns a sweep that ends when do returns "". It gives do the last id that do returned.
func deleteFrom(total *int, do func(after string, limit int) (last string, deleted int, err error)) *sweep {
	after := ""
	return &sweep{retentionPage, func(limit int) (bool, error) {
		last, n, err := do(after, limit)
		if err == nil {
			after = last
		}
		*total += n
		return last != "", err
	}}
}

// DeleteFinished deletes finished deliveries older than in.Age, and old events without a delivery. It also deletes old
// idempotent requests, token buckets, mails, useless tokens of cards and secrets that waited for their page, and
// sessions, pictures, audit entries, API requests and rows of the sandbox whose age in in is not 0. Pictures have the
// age of sessions. The kinds take turns, one page each, so an error or a backlog of one kind does not block the others.
// It returns the number of deleted deliveries and events.
func (h *Housekeeping) DeleteFinished(ctx context.Context, in contract.RetentionInput) (int, error) {
	var (
		gone deleted
		errs []error
	)
	for parts := h.sweeps(ctx, in, &gone); len(parts) > 0 && ctx.Err() == nil; {
		parts = slices.DeleteFunc(parts, func(s *sweep) bool {
			activity.RecordHeartbeat(ctx, gone)
			more, err := s.next()
			errs = append(errs, err)
			return !more
		})
	}
	if gone != (deleted{}) {
		logger(ctx).InfoContext(ctx, "old rows deleted", "deliveries_and_events", gone.Log,
			"sessions", gone.Session, "audit_entries", gone.Audit, "sandbox_rows", gone.Sandbox)
	}
	return gone.Log, asFinal(ctx, errors.Join(append(errs, ctx.Err())...), "")
}

// sweeps returns the sweeps of all kinds. An event goes after its deliveries, a session after its events.
func (h *Housekeeping) sweeps(ctx context.Context, in contract.RetentionInput, gone *deleted) []*sweep {
	var bucket storage.Bucket
	old := func(total *int, rows storage.OldRows, age time.Duration) *sweep {
		return deleteAll(total, func(limit int) (int, error) { return h.Installation.DeleteOld(ctx, rows, age, limit) })
	}
	parts := []*sweep{
		deleteAll(&gone.Log, func(limit int) (int, error) { return h.Installation.DeleteFinished(ctx, in.Age, limit) }),
		deleteFrom(&gone.Log, func(after string, limit int) (string, int, error) {
			return h.Installation.DeleteUnsentEvents(ctx, in.Age, after, limit)
		}),
		old(new(int), storage.OldAnswers, storage.KeepAnswers),
		{retentionPage, func(limit int) (bool, error) {
			last, err := h.Installation.DeleteOldBuckets(ctx, in.Age, bucket, limit)
			if err == nil {
				bucket = last
			}
			return last.Owner != "", err
		}},
		{1, func(int) (bool, error) { return false, h.Secrets.ForgetReveals(ctx) }},
		deleteAll(new(int), func(limit int) (int, error) { return h.Installation.ForgetCardTokens(ctx, limit) }),
		old(new(int), storage.OldMails, in.Age),
	}
	if in.Session > 0 {
		parts = append(parts, deleteFrom(&gone.Session, func(after string, limit int) (string, int, error) {
			return h.Installation.DeleteOldSessions(ctx, in.Session, after, limit)
		}), old(new(int), storage.OldPictures, in.Session))
	}
	if in.Audit > 0 {
		parts = append(parts, deleteAll(&gone.Audit, func(limit int) (int, error) {
			return h.Installation.DeleteOldAuditEntries(ctx, in.Audit, limit)
		}))
	}
	if in.Request > 0 {
		parts = append(parts, old(new(int), storage.OldAPIRequests, in.Request))
	}
	if in.Sandbox > 0 {
		parts = append(parts, old(&gone.Sandbox, storage.OldSandboxCharges, in.Sandbox),
			old(&gone.Sandbox, storage.OldSandboxTransfers, in.Sandbox))
	}
	return parts
}
