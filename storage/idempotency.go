package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// Errors of ClaimRequest.
var (
	// ErrIdempotencyConflict: the key came before with another body.
	ErrIdempotencyConflict = errors.New("idempotency key was used with another body")
	// ErrRequestInProgress: a process is working on the request of that key.
	ErrRequestInProgress = errors.New("request with that idempotency key is in progress")
)

// IdempotentRequest names a request that may be repeated.
type IdempotentRequest struct {
	checkout.Owner

	Route string // method and path
	Key   string
}

// owner binds what is sealed to the request.
func (r IdempotentRequest) owner() string {
	return strings.Join([]string{r.MerchantID, string(r.Mode), r.Route, r.Key}, "\n")
}

// KeptAnswer is the first answer to a request.
type KeptAnswer struct {
	Status   int
	Location string
	Body     []byte
}

const (
	// claimFor is longer than a request may take: a claim that is older belongs
	// to a process that died.
	claimFor = 15 * time.Second
	// KeepAnswers is how long a repeat gets the first answer.
	KeepAnswers = 24 * time.Hour
)

// ClaimRequest makes the caller the one who works on the request. It returns
// the answer that was kept, if there is one, or else a seed: whoever works on
// the request again, because the process before died or knows no outcome, gets
// the same one, makes the same ids and secrets from it, and so does nothing
// twice. It returns ErrIdempotencyConflict and ErrRequestInProgress.
func (s *Store) ClaimRequest(ctx context.Context, r IdempotentRequest, fingerprint []byte) (*KeptAnswer, []byte, error) {
	seed := checkout.NewSeed()
	keyID, sealed := s.keys.seal(r.owner(), seed)
	var (
		claimed, same, live bool
		status              *int
		answer              []byte
	)
	// The second part sees the row as it was before the first.
	err := s.pool.QueryRow(ctx, `
		WITH claim AS (
			INSERT INTO idempotent_request AS i (merchant_id, mode, route, key, fingerprint, seed, master_key_id, locked_until)
			VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8::interval)
			ON CONFLICT (merchant_id, mode, route, key) DO UPDATE SET
				fingerprint = excluded.fingerprint, locked_until = excluded.locked_until,
				status = NULL, answer = NULL,
				seed = CASE WHEN i.created_at < now() - $9::interval THEN excluded.seed ELSE i.seed END,
				master_key_id = CASE WHEN i.created_at < now() - $9::interval THEN excluded.master_key_id ELSE i.master_key_id END,
				created_at = CASE WHEN i.created_at < now() - $9::interval THEN now() ELSE i.created_at END
			WHERE i.created_at < now() - $9::interval
				OR (i.fingerprint = excluded.fingerprint AND i.status IS NULL AND (i.locked_until IS NULL OR i.locked_until < clock_timestamp()))
			RETURNING seed, master_key_id
		)
		SELECT true, true, false, NULL::int, NULL::bytea, seed, master_key_id FROM claim
		UNION ALL
		SELECT false, fingerprint = $5, status IS NULL, status, answer, seed, master_key_id FROM idempotent_request
		WHERE merchant_id = $1 AND mode = $2 AND route = $3 AND key = $4 AND NOT EXISTS (SELECT FROM claim)
			AND created_at >= now() - $9::interval`,
		r.MerchantID, r.Mode, r.Route, r.Key, fingerprint, sealed, keyID, claimFor, KeepAnswers).Scan(
		&claimed, &same, &live, &status, &answer, &sealed, &keyID)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // another process inserted it in this very moment, or claimed an old one
		return nil, nil, ErrRequestInProgress
	case err != nil:
		return nil, nil, fmt.Errorf("claim request: %w", err)
	case claimed:
		seed, err := s.keys.unseal(keyID, r.owner(), sealed)
		return nil, seed, err
	case !same:
		return nil, nil, ErrIdempotencyConflict
	case live:
		return nil, nil, ErrRequestInProgress
	}
	plain, err := s.keys.unseal(keyID, r.owner(), answer)
	if err != nil {
		return nil, nil, err
	}
	first, body, _ := bytes.Cut(plain, []byte("\n"))
	return &KeptAnswer{Status: *status, Location: string(first), Body: body}, nil, nil
}

// KeepAnswer keeps the answer to a claimed request for its repeats.
func (s *Store) KeepAnswer(ctx context.Context, r IdempotentRequest, a KeptAnswer) error {
	keyID, sealed := s.keys.seal(r.owner(), slices.Concat([]byte(a.Location+"\n"), a.Body))
	_, err := s.pool.Exec(ctx, `
		UPDATE idempotent_request SET status = $5, answer = $6, master_key_id = $7, locked_until = NULL, seed = ''
		WHERE merchant_id = $1 AND mode = $2 AND route = $3 AND key = $4`,
		r.MerchantID, r.Mode, r.Route, r.Key, a.Status, sealed, keyID)
	if err != nil {
		return fmt.Errorf("keep answer: %w", err)
	}
	return nil
}

// ReleaseRequest lets a claimed request be repeated at once. One that was
// refused is forgotten, so that the key may come with a mended body; one whose
// outcome is unknown keeps its seed.
func (s *Store) ReleaseRequest(ctx context.Context, r IdempotentRequest, refused bool) error {
	sql := `UPDATE idempotent_request SET locked_until = NULL`
	if refused {
		sql = `DELETE FROM idempotent_request`
	}
	_, err := s.pool.Exec(ctx, sql+` WHERE merchant_id = $1 AND mode = $2 AND route = $3 AND key = $4 AND status IS NULL`,
		r.MerchantID, r.Mode, r.Route, r.Key)
	if err != nil {
		return fmt.Errorf("release request: %w", err)
	}
	return nil
}

// DeleteOldRequests forgets up to limit requests whose answers are kept no longer,
// oldest first. It returns how many; 0 means that none is left to forget.
func (s *Store) DeleteOldRequests(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, `
		WITH old AS (
			SELECT merchant_id, mode, route, key FROM idempotent_request WHERE created_at < now() - $1::interval
			ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED
		)
		DELETE FROM idempotent_request i USING old
		WHERE i.merchant_id = old.merchant_id AND i.mode = old.mode AND i.route = old.route AND i.key = old.key`, KeepAnswers, limit)
	if err != nil {
		return 0, fmt.Errorf("delete old requests: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
