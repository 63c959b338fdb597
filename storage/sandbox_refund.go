package storage

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// SandboxRefund is a refund in the sandbox's card network.
type SandboxRefund struct {
	ID            string // that of our refund
	TransactionID string
	Amount        money.Amount // above 0
	Status        checkout.RefundStatus
}

// sandboxStatus is the present status of a refund or a dispute of the sandbox.
const sandboxStatus = `CASE WHEN later_at <= clock_timestamp() THEN later_status ELSE status END`

const selectSandboxRefund = `SELECT id, transaction_id, amount, ` + sandboxStatus + ` AS status FROM sandbox_refund `

// CreateSandboxRefund stores a refund whose status becomes later after delay, unless the refunds of its charge would
// exceed the charge, or the charge is disputed. A repeat changes nothing. It returns the refund as it is now, and
// checkout.ErrNotFound when it was not stored.
func (s *Sandbox) CreateSandboxRefund(
	ctx context.Context, r SandboxRefund, later checkout.RefundStatus, delay time.Duration,
) (SandboxRefund, error) {
	return pg.InTx(ctx, s.pool, "create sandbox refund", func(tx pgx.Tx) (got SandboxRefund, err error) {
		if err := lockSandboxCharge(ctx, tx, r.TransactionID); err != nil {
			return got, err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO sandbox_refund (id, transaction_id, amount, status, later_status, later_at, report_at)
			SELECT $1, $2, $3::bigint, $4::text, $5::text, due, CASE WHEN $4::text <> $5::text THEN due END
			FROM sandbox_charge c, (SELECT clock_timestamp() + $6::interval AS due) d
			WHERE c.transaction_id = $2 AND $3 <= `+sandboxLeft+` AND NOT `+sandboxHeld+`
			ON CONFLICT (id) DO NOTHING`, r.ID, r.TransactionID, r.Amount, r.Status, later, delay)
		if err != nil {
			return got, err
		}
		return pg.One[SandboxRefund](ctx, tx, selectSandboxRefund+`WHERE id = $1`, r.ID)
	})
}

// sandboxLeft is what the refunds have left of the charge c.
const sandboxLeft = `c.amount - (SELECT coalesce(sum(r.amount), 0) FROM sandbox_refund r
				WHERE r.transaction_id = c.transaction_id AND ` + sandboxStatus + ` <> 'failed')`

// SandboxRefunds returns the refunds of a charge, in no order.
func (s *Sandbox) SandboxRefunds(ctx context.Context, transactionID string) ([]SandboxRefund, error) {
	all, err := pg.Collect[SandboxRefund](ctx, s.pool, selectSandboxRefund+`WHERE transaction_id = $1`, transactionID)
	return all, pg.Wrap("sandbox refunds", err)
}
