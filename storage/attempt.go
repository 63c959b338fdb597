package storage

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// AttemptDecision is the decision about a turn. With webhook.StepBegin, it also has the request's
// contents and the digests that sign it.
type AttemptDecision struct {
	webhook.Decision
	Run       int                    // number of the run in the log
	Status    webhook.DeliveryStatus // after the decision
	Last      webhook.Attempt        // set with webhook.StepReport: the failed attempt
	EventID   string
	EventType webhook.EventType
	URL       string
	Body      []byte
	Digests   [][]byte // digest of the secret; during a rotation, then that of the previous secret
	// MaxInFlight and RateLimit are the limits of the registration: attempts under way at a
	// time, and attempts begun in a second. 0 is the default, which a session's own address always has.
	MaxInFlight, RateLimit int
	// Late is how long after its time the first attempt of a new delivery began; 0 for others.
	Late time.Duration
}

// BeginAttempt locks the delivery, asks webhook.DeliverySnapshot.Decide for the turn's action, and notes it. With
// webhook.StepBegin, the attempt is noted before it is sent. The first attempt takes one statement: see beginFirst.
//
// A session's own address still gets its events after the registration that signed for it was deleted: another secret
// signs, see secretEndpoints. BeginAttempt returns checkout.ErrNotFound, or ErrWrongMasterKey when this process lacks
// the master key that sealed the secret; then nothing has changed.
func (s *Webhooks) BeginAttempt(ctx context.Context, ref checkout.Ref, turn webhook.Turn) (AttemptDecision, error) {
	out, err := s.beginFirst(ctx, ref, turn)
	if errors.Is(err, pgx.ErrNoRows) {
		out, err = s.takeTurn(ctx, ref, turn, func(webhook.Step) bool { return true })
	}
	return out, pg.Wrap("begin attempt", err)
}

// ReportAttempt is BeginAttempt limited to webhook.StepReport. If the decision is another step,
// nothing changes. Errors are as of BeginAttempt.
func (s *Webhooks) ReportAttempt(ctx context.Context, ref checkout.Ref, turn webhook.Turn) (AttemptDecision, error) {
	out, err := s.takeTurn(ctx, ref, turn, func(step webhook.Step) bool { return step == webhook.StepReport })
	return out, pg.Wrap("report attempt", err)
}

// beginFirst begins the first attempt of a delivery that no run has touched, in one statement. It decides what
// webhook.DeliverySnapshot.Decide decides about such a delivery. It changes nothing and returns pgx.ErrNoRows for any
// other delivery, and for a delivery on hold, to a deleted registration, with a secret that this process cannot open,
// or locked by another transaction. So it never waits, and the registration that it reads is not older than the lock.
func (s *Webhooks) beginFirst(
	ctx context.Context, ref checkout.Ref, turn webhook.Turn,
) (out AttemptDecision, err error) {
	out = AttemptDecision{
		Decision: webhook.Decision{Step: webhook.StepBegin, Number: 1, NewRun: true},
		Run:      1, Status: webhook.DeliveryPending,
	}
	if turn.AttemptsMade+turn.Try > 1 {
		return out, pgx.ErrNoRows
	}
	counted := 0
	if !turn.Local {
		counted = 1
	}
	var by webhookSecret
	err = s.pool.QueryRow(ctx, `
		WITH due AS (
			SELECT d.event_id, d.next_attempt_at, CASE WHEN d.session_url THEN d.url ELSE w.url END AS url,
				coalesce($8::timestamptz, clock_timestamp()) AS now, w.id AS secret_of, w.master_key_id, w.sealed_digest,
				CASE WHEN w.previous_expires_at > clock_timestamp() THEN w.previous_master_key_id END AS previous_key_id,
				w.previous_sealed_digest
			FROM webhook_delivery d JOIN webhook_endpoint w ON w.id = d.endpoint_id
			WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3
				AND d.run = 0 AND d.run_id IS NULL AND d.status = 'pending' AND NOT d.held
				AND w.deleted_at IS NULL AND (d.session_url OR w.status = 'enabled') AND `+unlimited+`
				AND w.master_key_id = ANY ($9)
				AND (coalesce(w.previous_expires_at, '-infinity') <= clock_timestamp() OR w.previous_master_key_id = ANY ($9))
			FOR NO KEY UPDATE OF d SKIP LOCKED
		), begun AS (
			UPDATE webhook_delivery SET run_id = $4, run = 1, attempts = 1, counted = $5, url = due.url,
				sending_until = due.now + $6::interval, next_attempt_at = due.now + $7::interval
			FROM due WHERE id = $1
		), attempt AS (
			INSERT INTO webhook_attempt (delivery_id, run, number, scheduled_at, started_at)
			SELECT $1, 1, 1, next_attempt_at, now FROM due
		)
		SELECT e.id, e.type, e.body, due.url, secret_of, master_key_id, sealed_digest, previous_key_id,
			previous_sealed_digest, now - next_attempt_at
		FROM due JOIN event e ON e.id = due.event_id`,
		ref.ID, ref.MerchantID, ref.Mode, turn.RunID, counted, webhook.AttemptTimeout,
		webhook.AttemptTimeout+webhook.FallbackDelay(turn.AttemptsMade+turn.Try), orNull(turn.Now), s.keys.IDs()).Scan(
		&out.EventID, &out.EventType, &out.Body, &out.URL, &by.SecretOf, &by.KeyID, &by.Sealed, &by.PreviousKeyID,
		&by.Previous, &out.Late)
	if err == nil {
		out.Digests, err = s.unsealDigests(by)
	}
	return out, err
}

