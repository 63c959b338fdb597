package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// selectDelivery reads deliveries, without their attempts; next_attempt_at is
// told only while nothing else is to be waited for.
const selectDelivery = `
	SELECT d.id, d.event_id, e.type AS event_type, e.session_id, d.merchant_id, d.mode, d.endpoint_id,
		CASE WHEN d.session_url OR d.status <> 'pending' THEN d.url ELSE w.url END AS url, d.status,
		d.status = 'pending' AND (d.held OR (NOT d.session_url AND w.status = 'disabled')) AS held, d.run,
		CASE WHEN d.sending_until > clock_timestamp() OR d.held OR (NOT d.session_url AND w.status = 'disabled')
			THEN NULL ELSE d.next_attempt_at END AS next_attempt_at,
		d.created_at, d.finished_at, NOT d.session_url AND w.deleted_at IS NOT NULL, d.session_url
	FROM webhook_delivery d JOIN event e ON e.id = d.event_id JOIN webhook_endpoint w ON w.id = d.endpoint_id `

// Delivery returns one delivery with its attempts. It returns
// checkout.ErrNotFound.
func (s *Store) Delivery(ctx context.Context, ref checkout.Ref) (webhook.Delivery, error) {
	return s.delivery(ctx, `WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
}

// AnyDelivery is Delivery for an operator who knows only the id, such as
// `checkout replay`.
func (s *Store) AnyDelivery(ctx context.Context, id string) (webhook.Delivery, error) {
	return s.delivery(ctx, `WHERE d.id = $1`, id)
}

func (s *Store) delivery(ctx context.Context, where string, args ...any) (webhook.Delivery, error) {
	var d webhook.Delivery
	batch := &pgx.Batch{}
	batch.Queue(selectDelivery+where, args...).Query(func(rows pgx.Rows) (err error) {
		d, err = pgx.CollectExactlyOneRow(rows, scanDelivery)
		return err
	})
	batch.Queue(`
		SELECT run, number, scheduled_at, started_at, duration_ms, status_code, error_kind, response_body
		FROM (
			SELECT run, number, scheduled_at, started_at, duration_ms, status_code, error_kind, response_body
			FROM webhook_attempt WHERE delivery_id = $1 ORDER BY run DESC, number DESC LIMIT $2) a
		ORDER BY run, number`, args[0], maxAttemptsShown).Query(func(rows pgx.Rows) (err error) {
		d.Attempts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (webhook.Attempt, error) { return scanAttempt(row) })
		return err
	})
	err := s.pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return webhook.Delivery{}, checkout.ErrNotFound
	}
	if err != nil {
		return webhook.Delivery{}, fmt.Errorf("delivery: %w", err)
	}
	return d, nil
}

// maxAttemptsShown limits an answer; whoever replays that often looks at the
// newest.
const maxAttemptsShown = 60

func scanDelivery(row pgx.CollectableRow) (d webhook.Delivery, err error) {
	err = row.Scan(&d.ID, &d.EventID, &d.EventType, &d.SessionID, &d.MerchantID, &d.Mode, &d.EndpointID, &d.URL, &d.Status, &d.Held,
		&d.Run, &d.NextAttemptAt, &d.CreatedAt, &d.FinishedAt, &d.EndpointDeleted, &d.SessionURL)
	return d, err
}

// scanAttempt reads an attempt; before are for the columns in front.
func scanAttempt(row pgx.CollectableRow, before ...any) (a webhook.Attempt, err error) {
	var (
		took   *int64
		status *int
		kind   *webhook.ErrorKind
	)
	if err := row.Scan(append(before, &a.Run, &a.Number, &a.ScheduledAt, &a.StartedAt, &took, &status, &kind, &a.ResponseBody)...); err != nil {
		return a, err
	}
	if took != nil {
		a.Finished, a.Duration = true, milliseconds(*took)
	}
	if status != nil {
		a.StatusCode = *status
	}
	if kind != nil {
		a.ErrorKind = *kind
	}
	return a, nil
}

// DeliveryFilter chooses deliveries; what is empty does not choose.
type DeliveryFilter struct {
	Status     webhook.DeliveryStatus
	EndpointID string
	EventID    string
	EventType  webhook.EventType
	SessionID  string
}

// Deliveries lists deliveries, newest first, without their attempts.
func (s *Store) Deliveries(ctx context.Context, owner checkout.Owner, f DeliveryFilter, p Page) ([]webhook.Delivery, error) {
	q := newList(owner, "d")
	q.equal("d.status", string(f.Status))
	if f.Status != "" && f.Status != webhook.DeliveryDelivered {
		q.where("d.status <> 'delivered'") // says to PostgreSQL that the small index will do
	}
	q.equal("d.endpoint_id", f.EndpointID)
	q.equal("d.event_id", f.EventID)
	q.equal("e.type", string(f.EventType))
	q.equal("e.session_id", f.SessionID)
	q.page(checkout.PrefixDelivery, "d", p)
	rows, err := s.pool.Query(ctx, selectDelivery+q.sql, q.args...)
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	got, err := pgx.CollectRows(rows, scanDelivery)
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	return got, nil
}

// HoldDelivery puts a pending delivery on hold: an attempt that comes due waits
// until ResumeDelivery, and none is used up. Repeating it changes nothing. It
// returns checkout.ErrNotFound and webhook.ErrDeliveryNotPending. by notes it in
// the same transaction.
func (s *Store) HoldDelivery(ctx context.Context, ref checkout.Ref, by ...checkout.AuditEntry) error {
	return s.steer(ctx, ref, by, `SET held = true WHERE d.status = 'pending'`)
}

// ResumeDelivery ends HoldDelivery. Repeating it changes nothing. Errors as
// HoldDelivery, and so is by.
func (s *Store) ResumeDelivery(ctx context.Context, ref checkout.Ref, by ...checkout.AuditEntry) error {
	return s.steer(ctx, ref, by, `SET held = false WHERE d.status = 'pending'`)
}

// Parked reports whether the run of a delivery waits to be woken, although
// nothing holds it any more.
func (s *Store) Parked(ctx context.Context, ref checkout.Ref) (bool, error) {
	var parked bool
	err := s.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM webhook_delivery d JOIN webhook_endpoint w ON w.id = d.endpoint_id
			WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3 AND `+wakeable+`)`, ref.ID, ref.MerchantID, ref.Mode).Scan(&parked)
	if err != nil {
		return false, fmt.Errorf("parked: %w", err)
	}
	return parked, nil
}

