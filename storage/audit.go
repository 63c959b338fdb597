package storage

import (
	"context"
	"fmt"
	"time"

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

// failurePause is how long a second failure of an account from the same address is not noted.
const failurePause = 10 * time.Minute

// NoteFailedSignIn notes in the audit log that somebody gave a wrong password for an account, with the IP
// address. Of many failures of an account from one address it notes one in ten minutes, so that strangers
// cannot fill the log. An unknown account costs the same statement. It does not wait for the disk, because the
// time of the answer would tell which accounts exist; a crash may lose the failures of a moment.
func (a *Accounts) NoteFailedSignIn(ctx context.Context, email, merchantID, address string) error {
	_, err := a.pool.Exec(ctx, `
		WITH hurry AS MATERIALIZED (SELECT `+unhurried+`),
		account AS (
			SELECT m.id, m.merchant_id, m.email FROM member m, hurry
			WHERE lower(m.email) = lower($1) AND ($2 = '' OR m.merchant_id = $2) AND m.removed_at IS NULL
				AND m.password_hash IS NOT NULL
			ORDER BY coalesce(m.joined_at, m.created_at), m.id LIMIT 1
		)
		INSERT INTO audit_entry (id, merchant_id, actor, action, subject, detail, address)
		SELECT $3, a.merchant_id, a.email, 'member.sign_in_failed', a.id, 'a wrong password', $4 FROM account a
		WHERE NOT EXISTS (SELECT FROM audit_entry e WHERE e.merchant_id = a.merchant_id AND e.id > $5
			AND e.action = 'member.sign_in_failed' AND e.subject = a.id AND e.address = $4)`,
		email, merchantID, checkout.NewID(checkout.PrefixAuditEntry), address,
		checkout.FirstID(checkout.PrefixAuditEntry, time.Now().Add(-failurePause)))
	return wrap("note failed sign-in", err)
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
