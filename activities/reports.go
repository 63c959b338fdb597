package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/contract"
)

const (
	// reportsLate is how much later than a younger one a report may appear in the network's list.
	reportsLate = 15 * time.Minute
	// reportsKept is how long the network lists a report, less a day.
	reportsKept = 29 * 24 * time.Hour
)

// ReadReports reads the card network's list of its reports, so that nothing depends on the reports that
// the network sends. It returns how many are new. A repeat finds them known.
//
// The stored cursor stays behind what was read: a report may appear in the list late.
func (b *Books) ReadReports(ctx context.Context, in contract.ModeInput) (int, error) {
	of, err := b.bookOf(in)
	if err != nil {
		return 0, asFinal(ctx, err, "")
	}
	return of.readReports(ctx)
}

func (b book) readReports(ctx context.Context) (int, error) {
	now := time.Now()
	cursor, since, err := b.readFrom(ctx, now)
	fresh := 0
	for more := true; more && err == nil; {
		var page []books.AcquirerEvent
		page, more, err = b.Events(ctx, cursor, since)
		if err != nil {
			break
		}
		var read storage.AcquirerCursor
		for _, e := range page {
			isNew, noteErr := b.Note(ctx, e)
			if noteErr != nil {
				return fresh, asFinal(ctx, noteErr, "")
			}
			if isNew {
				fresh++
			}
			if !e.Unread && e.CreatedAt.Before(now.Add(-reportsLate)) {
				read = storage.AcquirerCursor{EventID: e.ID, CreatedAt: e.CreatedAt}
			}
			cursor = e.ID
		}
		activity.RecordHeartbeat(ctx, fresh)
		if read.EventID != "" {
			err = b.Store.MoveAcquirerCursor(ctx, b.mode, read)
		}
	}
	return fresh, asFinal(ctx, err, "")
}

// readFrom returns where the reading begins. The network forgets a cursor that is too old.
func (b book) readFrom(ctx context.Context, now time.Time) (cursor string, since time.Time, err error) {
	c, err := b.Store.AcquirerCursor(ctx, b.mode)
	oldest := now.Add(-reportsKept)
	switch {
	case c.EventID == "":
		return "", now.Add(-chargesBack), err
	case c.CreatedAt.Before(oldest):
		return "", oldest, err
	}
	return c.EventID, c.CreatedAt, err
}