// HurryDelivery notes that a pending delivery's next attempt is wanted now. It
// returns checkout.ErrNotFound, webhook.ErrDeliveryNotPending,
// webhook.ErrDeliveryInProgress when an attempt is under way, and
// webhook.ErrDeliveryHeld. by is as of HoldDelivery.
func (s *Store) HurryDelivery(ctx context.Context, ref checkout.Ref, by ...checkout.AuditEntry) error {
	return s.steer(ctx, ref, by, `SET hurried_at = clock_timestamp()
		FROM webhook_endpoint w WHERE w.id = d.endpoint_id AND d.status = 'pending' AND NOT d.held AND (d.session_url OR w.status = 'enabled')
		AND (d.sending_until IS NULL OR d.sending_until < clock_timestamp())`)
}

// steer changes a delivery on a condition, and says why when it does not hold.
func (s *Store) steer(ctx context.Context, ref checkout.Ref, by []checkout.AuditEntry, set string) error {
	var steered bool
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE webhook_delivery d `+set+` AND d.id = $1 AND d.merchant_id = $2 AND d.mode = $3`,
			ref.ID, ref.MerchantID, ref.Mode)
		if steered = tag.RowsAffected() > 0; err != nil || !steered {
			return err
		}
		return auditAll(ctx, tx, by)
	})
	if err != nil {
		return fmt.Errorf("steer delivery: %w", err)
	}
	if steered {
		return nil
	}
	d, err := s.Delivery(ctx, ref)
	switch {
	case err != nil:
		return err
	case d.Status != webhook.DeliveryPending:
		return webhook.ErrDeliveryNotPending
	case d.Held:
		return webhook.ErrDeliveryHeld
	}
	return webhook.ErrDeliveryInProgress
}

// HurryAttempt notes that the next attempt of the run that runID began is wanted
// now, as HurryDelivery does for the API. now is zero for PostgreSQL's clock.
func (s *Store) HurryAttempt(ctx context.Context, ref checkout.Ref, runID string, now time.Time) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE webhook_delivery SET hurried_at = coalesce($5, clock_timestamp())
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND run_id = $4 AND status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, runID, orNull(now))
	if err != nil {
		return fmt.Errorf("hurry attempt: %w", err)
	}
	return nil
}

// UnparkDelivery makes a parked delivery overdue: the run that waited is gone.
func (s *Store) UnparkDelivery(ctx context.Context, ref checkout.Ref) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE webhook_delivery SET next_attempt_at = parked_at, parked_at = NULL
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending' AND parked_at IS NOT NULL`, ref.ID, ref.MerchantID, ref.Mode)
	if err != nil {
		return fmt.Errorf("unpark delivery: %w", err)
	}
	return nil
}

