package pg

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"example.com/checkout/workflows/merchant"
)

// Executor is a pool, a connection or a transaction.
type Executor interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// Audit writes entries to the audit log, in the transaction that makes the change.
func Audit(ctx context.Context, to Executor, entries ...merchant.AuditEntry) error {
	for _, e := range entries {
		_, err := to.Exec(ctx, `
			INSERT INTO audit_entry (id, merchant_id, mode, actor, action, subject, detail, address)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			e.ID, e.MerchantID, e.Mode, e.Actor, e.Action, e.Subject, e.Detail, e.Address)
		if err != nil {
			return Wrap("audit", err)
		}
	}
	return nil
}
