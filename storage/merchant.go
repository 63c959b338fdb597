package storage

import (
	"context"
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