// takeTurn takes two round trips: one locks and reads, one writes and commits. It writes only if may accepts the step.
func (s *Webhooks) takeTurn(
	ctx context.Context, ref checkout.Ref, turn webhook.Turn, may func(webhook.Step) bool,
) (out AttemptDecision, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return out, err
	}
	defer rollback(ctx, conn)

	row, err := lockDelivery(ctx, conn, ref, turn.Now)
	if err != nil {
		return out, err
	}
	turn.Now = row.Now
	out = row.attemptDecision(row.Decide(turn))
	if !may(out.Step) {
		return out, nil
	}
	if out.Step == webhook.StepBegin && row.Limited {
		if out.Wait, err = row.takePlace(ctx, conn, ref); err != nil {
			return out, err
		}
		if out.Wait > 0 { // nothing is noted
			out.Step = webhook.StepBusy
			return out, nil
		}
	}
	if out.Step == webhook.StepBegin {
		if row.SecretOf == nil {
			row.webhookSecret, err = s.insertUntoldSecret(ctx, conn, ref, row)
		}
		if err == nil {
			out.Digests, err = s.unsealDigests(row.webhookSecret)
		}
		if err != nil {
			return out, err
		}
	}
	return out, row.storeDecision(ctx, conn, ref, turn, out)
}

// rollback ends a transaction that was not committed, and returns the connection to the pool.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() != 'I' {
		// If this fails, Release closes the connection, which has the same effect.
		_, _ = conn.Exec(context.WithoutCancel(ctx), `ROLLBACK`)
	}
	conn.Release()
}

// lockedDelivery is a delivery whose row this transaction has locked.
type lockedDelivery struct {
	webhook.DeliverySnapshot
	webhookSecret
	Now        time.Time
	Run        int
	EventID    string
	EventType  webhook.EventType
	SessionID  *string
	URL        string
	SecretFor  string // address of the endpoint whose secret this is
	Body       []byte
	LastStatus int
	LastKind   webhook.ErrorKind

	Limited                bool // the registration has a limit or a pause
	MaxInFlight, RateLimit int  // 0: none
}

// endpointLimits selects the limits that hold for a delivery d to the registration w; 0 is the default.
const endpointLimits = `
	CASE WHEN d.session_url THEN 0 ELSE coalesce(w.max_in_flight, 0) END AS max_in_flight,
	CASE WHEN d.session_url THEN 0 ELSE coalesce(w.rate_limit, 0) END AS rate_limit`

// readLocked reads a lockedDelivery, once for each secret that may sign. $4 is the current time; NULL means
// PostgreSQL's clock.
const readLocked = `
	SELECT d.status, coalesce(d.run_id, '') AS run_id, d.attempts, d.counted,
		a.number IS NOT NULL AND a.duration_ms IS NULL AS sending, coalesce(d.next_attempt_at, clock.now) AS due,
		d.hurried_at IS NOT NULL AND (a.number IS NULL OR d.hurried_at > a.started_at) AS hurried,
		d.held OR (NOT d.session_url AND w.status = 'disabled') AS held,
		NOT d.session_url AND w.deleted_at IS NOT NULL AS deleted,
		clock.now, d.run, d.event_id, e.type AS event_type, e.session_id,
		CASE WHEN d.session_url THEN d.url ELSE w.url END AS url, e.body,
		coalesce(a.status_code, 0) AS last_status, coalesce(a.error_kind, '') AS last_kind,
		k.id AS secret_of, coalesce(k.url, '') AS secret_for, k.master_key_id AS key_id, k.sealed_digest AS sealed,
		CASE WHEN k.previous_expires_at > clock_timestamp() THEN k.previous_master_key_id END AS previous_key_id,
		k.previous_sealed_digest AS previous, NOT ` + unlimited + ` AS limited, ` + endpointLimits + `
	FROM webhook_delivery d JOIN event e ON e.id = d.event_id JOIN webhook_endpoint w ON w.id = d.endpoint_id
		LEFT JOIN webhook_attempt a ON a.delivery_id = d.id AND a.run = d.run AND a.number = d.attempts
		LEFT JOIN webhook_endpoint k ON k.id = ANY (` + secretEndpoints + `)
		CROSS JOIN (SELECT coalesce($4::timestamptz, clock_timestamp()) AS now) clock
	WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3
	ORDER BY k.created_at, k.id`