// DeliveryEnd is how a delivery stands once EndDelivery or FailDelivery was called.
type DeliveryEnd struct {
	Status   webhook.DeliveryStatus
	RunID    string // of Temporal's run that began the last run of the log; "" before the first
	Attempts int    // that were noted in that run
}

// EndDelivery gives a pending delivery its final status, failed or canceled,
// unless a newer run than runID has begun; "" is any run. A hold ends with it: a
// replay is not held. It returns how the delivery stands then; one that had ended
// before keeps its status. Repeating it changes nothing. It returns
// checkout.ErrNotFound.
func (s *Store) EndDelivery(ctx context.Context, ref checkout.Ref, runID string, status webhook.DeliveryStatus) (DeliveryEnd, error) {
	return s.endDelivery(ctx, ref, runID, status, 0)
}

// FailDelivery is EndDelivery with status failed, for a run that has made all its
// attempts; else the delivery stays pending.
func (s *Store) FailDelivery(ctx context.Context, ref checkout.Ref, runID string) (DeliveryEnd, error) {
	return s.endDelivery(ctx, ref, runID, webhook.DeliveryFailed, webhook.MaxAttempts)
}

func (s *Store) endDelivery(
	ctx context.Context, ref checkout.Ref, runID string, status webhook.DeliveryStatus, attempts int,
) (end DeliveryEnd, err error) {
	err = s.pool.QueryRow(ctx, `
		UPDATE webhook_delivery SET status = $5, finished_at = clock_timestamp(), next_attempt_at = NULL, sending_until = NULL, parked_at = NULL,
			held = false
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND ($4 = '' OR coalesce(run_id, $4) = $4) AND status = 'pending' AND attempts >= $6
		RETURNING status, coalesce(run_id, ''), attempts`,
		ref.ID, ref.MerchantID, ref.Mode, runID, status, attempts).Scan(&end.Status, &end.RunID, &end.Attempts)
	if errors.Is(err, pgx.ErrNoRows) { // a statement of its own sees what the first one may have waited for
		err = s.pool.QueryRow(ctx, `
			SELECT status, coalesce(run_id, ''), attempts FROM webhook_delivery WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
			ref.ID, ref.MerchantID, ref.Mode).Scan(&end.Status, &end.RunID, &end.Attempts)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return end, checkout.ErrNotFound
	}
	if err != nil {
		return end, fmt.Errorf("end delivery: %w", err)
	}
	return end, nil
}
