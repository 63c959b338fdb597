package storage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// SessionHistory holds the events of a session and its undecided payment. Session returns its
// decided payments and its payout.
type SessionHistory struct {
	InFlight *checkout.Transaction // the payment that is being decided; nil when there is none
	Events   []EventHistory        // oldest first
}

// EventHistory is an event with its deliveries, oldest first.
type EventHistory struct {
	webhook.Event
	Deliveries []webhook.Delivery // each with its newest attempts, oldest first, without response bodies
}

// maxAttemptsOfTree is how many attempts a history shows of each delivery: the attempts of the last
// two runs.
const maxAttemptsOfTree = 2 * webhook.MaxAttempts

// SessionHistory returns the history of a session, in one round trip. The history of an unknown
// session is empty.
func (s *Store) SessionHistory(ctx context.Context, ref checkout.Ref) (SessionHistory, error) {
	var (
		h          SessionHistory
		deliveries []webhook.Delivery
		attempts   map[string][]webhook.Attempt
		batch      pgx.Batch
	)

	batch.Queue(`SELECT `+transactionColumns+transactionJoin+`
		WHERE t.session_id = $3 AND t.merchant_id = $1 AND t.mode = $2
			AND t.status = 'processing'`,
		ref.MerchantID, ref.Mode, ref.ID).Query(func(rows pgx.Rows) (err error) {
		h.InFlight, err = pg.OptionalRow[checkout.Transaction](rows)
		return err
	})

	const ofSession = `WHERE e.session_id = $3 AND e.merchant_id = $1 AND e.mode = $2 `
	batch.Queue(selectEvent+ofSession+`ORDER BY e.id`,
		ref.MerchantID, ref.Mode, ref.ID).Query(func(rows pgx.Rows) (err error) {
		h.Events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (EventHistory, error) {
			e, err := scanEvent(row)
			return EventHistory{Event: e}, err
		})
		return err
	})

	batch.Queue(selectDelivery+ofSession+`ORDER BY d.id`,
		ref.MerchantID, ref.Mode, ref.ID).Query(func(rows pgx.Rows) (err error) {
		deliveries, err = pgx.CollectRows(rows, scanDelivery)
		return err
	})

	batch.Queue(`
		SELECT d.id, a.run, a.number, a.scheduled_at, a.started_at, a.duration_ms, a.status_code,
			a.error_kind, NULL::bytea
		FROM webhook_delivery d JOIN event e ON e.id = d.event_id CROSS JOIN LATERAL (
			SELECT run, number, scheduled_at, started_at, duration_ms, status_code, error_kind
			FROM webhook_attempt WHERE delivery_id = d.id ORDER BY run DESC, number DESC LIMIT $4) a `+ofSession+`
		ORDER BY a.run, a.number`,
		ref.MerchantID, ref.Mode, ref.ID, maxAttemptsOfTree).Query(func(rows pgx.Rows) (err error) {
		attempts, err = collectAttempts(rows)
		return err
	})

	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return SessionHistory{}, fmt.Errorf("history of a session: %w", err)
	}

	h.add(deliveries, attempts)
	return h, nil
}

// collectAttempts reads rows that hold a delivery's id and an attempt. The key of the map is the
// delivery's id.
func collectAttempts(rows pgx.Rows) (map[string][]webhook.Attempt, error) {
	all := map[string][]webhook.Attempt{}
	for rows.Next() {
		var id string
		a, err := scanAttempt(withID{rows, &id})
		if err != nil {
			return nil, err
		}
		all[id] = append(all[id], a)
	}
	return all, rows.Err()
}

// withID scans an id before the other columns of a row.
type withID struct {
	pgx.CollectableRow
	id *string
}

func (r withID) Scan(dest ...any) error {
	return r.CollectableRow.Scan(append([]any{r.id}, dest...)...)
}

// add assigns deliveries to their events.
func (h *SessionHistory) add(deliveries []webhook.Delivery, attempts map[string][]webhook.Attempt) {
	at := map[string]int{}
	for i, e := range h.Events {
		at[e.ID] = i
	}
	for _, d := range deliveries {
		i, ok := at[d.EventID]
		if !ok { // the event was published after the first query
			continue
		}
		d.Attempts = attempts[d.ID]
		h.Events[i].Deliveries = append(h.Events[i].Deliveries, d)
	}
}
