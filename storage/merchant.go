package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// CreateMerchant stores a merchant with its payout addresses in mode. A repeat with the same id changes nothing.
func (s *Merchants) CreateMerchant(
	ctx context.Context, m merchant.Merchant, mode checkout.Mode,
	addresses []merchant.PayoutAddress,
) error {
	return pg.RunInTx(ctx, s.pool, "create merchant", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO merchant (id, name, plan, fee_basis_points, fee_fixed, payment_attempts, order_id_guard)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
			m.ID, m.Name, m.Plan, m.FeeBasisPoints, m.FeeFixed, m.PaymentAttempts, m.OrderIDGuard)
		if err != nil {
			return err
		}
		for _, to := range addresses {
			_, err := tx.Exec(ctx, `
				INSERT INTO payout_address (merchant_id, mode, currency, network, address)
				VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`, m.ID, mode, to.Currency, to.Network, to.Address)
			if err != nil {
				return pg.Wrap("create payout address", err)
			}
		}
		return nil
	})
}

const merchantColumns = `id, name, plan, fee_basis_points, fee_fixed, payment_attempts, order_id_guard,
	suspended, debt_limit, recovery_percent, reserve_basis_points, reserve_days, payout_delay_hours, created_at`

// Merchants returns every merchant, newest first. Only operators may call it.
func (s *Merchants) Merchants(ctx context.Context) ([]merchant.Merchant, error) {
	merchants, err := pg.Collect[merchant.Merchant](ctx, s.pool,
		`SELECT `+merchantColumns+` FROM merchant ORDER BY id DESC`)
	return merchants, pg.Wrap("merchants", err)
}

// Merchant returns one merchant. It returns checkout.ErrNotFound.
func (s *Merchants) Merchant(ctx context.Context, id string) (merchant.Merchant, error) {
	m, err := pg.One[merchant.Merchant](ctx, s.pool, `SELECT `+merchantColumns+` FROM merchant WHERE id = $1`, id)
	return m, pg.Wrap("merchant", err)
}

// WorksLive reports whether a merchant works in live mode: it has live sessions, or it has live payout
// addresses and no test sessions.
func (s *Merchants) WorksLive(ctx context.Context, merchantID string) (works bool, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM checkout_session WHERE merchant_id = $1 AND mode = 'live')
			OR EXISTS (SELECT FROM payout_address WHERE merchant_id = $1 AND mode = 'live')
				AND NOT EXISTS (SELECT FROM checkout_session WHERE merchant_id = $1 AND mode = 'test')`, merchantID).Scan(&works)
	return works, pg.Wrap("works live", err)
}

// PayoutAddresses returns a merchant's payout addresses in one mode, sorted by currency.
func (s *Merchants) PayoutAddresses(ctx context.Context, owner checkout.Owner) ([]merchant.PayoutAddress, error) {
	return payoutAddresses(ctx, s.pool, owner)
}

func payoutAddresses(ctx context.Context, from pg.Querier, owner checkout.Owner) ([]merchant.PayoutAddress, error) {
	addresses, err := pg.Collect[merchant.PayoutAddress](ctx, from, `
		SELECT currency, network, address FROM current_payout_address WHERE merchant_id = $1 AND mode = $2
		ORDER BY currency`, owner.MerchantID, owner.Mode)
	return addresses, pg.Wrap("payout addresses", err)
}

// HasPayoutAddress reports whether the merchant has a payout address for currency on a real chain. An
// address of the sandbox is none.
func (s *Merchants) HasPayoutAddress(
	ctx context.Context, owner checkout.Owner, currency money.PayoutCurrency,
) (bool, error) {
	ok, err := pg.Value[bool](ctx, s.pool, `
		SELECT EXISTS (SELECT FROM current_payout_address
			WHERE merchant_id = $1 AND mode = $2 AND currency = $3 AND NOT starts_with(address, 'sandbox:'))`,
		owner.MerchantID, owner.Mode, currency)
	return ok, pg.Wrap("payout address", err)
}
