package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// selectSuspension reads a merchant.Suspension of the merchant m.
const selectSuspension = `SELECT m.suspended, m.suspended_at AS at, m.suspended_why AS why FROM merchant m `

// paymentsSuspended and payoutsSuspended are true for a merchant m whose capability is suspended. The statements that
// decide have them, so a suspension takes effect at once in every process.
const (
	paymentsSuspended = `'payments' = ANY (m.suspended)`
	payoutsSuspended  = `'payouts' = ANY (m.suspended)`
)

// Suspension returns what is suspended of a merchant. Only operators may call it. It returns checkout.ErrNotFound.
func (s *Merchants) Suspension(ctx context.Context, merchantID string) (merchant.Suspension, error) {
	got, err := pg.One[merchant.Suspension](ctx, s.pool, selectSuspension+`WHERE m.id = $1`, merchantID)
	return got, pg.Wrap("suspension", err)
}

// Suspend adds capabilities to what is suspended of a merchant, in both modes, and returns everything that is. Without
// sign-in, no browser stays signed in. by works as in CreateEndpoint. It returns checkout.ErrNotFound.
func (s *Merchants) Suspend(
	ctx context.Context, merchantID string, all merchant.Suspended, why string, by ...merchant.AuditEntry,
) (merchant.Suspension, error) {
	return s.changeSuspension(ctx, merchantID, by, func(tx pgx.Tx) error {
		err := pg.Changed(tx.Exec(ctx, `
			UPDATE merchant SET suspended = ARRAY (SELECT DISTINCT unnest(suspended || $2::text[]) ORDER BY 1),
				suspended_at = date_trunc('milliseconds', clock_timestamp()),
				suspended_why = concat_ws('; ', CASE WHEN suspended <> '{}' THEN suspended_why END, $3::text)
			WHERE id = $1`, merchantID, all, all.String()+": "+why))
		if err != nil || !all.Has(merchant.CapabilitySignIn) {
			return err
		}
		return people.SignOutAll(ctx, tx, merchantID)
	})
}

// Resume takes capabilities from what is suspended of a merchant, and returns what still is. Payouts that waited for it
// are due now. by works as in CreateEndpoint. It returns checkout.ErrNotFound.
func (s *Merchants) Resume(
	ctx context.Context, merchantID string, all merchant.Suspended, by ...merchant.AuditEntry,
) (merchant.Suspension, error) {
	return s.changeSuspension(ctx, merchantID, by, func(tx pgx.Tx) error {
		err := pg.Changed(tx.Exec(ctx, `
			UPDATE merchant SET suspended = ARRAY (SELECT unnest(suspended) EXCEPT SELECT unnest($2::text[]) ORDER BY 1)
			WHERE id = $1`, merchantID, all))
		if err != nil || !all.Has(merchant.CapabilityPayouts) {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE payout SET next_action_at = clock_timestamp()
			WHERE merchant_id = $1 AND status = 'pending' AND hold = $2`, merchantID, checkout.HoldSuspended)
		return err
	})
}

func (s *Merchants) changeSuspension(
	ctx context.Context, merchantID string, by []merchant.AuditEntry, change func(pgx.Tx) error,
) (merchant.Suspension, error) {
	return pg.InTx(ctx, s.pool, "change suspension", func(tx pgx.Tx) (got merchant.Suspension, err error) {
		if err := change(tx); err != nil {
			return got, err
		}
		if err := pg.Audit(ctx, tx, by...); err != nil {
			return got, err
		}
		return pg.One[merchant.Suspension](ctx, tx, selectSuspension+`WHERE m.id = $1`, merchantID)
	})
}
