package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// DeleteFinished deletes up to limit deliveries that ended more than age ago, oldest first, with
// their attempts. It also deletes events that lost their last delivery. An unfinished delivery
// stays, however old. It returns the number of deleted deliveries; 0 means that none is left.
func (s *Store) DeleteFinished(ctx context.Context, age time.Duration, limit int) (int, error) {
	var deleted int
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			WITH old AS (
				SELECT id FROM webhook_delivery
				WHERE id < $1 AND status <> 'pending'
					AND finished_at < clock_timestamp() - $2::interval
				ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED
			), attempt AS (
				DELETE FROM webhook_attempt a USING old WHERE a.delivery_id = old.id
			)
			DELETE FROM webhook_delivery d USING old WHERE d.id = old.id RETURNING d.event_id`,
			oldID(checkout.PrefixDelivery, age), age, limit)
		if err != nil {
			return err
		}

		events, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}

		deleted = len(events)
		_, err = tx.Exec(ctx, `
			DELETE FROM event e WHERE e.id = ANY ($1)
				AND NOT EXISTS (SELECT FROM webhook_delivery d WHERE d.event_id = e.id)`, events)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete finished deliveries: %w", err)
	}
	return deleted, nil
}

// DeleteUnsentEvents looks at up to limit events older than age, after the id after. It deletes
// those events that have no delivery. It returns the last id it looked at, "" when no event is
// left, and the number of deleted events.
func (s *Store) DeleteUnsentEvents(
	ctx context.Context, age time.Duration, after string, limit int,
) (last string, deleted int, err error) {
	// Look at the rows one by one: a plan for all of them at once would read the whole log.
	err = s.pool.QueryRow(ctx, `
		WITH old AS MATERIALIZED (
			SELECT id FROM event WHERE id > $1 AND id < $2
				AND created_at < clock_timestamp() - $3::interval ORDER BY id LIMIT $4
		), unsent AS MATERIALIZED (
			SELECT old.id FROM old LEFT JOIN LATERAL (SELECT 1 AS sent FROM webhook_delivery d
				WHERE d.event_id = old.id LIMIT 1) d ON true WHERE d.sent IS NULL
		), gone AS (
			DELETE FROM event e USING unsent WHERE e.id = unsent.id RETURNING e.id
		)
		SELECT coalesce((SELECT max(id) FROM old), ''), (SELECT count(*) FROM gone)`,
		after, oldID(checkout.PrefixEvent, age), age, limit).Scan(&last, &deleted)
	if err != nil {
		return "", 0, fmt.Errorf("delete unsent events: %w", err)
	}
	return last, deleted, nil
}

// oldID returns an id that sorts after the ids of rows older than age.
func oldID(prefix string, age time.Duration) string {
	return checkout.FirstID(prefix, time.Now().Add(-age+clockSkew))
}
