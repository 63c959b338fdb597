package dashboard

import (
	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// auditPage is a page of the audit log.
type auditPage struct {
	listing
	Entries []checkout.AuditEntry
}

// listAudit serves GET …/audit.
func (s *server) listAudit(v face.Visit) (face.Answer, error) {
	shown, p, err := s.auditEntries(v).list(v, "audit", checkout.PrefixAuditEntry)
	if err != nil {
		return face.Answer{}, err
	}
	return face.Show("audit", "Audit log", auditPage{p, shown})
}

func (s *server) auditEntries(v face.Visit) selection[checkout.AuditEntry] {
	return selection[checkout.AuditEntry]{read: func(p pg.Page) ([]checkout.AuditEntry, error) {
		return s.Store.AuditEntries(v.Context(), v.Owner(), p)
	}}
}
