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

// DeliveryRef names one delivery and who owns it.
type DeliveryRef struct {
	ID         string
	MerchantID string
	Mode       checkout.Mode
}

// Outgoing is one attempt to be made: everything that goes on the wire, and
// the digest that signs it.
type Outgoing struct {
	Run       int
	EventID   string
	EventType webhook.EventType
	URL       string
	Body      []byte
	Status    webhook.DeliveryStatus // not pending: there is nothing to send
	Digest    []byte
}

// BeginAttempt notes, before anything is sent, that attempt number of the run
// with Temporal's runID begins, and returns what to send. The first attempt of
// a new run (a replay or a reset) makes the delivery pending again and counts
// the run. It returns checkout.ErrNotFound.
func (s *Store) BeginAttempt(ctx context.Context, ref DeliveryRef, runID string, number int) (Outgoing, error) {
	var (
		out        Outgoing
		keyID      string
		sealed     []byte
		endpointID string
	)
	err := s.pool.QueryRow(ctx, `
		WITH delivery AS (
			UPDATE webhook_delivery SET
				run = run + CASE WHEN run_id IS DISTINCT FROM $4 THEN 1 ELSE 0 END,
				status = CASE WHEN run_id IS DISTINCT FROM $4 AND status <> 'canceled' THEN 'pending' ELSE status END,
				finished_at = CASE WHEN run_id IS DISTINCT FROM $4 AND status <> 'canceled' THEN NULL ELSE finished_at END,
				run_id = $4, next_attempt_at = NULL
			WHERE id = $1 AND merchant_id = $2 AND mode = $3
			RETURNING id, event_id, endpoint_id, url, run, status
		), attempt AS (
			INSERT INTO webhook_attempt (delivery_id, run, number, started_at)
			SELECT id, run, $5, clock_timestamp() FROM delivery WHERE status = 'pending'
			ON CONFLICT (delivery_id, run, number) DO NOTHING
		)
		SELECT d.run, d.event_id, e.type, d.url, e.body, d.status, w.id, w.master_key_id, w.sealed_digest
		FROM delivery d JOIN event e ON e.id = d.event_id JOIN webhook_endpoint w ON w.id = d.endpoint_id`,
		ref.ID, ref.MerchantID, ref.Mode, runID, number).Scan(
		&out.Run, &out.EventID, &out.EventType, &out.URL, &out.Body, &out.Status, &endpointID, &keyID, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return Outgoing{}, checkout.ErrNotFound
	}
	if err != nil {
		return Outgoing{}, fmt.Errorf("begin attempt: %w", err)
	}
	if out.Digest, err = s.keys.unseal(keyID, endpointID, sealed); err != nil {
		return Outgoing{}, fmt.Errorf("begin attempt: %w", err)
	}
	return out, nil
}

// FinishAttempt notes how an attempt ended; a success makes the delivery
// delivered, a failure that will be retried says when. A delivery that has a
// newer run is left alone. Repeating it changes nothing.
func (s *Store) FinishAttempt(ctx context.Context, ref DeliveryRef, a webhook.Attempt, nextIn time.Duration) error {
	_, err := s.pool.Exec(ctx, `
		WITH attempt AS (
			UPDATE webhook_attempt SET duration_ms = $6, status_code = nullif($7, 0), error_kind = nullif($8, ''), response_body = $9
			WHERE delivery_id = $1 AND run = $4 AND number = $5
			RETURNING delivery_id, started_at + $6 * interval '1 millisecond' AS ended_at
		)
		UPDATE webhook_delivery d SET
			status = CASE WHEN $8 = '' THEN 'delivered' ELSE d.status END,
			finished_at = CASE WHEN $8 = '' THEN attempt.ended_at END,
			next_attempt_at = CASE WHEN $8 <> '' AND $10::interval > interval '0' THEN attempt.ended_at + $10 END
		FROM attempt
		WHERE d.id = attempt.delivery_id AND d.merchant_id = $2 AND d.mode = $3 AND d.run = $4 AND d.status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, a.Run, a.Number, a.Duration.Milliseconds(), a.StatusCode, string(a.ErrorKind), a.ResponseBody, nextIn)
	if err != nil {
		return fmt.Errorf("finish attempt: %w", err)
	}
	return nil
}

// EndDelivery gives a pending delivery its final status, failed or canceled,
// unless a newer run than runID has begun. Repeating it changes nothing.
func (s *Store) EndDelivery(ctx context.Context, ref DeliveryRef, runID string, status webhook.DeliveryStatus) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE webhook_delivery SET status = $5, finished_at = clock_timestamp(), next_attempt_at = NULL
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND coalesce(run_id, $4) = $4 AND status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, runID, status)
	if err != nil {
		return fmt.Errorf("end delivery: %w", err)
	}
	return nil
}

// Delivery returns one delivery for an operator who knows only its id, such as
// `checkout replay`; merchants are served by queries that name them. It returns
// checkout.ErrNotFound.
func (s *Store) Delivery(ctx context.Context, id string) (webhook.Delivery, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT d.id, d.event_id, e.type AS event_type, d.merchant_id, d.mode, d.endpoint_id, d.url, d.status, d.run, d.created_at
		FROM webhook_delivery d JOIN event e ON e.id = d.event_id WHERE d.id = $1`, id)
	if err != nil {
		return webhook.Delivery{}, fmt.Errorf("delivery: %w", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[webhook.Delivery])
	if errors.Is(err, pgx.ErrNoRows) {
		return webhook.Delivery{}, checkout.ErrNotFound
	}
	if err != nil {
		return webhook.Delivery{}, fmt.Errorf("delivery: %w", err)
	}
	return d, nil
}
