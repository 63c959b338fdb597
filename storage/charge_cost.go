package storage

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// RecordChargeCost stores and books what a charge cost at the card network, and stores when the money of one that
// succeeded is available. The first answer about each stays, and a repeat changes nothing. The charge names
// no merchant: the acquirer knows only us. Of the charge of a failed payment only the cost is booked: the
// amount goes back, and the network keeps its fee.
func (s *Books) RecordChargeCost(
	ctx context.Context, mode checkout.Mode, transactionID string, c books.ChargeCost,
) error {
	if !c.Valid() {
		return fmt.Errorf("record charge cost: %s of %s cannot be the cost of %s", c.Cost, c.Gross, transactionID)
	}
	return pg.RunInTx(ctx, s.pool, "record charge cost", func(tx pgx.Tx) error {
		if err := recordAvailable(ctx, tx, mode, transactionID, c.AvailableAt); err != nil {
			return err
		}
		t := checkout.Transaction{Ref: checkout.Owner{Mode: mode}.Ref(transactionID)}
		paid := false
		err := tx.QueryRow(ctx, `
			UPDATE transaction t SET settled_currency = $3, settled = $4, cost = $5
			FROM checkout_session s
			WHERE t.id = $1 AND t.mode = $2 AND `+decided+` AND t.settled IS NULL AND s.id = t.session_id
			RETURNING t.merchant_id, s.amount, s.currency, t.status = 'succeeded'`,
			transactionID, mode, c.Currency, c.Gross, c.Cost).Scan(&t.MerchantID, &t.Amount, &t.Currency, &paid)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if !paid {
			t.Amount, c.Gross = 0, 0 // it is booked neither when it comes nor when it goes back
		}
		return bookCost(ctx, tx, t, c)
	})
}

// recordAvailable stores when the money of a succeeded charge is available. A zero time is not known yet.
func recordAvailable(ctx context.Context, tx pgx.Tx, mode checkout.Mode, transactionID string, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	_, err := tx.Exec(ctx, `
		UPDATE transaction SET available_at = $3
		WHERE id = $1 AND mode = $2 AND status = 'succeeded' AND available_at IS NULL`, transactionID, mode, at)
	return err
}

// unsettled reports whether the money of the payout's charge is available, and how much stands for payouts
// of its merchant whose charges' money is not: their value in US cents. The sandbox holds no money back. The merchant's
// row must be locked.
func (p *lockedPayout) unsettled(ctx context.Context, tx pgx.Tx) (settled bool, sum money.Amount, err error) {
	err = tx.QueryRow(ctx, `
		WITH unavailable AS MATERIALIZED (SELECT t.id, t.session_id FROM transaction t
			WHERE t.merchant_id = $1 AND t.mode = $2 AND t.status = 'succeeded' AND t.acquirer <> 'sandbox'
				AND coalesce(t.available_at, 'infinity') > $3)
		SELECT $4 <> '' AND NOT EXISTS (SELECT FROM unavailable WHERE id = $4), (
			SELECT coalesce(sum(x.value), 0)::bigint FROM unavailable u
			JOIN payout p ON p.session_id = u.session_id AND p.transaction_id = u.id
			JOIN transfer_payout x ON x.payout_id = p.id AND x.standing)`,
		p.MerchantID, p.Mode, p.Now, p.TransactionID).Scan(&settled, &sum)
	return settled, sum, err
}

// bookCost books that the acquirer has the amount, less what it keeps. An amount that it converted goes
// over the exchange account.
func bookCost(ctx context.Context, tx pgx.Tx, t checkout.Transaction, c books.ChargeCost) error {
	charged, booked := string(t.Currency), string(c.Currency)
	return entry{
		Mode: t.Mode, Kind: entryCost, Subject: t.ID, Generation: 1, MerchantID: t.MerchantID,
		Postings: []posting{
			{ledgerReceivable, "", charged, big.NewInt(-int64(t.Amount))},
			{ledgerExchange, "", charged, big.NewInt(int64(t.Amount))},
			{ledgerExchange, "", booked, big.NewInt(-int64(c.Gross))},
			{ledgerBalance, "", booked, big.NewInt(int64(c.Gross - c.Cost))},
			{ledgerAcquirer, "", booked, big.NewInt(int64(c.Cost))},
		},
	}.book(ctx, tx)
}
