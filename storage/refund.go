package storage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// CreateRefund stores a refund to be made, unless the charge has one. A charge is refunded at most
// once.
func (s *Store) CreateRefund(ctx context.Context, r checkout.Refund) error {
	if err := insertRefund(ctx, s.pool, r); err != nil {
		return fmt.Errorf("create refund: %w", err)
	}
	return nil
}

func insertRefund(ctx context.Context, to executor, r checkout.Refund) error {
	_, err := to.Exec(ctx, `
		INSERT INTO refund (id, mode, acquirer_ref, transaction_id, reason, status, created_at)
		VALUES ($1, $2, $3, nullif($4, ''), $5, 'pending', date_trunc('milliseconds', clock_timestamp()))
		ON CONFLICT ON CONSTRAINT refund_acquirer_ref_key DO NOTHING`,
		checkout.NewID(checkout.PrefixRefund), r.Mode, r.Reference, r.TransactionID, r.Reason)
	return err
}

// PendingRefunds returns up to limit refunds that are not decided, after the id after.
func (s *Store) PendingRefunds(
	ctx context.Context, mode checkout.Mode, after string, limit int,
) ([]checkout.Refund, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, mode, acquirer_ref AS reference, coalesce(transaction_id, '') AS transaction_id, reason, status,
			network_ref, created_at, ended_at
		FROM refund WHERE mode = $1 AND status = 'pending' AND id > $2 ORDER BY id LIMIT $3`, mode, after, limit)
	if err != nil {
		return nil, fmt.Errorf("pending refunds: %w", err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByName[checkout.Refund])
	if err != nil {
		return nil, fmt.Errorf("pending refunds: %w", err)
	}
	return got, nil
}

// RecordRefund stores the network's answer about a refund. The first final answer stays.
func (s *Store) RecordRefund(ctx context.Context, refund checkout.Refund, got checkout.RefundResult) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE refund SET status = $3, network_ref = $4,
			ended_at = CASE WHEN $3 = 'pending' THEN NULL ELSE date_trunc('milliseconds', clock_timestamp()) END
		WHERE id = $1 AND mode = $2 AND status = 'pending'`,
		refund.ID, refund.Mode, got.Status, got.Reference)
	if err != nil {
		return fmt.Errorf("record refund: %w", err)
	}
	return nil
}
