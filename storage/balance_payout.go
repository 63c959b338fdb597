package storage

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// leastBalancePayout is the least payout of an available balance, in minor units of any currency: less would go to the
// network.
const leastBalancePayout money.Amount = 10_00

// balancePayoutEvery is the shortest time between two payouts of a balance.
const balancePayoutEvery = 24 * time.Hour

// BalancePayout is a payout of an available balance that is to be made. It has no session.
type BalancePayout struct {
	checkout.Owner

	Amount         money.Amount
	Currency       money.Currency
	PayoutCurrency money.PayoutCurrency // of the merchant's last payment in Currency
	Network        string
	Destination    string
	Chain          string // of that payment
}

// availablePayouts selects the payouts that the available balances of a merchant allow. A failed payout keeps its part
// of the balance, because it can be retried.
const availablePayouts = `
	SELECT $1::text AS merchant_id, $2::text AS mode, b.currency, (b.available - b.failed)::bigint AS amount,
		last.payout_currency, a.network, a.address AS destination, last.chain_ref AS chain
	FROM (
		SELECT b.*, (SELECT coalesce(sum(p.source_amount - p.deducted), 0) FROM payout p
			WHERE p.merchant_id = $1 AND p.mode = $2 AND p.status = 'failed' AND p.status <> 'sent'
				AND p.source_currency = b.currency AND NOT EXISTS (SELECT FROM refund r
					WHERE r.transaction_id = p.transaction_id AND r.reason <> 'merchant' AND ` + refundStands + `)) AS failed
		FROM (` + balanceSums + `) b
	) b CROSS JOIN LATERAL (
		SELECT s.payout_currency, t.chain_ref FROM transaction t JOIN checkout_session s ON s.id = t.session_id
		WHERE t.merchant_id = $1 AND t.mode = $2 AND t.status = 'succeeded' AND s.currency = b.currency
		ORDER BY t.id DESC LIMIT 1
	) last JOIN current_payout_address a ON a.merchant_id = $1 AND a.mode = $2 AND a.currency = last.payout_currency
	WHERE b.available - b.failed >= $4 AND NOT EXISTS (SELECT FROM payout p WHERE p.merchant_id = $1 AND p.mode = $2
		AND p.id >= $5 AND p.session_id IS NULL AND p.source_currency = b.currency)
	ORDER BY b.currency`

func payable(ctx context.Context, from pg.Querier, owner checkout.Owner) ([]BalancePayout, error) {
	return pg.Collect[BalancePayout](ctx, from, availablePayouts, owner.MerchantID, owner.Mode, ledgerPayable,
		leastBalancePayout, checkout.FirstID(checkout.PrefixPayout, time.Now().Add(-balancePayoutEvery)))
}

// PayableBalances returns the payouts of available balances that are to be made, of all merchants.
func (s *Balances) PayableBalances(ctx context.Context) ([]BalancePayout, error) {
	owners, err := pg.Collect[checkout.Owner](ctx, s.pool, `
		SELECT id AS merchant_id, unnest(credits) AS mode FROM merchant WHERE credits <> '{}' ORDER BY 1, 2`)
	var all []BalancePayout
	for _, owner := range owners {
		if err != nil {
			break
		}
		var found []BalancePayout
		if found, err = payable(ctx, s.pool, owner); err == nil && len(found) == 0 {
			err = s.noteBalance(ctx, owner)
		}
		all = append(all, found...)
	}
	return all, pg.Wrap("payable balances", err)
}

// CreateBalancePayout makes the payout of an available balance, of what is available by now, at a rate. Reconcile
// starts its run. It returns false when there is nothing to pay any more.
func (s *Balances) CreateBalancePayout(ctx context.Context, b BalancePayout, rate money.Rate) (bool, error) {
	return pg.InTx(ctx, s.pool, "create balance payout", func(tx pgx.Tx) (bool, error) {
		if err := lockMerchants(ctx, tx, b.MerchantID); err != nil {
			return false, err
		}
		now, err := payable(ctx, tx, b.Owner)
		if err != nil {
			return false, err
		}
		for _, p := range now {
			if p.Currency != b.Currency || p.PayoutCurrency != b.PayoutCurrency {
				continue
			}
			_, err = tx.Exec(ctx, `
				INSERT INTO payout (id, merchant_id, mode, status, currency, network, destination, source_amount,
					source_currency, exchange_rate, chain_ref, created_at)
				VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, $8, $9, $10, date_trunc('milliseconds', clock_timestamp()))`,
				checkout.NewID(checkout.PrefixPayout), p.MerchantID, p.Mode, p.PayoutCurrency, p.Network, p.Destination,
				p.Amount, p.Currency, rate, p.Chain)
			return err == nil, err
		}
		return false, nil
	})
}

// noteBalance notes again what the merchant may owe and may have.
func (s *Balances) noteBalance(ctx context.Context, owner checkout.Owner) error {
	return pg.RunInTx(ctx, s.pool, "note balance", func(tx pgx.Tx) error {
		if err := lockMerchants(ctx, tx, owner.MerchantID); err != nil {
			return err
		}
		return noteBalance(ctx, tx, owner)
	})
}
