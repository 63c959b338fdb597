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

// Outgoing is one attempt to be made: everything that goes on the wire, and
// what signs it.
type Outgoing struct {
	Run       int
	Number    int // in this run
	EventID   string
	EventType webhook.EventType
	URL       string
	Body      []byte
	Status    webhook.DeliveryStatus // not pending: there is nothing to send
	Parked    bool                   // on hold: nothing is sent until the signal resume
	Early     time.Duration          // until the attempt is due; then nothing is sent now
	Reset     bool                   // an attempt with this number has been made: somebody reset the activity, or see Turn.Once
	Digests   [][]byte               // of the secret, and of the previous one while a rotation lasts
}

// Turn is an attempt whose turn it is, as far as Temporal knows.
type Turn struct {
	RunID   string    // Temporal's
	Number  int       // by Temporal's count, which has those that no worker began
	Hurried bool      // somebody asked for it now, whenever it is due
	NewRun  bool      // after a reset of the activity: the first attempt of a new run
	Once    bool      // an attempt that was noted counts as made: Temporal, which runs a local activity again when its worker dies, has not counted
	Now     time.Time // zero: PostgreSQL's clock; tests of workflows skip time
}

// earlyTolerance is how much before its time an attempt may begin: the clocks
// of Temporal and PostgreSQL are not one.
const earlyTolerance = 50 * time.Millisecond

// BeginAttempt notes, before anything is sent, that an attempt begins, and
// returns what to send. The first attempt of a new run makes the delivery
// pending again and counts the run; new is a run with another id (a replay or a
// reset). An attempt that was noted but not finished may begin again: the note's
// answer was lost.
//
// Attempts are numbered by those that were noted: one that Temporal counts but
// that no worker came to begin, because it was killed, uses up no number.
//
// No attempt is noted before it is due: after a crash Temporal may hand out a
// task twice, and the second one would begin the next attempt at once. On hold,
// the delivery is parked and no attempt is noted either. One whose endpoint was
// deleted is canceled, or stays as it has ended.
//
// A session's own address goes on getting its events when the registration whose
// secret signed for it is deleted: another one signs from then on, see
// signerOf. Neither does anything happen when this process has not the master
// key that sealed the secret: it returns ErrWrongMasterKey, and
// checkout.ErrNotFound.
func (s *Store) BeginAttempt(ctx context.Context, ref checkout.Ref, turn Turn) (Outgoing, error) {
	for try := 1; ; try++ {
		out, raced, err := s.beginAttempt(ctx, ref, turn)
		if errors.Is(err, errNoSigner) {
			raced, err = true, s.insertUntoldSecret(ctx, ref)
		}
		switch {
		case err != nil:
			return Outgoing{}, fmt.Errorf("begin attempt: %w", err)
		case !raced:
			return out, nil
		case try == beginTries:
			return Outgoing{}, errors.New("begin attempt: the delivery changes again and again")
		}
	}
}

// beginTries is how often BeginAttempt looks again at a row that changed meanwhile.
const beginTries = 5

// signerOf is the id of the endpoint w whose secret signs the delivery d of the
// event e. Once the registration that signed for a session's own address is
// deleted, it is the next one that is enabled, as at the session's creation, else
// a secret of the session. This is decided for each attempt, because an event may
// be published before the deletion and sent hours after it. NULL: the session has
// no secret yet. Source: api/decisions.md, "which secret signs".
const signerOf = `
	CASE WHEN NOT d.session_url OR w.deleted_at IS NULL THEN w.id ELSE coalesce(
		(SELECT r.id FROM webhook_endpoint r
			WHERE r.merchant_id = d.merchant_id AND r.mode = d.mode AND r.session_id IS NULL AND r.deleted_at IS NULL AND r.status = 'enabled'
			ORDER BY r.url = d.url DESC, r.created_at, r.id LIMIT 1),
		(SELECT r.id FROM webhook_endpoint r WHERE r.id = '` + checkout.PrefixEndpoint + `' || substr(e.session_id, length('` + checkout.PrefixSession + `') + 1)))
	END`

// errNoSigner: signerOf is NULL.
var errNoSigner = errors.New("nothing signs for the session's own address")

