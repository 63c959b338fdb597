package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// A payout on hold is tried again after a tenth of the time that it has waited, within these limits.
const (
	shortestHold = time.Minute
	longestHold  = time.Hour
)

// HoldPayout notes why a pending payout is not sent at present, and when it is tried again. When it
// has been on hold for patience, the outcome is insufficient_liquidity: then nothing can be signed
// for it any more. When a transfer of it was signed meanwhile, the outcome is the zero value. It
// returns checkout.ErrNotFound.
func (s *Store) HoldPayout(
	ctx context.Context, ref checkout.Ref, why checkout.PayoutHold, patience time.Duration,
) (checkout.TransferOutcome, error) {
	var got checkout.TransferOutcome
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		p, err := lockPayout(ctx, tx, ref)
		if err == nil {
			got, err = p.hold(ctx, tx, why, patience)
		}
		return err
	})
	if err != nil {
		return checkout.TransferOutcome{}, fmt.Errorf("hold payout: %w", err)
	}
	return got, nil
}

// RefusePayout notes that the payout can never be sent. It returns the failure that counts: the
// first one, or "" when a transfer was signed meanwhile. The payout stays pending until
// FinishPayout, and nothing can be signed for it. It returns checkout.ErrNotFound.
func (s *Store) RefusePayout(
	ctx context.Context, ref checkout.Ref, why checkout.PayoutFailure,
) (checkout.TransferOutcome, error) {
	var got checkout.TransferOutcome
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return err
		}
		if p.closed() {
			got.Failure = p.Failure
			return nil
		}
		got.Failure = why
		return p.refuse(ctx, tx, why)
	})
	if err != nil {
		return checkout.TransferOutcome{}, fmt.Errorf("refuse payout: %w", err)
	}
	return got, nil
}

// closed reports whether nothing can be signed for the payout: it is decided, a failure is
// recorded, or a transfer stands.
func (p *lockedPayout) closed() bool {
	return p.Standing || p.Status != checkout.PayoutPending || p.Failure != ""
}

func (p *lockedPayout) refuse(ctx context.Context, tx pgx.Tx, why checkout.PayoutFailure) error {
	_, err := tx.Exec(ctx, `
		UPDATE payout SET failure = $4, hold = '', held_at = NULL, next_action_at = NULL
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'`,
		p.ID, p.MerchantID, p.Mode, why)
	return err
}

// hold writes a hold, or gives the payout up when it has waited for patience.
func (p *lockedPayout) hold(
	ctx context.Context, tx pgx.Tx, why checkout.PayoutHold, patience time.Duration,
) (checkout.TransferOutcome, error) {
	if p.closed() {
		return checkout.TransferOutcome{Failure: p.Failure}, nil
	}

	since := p.Now
	if p.HeldAt != nil && p.Hold.Patient() == why.Patient() { // the time of a patient hold is not counted
		since = *p.HeldAt
	}
	waited := p.Now.Sub(since)
	if waited >= patience && !why.Patient() {
		const failure = checkout.PayoutInsufficientLiquidity
		return checkout.TransferOutcome{Failure: failure}, p.refuse(ctx, tx, failure)
	}

	next := p.Now.Add(min(longestHold, max(shortestHold, waited/10)))
	_, err := tx.Exec(ctx, `
		UPDATE payout SET hold = $4, held_at = $5, next_action_at = $6
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'`,
		p.ID, p.MerchantID, p.Mode, why, since, next)
	return checkout.TransferOutcome{Held: why}, err
}

// RetryPayout makes a failed payout pending again, in the next generation: with the merchant's
// payout address as it is now, and with the same source amount and rate. It starts no run.
//
// It returns checkout.ErrNotFound, checkout.ErrPayoutNotFailed, and checkout.ErrTransferStands when
// a transfer of an earlier generation may still pay it. by works as in CreateEndpoint.
func (s *Store) RetryPayout(
	ctx context.Context, ref checkout.Ref, by ...checkout.AuditEntry,
) (checkout.Payout, error) {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return err
		}
		if p.Status != checkout.PayoutFailed {
			return checkout.ErrPayoutNotFailed
		}
		if p.Standing {
			return checkout.ErrTransferStands
		}

		tag, err := tx.Exec(ctx, `
			UPDATE payout p SET status = 'pending', generation = generation + 1,
				network = coalesce(a.network, p.network), destination = coalesce(a.address, ''),
				amount = '', fee = '', tx_hash = '', failure = '', signed_transfer = NULL,
				next_action_at = $5, sent_at = NULL, confirmed_at = NULL, failed_at = NULL
			FROM (SELECT) nothing LEFT JOIN payout_address a ON a.merchant_id = $2 AND a.mode = $3
				AND a.currency = $4
			WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3 AND p.status = 'failed'`,
			p.ID, p.MerchantID, p.Mode, p.Currency, p.Now)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return errors.New("the payout changed under its lock")
		}
		return auditAll(ctx, tx, by)
	})
	if err != nil {
		return checkout.Payout{}, fmt.Errorf("retry payout: %w", err)
	}
	p, _, err := s.Payout(ctx, ref)
	return p, err
}
