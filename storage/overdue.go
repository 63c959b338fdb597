package storage

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Overdue is a row whose run should have finished or moved on by now. Only Temporal knows whether the run exists.
type Overdue struct {
	checkout.Ref // of a session, payout, refund, dispute, delivery, bulk replay or picture; also the workflow id

	ExpiresAt  time.Time         // of a session
	PaymentID  string            // of a session's payment in flight
	EventType  webhook.EventType // of a delivery
	EndpointID string            // of a delivery or bulk replay
	Host       string            // of a delivery
}

// unfinished selects every row of every merchant that should have a run. It has no owner because
// Reconcile works for all merchants.
const unfinished = `
	SELECT s.id, s.merchant_id, s.mode, s.expires_at,
			coalesce((SELECT t.id FROM transaction t WHERE t.session_id = s.id AND t.status = 'processing'), '') AS payment_id,
			'' AS type, '' AS endpoint_id, '' AS url, s.expires_at AS due
		FROM checkout_session s WHERE s.status = 'pending'
	UNION ALL
	SELECT p.id, p.merchant_id, p.mode, NULL, '', '', '', '',
			coalesce(p.next_action_at, p.created_at)
		FROM payout p WHERE p.status = 'pending'
	UNION ALL
	SELECT r.id, r.merchant_id, r.mode, NULL, '', '', '', '', coalesce(r.next_action_at, r.created_at)
		FROM refund r WHERE r.status = 'pending' AND r.merchant_id IS NOT NULL
	UNION ALL
	SELECT r.dispute_id, e.merchant_id, e.mode, NULL, '', '', '', '', e.submitted_at
		FROM dispute_evidence e JOIN charge_risk r ON r.id = e.risk_id WHERE e.content IS NOT NULL
	UNION ALL
	SELECT d.id, d.merchant_id, d.mode, NULL, '', e.type, ` + laneEndpoint + `, d.url,
			d.next_attempt_at
		FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE d.status = 'pending' AND d.parked_at IS NULL
	UNION ALL
	SELECT r.id, r.merchant_id, r.mode, NULL, '', '', r.endpoint_id, '', r.created_at FROM webhook_replay r
	WHERE r.status = 'running'
	UNION ALL
	SELECT i.id, i.merchant_id, i.mode, NULL, '', '', '', '', i.created_at + interval '1 minute' FROM picture i
	WHERE i.status = 'pending'`

// Overdue returns up to limit rows that are overdue by more than margin, in the order of their ids, after the id after.
// The query uses statement_timestamp(): PostgreSQL cannot use an index with clock_timestamp().
func (s *Installation) Overdue(ctx context.Context, margin time.Duration, after string, limit int) ([]Overdue, error) {
	return s.overdue(ctx, `
		due < statement_timestamp() - $1::interval AND id > $2 ORDER BY id LIMIT $3`, margin, after, limit)
}

// SessionCursor is a place in the list of pending sessions.
type SessionCursor struct {
	ExpiresAt time.Time `json:"expires_at"`
	ID        string    `json:"id"`
}

// PendingSessions returns up to limit pending sessions, those that expire first at the beginning, from the
// one after the cursor on. The zero cursor is the beginning.
func (s *Installation) PendingSessions(ctx context.Context, after SessionCursor, limit int) ([]Overdue, error) {
	return s.overdue(ctx, `id IN (
			SELECT id FROM checkout_session
			WHERE status = 'pending' AND expires_at >= $1 AND (expires_at, id) > ($1, $2)
			ORDER BY expires_at, id LIMIT $3)
		ORDER BY expires_at, id`, after.ExpiresAt, after.ID, limit)
}

// SomePendingSessions returns up to limit pending sessions, chosen at random.
func (s *Installation) SomePendingSessions(ctx context.Context, limit int) ([]Overdue, error) {
	return s.overdue(ctx, `id IN (
			SELECT id FROM checkout_session WHERE status = 'pending' ORDER BY random() LIMIT $1)`, limit)
}

// Unfinished returns the rows among ids that should have a run. Parked deliveries are included.
func (s *Installation) Unfinished(ctx context.Context, ids []string) ([]Overdue, error) {
	return s.overdue(ctx, `id = ANY ($1)
		UNION ALL
		SELECT d.id, d.merchant_id, d.mode, NULL, '', e.type, `+laneEndpoint+`, d.url
			FROM webhook_delivery d JOIN event e ON e.id = d.event_id
			WHERE d.parked_at IS NOT NULL AND d.status = 'pending' AND d.id = ANY ($1)`, ids)
}

func (s *Installation) overdue(ctx context.Context, where string, args ...any) ([]Overdue, error) {
	got, err := pg.CollectBy(ctx, s.pool, func(row pgx.CollectableRow) (o Overdue, err error) {
		var (
			address   string
			expiresAt *time.Time
		)
		err = row.Scan(&o.ID, &o.MerchantID, &o.Mode, &expiresAt, &o.PaymentID, &o.EventType, &o.EndpointID, &address)
		if expiresAt != nil {
			o.ExpiresAt = *expiresAt
		}
		o.Host = webhook.HostOf(address)
		return o, err
	}, `
		SELECT id, merchant_id, mode, expires_at, payment_id, type, endpoint_id, url
		FROM (`+unfinished+`) u WHERE `+where, args...)
	return got, pg.Wrap("overdue", err)
}

// wakeable selects the deliveries d that came due while on hold and are no longer on hold.
const wakeable = `d.parked_at IS NOT NULL AND NOT d.held AND (d.session_url OR w.status = 'enabled')`

// ParkedDeliveries returns up to limit deliveries, after the id after, that came due while on hold
// and are no longer on hold.
func (s *WebhookReader) ParkedDeliveries(ctx context.Context, after string, limit int) ([]checkout.Ref, error) {
	return s.deliveryRefs(ctx, `
		SELECT d.id, d.merchant_id, d.mode FROM webhook_delivery d
		JOIN webhook_endpoint w ON w.id = d.endpoint_id
		WHERE `+wakeable+` AND d.id > $1 ORDER BY d.id LIMIT $2`, after, limit)
}

// OrphanedDeliveries returns up to limit pending deliveries, after the id after, whose registration was deleted.
func (s *WebhookReader) OrphanedDeliveries(ctx context.Context, after string, limit int) ([]checkout.Ref, error) {
	return s.deliveryRefs(ctx, `
		SELECT d.id, d.merchant_id, d.mode FROM webhook_endpoint w
			JOIN webhook_delivery d ON d.merchant_id = w.merchant_id AND d.mode = w.mode
				AND d.endpoint_id = w.id AND d.status = 'pending'
		WHERE w.deleted_at IS NOT NULL AND NOT d.session_url AND d.status <> 'delivered'
			AND d.id > $1 ORDER BY d.id LIMIT $2`, after, limit)
}

func (s *WebhookReader) deliveryRefs(ctx context.Context, query string, args ...any) ([]checkout.Ref, error) {
	got, err := pg.Collect[checkout.Ref](ctx, s.pool, query, args...)
	return got, pg.Wrap("deliveries", err)
}