// insertUntoldSecret gives the session of a delivery a secret of its own. Nobody
// was told of it, so it counts as deleted from the start: it signs only until
// there is a registration that can.
func (s *Store) insertUntoldSecret(ctx context.Context, ref checkout.Ref) error {
	var sessionID, url string
	err := s.pool.QueryRow(ctx, `
		SELECT e.session_id, d.url FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3`, ref.ID, ref.MerchantID, ref.Mode).Scan(&sessionID, &url)
	if err != nil {
		return err
	}
	id := checkout.Session{Ref: checkout.Ref{ID: sessionID}}.OwnEndpoint()
	keyID, sealed := s.keys.seal(id, webhook.SecretDigest(webhook.NewSecret()))
	_, err = s.pool.Exec(ctx, `
		INSERT INTO webhook_endpoint (id, merchant_id, mode, url, events, status, session_id, master_key_id, sealed_digest, created_at, deleted_at)
		VALUES ($1, $2, $3, $4, $5, 'enabled', $6, $7, $8, clock_timestamp(), clock_timestamp()) ON CONFLICT DO NOTHING`,
		id, ref.MerchantID, ref.Mode, url, webhook.EventTypes, sessionID, keyID, sealed)
	return err
}

// beginAttempt reports also whether somebody else, such as a second run of the
// same local activity, changed the delivery after it was read: nothing was done then.
func (s *Store) beginAttempt(ctx context.Context, ref checkout.Ref, turn Turn) (out Outgoing, raced bool, err error) {
	var (
		signer, keyID, previousKeyID *string
		sealed, previous             []byte
		untouched, canBegin          bool
		now                          *time.Time
		attemptTimeout, whenItIsLost = webhook.AttemptTimeout, webhook.AttemptTimeout + webhook.FallbackDelay(turn.Number)
	)
	if !turn.Now.IsZero() {
		now = &turn.Now
	}
	err = s.pool.QueryRow(ctx, `
		WITH row AS (
			SELECT d.id, d.event_id, d.run, d.run_id, d.status, e.type, e.body, d.next_attempt_at AS scheduled_at,
				CASE WHEN d.session_url THEN d.url ELSE w.url END AS url,
				k.id AS signer, k.master_key_id, k.sealed_digest,
				CASE WHEN k.previous_expires_at > clock_timestamp() THEN k.previous_master_key_id END AS previous_master_key_id,
				k.previous_sealed_digest,
				NOT d.session_url AND w.deleted_at IS NOT NULL AS gone,
				d.held, d.held OR (NOT d.session_url AND w.status = 'disabled') AS on_hold,
				d.run_id IS DISTINCT FROM $4
					OR $11 AND EXISTS (SELECT FROM webhook_attempt a WHERE a.delivery_id = d.id AND a.run = d.run AND a.duration_ms IS NOT NULL) AS is_new,
				EXISTS (SELECT FROM webhook_attempt a WHERE a.delivery_id = d.id AND a.run = d.run AND a.number = $5 AND ($12 OR a.duration_ms IS NOT NULL)) AS is_made,
				(SELECT coalesce(max(a.number), 0) FROM webhook_attempt a WHERE a.delivery_id = d.id AND a.run = d.run) AS noted
			FROM webhook_delivery d JOIN event e ON e.id = d.event_id JOIN webhook_endpoint w ON w.id = d.endpoint_id
				LEFT JOIN webhook_endpoint k ON k.id = `+signerOf+`
			WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3
		), found AS (
			SELECT *,
				gone OR on_hold OR coalesce(master_key_id = ANY ($13) AND coalesce(previous_master_key_id = ANY ($13), true), false) AS can_begin,
				CASE WHEN is_new THEN 1 ELSE least($5, noted + 1) END AS number, is_made AND NOT is_new AND NOT gone AND status = 'pending' AS is_reset,
				CASE WHEN NOT (is_new OR gone OR $8) AND status = 'pending' AND scheduled_at > coalesce($9::timestamptz, clock_timestamp()) + $10::interval
				THEN scheduled_at - coalesce($9::timestamptz, clock_timestamp()) END AS early
			FROM row
		), delivery AS (
			UPDATE webhook_delivery d SET
				url = f.url, run_id = $4, endpoint_id = coalesce(f.signer, d.endpoint_id),
				run = d.run + CASE WHEN is_new AND NOT gone THEN 1 ELSE 0 END,
				status = CASE WHEN gone AND d.status = 'pending' THEN 'canceled' WHEN is_new AND NOT gone THEN 'pending' ELSE d.status END,
				finished_at = CASE WHEN gone THEN coalesce(d.finished_at, clock_timestamp()) WHEN NOT is_new THEN d.finished_at END,
				parked_at = CASE WHEN on_hold AND NOT gone AND (is_new OR d.status = 'pending') THEN clock_timestamp() END,
				sending_until = CASE WHEN NOT on_hold AND NOT gone THEN clock_timestamp() + $6::interval END,
				next_attempt_at = CASE WHEN NOT on_hold AND NOT gone AND (is_new OR d.status = 'pending') THEN clock_timestamp() + $7::interval END
			FROM found f WHERE d.id = f.id AND f.early IS NULL AND NOT f.is_reset AND f.can_begin
				AND d.run_id IS NOT DISTINCT FROM f.run_id AND d.status = f.status AND d.next_attempt_at IS NOT DISTINCT FROM f.scheduled_at AND d.held = f.held
			RETURNING d.id, d.run, d.status, d.parked_at IS NOT NULL AS parked
		), attempt AS (
			INSERT INTO webhook_attempt (delivery_id, run, number, scheduled_at, started_at)
			SELECT d.id, d.run, f.number, f.scheduled_at, clock_timestamp() FROM delivery d JOIN found f ON f.id = d.id
			WHERE d.status = 'pending' AND NOT d.parked
			ON CONFLICT (delivery_id, run, number) DO UPDATE SET started_at = excluded.started_at
		)
		SELECT coalesce(d.run, f.run), f.number, f.event_id, f.type, f.url, f.body, coalesce(d.status, f.status), coalesce(d.parked, false),
			coalesce(f.early, interval '0'), f.is_reset, d.id IS NULL AND f.early IS NULL AND NOT f.is_reset, f.can_begin,
			f.signer, f.master_key_id, f.sealed_digest, f.previous_master_key_id, f.previous_sealed_digest
		FROM found f LEFT JOIN delivery d ON d.id = f.id`,
		ref.ID, ref.MerchantID, ref.Mode, turn.RunID, turn.Number, attemptTimeout, whenItIsLost, turn.Hurried, now, earlyTolerance, turn.NewRun, turn.Once,
		s.keys.ids()).Scan(
		&out.Run, &out.Number, &out.EventID, &out.EventType, &out.URL, &out.Body, &out.Status, &out.Parked, &out.Early, &out.Reset, &untouched, &canBegin,
		&signer, &keyID, &sealed, &previousKeyID, &previous)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return out, false, checkout.ErrNotFound
	case err != nil:
		return out, false, err
	case untouched && canBegin:
		return out, true, nil
	case !untouched && out.nothingToSend():
		return out, false, nil
	case signer == nil:
		return out, false, errNoSigner
	}
	out.Digests, err = s.unsealDigests(*signer, *keyID, sealed, previousKeyID, previous)
	return out, false, err
}

