package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// suspensionColumns reads a merchant.Suspension.
const suspensionColumns = `suspended, suspended_at AS at, suspended_why AS why`

// The statements that decide have one of these conditions, so a suspension takes effect at once in every process: of a
// merchant m, and of the merchant of a payout p.
const (
	paymentsSuspended = `'payments' = ANY (m.suspended)`
	payoutsSuspended  = `(SELECT 'payouts' = ANY (m.suspended) FROM merchant m WHERE m.id = p.merchant_id)`
)

// Suspension returns what is suspended of a merchant. Only operators may call it. It returns checkout.ErrNotFound.
func (s *Merchants) Suspension(ctx context.Context, merchantID string) (merchant.Suspension, error) {
	got, err := pg.One[merchant.Suspension](ctx, s.pool, `
		SELECT `+suspensionColumns+` FROM merchant WHERE id = $1`, merchantID)
	return got, pg.Wrap("suspension", err)
}

// Suspend adds capabilities to what is suspended of a merchant, in both modes, and returns everything that is. Without
// sign-in, no browser stays signed in. by works as in CreateEndpoint. It returns checkout.ErrNotFound.
func (s *Merchants) Suspend(
	ctx context.Context, merchantID string, all merchant.Suspended, why string, by ...merchant.AuditEntry,
) (merchant.Suspension, error) {
	return pg.InTx(ctx, s.pool, "suspend", func(tx pgx.Tx) (merchant.Suspension, error) {
		return suspend(ctx, tx, merchantID, all, why, by...)
	})
}

func suspend(
	ctx context.Context, tx pgx.Tx, merchantID string, all merchant.Suspended, why string, by ...merchant.AuditEntry,
) (merchant.Suspension, error) {
	got, err := pg.One[merchant.Suspension](ctx, tx, `
		UPDATE merchant SET suspended = ARRAY (SELECT DISTINCT unnest(suspended || $2::text[]) ORDER BY 1),
			suspended_at = date_trunc('milliseconds', clock_timestamp()),
			suspended_why = concat_ws('; ', CASE WHEN suspended <> '{}' THEN suspended_why END, $3::text)
		WHERE id = $1 RETURNING `+suspensionColumns, merchantID, all, all.String()+": "+why)
	if err == nil && all.Has(merchant.CapabilitySignIn) {
		err = people.SignOutAll(ctx, tx, merchantID)
	}
	if err != nil {
		return got, err
	}
	return got, pg.Audit(ctx, tx, by...)
}

// Resume takes capabilities from what is suspended of a merchant, and returns what still is. Payouts that waited for it
// are due now. by works as in CreateEndpoint. It returns checkout.ErrNotFound.
func (s *Merchants) Resume(
	ctx context.Context, merchantID string, all merchant.Suspended, by ...merchant.AuditEntry,
) (merchant.Suspension, error) {
	return pg.InTx(ctx, s.pool, "resume", func(tx pgx.Tx) (merchant.Suspension, error) {
		got, err := pg.One[merchant.Suspension](ctx, tx, `
			UPDATE merchant SET suspended = ARRAY (SELECT unnest(suspended) EXCEPT SELECT unnest($2::text[]) ORDER BY 1)
			WHERE id = $1 RETURNING `+suspensionColumns, merchantID, all)
		if err == nil && all.Has(merchant.CapabilityPayouts) {
			_, err = tx.Exec(ctx, `
				UPDATE payout SET next_action_at = clock_timestamp()
				WHERE merchant_id = $1 AND status = 'pending' AND hold = $2`, merchantID, checkout.HoldSuspended)
		}
		if err != nil {
			return got, err
		}
		return got, pg.Audit(ctx, tx, by...)
	})
}
