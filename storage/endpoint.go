package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// ErrTooManyEndpoints: the merchant has webhook.MaxEndpoints in this mode.
var ErrTooManyEndpoints = errors.New("too many webhook registrations")

// CreateEndpoint stores a registration and the sealed digest of e.Secret, never
// the secret. It returns e with its time of creation, or ErrTooManyEndpoints.
func (s *Store) CreateEndpoint(ctx context.Context, e webhook.Endpoint) (webhook.Endpoint, error) {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		// The merchant's row serializes its registrations, so that the limit holds.
		if _, err := tx.Exec(ctx, `SELECT FROM merchant WHERE id = $1 FOR UPDATE`, e.MerchantID); err != nil {
			return err
		}
		var count int
		err := tx.QueryRow(ctx, `
			SELECT count(*) FROM webhook_endpoint
			WHERE merchant_id = $1 AND mode = $2 AND session_id IS NULL AND deleted_at IS NULL`, e.MerchantID, e.Mode).Scan(&count)
		if err != nil {
			return err
		}
		if count >= webhook.MaxEndpoints {
			return ErrTooManyEndpoints
		}
		return s.insertEndpoint(ctx, tx, &e, nil)
	})
	if err != nil {
		return webhook.Endpoint{}, fmt.Errorf("create webhook registration: %w", err)
	}
	return e, nil
}

// insertSessionSecret stores the secret of one session's webhook_url as an
// endpoint that is not listed and gets nothing else.
func (s *Store) insertSessionSecret(ctx context.Context, tx pgx.Tx, n NewSession) (string, error) {
	e := webhook.Endpoint{
		ID: checkout.NewID(checkout.PrefixEndpoint), MerchantID: n.MerchantID, Mode: n.Mode,
		URL: *n.WebhookURL, Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: n.Secret,
	}
	return e.ID, s.insertEndpoint(ctx, tx, &e, &n.ID)
}

func (s *Store) insertEndpoint(ctx context.Context, tx pgx.Tx, e *webhook.Endpoint, sessionID *string) error {
	keyID, sealed := s.keys.seal(e.ID, webhook.SecretDigest(e.Secret))
	return tx.QueryRow(ctx, `
		INSERT INTO webhook_endpoint (id, merchant_id, mode, url, events, description, status, session_id, master_key_id, sealed_digest, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, date_trunc('milliseconds', clock_timestamp())) RETURNING created_at`,
		e.ID, e.MerchantID, e.Mode, e.URL, e.Events, e.Description, e.Status, sessionID, keyID, sealed).Scan(&e.CreatedAt)
}

// SigningEndpoint returns the registration whose secret signs what is sent to
// url as a session's webhook_url: the oldest enabled one with that very URL,
// else the oldest enabled one; "" when the merchant has none in this mode.
// Source: api/decisions.md, "which secret signs".
func (s *Store) SigningEndpoint(ctx context.Context, merchantID string, mode checkout.Mode, url string) (string, error) {
	var id string
	err := s.pool.QueryRow(ctx, `
		SELECT id FROM webhook_endpoint
		WHERE merchant_id = $1 AND mode = $2 AND session_id IS NULL AND deleted_at IS NULL AND status = 'enabled'
		ORDER BY url = $3 DESC, created_at, id LIMIT 1`, merchantID, mode, url).Scan(&id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("signing registration: %w", err)
	}
	return id, nil
}
