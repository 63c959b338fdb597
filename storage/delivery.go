package storage

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// selectDelivery reads deliveries without their attempts. next_attempt_at is NULL during an attempt
// and during a hold, when the time says nothing about the next attempt.
const selectDelivery = `
	SELECT d.id, d.event_id, e.type AS event_type, e.session_id, d.merchant_id, d.mode, d.endpoint_id,
		CASE WHEN d.session_url OR d.status <> 'pending' THEN d.url ELSE w.url END AS url, d.status,
		d.status = 'pending' AND (d.held OR (NOT d.session_url AND w.status = 'disabled')) AS held, d.run,
		CASE WHEN d.sending_until > clock_timestamp() OR d.held OR (NOT d.session_url AND w.status = 'disabled')
			THEN NULL ELSE coalesce(d.next_attempt_at, d.parked_at) END AS next_attempt_at,
		CASE WHEN d.status = 'pending' AND d.busy_until = d.next_attempt_at THEN d.attempts_ahead END AS attempts_ahead,
		d.created_at, d.finished_at, NOT d.session_url AND w.deleted_at IS NOT NULL AS endpoint_deleted, d.session_url
	FROM webhook_delivery d JOIN event e ON e.id = d.event_id JOIN webhook_endpoint w ON w.id = d.endpoint_id `

