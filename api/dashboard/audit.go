package dashboard

import (
	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// auditPage is a page of the audit log.
type auditPage struct {
	Entries []checkout.AuditEntry
	Next    string // cursor of the next page, "" on the last
}

// listAudit serves GET …/audit.
func (s *server) listAudit(v face.Visit) (face.Answer, error) {
	entries, err := s.Store.AuditEntries(
		v.Context(), v.Owner(),
		pg.Page{Before: before(v, checkout.PrefixAuditEntry), Limit: pageSize + 1},
	)
	if err != nil {
		return face.Answer{}, err
	}
	p := auditPage{}
	p.Entries, p.Next = onePage(entries, func(e checkout.AuditEntry) string { return e.ID })
	return face.Show("audit", "Audit log", p)
}
