package storage

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// Errors of ClaimRequest.
var (
	// ErrIdempotencyConflict: an earlier request had the same key and another body.
	ErrIdempotencyConflict = errors.New("idempotency key was used with another body")
	// ErrRequestInProgress: another call is working on the request with this key.
	ErrRequestInProgress = errors.New("request with that idempotency key is in progress")
)

// IdempotentRequest names a request that a client may repeat.
type IdempotentRequest struct {
	checkout.Owner

	Route string // method and path
	Key   string
}

// owner returns the text to which a sealed value of the request is bound.
func (r IdempotentRequest) owner() string {
	return strings.Join([]string{r.MerchantID, string(r.Mode), r.Route, r.Key}, "\n")
}

// KeptAnswer is the stored first answer to a request.
type KeptAnswer struct {
	Status   int
	Location string
	Body     []byte
}

const (
	// claimFor is longer than a request may take. An older claim belongs to a process that died.
	claimFor = 15 * time.Second
	// KeepAnswers is how long a repeat gets the first answer.
	KeepAnswers = 24 * time.Hour
)

// claimRequest claims a request, or reads it when it cannot be claimed. The part after UNION ALL
// sees the row as it was before the claim.
const claimRequest = `
	WITH claim AS (
		INSERT INTO idempotent_request AS i (merchant_id, mode, route, key, fingerprint, seed, master_key_id, locked_until)
		VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8::interval)
		ON CONFLICT (merchant_id, mode, route, key) DO UPDATE SET
			fingerprint = excluded.fingerprint, locked_until = excluded.locked_until, status = NULL, answer = NULL,
			seed = CASE WHEN i.created_at < now() - $9::interval THEN excluded.seed ELSE i.seed END,
			master_key_id = CASE WHEN i.created_at < now() - $9::interval THEN excluded.master_key_id ELSE i.master_key_id END,
			created_at = CASE WHEN i.created_at < now() - $9::interval THEN now() ELSE i.created_at END
		WHERE i.created_at < now() - $9::interval
			OR (i.fingerprint = excluded.fingerprint AND i.status IS NULL
				AND (i.locked_until IS NULL OR i.locked_until < clock_timestamp()))
		RETURNING seed, master_key_id
	)
	SELECT true, true, false, NULL::int, NULL::bytea, seed, master_key_id FROM claim
	UNION ALL
	SELECT false, fingerprint = $5, status IS NULL, status, answer, seed, master_key_id
	FROM idempotent_request
	WHERE merchant_id = $1 AND mode = $2 AND route = $3 AND key = $4
		AND NOT EXISTS (SELECT FROM claim)
		AND created_at >= now() - $9::interval`

// ClaimRequest claims a request for the caller. It returns the stored answer, if there is one. Otherwise it returns a
// seed, and the caller works on the request. The seed stays the same when a repeat claims the request again, because
// the first process died or did not learn the outcome. The repeat derives the same ids and secrets from the seed, so
// nothing is done twice. It returns ErrIdempotencyConflict and ErrRequestInProgress.
func (s *Requests) ClaimRequest(
	ctx context.Context, r IdempotentRequest, fingerprint []byte,
) (*KeptAnswer, []byte, error) {
	seed := checkout.NewSeed()
	keyID, sealed := s.keys.Seal(r.owner(), seed)
	var (
		claimed, same, live bool
		status              *int
		answer              []byte
	)
	err := s.pool.QueryRow(ctx, claimRequest,
		r.MerchantID, r.Mode, r.Route, r.Key, fingerprint, sealed, keyID, claimFor,
		KeepAnswers).Scan(&claimed, &same, &live, &status, &answer, &sealed, &keyID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		// Another process inserted the row, or claimed an old one, just now.
		return nil, nil, ErrRequestInProgress
	case err != nil:
		return nil, nil, pg.Wrap("claim request", err)
	case claimed:
		seed, err := s.keys.Unseal(keyID, r.owner(), sealed)
		return nil, seed, err
	case !same:
		return nil, nil, ErrIdempotencyConflict
	case live:
		return nil, nil, ErrRequestInProgress
	}

	plain, err := s.keys.Unseal(keyID, r.owner(), answer)
	if err != nil {
		return nil, nil, err
	}
	first, body, _ := bytes.Cut(plain, []byte("\n"))
	return &KeptAnswer{Status: *status, Location: string(first), Body: body}, nil, nil
}

// KeepAnswer stores the answer to a claimed request for its repeats.
func (s *Requests) KeepAnswer(ctx context.Context, r IdempotentRequest, a KeptAnswer) error {
	keyID, sealed := s.keys.Seal(r.owner(), slices.Concat([]byte(a.Location+"\n"), a.Body))
	return pg.Exec(ctx, s.pool, "keep answer", `
		UPDATE idempotent_request SET status = $5, answer = $6, master_key_id = $7, locked_until = NULL, seed = ''
		WHERE merchant_id = $1 AND mode = $2 AND route = $3 AND key = $4`,
		r.MerchantID, r.Mode, r.Route, r.Key, a.Status, sealed, keyID)
}

// ReleaseRequest ends a claim without an answer, so the request can be repeated at once. A refused request is deleted:
// its key may come back with a corrected body. A request with an unknown outcome keeps its seed.
func (s *Requests) ReleaseRequest(ctx context.Context, r IdempotentRequest, refused bool) error {
	sql := `UPDATE idempotent_request SET locked_until = NULL`
	if refused {
		sql = `DELETE FROM idempotent_request`
	}
	return pg.Exec(ctx, s.pool, "release request", sql+`
		WHERE merchant_id = $1 AND mode = $2 AND route = $3 AND key = $4 AND status IS NULL`,
		r.MerchantID, r.Mode, r.Route, r.Key)
}
