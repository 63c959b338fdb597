package dashboard

import (
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// auditPage is a page of the audit log.
type auditPage struct {
	listing
	Entries []merchant.AuditEntry
}

// listAudit serves GET …/audit.
func (s *server) listAudit(v page.Visit) (page.Answer, error) {
	shown, p, err := s.auditEntries(v).list(v, "audit", checkout.PrefixAuditEntry)
	return page.ShowAfter(err, "audit", "Audit log", auditPage{p, shown})
}

func (s *server) auditEntries(v page.Visit) selection[merchant.AuditEntry] {
	return selection[merchant.AuditEntry]{read: func(p pg.Page) ([]merchant.AuditEntry, error) {
		return s.Store.AuditLog.AuditEntries(v.Context(), v.Owner(), p)
	}}
}
