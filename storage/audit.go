package storage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/checkout/workflows/checkout"
)

// executor is a pool, a connection or a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// audit writes an entry to the audit log, in the transaction that makes the change.
func audit(ctx context.Context, to executor, e checkout.AuditEntry) error {
	_, err := to.Exec(ctx, `
		INSERT INTO audit_entry (id, merchant_id, mode, actor, action, subject, detail, address)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		e.ID, e.MerchantID, e.Mode, e.Actor, e.Action, e.Subject, e.Detail, e.Address)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// auditAll calls audit for each entry.
func auditAll(ctx context.Context, to executor, entries []checkout.AuditEntry) error {
	for _, e := range entries {
		if err := audit(ctx, to, e); err != nil {
			return err
		}
	}
	return nil
}

// Audit writes an entry before another system is asked to make the change. No transaction can span
// both systems.
func (a *Accounts) Audit(ctx context.Context, e checkout.AuditEntry) error {
	return audit(ctx, a.pool, e)
}

// AuditEntries lists the changes of one mode, and the changes that concern both modes, newest
// first.
func (a *Accounts) AuditEntries(
	ctx context.Context, owner checkout.Owner, p Page,
) ([]checkout.AuditEntry, error) {
	l := &list{
		sql:  `WHERE e.merchant_id = $1 AND (e.mode = $2 OR e.mode IS NULL)`,
		args: []any{owner.MerchantID, owner.Mode},
	}
	l.page(checkout.PrefixAuditEntry, "e", p)
	rows, err := a.pool.Query(ctx, `
		SELECT e.id, e.merchant_id, e.mode, e.actor, e.action, e.subject, e.detail, e.address,
			e.created_at FROM audit_entry e `+l.sql, l.args...)
	if err != nil {
		return nil, fmt.Errorf("audit entries: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[checkout.AuditEntry])
	if err != nil {
		return nil, fmt.Errorf("audit entries: %w", err)
	}
	return entries, nil
}