// Delivery returns one delivery with its newest maxAttemptsShown attempts, oldest first. It
// returns checkout.ErrNotFound.
func (s *WebhookReader) Delivery(ctx context.Context, ref checkout.Ref) (webhook.Delivery, error) {
	return s.delivery(ctx, `WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
}

// AnyDelivery is Delivery for an operator who knows only the id, such as `checkout replay`.
func (s *WebhookReader) AnyDelivery(ctx context.Context, id string) (webhook.Delivery, error) {
	return s.delivery(ctx, `WHERE d.id = $1`, id)
}

func (s *WebhookReader) delivery(ctx context.Context, where string, args ...any) (webhook.Delivery, error) {
	var (
		batch    pgx.Batch
		found    []webhook.Delivery
		attempts []webhook.Attempt
	)
	pg.Queue(&batch, &found, selectDelivery+where, args...)
	pg.Queue(&batch, &attempts, `
		SELECT `+attemptColumns+`, a.response_body FROM (
			SELECT * FROM webhook_attempt WHERE delivery_id = $1 ORDER BY run DESC, number DESC LIMIT $2) a
		ORDER BY run, number`, args[0], maxAttemptsShown)
	err := s.pool.SendBatch(ctx, &batch).Close() // fills both
	if err == nil && len(found) == 0 {
		err = checkout.ErrNotFound
	}
	if err != nil {
		return webhook.Delivery{}, pg.Wrap("delivery", err)
	}
	found[0].Attempts = attempts
	return found[0], nil
}

// maxAttemptsShown limits the size of an answer. A delivery has more attempts only after many replays.
const maxAttemptsShown = 60

// attemptColumns read the webhook.Attempt of a webhook_attempt a, but for the answer's body.
const attemptColumns = `
	a.run, a.number, a.scheduled_at, a.started_at, a.duration_ms IS NOT NULL AS finished,
	coalesce(a.duration_ms, 0) * interval '1 millisecond' AS duration, coalesce(a.status_code, 0) AS status_code,
	coalesce(a.error_kind, '') AS error_kind`

// listedAttempts begins a query over attempts a of deliveries d, without the answers' bodies.
const listedAttempts = `SELECT d.id AS delivery_id,` + attemptColumns + `, NULL::bytea AS response_body `

// deliveryAttempt is a row of listedAttempts.
type deliveryAttempt struct {
	DeliveryID string
	webhook.Attempt
}

// DeliveryFilter chooses deliveries. An empty field matches every delivery.
type DeliveryFilter struct {
	Status     webhook.DeliveryStatus
	EndpointID string
	EventID    string
	EventType  webhook.EventType
	SessionID  string
	Wait       DeliveryWait // of pending deliveries; "" for all
}

// DeliveryWait is what a pending delivery waits for.
type DeliveryWait string

// The waits of pending deliveries: for the first attempt of a run, for another one, and for a hold to end.
const (
	WaitUntried  DeliveryWait = "NOT " + heldNow + " AND NOT " + tried
	WaitRetrying DeliveryWait = "NOT " + heldNow + " AND " + tried
	WaitHeld     DeliveryWait = heldNow

	heldNow = "(d.held OR (NOT d.session_url AND w.status = 'disabled'))"
	tried   = `EXISTS (SELECT FROM webhook_attempt a WHERE a.delivery_id = d.id AND a.run = d.run
		AND a.duration_ms IS NOT NULL)`
)

// Deliveries lists deliveries, newest first, without their attempts.
func (s *WebhookReader) Deliveries(
	ctx context.Context, owner checkout.Owner, f DeliveryFilter, p pg.Page,
) ([]webhook.Delivery, error) {
	q := pg.NewList(owner, "d")
	q.Equal("d.status", string(f.Status))
	if f.Status != "" && f.Status != webhook.DeliveryDelivered {
		q.Where("d.status <> 'delivered'") // lets PostgreSQL use the small partial index
	}
	if f.Wait != "" {
		q.Where(string(f.Wait))
	}
	q.Equal("d.endpoint_id", f.EndpointID)
	q.Equal("d.event_id", f.EventID)
	q.Equal("e.type", string(f.EventType))
	q.Equal("e.session_id", f.SessionID)
	q.Page(checkout.PrefixDelivery, "d", p)

	got, err := pg.Collect[webhook.Delivery](ctx, s.pool, selectDelivery+q.SQL, q.Args...)
	return got, pg.Wrap("deliveries", err)
}

// HoldDelivery puts a pending delivery on hold. An attempt that is due waits until ResumeDelivery; the wait costs no
// attempt. Repeating the call changes nothing. The entries by are written to the audit log in the same transaction. It
// returns checkout.ErrNotFound and webhook.ErrDeliveryNotPending.
func (s *Webhooks) HoldDelivery(ctx context.Context, ref checkout.Ref, by ...merchant.AuditEntry) error {
	return s.steer(ctx, ref, by, `SET held = true WHERE d.status = 'pending'`)
}

// ResumeDelivery ends the hold of HoldDelivery. Repeating the call changes nothing. Errors and by
// are as of HoldDelivery.
func (s *Webhooks) ResumeDelivery(ctx context.Context, ref checkout.Ref, by ...merchant.AuditEntry) error {
	return s.steer(ctx, ref, by, `SET held = false WHERE d.status = 'pending'`)
}

// Parked reports whether the run of a delivery still waits to be woken although its hold has ended.
func (s *WebhookReader) Parked(ctx context.Context, ref checkout.Ref) (bool, error) {
	parked, err := pg.Value[bool](ctx, s.pool, `
		SELECT EXISTS (SELECT FROM webhook_delivery d JOIN webhook_endpoint w ON w.id = d.endpoint_id
			WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3 AND `+wakeable+`)`, ref.ID, ref.MerchantID, ref.Mode)
	return parked, pg.Wrap("parked", err)
}

// HurryDelivery makes the next attempt of a pending delivery due now. It returns
// checkout.ErrNotFound, webhook.ErrDeliveryNotPending, webhook.ErrDeliveryHeld, and
// webhook.ErrDeliveryInProgress when an attempt is under way. by is as of HoldDelivery.
func (s *Webhooks) HurryDelivery(ctx context.Context, ref checkout.Ref, by ...merchant.AuditEntry) error {
	return s.steer(ctx, ref, by, `SET hurried_at = clock_timestamp()
		FROM webhook_endpoint w WHERE w.id = d.endpoint_id AND d.status = 'pending' AND NOT d.held
			AND (d.session_url OR w.status = 'enabled')
		AND (d.sending_until IS NULL OR d.sending_until < clock_timestamp())`)
}

// steer changes a delivery if the condition in set is true. If it is false, steer returns the error that says why.
func (s *Webhooks) steer(ctx context.Context, ref checkout.Ref, by []merchant.AuditEntry, set string) error {
	steered, err := pg.InTx(ctx, s.pool, "steer delivery", func(tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx,
			`UPDATE webhook_delivery d `+set+` AND d.id = $1 AND d.merchant_id = $2 AND d.mode = $3`,
			ref.ID, ref.MerchantID, ref.Mode)
		if err != nil || tag.RowsAffected() == 0 {
			return false, err
		}
		return true, pg.Audit(ctx, tx, by...)
	})
	if err != nil || steered {
		return err
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

// HurryAttempt makes the next attempt due now, in the run that runID began. It is for the workflow;
// HurryDelivery is for the API. A zero now means PostgreSQL's clock.
func (s *Webhooks) HurryAttempt(ctx context.Context, ref checkout.Ref, runID string, now time.Time) error {
	return pg.Exec(ctx, s.pool, "hurry attempt", `
		UPDATE webhook_delivery SET hurried_at = coalesce($5, clock_timestamp())
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND run_id = $4 AND status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, runID, orNull(now))
}