// nothingToSend reports whether no attempt was noted; o says why.
func (o Outgoing) nothingToSend() bool {
	return o.Status != webhook.DeliveryPending || o.Parked || o.Early > 0 || o.Reset
}

// unsealDigests returns the digest of an endpoint's secret and, when there is a
// previousKeyID, that of the previous one.
func (s *Store) unsealDigests(endpointID, keyID string, sealed []byte, previousKeyID *string, previous []byte) ([][]byte, error) {
	digest, err := s.keys.unseal(keyID, endpointID, sealed)
	if err != nil || previousKeyID == nil {
		return [][]byte{digest}, err
	}
	old, err := s.keys.unseal(*previousKeyID, endpointID, previous)
	return [][]byte{digest, old}, err
}

// FinishAttempt notes how an attempt ended; a success makes the delivery
// delivered, which ends a hold, a failure that will be retried says when. The first
// end that is noted stays, unless it is a failure and a success comes after it: the
// receiver has the event. A delivery that has a newer run is left alone. Repeating
// it changes nothing.
func (s *Store) FinishAttempt(ctx context.Context, ref checkout.Ref, a webhook.Attempt, nextIn time.Duration) error {
	_, err := s.pool.Exec(ctx, `
		WITH locked AS ( -- the delivery first, as everybody does
			SELECT id FROM webhook_delivery WHERE id = $1 AND merchant_id = $2 AND mode = $3 FOR NO KEY UPDATE
		), attempt AS (
			UPDATE webhook_attempt a SET duration_ms = $6, status_code = nullif($7, 0), error_kind = nullif($8, ''), response_body = $9
			FROM locked WHERE a.delivery_id = locked.id AND a.run = $4 AND a.number = $5
				AND (a.duration_ms IS NULL OR a.error_kind IS NOT NULL AND $8 = '')
			RETURNING delivery_id, started_at + $6 * interval '1 millisecond' AS ended_at
		)
		UPDATE webhook_delivery d SET
			status = CASE WHEN $8 = '' THEN 'delivered' ELSE d.status END,
			finished_at = CASE WHEN $8 = '' THEN attempt.ended_at END,
			next_attempt_at = CASE WHEN $8 <> '' THEN attempt.ended_at + $10::interval END,
			sending_until = NULL, held = d.held AND $8 <> ''
		FROM attempt
		WHERE d.id = attempt.delivery_id AND d.merchant_id = $2 AND d.mode = $3 AND d.run = $4 AND d.status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, a.Run, a.Number, a.Duration.Milliseconds(), a.StatusCode, string(a.ErrorKind), a.ResponseBody, nextIn)
	if err != nil {
		return fmt.Errorf("finish attempt: %w", err)
	}
	return nil
}

// DeferAttempt notes that the delivery's next attempt waits: its endpoint has
// as many attempts under way as it may.
func (s *Store) DeferAttempt(ctx context.Context, ref checkout.Ref, wait time.Duration) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE webhook_delivery SET next_attempt_at = greatest(next_attempt_at, clock_timestamp() + $4::interval)
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'`, ref.ID, ref.MerchantID, ref.Mode, wait)
	if err != nil {
		return fmt.Errorf("defer attempt: %w", err)
	}
	return nil
}

