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
	var p auditPage
	var err error
	p.Entries, p.turning, err = pageOf(v, "/audit", checkout.PrefixAuditEntry, listForm{}, pg.Page{}, s.auditEntries(v))
	if err != nil {
		return face.Answer{}, err
	}
	return face.Show("audit", "Audit log", p)
}

// auditEntries returns what reads a page of the audit log.
func (s *server) auditEntries(v face.Visit) func(pg.Page) ([]checkout.AuditEntry, error) {
	return func(p pg.Page) ([]checkout.AuditEntry, error) { return s.Store.AuditEntries(v.Context(), v.Owner(), p) }
}
