package storage

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// CreateAPIKey stores the hash of secret and writes note to the audit log, in one transaction. The
// secret must come from merchant.NewAPIKey for the mode of k. It returns checkout.ErrAPIKey for a
// secret of another shape, and checkout.ErrNotFound for an unknown merchant.
func (s *Merchants) CreateAPIKey(
	ctx context.Context, k merchant.APIKey, secret string, note ...merchant.AuditEntry,
) error {
	hash, ok := merchant.HashAPIKey(secret)
	if !ok {
		return checkout.ErrAPIKey
	}
	if k.Scopes == nil {
		k.Scopes = merchant.Scopes{merchant.ScopeFull}
	}

	err := pg.RunInTx(ctx, s.pool, "create api key", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO api_key (id, merchant_id, mode, label, scopes, hash, last4)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, k.ID, k.MerchantID, k.Mode, k.Label, k.Scopes, hash, secret[len(secret)-4:])
		if err != nil {
			return err
		}
		for _, by := range note {
			if !k.Mode.Live() {
				break
			}
			if err := people.MailOwners(ctx, tx, k.MerchantID, merchant.MailLiveKey, people.MailDetail(by)); err != nil {
				return err
			}
		}
		return pg.Audit(ctx, tx, note...)
	})
	if pg.Violates(err, "api_key_merchant_id_fkey") {
		return checkout.ErrNotFound
	}
	return err
}

const selectKey = `
	SELECT k.id, k.merchant_id, k.mode, k.label, k.scopes, k.last4, k.created_at, k.revoked_at,
		(SELECT max(b.at) FROM token_bucket b WHERE b.owner = k.id) AS used_at
	FROM api_key k `

// APIKeys returns the keys of a merchant in both modes, newest first. Revoked keys are included.
func (s *Merchants) APIKeys(ctx context.Context, merchantID string) ([]merchant.APIKey, error) {
	keys, err := pg.Collect[merchant.APIKey](ctx, s.pool, selectKey+`
		WHERE k.merchant_id = $1 ORDER BY k.id DESC`, merchantID)
	return keys, pg.Wrap("api keys", err)
}

// RevokeAPIKey revokes a key and writes note to the audit log, with the key's label and end as the detail. Every later
// Authenticate with the key fails. A repeat changes nothing and writes no note. It returns checkout.ErrNotFound for an
// unknown key.
func (s *Merchants) RevokeAPIKey(ctx context.Context, ref checkout.Ref, note ...merchant.AuditEntry) error {
	return pg.RunInTx(ctx, s.pool, "revoke api key", func(tx pgx.Tx) error {
		detail, err := pg.Value[string](ctx, tx, `
			UPDATE api_key SET revoked_at = now()
			WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND revoked_at IS NULL
			RETURNING '“' || label || '”, ends in ' || last4`, ref.ID, ref.MerchantID, ref.Mode)
		if err == nil {
			note = slices.Clone(note)
			for i := range note {
				note[i].Detail = detail
			}
			return pg.Audit(ctx, tx, note...)
		}
		if !errors.Is(err, checkout.ErrNotFound) {
			return err
		}
		there, err := pg.Value[bool](ctx, tx, `
			SELECT EXISTS (SELECT FROM api_key WHERE id = $1 AND merchant_id = $2 AND mode = $3)`,
			ref.ID, ref.MerchantID, ref.Mode)
		if err == nil && !there {
			return checkout.ErrNotFound
		}
		return err
	})
}

// APIKey returns the key with this id, of any merchant. Only operators may call it. It returns checkout.ErrNotFound.
func (s *Merchants) APIKey(ctx context.Context, id string) (merchant.APIKey, error) {
	k, err := pg.One[merchant.APIKey](ctx, s.pool, selectKey+`WHERE k.id = $1`, id)
	return k, pg.Wrap("api key", err)
}

// Caller is the key and the merchant of one request.
type Caller struct {
	Key      merchant.APIKey
	Merchant merchant.Merchant
}

// RequestKind chooses the token bucket of a key.
type RequestKind string

// Kinds of requests. Each key has one bucket for each.
const (
	RequestRead  RequestKind = "read"
	RequestWrite RequestKind = "write"
)

// Rates holds the request rate of a key in each mode.
type Rates struct{ Test, Live Rate }

// Authenticate finds the caller by the hash of its key and takes a token for the request. It asks PostgreSQL each time,
// so a revoked key fails on its next request in every process. It returns checkout.ErrAPIKey when the key is unknown or
// revoked. It does not refuse a request without a token: the caller must look at Allowance.OK.
func (s *Merchants) Authenticate(
	ctx context.Context, hash []byte, kind RequestKind, rates Rates,
) (Caller, Allowance, error) {
	var (
		c Caller
		b takenBucket
	)
	k, m := &c.Key, &c.Merchant
	err := s.pool.QueryRow(ctx, `
		WITH caller AS (
			SELECT k.id AS key_id, k.mode, k.label, k.scopes, k.last4,
				k.created_at AS key_created_at,
				m.id, m.name, m.plan, m.fee_basis_points, m.fee_fixed, m.payment_attempts,
				m.order_id_guard, m.suspended
			FROM api_key k JOIN merchant m ON m.id = k.merchant_id
			WHERE k.hash = $1 AND k.revoked_at IS NULL
		), bucket AS (
			INSERT INTO token_bucket AS b (owner, kind, rate, burst, tokens, allowed, at)
			SELECT key_id, $2,
				CASE mode WHEN 'live' THEN $3::float8 ELSE $5::float8 END,
				CASE mode WHEN 'live' THEN $4::int ELSE $6::int END,
				CASE mode WHEN 'live' THEN $4::int ELSE $6::int END - 1, true, clock_timestamp()
			FROM caller, `+pg.Unhurried+takeToken+`
		)
		SELECT c.key_id, c.mode, c.label, c.scopes, c.last4, c.key_created_at,
			c.id, c.name, c.plan, c.fee_basis_points, c.fee_fixed, c.payment_attempts, c.order_id_guard, c.suspended,
			b.allowed, b.tokens, b.rate, b.burst
		FROM caller c, bucket b`,
		hash, kind, rates.Live.PerSecond, rates.Live.Burst, rates.Test.PerSecond, rates.Test.Burst).Scan(
		&k.ID, &k.Mode, &k.Label, &k.Scopes, &k.Last4, &k.CreatedAt,
		&m.ID, &m.Name, &m.Plan, &m.FeeBasisPoints, &m.FeeFixed, &m.PaymentAttempts, &m.OrderIDGuard, &m.Suspended,
		&b.Allowed, &b.Tokens, &b.Rate, &b.Burst)
	if errors.Is(err, pgx.ErrNoRows) {
		return Caller{}, Allowance{}, checkout.ErrAPIKey
	}
	if err != nil {
		return Caller{}, Allowance{}, pg.Wrap("authenticate", err)
	}
	k.MerchantID = m.ID
	return c, b.allowance(), nil
}
