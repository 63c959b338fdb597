package storage

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// RecordChargeCost stores and books what a succeeded charge cost at the card network. The first answer
// stays, and a repeat changes nothing. The charge belongs to the acquirer's account, which serves all
// merchants.
func (s *Store) RecordChargeCost(
	ctx context.Context, mode checkout.Mode, transactionID string, c checkout.ChargeCost,
) error {
	if !c.Valid() {
		return fmt.Errorf("record charge cost: %s of %s cannot be the cost of %s", c.Cost, c.Gross, transactionID)
	}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		t := checkout.Transaction{Ref: checkout.Owner{Mode: mode}.Ref(transactionID)}
		err := tx.QueryRow(ctx, `
			UPDATE transaction t SET settled_currency = $3, settled = $4, cost = $5
			FROM checkout_session s
			WHERE t.id = $1 AND t.mode = $2 AND t.status = 'succeeded' AND t.settled IS NULL AND s.id = t.session_id
			RETURNING t.merchant_id, s.amount, s.currency`,
			transactionID, mode, c.Currency, c.Gross, c.Cost).Scan(&t.MerchantID, &t.Amount, &t.Currency)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return bookCost(ctx, tx, t, c)
	})
	if err != nil {
		return fmt.Errorf("record charge cost: %w", err)
	}
	return nil
}

// bookCost books that the acquirer has the amount, less what it keeps. An amount that it converted goes
// over the exchange account.
func bookCost(ctx context.Context, tx pgx.Tx, t checkout.Transaction, c checkout.ChargeCost) error {
	charged, settled := string(t.Currency), string(c.Currency)
	return entry{
		Mode: t.Mode, Kind: entryCost, Subject: t.ID, Generation: 1, MerchantID: t.MerchantID,
		Postings: []posting{
			{accountReceivable, "", charged, big.NewInt(-int64(t.Amount))},
			{accountExchange, "", charged, big.NewInt(int64(t.Amount))},
			{accountExchange, "", settled, big.NewInt(-int64(c.Gross))},
			{accountBalance, "", settled, big.NewInt(int64(c.Gross - c.Cost))},
			{accountAcquirer, "", settled, big.NewInt(int64(c.Cost))},
		},
	}.book(ctx, tx)
}
