package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// DeleteFinished removes up to limit deliveries, oldest first, that ended more
// than age ago, with their attempts, and then up to limit events as old that
// have no delivery left. A delivery that has not ended stays, however old. It
// returns how many rows went; 0 means that nothing is left to remove.
func (s *Store) DeleteFinished(ctx context.Context, age time.Duration, limit int) (int64, error) {
	before := time.Now().Add(-age + clockSkew)
	var deleted int64
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			WITH old AS (
				SELECT id FROM webhook_delivery
				WHERE id < $1 AND status <> 'pending' AND finished_at < clock_timestamp() - $2::interval
				ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED
			), attempt AS (
				DELETE FROM webhook_attempt a USING old WHERE a.delivery_id = old.id
			)
			DELETE FROM webhook_delivery d USING old WHERE d.id = old.id`,
			checkout.FirstID(checkout.PrefixDelivery, before), age, limit)
		if err != nil {
			return err
		}
		deleted = tag.RowsAffected()
		tag, err = tx.Exec(ctx, `
			DELETE FROM event WHERE id IN (
				SELECT e.id FROM event e
				WHERE e.id < $1 AND e.created_at < clock_timestamp() - $2::interval
				AND NOT EXISTS (SELECT FROM webhook_delivery d WHERE d.event_id = e.id)
				ORDER BY e.id LIMIT $3)`,
			checkout.FirstID(checkout.PrefixEvent, before), age, limit)
		if err != nil {
			return err
		}
		deleted += tag.RowsAffected()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("delete finished deliveries: %w", err)
	}
	return deleted, nil
}
