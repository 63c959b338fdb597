package storage

import (
	"context"
	"errors"
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

// refundColumns read a checkout.Refund.
const refundColumns = `
	id, mode, acquirer_ref AS reference, coalesce(transaction_id, '') AS transaction_id, reason, status,
	network_ref, created_at, ended_at`

// LivePayoutOf names the payout of a live transaction. The caller is an operator, who has no merchant.
// It returns checkout.ErrNotFound when the transaction was not paid, or is of test mode.
func (s *Store) LivePayoutOf(ctx context.Context, transactionID string) (checkout.Ref, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, merchant_id, mode FROM payout WHERE transaction_id = $1 AND mode = 'live'`, transactionID)
	if err != nil {
		return checkout.Ref{}, fmt.Errorf("live payout: %w", err)
	}
	return exactlyOne[checkout.Ref](rows, "live payout")
}

// RefundPayout gives the payment of a live payout back to the customer instead of paying the merchant.
// One transaction, under the lock of the payout, stores the refund and ends the payout: a pending one
// fails with network_error, with its event, and a failed one stays as it is. Nothing can be signed for
// the payout afterwards. The charge is booked back. The worker sends the refund.
//
// A repeat changes nothing and returns the refund as it is now. It returns checkout.ErrNotFound,
// checkout.ErrTransferStands when a signed transfer may still pay the merchant, and checkout.ErrChainAhead.
// by works as in CreateEndpoint.
func (s *Store) RefundPayout(
	ctx context.Context, ref checkout.Ref, by ...checkout.AuditEntry,
) (checkout.Refund, error) {
	var got checkout.Refund
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return err
		}
		got, err = refundOf(ctx, tx, p.Payout)
		if !errors.Is(err, checkout.ErrNotFound) {
			return err // there is one, or PostgreSQL is away
		}
		if p.Standing || p.Status == checkout.PayoutSent {
			return checkout.ErrTransferStands
		}
		if err := p.requireKnownChain(ctx, tx); err != nil {
			return err
		}
		if got, err = p.refund(ctx, tx); err != nil {
			return err
		}
		return auditAll(ctx, tx, by)
	})
	if err != nil {
		return checkout.Refund{}, fmt.Errorf("refund payout: %w", err)
	}
	return got, nil
}

// requireKnownChain returns checkout.ErrChainAhead while the chain of the payout knows transfers of the
// treasury that no row explains: after the restore of an old backup one of them may have paid it.
func (p *lockedPayout) requireKnownChain(ctx context.Context, tx pgx.Tx) error {
	var ahead bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM treasury_account a, transaction t
			WHERE t.id = $1 AND t.merchant_id = $2 AND t.mode = $3
				AND a.mode = $3 AND `+chainOf+` IN (a.chain_id, '') AND a.unexplained_block IS NOT NULL)`,
		p.TransactionID, p.MerchantID, p.Mode).Scan(&ahead)
	if err == nil && ahead {
		err = checkout.ErrChainAhead
	}
	return err
}

// refund stores the refund of the payout's charge, ends the payout and books it.
func (p *lockedPayout) refund(ctx context.Context, tx pgx.Tx) (checkout.Refund, error) {
	r := checkout.Refund{Mode: p.Mode, TransactionID: p.TransactionID, Reason: checkout.RefundOperator}
	err := tx.QueryRow(ctx, `
		SELECT coalesce(acquirer_ref, '') FROM transaction WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
		p.TransactionID, p.MerchantID, p.Mode).Scan(&r.Reference)
	if err != nil {
		return r, err
	}
	if r.Reference == "" {
		return r, fmt.Errorf("the card network's name of the charge of %s is not known", p.TransactionID)
	}
	if err := insertRefund(ctx, tx, r); err != nil {
		return r, err
	}
	if p.Status == checkout.PayoutPending {
		if err := p.decide(ctx, tx, checkout.PayoutNetworkError); err != nil {
			return r, err
		}
		if _, err := publish(ctx, tx, p.event(payoutEventType(p.Status))); err != nil {
			return r, err
		}
	}
	if err := reverse(ctx, tx, p.TransactionID, entryCharge, 1, entryRefund, 1); err != nil {
		return r, err
	}
	return refundOf(ctx, tx, p.Payout)
}

// refundOf returns the refund of a payout's payment. It returns checkout.ErrNotFound.
func refundOf(ctx context.Context, tx pgx.Tx, p checkout.Payout) (checkout.Refund, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+refundColumns+` FROM refund WHERE transaction_id = $1 AND mode = $2`, p.TransactionID, p.Mode)
	if err != nil {
		return checkout.Refund{}, err
	}
	return exactlyOne[checkout.Refund](rows, "refund of a payout")
}

// PendingRefunds returns up to limit refunds that are not decided, after the id after.
func (s *Store) PendingRefunds(
	ctx context.Context, mode checkout.Mode, after string, limit int,
) ([]checkout.Refund, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+refundColumns+` FROM refund
		WHERE mode = $1 AND status = 'pending' AND id > $2 ORDER BY id LIMIT $3`, mode, after, limit)
	if err != nil {
		return nil, fmt.Errorf("pending refunds: %w", err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByName[checkout.Refund])
	if err != nil {
		return nil, fmt.Errorf("pending refunds: %w", err)
	}
	return got, nil
}

// RecordRefund stores the network's answer about a refund. The first final answer stays. The charge of
// a payment that the network does not give back is booked again: we owe the merchant its money.
func (s *Store) RecordRefund(ctx context.Context, refund checkout.Refund, got checkout.RefundResult) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE refund SET status = $3, network_ref = $4,
				ended_at = CASE WHEN $3 = 'pending' THEN NULL ELSE date_trunc('milliseconds', clock_timestamp()) END
			WHERE id = $1 AND mode = $2 AND status = 'pending'`,
			refund.ID, refund.Mode, got.Status, got.Reference)
		booked := refund.Reason == checkout.RefundOperator
		if err != nil || tag.RowsAffected() == 0 || got.Status != checkout.RefundFailed || !booked {
			return err
		}
		return reverse(ctx, tx, refund.TransactionID, entryRefund, 1, entryRefundFailed, 1)
	})
	if err != nil {
		return fmt.Errorf("record refund: %w", err)
	}
	return nil
}