// CountAttempts returns how many attempts the run with Temporal's runID has made.
func (s *Store) CountAttempts(ctx context.Context, ref checkout.Ref, runID string) (int, error) {
	var n int
	err := s.pool.QueryRow(ctx, `
		SELECT coalesce(max(a.number), 0) FROM webhook_attempt a JOIN webhook_delivery d ON d.id = a.delivery_id AND d.run = a.run
		WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3 AND d.run_id = $4`, ref.ID, ref.MerchantID, ref.Mode, runID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count attempts: %w", err)
	}
	return n, nil
}

// DeliveryRunID returns Temporal's id of the run that began the delivery's last
// run in the log, "" before the first. It returns checkout.ErrNotFound.
func (s *Store) DeliveryRunID(ctx context.Context, ref checkout.Ref) (string, error) {
	var id string
	err := s.pool.QueryRow(ctx, `SELECT coalesce(run_id, '') FROM webhook_delivery WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
		ref.ID, ref.MerchantID, ref.Mode).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", checkout.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("run of a delivery: %w", err)
	}
	return id, nil
}

// LastAttempts returns the newest attempt of each of the deliveries that has one,
// without the answer's body.
func (s *Store) LastAttempts(ctx context.Context, owner checkout.Owner, deliveryIDs []string) (map[string]webhook.Attempt, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT d.id, a.run, a.number, a.scheduled_at, a.started_at, a.duration_ms, a.status_code, a.error_kind, NULL::bytea
		FROM webhook_delivery d CROSS JOIN LATERAL (
			SELECT run, number, scheduled_at, started_at, duration_ms, status_code, error_kind
			FROM webhook_attempt WHERE delivery_id = d.id ORDER BY run DESC, number DESC LIMIT 1
		) a WHERE d.id = ANY ($3) AND d.merchant_id = $1 AND d.mode = $2`, owner.MerchantID, owner.Mode, deliveryIDs)
	if err != nil {
		return nil, fmt.Errorf("last attempts: %w", err)
	}
	last := map[string]webhook.Attempt{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var id string
		a, err := scanAttempt(row, &id)
		last[id] = a
		return id, err
	})
	if err != nil {
		return nil, fmt.Errorf("last attempts: %w", err)
	}
	return last, nil
}
