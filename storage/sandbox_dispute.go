package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// SandboxDispute is a dispute, an inquiry or an early fraud warning in the sandbox's card network.
type SandboxDispute struct {
	ID            string
	TransactionID string
	Reason        string
	Amount        money.Amount // what the refunds had left of the charge
	Currency      money.Currency
	Status        string     // as Stripe calls it
	RespondBy     *time.Time // nil: no evidence is wanted
	Responded     bool
}

// sandboxHeld is true while a dispute of the charge c forbids refunds.
const sandboxHeld = `EXISTS (SELECT FROM sandbox_dispute d
				WHERE d.transaction_id = c.transaction_id AND ` + sandboxStatus + ` IN ('needs_response', 'under_review', 'lost'))`

// OpenSandboxDispute disputes what the refunds have left of a charge, if anything. The bank takes evidence for the time
// window, and then the status becomes later. A window of 0 takes none. A repeat changes nothing.
func (s *Sandbox) OpenSandboxDispute(
	ctx context.Context, d SandboxDispute, later string, window time.Duration,
) error {
	return pg.RunInTx(ctx, s.pool, "open sandbox dispute", func(tx pgx.Tx) error {
		if err := lockSandboxCharge(ctx, tx, d.TransactionID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO sandbox_dispute (id, transaction_id, reason, amount, status, later_status, later_at, report_at,
				respond_by)
			SELECT $1, $2, $3, `+sandboxLeft+`, $4, $5, now + $6::interval, now,
				CASE WHEN $6::interval > '0' THEN now + $6::interval END
			FROM sandbox_charge c, (SELECT clock_timestamp() AS now) n
			WHERE c.transaction_id = $2 AND `+sandboxLeft+` > 0
			ON CONFLICT (transaction_id) DO NOTHING`, d.ID, d.TransactionID, d.Reason, d.Status, later, window)
		return err
	})
}

// lockSandboxCharge makes what goes back of a charge wait for each other. It is a statement of its own: the next one
// must see what was written while this one waited.
func lockSandboxCharge(ctx context.Context, tx pgx.Tx, transactionID string) error {
	_, err := tx.Exec(ctx, `SELECT FROM sandbox_charge WHERE transaction_id = $1 FOR NO KEY UPDATE`, transactionID)
	return err
}

const selectSandboxDispute = `
	SELECT d.id, d.transaction_id, d.reason, d.amount, c.currency, ` + sandboxStatus + ` AS status, d.respond_by,
		d.responded_at IS NOT NULL AS responded
	FROM sandbox_dispute d JOIN sandbox_charge c USING (transaction_id) `

// SandboxDispute returns the dispute of a charge, or checkout.ErrNotFound.
func (s *Sandbox) SandboxDispute(ctx context.Context, transactionID string) (SandboxDispute, error) {
	d, err := pg.One[SandboxDispute](ctx, s.pool, selectSandboxDispute+`WHERE d.transaction_id = $1`, transactionID)
	return d, pg.Wrap("sandbox dispute", err)
}

// RespondSandboxDispute records that evidence came, which is reported at once. With an outcome, a dispute is won or
// lost after delay, and an inquiry is closed; without one, they end as if none had come. Only the first evidence
// counts. It returns checkout.ErrNotFound, and checkout.ErrConflict when the bank takes no evidence, or none any more.
func (s *Sandbox) RespondSandboxDispute(ctx context.Context, id, outcome string, delay time.Duration) error {
	tag, err := s.pool.Exec(ctx, `
		UPDATE sandbox_dispute SET status = replace(status, 'needs_response', 'under_review'),
			responded_at = now, report_at = now,
			later_status = CASE WHEN $2 <> '' AND status = 'needs_response' THEN $2 ELSE later_status END,
			later_at = CASE WHEN $2 = '' THEN later_at ELSE now + $3::interval END
		FROM (SELECT clock_timestamp() AS now) n
		WHERE id = $1 AND respond_by > now AND responded_at IS NULL`, id, outcome, delay)
	if err == nil && tag.RowsAffected() == 1 {
		return nil
	}
	d, err := pg.One[SandboxDispute](ctx, s.pool, selectSandboxDispute+`WHERE d.id = $1`, id)
	if err == nil && !d.Responded {
		err = fmt.Errorf("%w: the bank takes no evidence", checkout.ErrConflict)
	}
	return pg.Wrap("respond to a sandbox dispute", err)
}
