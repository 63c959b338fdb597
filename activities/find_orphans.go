package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Orphan is a row that should have a run and has none.
type Orphan struct {
	checkout.Ref // of a session, payout, delivery or bulk replay; its id is the workflow id

	ExpiresAt  time.Time         `json:"expires_at,omitzero"`  // of a session
	PaymentID  string            `json:"payment_id,omitempty"` // of a session's payment in flight
	EventType  webhook.EventType `json:"event_type,omitempty"` // of a delivery
	EndpointID string            `json:"endpoint_id,omitempty"`
	Host       string            `json:"host,omitempty"` // of a delivery
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
		rows, err := h.Store.Overdue(ctx, OverdueMargin, after, housekeepingPage)
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
	countReconciled(ctx, "restarted", len(orphans)) // Reconcile starts each of them
	return orphans, asFinal(ctx, err, "")
}

// terminated returns the orphans among the terminated runs in Temporal's list. When the list fails,
// FindOrphans finds them once they are overdue.
func (h *Housekeeping) terminated(ctx context.Context, failed *failures) ([]Orphan, error) {
	ids, err := h.Runs.Terminated(ctx, terminatedWithin)
	if err != nil {
		logger(ctx).ErrorContext(ctx,
			"terminated runs not listed: they start again when they are overdue", "error", err)
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
func (h *Housekeeping) withoutRun(
	ctx context.Context, rows []storage.Overdue, failed *failures,
) ([]Orphan, error) {
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
