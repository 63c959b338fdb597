package dashboard

import (
	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// auditPage is a page of the audit log.
type auditPage struct {
	Entries []checkout.AuditEntry
	turning
}

// listAudit serves GET …/audit.
func (s *server) listAudit(v face.Visit) (face.Answer, error) {
	page := pg.Page{Before: before(v, checkout.PrefixAuditEntry), Limit: pageSize + 1}
	entries, err := s.Store.AuditEntries(v.Context(), v.Owner(), page)
	if err != nil {
		return face.Answer{}, err
	}
	p := auditPage{}
	p.Entries, p.turning = onePage(entries, page.Before, func(before string) string {
		return addressOf(v.Path("/audit"), map[string]string{"before": before})
	})
	return face.Show("audit", "Audit log", p)
}
