package storage

import (
	"context"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// Audit writes an entry before another system is asked to make the change. No transaction can span both systems.
func (s *AuditLog) Audit(ctx context.Context, e merchant.AuditEntry) error {
	return pg.Audit(ctx, s.pool, e)
}

// AuditEntries lists the changes of one mode, and the changes that concern both modes, newest first.
func (s *AuditLog) AuditEntries(ctx context.Context, owner checkout.Owner, p pg.Page) ([]merchant.AuditEntry, error) {
	l := &pg.List{
		SQL:  `WHERE e.merchant_id = $1 AND (e.mode = $2 OR e.mode IS NULL)`,
		Args: []any{owner.MerchantID, owner.Mode},
	}
	l.Page(checkout.PrefixAuditEntry, "e", p)
	entries, err := pg.Collect[merchant.AuditEntry](ctx, s.pool, `
		SELECT e.id, e.merchant_id, e.mode, e.actor, e.action, e.subject, e.detail, e.address,
			e.created_at FROM audit_entry e `+l.SQL, l.Args...)
	return entries, pg.Wrap("audit entries", err)
}