// lockDelivery begins a transaction, locks the delivery and reads it. Lock and read are two
// statements, so that the read sees the changes of the transaction that held the lock before.
func lockDelivery(
	ctx context.Context, conn *pgxpool.Conn, ref checkout.Ref, now time.Time,
) (d lockedDelivery, err error) {
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN`)
	batch.Queue(`
		SELECT FROM webhook_delivery WHERE id = $1 AND merchant_id = $2 AND mode = $3 FOR NO KEY UPDATE`,
		ref.ID, ref.MerchantID, ref.Mode)
	batch.Queue(readLocked, ref.ID, ref.MerchantID, ref.Mode, orNull(now)).
		Query(func(rows pgx.Rows) (err error) {
			candidates, err := pgx.CollectRows(rows, pgx.RowToStructByName[lockedDelivery])
			if len(candidates) == 0 {
				return cmp.Or(err, pgx.ErrNoRows)
			}
			d = signer(candidates, candidates[0].URL, func(c lockedDelivery) string { return c.SecretFor })
			return err
		})
	err = conn.SendBatch(ctx, batch).Close() // fills d
	return d, pg.Found(err)
}

// orNull returns nil, which is NULL in SQL, for the zero time.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// attemptDecision returns the run and the status that the delivery has after the decision, with the
// contents of the request.
func (d lockedDelivery) attemptDecision(decision webhook.Decision) AttemptDecision {
	out := AttemptDecision{
		Decision: decision, Run: d.Run, Status: d.Status,
		Last:    webhook.Attempt{Finished: !d.Sending, StatusCode: d.LastStatus, ErrorKind: d.LastKind},
		EventID: d.EventID, EventType: d.EventType, URL: d.URL, Body: d.Body,
		MaxInFlight: d.MaxInFlight, RateLimit: d.RateLimit,
	}
	if decision.NewRun {
		out.Run, out.Status = d.Run+1, webhook.DeliveryPending
	}
	if decision.Step == webhook.StepEnd && d.Status == webhook.DeliveryPending {
		out.Status = webhook.DeliveryCanceled
	}
	return out
}

// storeDecision writes the decision and commits. The row is locked and its owner was checked, so the
// statements name it by its id only.
func (d lockedDelivery) storeDecision(
	ctx context.Context, conn *pgxpool.Conn, ref checkout.Ref, turn webhook.Turn, out AttemptDecision,
) error {
	attempts, counted := d.Attempts, d.Counted
	if out.NewRun {
		attempts, counted = 0, 0
	}

	batch := &pgx.Batch{}
	switch {
	case out.Step == webhook.StepBegin:
		if !turn.Local {
			counted = out.Number
		}
		batch.Queue(`
			WITH delivery AS (
				UPDATE webhook_delivery SET run_id = $2, run = $3, attempts = $4, counted = $5, url = $6, endpoint_id = $7,
					status = 'pending', finished_at = NULL, parked_at = NULL,
					sending_until = $8::timestamptz + $9::interval, next_attempt_at = $8::timestamptz + $10::interval
				WHERE id = $1
			)
			INSERT INTO webhook_attempt (delivery_id, run, number, scheduled_at, started_at)
			SELECT id, $3, $4, next_attempt_at, $8 FROM webhook_delivery WHERE id = $1 -- the row before this UPDATE
			ON CONFLICT (delivery_id, run, number) DO UPDATE SET started_at = excluded.started_at`,
			ref.ID, turn.RunID, out.Run, out.Number, counted, d.URL, d.SecretOf, d.Now,
			webhook.AttemptTimeout, webhook.AttemptTimeout+webhook.FallbackDelay(turn.AttemptsMade+turn.Try))
	case out.Step == webhook.StepPark:
		batch.Queue(`
			UPDATE webhook_delivery SET run_id = $2, run = $3, attempts = $4, counted = $5, url = $6,
				status = 'pending', finished_at = NULL, parked_at = $7, sending_until = NULL, next_attempt_at = NULL
			WHERE id = $1`, ref.ID, turn.RunID, out.Run, attempts, counted, d.URL, d.Now)
	case out.Step == webhook.StepAgain:
		batch.Queue(`
			UPDATE webhook_delivery SET run = $2, attempts = 0, counted = 0, sending_until = NULL, next_attempt_at = $3
			WHERE id = $1`, ref.ID, out.Run, d.Now)
	case out.Step == webhook.StepReport && !turn.Local:
		batch.Queue(`UPDATE webhook_delivery SET counted = $2 WHERE id = $1`, ref.ID, out.Number)
	case out.Status != d.Status: // its endpoint was deleted
		batch.Queue(`
			UPDATE webhook_delivery SET status = $2, url = $3, finished_at = $4,
				parked_at = NULL, sending_until = NULL, next_attempt_at = NULL
			WHERE id = $1`, ref.ID, out.Status, d.URL, d.Now)
	default:
		return nil
	}

	batch.Queue(`COMMIT`)
	return conn.SendBatch(ctx, batch).Close()
}

// FinishAttempt notes how an attempt ended. A success makes the delivery delivered and ends a hold.
// After a failure, the next attempt is due when nextIn has passed since the attempt ended.
//
// The first noted end stays, with one exception: a success replaces a failure, because the
// receiver has the event. A delivery with a newer run keeps its status. Repeating the call changes
// nothing. Whether its registration fails is noted too: see failureQueries.
func (s *Webhooks) FinishAttempt(ctx context.Context, ref checkout.Ref, a webhook.Attempt, nextIn time.Duration) error {
	return pg.Exec(ctx, s.pool, "finish attempt", `
		WITH locked AS ( -- lock the delivery first, as every transaction does
			SELECT id FROM webhook_delivery WHERE id = $1 AND merchant_id = $2 AND mode = $3 FOR NO KEY UPDATE
		), attempt AS (
			UPDATE webhook_attempt a SET duration_ms = $6, status_code = nullif($7, 0), error_kind = nullif($8, ''),
				response_body = $9
			FROM locked WHERE a.delivery_id = locked.id AND a.run = $4 AND a.number = $5
				AND (a.duration_ms IS NULL OR a.error_kind IS NOT NULL AND $8 = '')
			RETURNING delivery_id, started_at + $6 * interval '1 millisecond' AS ended_at
		)`+failureQueries(a)+`
		UPDATE webhook_delivery d SET
			status = CASE WHEN $8 = '' THEN 'delivered' ELSE d.status END,
			finished_at = CASE WHEN $8 = '' THEN attempt.ended_at END,
			next_attempt_at = CASE WHEN $8 <> '' THEN attempt.ended_at + $10::interval END,
			sending_until = NULL, held = d.held AND $8 <> ''
		FROM attempt
		WHERE d.id = attempt.delivery_id AND d.merchant_id = $2 AND d.mode = $3 AND d.run = $4 AND d.status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, a.Run, a.Number, a.Duration.Milliseconds(), a.StatusCode,
		string(a.ErrorKind), a.ResponseBody, nextIn)
}

