package storage

import (
	"context"
	"maps"
	"math/big"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// reserved returns how much of the payment's net is kept, by the merchant's plan of the decision.
func (p *payment) reserved() money.Amount {
	return min(p.Net, p.Net.Percentage(p.ReserveBasisPoints))
}

// keepReserve keeps a part of the payment with the decision that inserts its payout.
func (p *payment) keepReserve(with *decisionSQL) {
	kept := p.reserved()
	if kept == 0 {
		return
	}
	with.sql += `, reserve AS (
			INSERT INTO reserve (transaction_id, merchant_id, mode, currency, amount, release_at)
			SELECT @subject, @merchant, @mode, @currency, @reserved,
				@at::timestamptz + make_interval(days => @reserve_days::integer)
			FROM decided
		), reserve_deduction AS (
			INSERT INTO payout_deduction (payout_id, merchant_id, mode, type, source, amount)
			SELECT @payout, @merchant, @mode, 'reserve', @subject, @reserved FROM decided
		)`
	maps.Copy(with.args, pgx.NamedArgs{"reserve_days": p.ReserveDays})
	reserveEntry(p.Owner, entryReserve, p.ID, p.Currency, kept).with(with, "EXISTS (SELECT FROM entry_charge)")
}

// reserveEntry moves an amount from what we owe a merchant to its reserve, or back with an amount below 0.
func reserveEntry(owner checkout.Owner, kind, payment string, currency money.Currency, kept money.Amount) entry {
	amount := big.NewInt(int64(kept))
	return entry{
		Mode: owner.Mode, Kind: kind, Subject: payment, Generation: 1, MerchantID: owner.MerchantID,
		Postings: []posting{
			{ledgerPayable, owner.MerchantID, string(currency), amount},
			{ledgerReserve, owner.MerchantID, string(currency), new(big.Int).Neg(amount)},
		},
	}
}

// dueReserve is a reserve whose time is over.
type dueReserve struct {
	checkout.Owner
	TransactionID string
	Currency      money.Currency
	Amount        money.Amount
}

// ReleaseReserves gives up to limit reserves, whose time is over, back to the balances of their merchants, oldest
// first. It returns their number. It works for all merchants.
func (s *Balances) ReleaseReserves(ctx context.Context, limit int) (int, error) {
	due, err := pg.Collect[dueReserve](ctx, s.pool, `
		SELECT merchant_id, mode, transaction_id, currency, amount FROM reserve
		WHERE released_at IS NULL AND release_at <= statement_timestamp() ORDER BY release_at LIMIT $1`, limit)
	if err != nil {
		return 0, pg.Wrap("due reserves", err)
	}
	for i, d := range due {
		if err := s.release(ctx, d); err != nil {
			return i, err
		}
	}
	return len(due), nil
}

// release releases a reserve once, also when several processes call it.
func (s *Balances) release(ctx context.Context, d dueReserve) error {
	return pg.RunInTx(ctx, s.pool, "release reserve", func(tx pgx.Tx) error {
		if err := lockMerchants(ctx, tx, d.MerchantID); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE reserve SET released_at = clock_timestamp()
			WHERE transaction_id = $1 AND merchant_id = $2 AND mode = $3 AND released_at IS NULL`,
			d.TransactionID, d.MerchantID, d.Mode)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if err := reserveEntry(d.Owner, entryRelease, d.TransactionID, d.Currency, -d.Amount).book(ctx, tx); err != nil {
			return err
		}
		return noteBalance(ctx, tx, d.Owner)
	})
}
