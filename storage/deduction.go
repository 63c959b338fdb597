package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// deduct takes an amount from the charge's payout, as far as it has that much left. A payout that is paid, or may be,
// pays all of it: then the merchant owes the amount. lockCharge must have locked the payout.
func (c paidCharge) deduct(
	ctx context.Context, tx pgx.Tx, typ checkout.DeductionType, source string, amount money.Amount,
) error {
	if c.PayoutID == "" || c.paidOut() {
		return nil
	}
	p, err := lockPayout(ctx, tx, c.owner().Ref(c.PayoutID))
	if err != nil {
		return err
	}
	return p.deduct(ctx, tx, checkout.Deduction{Type: typ, Source: source, Amount: amount})
}

// deduct stores a deduction of the locked payout, of what is left at most, and the event of a pending payout that is
// still paid.
func (p *lockedPayout) deduct(ctx context.Context, tx pgx.Tx, d checkout.Deduction) error {
	d.Amount = min(d.Amount, p.Net())
	if d.Amount <= 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		WITH deducted AS (UPDATE payout SET deducted = deducted + $6 WHERE id = $1 AND merchant_id = $2 AND mode = $3)
		INSERT INTO payout_deduction (payout_id, merchant_id, mode, type, source, amount, owed)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (payout_id, type, source) DO UPDATE SET amount = payout_deduction.amount + excluded.amount,
			owed = payout_deduction.owed + excluded.owed`,
		p.ID, p.MerchantID, p.Mode, d.Type, d.Source, d.Amount, d.Owed)
	if err != nil {
		return err
	}
	now, err := lockPayout(ctx, tx, p.Ref)
	if err != nil {
		return err
	}
	*p = now
	if p.Status != checkout.PayoutPending || p.Net() == 0 {
		return nil
	}
	_, err = publishAgain(ctx, tx, p.event(webhook.PayoutReduced))
	return err
}

// restore takes back a deduction from the charge's payout, unless that is paid.
func (c paidCharge) restore(ctx context.Context, tx pgx.Tx, typ checkout.DeductionType, source string) error {
	if c.PayoutID == "" || c.paidOut() {
		return nil
	}
	_, err := tx.Exec(ctx, `
		WITH restored AS (
			DELETE FROM payout_deduction WHERE payout_id = $1 AND merchant_id = $2 AND mode = $3 AND type = $4 AND source = $5
			RETURNING amount
		)
		UPDATE payout SET deducted = deducted - restored.amount FROM restored
		WHERE id = $1 AND merchant_id = $2 AND mode = $3`, c.PayoutID, c.MerchantID, c.Mode, typ, source)
	return err
}

// revive makes ready a payout that a transfer has paid after all. A failed one becomes pending in the next generation,
// because its merchant was told of the failure. Deductions but the n oldest are newer than the transfer: they are taken
// back, and the merchant owes them. It returns checkout.ErrPaymentRefunded unless every refund by an operator has
// failed.
func (p *lockedPayout) revive(ctx context.Context, tx pgx.Tx, n int) error {
	if err := p.requireNotRefunded(ctx, tx); err != nil {
		return err
	}
	if p.Status == checkout.PayoutFailed {
		if err := p.set(ctx, tx, pendingAgain, p.Now); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `
		WITH newer AS (
			SELECT type, source FROM payout_deduction WHERE payout_id = $1 AND merchant_id = $2 AND mode = $3
			ORDER BY created_at OFFSET $4
		), taken AS (
			DELETE FROM payout_deduction d USING newer
			WHERE d.payout_id = $1 AND d.merchant_id = $2 AND d.mode = $3 AND d.type = newer.type AND d.source = newer.source
			RETURNING d.amount
		)
		UPDATE payout SET deducted = deducted - (SELECT coalesce(sum(amount), 0) FROM taken)
		WHERE id = $1 AND merchant_id = $2 AND mode = $3`, p.ID, p.MerchantID, p.Mode, n)
	return err
}

// endPayout fails the charge's payout, unless it is paid, may be, or has failed.
func (c paidCharge) endPayout(ctx context.Context, tx pgx.Tx, why checkout.PayoutFailure) error {
	if c.PayoutID == "" || c.paidOut() {
		return nil
	}
	p, err := lockPayout(ctx, tx, c.owner().Ref(c.PayoutID))
	if err != nil || p.Standing || p.Status != checkout.PayoutPending {
		return err
	}
	_, err = p.decidePayout(ctx, tx, why)
	return err
}

// endEmptyPayout is endPayout for a payout with nothing left to pay.
func (c paidCharge) endEmptyPayout(ctx context.Context, tx pgx.Tx, why checkout.PayoutFailure) error {
	if c.PayoutID == "" {
		return nil
	}
	p, err := lockPayout(ctx, tx, c.owner().Ref(c.PayoutID))
	if err != nil || p.Net() > 0 {
		return err
	}
	return c.endPayout(ctx, tx, why)
}