// UnparkDelivery makes a parked delivery overdue. It is for a delivery whose waiting run is gone.
func (s *Webhooks) UnparkDelivery(ctx context.Context, ref checkout.Ref) error {
	return pg.Exec(ctx, s.pool, "unpark delivery", `
		UPDATE webhook_delivery SET next_attempt_at = parked_at, parked_at = NULL
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending' AND parked_at IS NOT NULL`,
		ref.ID, ref.MerchantID, ref.Mode)
}

// DeliveryEnd is the state of a delivery after EndDelivery or FailDelivery.
type DeliveryEnd struct {
	Status   webhook.DeliveryStatus
	RunID    string // Temporal's run that began the last run of the log; "" before the first
	Attempts int    // attempts noted in that run
}

// EndDelivery gives a pending delivery its final status, failed or canceled, and ends its hold, so that a replay is not
// held. It changes nothing if a newer run than runID has begun ("" accepts any run) or if the delivery has already
// ended. Repeating the call changes nothing. It returns the delivery's state afterwards, or checkout.ErrNotFound.
func (s *Webhooks) EndDelivery(
	ctx context.Context, ref checkout.Ref, runID string, status webhook.DeliveryStatus,
) (DeliveryEnd, error) {
	return s.endDelivery(ctx, ref, runID, status, 0)
}

// FailDelivery is EndDelivery with status failed. If the run has attempts left, the delivery stays pending.
func (s *Webhooks) FailDelivery(ctx context.Context, ref checkout.Ref, runID string) (DeliveryEnd, error) {
	return s.endDelivery(ctx, ref, runID, webhook.DeliveryFailed, webhook.MaxAttempts)
}

func (s *Webhooks) endDelivery(
	ctx context.Context, ref checkout.Ref, runID string, status webhook.DeliveryStatus, attempts int,
) (end DeliveryEnd, err error) {
	end, err = pg.One[DeliveryEnd](ctx, s.pool, `
		UPDATE webhook_delivery SET status = $5, finished_at = clock_timestamp(), next_attempt_at = NULL,
			sending_until = NULL, parked_at = NULL, held = false
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND ($4 = '' OR coalesce(run_id, $4) = $4)
			AND status = 'pending' AND attempts >= $6
		RETURNING status, coalesce(run_id, '') AS run_id, attempts`,
		ref.ID, ref.MerchantID, ref.Mode, runID, status, attempts)
	if errors.Is(err, checkout.ErrNotFound) { // a second statement also sees a change that the first one waited for
		end, err = pg.One[DeliveryEnd](ctx, s.pool, `
			SELECT status, coalesce(run_id, '') AS run_id, attempts FROM webhook_delivery
			WHERE id = $1 AND merchant_id = $2 AND mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
	}
	return end, pg.Wrap("end delivery", err)
}

// FailedDelivery is a permanently failed delivery.
type FailedDelivery struct {
	checkout.Ref

	EventType webhook.EventType
	URL       string // see webhook.PlainURL
	Runs      int
	FailedAt  time.Time
}

// FailedDeliveries returns up to limit permanently failed deliveries of all merchants. The one that
// failed last comes first. Only operators may call it.
func (s *WebhookReader) FailedDeliveries(ctx context.Context, limit int) ([]FailedDelivery, error) {
	// The second condition repeats the first: PostgreSQL needs it to use the partial index.
	got, err := pg.Collect[FailedDelivery](ctx, s.pool, `
		SELECT d.id, d.merchant_id, d.mode, e.type AS event_type, d.url, d.run AS runs, d.finished_at AS failed_at
		FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE d.status = 'failed' AND d.status <> 'delivered'
		ORDER BY d.finished_at DESC, d.id LIMIT $1`, limit)
	for i := range got {
		got[i].URL = webhook.PlainURL(got[i].URL)
	}
	return got, pg.Wrap("failed deliveries", err)
}