// DeferAttempt notes that the next attempt waits, because its endpoint has as many attempts under
// way as it may. About ahead attempts come first.
func (s *Webhooks) DeferAttempt(ctx context.Context, ref checkout.Ref, wait time.Duration, ahead int) error {
	return pg.Exec(ctx, s.pool, "defer attempt", `
		UPDATE webhook_delivery SET attempts_ahead = $5,
			next_attempt_at = greatest(next_attempt_at, statement_timestamp() + $4::interval),
			busy_until = greatest(next_attempt_at, statement_timestamp() + $4::interval)
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, wait, ahead)
}

// LastAttempts returns the newest attempt of each delivery, by delivery id, without the answer's
// body. A delivery without attempts is missing from the map.
func (s *WebhookReader) LastAttempts(
	ctx context.Context, owner checkout.Owner, deliveryIDs []string,
) (map[string]webhook.Attempt, error) {
	attempts, err := pg.Collect[deliveryAttempt](ctx, s.pool, listedAttempts+`
		FROM webhook_delivery d CROSS JOIN LATERAL (
			SELECT * FROM webhook_attempt WHERE delivery_id = d.id ORDER BY run DESC, number DESC LIMIT 1
		) a WHERE d.id = ANY ($3) AND d.merchant_id = $1 AND d.mode = $2`, owner.MerchantID, owner.Mode, deliveryIDs)
	last := map[string]webhook.Attempt{}
	for _, a := range attempts {
		last[a.DeliveryID] = a.Attempt
	}
	return last, pg.Wrap("last attempts", err)
}
