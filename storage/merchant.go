package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// CreateMerchant stores a merchant with payout addresses for mode. Repeating it
// with the same id changes nothing.
func (s *Store) CreateMerchant(ctx context.Context, m checkout.Merchant, mode checkout.Mode, addresses []checkout.PayoutAddress) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO merchant (id, name, plan, fee_basis_points, payment_attempts, order_id_guard)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
			m.ID, m.Name, m.Plan, m.FeeBasisPoints, m.PaymentAttempts, m.OrderIDGuard)
		if err != nil {
			return fmt.Errorf("create merchant: %w", err)
		}
		for _, a := range addresses {
			_, err := tx.Exec(ctx, `
				INSERT INTO payout_address (merchant_id, mode, currency, network, address)
				VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`, m.ID, mode, a.Currency, a.Network, a.Address)
			if err != nil {
				return fmt.Errorf("create payout address: %w", err)
			}
		}
		return nil
	})
}

// HasPayoutAddress reports whether the merchant can be paid in currency.
func (s *Store) HasPayoutAddress(ctx context.Context, merchantID string, mode checkout.Mode, currency checkout.PayoutCurrency) (bool, error) {
	var ok bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM payout_address WHERE merchant_id = $1 AND mode = $2 AND currency = $3)`,
		merchantID, mode, currency).Scan(&ok)
	if err != nil {
		return false, fmt.Errorf("payout address: %w", err)
	}
	return ok, nil
}

// CreateAPIKey stores the hash of secret, which must come from
// checkout.NewAPIKey for the same mode.
func (s *Store) CreateAPIKey(ctx context.Context, k checkout.APIKey, secret string) error {
	hash, ok := checkout.HashAPIKey(secret)
	if !ok {
		return checkout.ErrAPIKey
	}
	_, err := s.pool.Exec(ctx, `INSERT INTO api_key (id, merchant_id, mode, label, hash, last4) VALUES ($1, $2, $3, $4, $5, $6)`,
		k.ID, k.MerchantID, k.Mode, k.Label, hash, secret[len(secret)-4:])
	if err != nil {
		return fmt.Errorf("create api key: %w", err)
	}
	return nil
}

// RevokeAPIKey makes every later Authenticate with the key fail. Repeating it
// changes nothing; it returns checkout.ErrNotFound for an unknown key.
func (s *Store) RevokeAPIKey(ctx context.Context, merchantID string, mode checkout.Mode, keyID string) error {
	tag, err := s.pool.Exec(ctx, `UPDATE api_key SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
		keyID, merchantID, mode)
	if err != nil {
		return fmt.Errorf("revoke api key: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return checkout.ErrNotFound
	}
	return nil
}

// Caller is who makes a request: a key and its merchant.
type Caller struct {
	Key      checkout.APIKey
	Merchant checkout.Merchant
}

// Authenticate finds the caller by the hash of its key. It asks PostgreSQL each
// time, so that a revoked key fails on the very next request in every process.
// It returns checkout.ErrAPIKey when the key is unknown or revoked.
func (s *Store) Authenticate(ctx context.Context, hash []byte) (Caller, error) {
	var c Caller
	k, m := &c.Key, &c.Merchant
	err := s.pool.QueryRow(ctx, `
		SELECT k.id, k.merchant_id, k.mode, k.label, k.last4,
		       m.id, m.name, m.plan, m.fee_basis_points, m.payment_attempts, m.order_id_guard
		FROM api_key k JOIN merchant m ON m.id = k.merchant_id
		WHERE k.hash = $1 AND k.revoked_at IS NULL`, hash).Scan(
		&k.ID, &k.MerchantID, &k.Mode, &k.Label, &k.Last4,
		&m.ID, &m.Name, &m.Plan, &m.FeeBasisPoints, &m.PaymentAttempts, &m.OrderIDGuard)
	if errors.Is(err, pgx.ErrNoRows) {
		return Caller{}, checkout.ErrAPIKey
	}
	if err != nil {
		return Caller{}, fmt.Errorf("authenticate: %w", err)
	}
	return c, nil
}
