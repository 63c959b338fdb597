package dashboard

import (
	"net/http"

	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/workflows/checkout"
)

// exportAudit serves GET …/audit.csv: the entries of the page of the audit log, all of them.
func (s *server) exportAudit(v face.Visit, w http.ResponseWriter) error {
	return export[checkout.AuditEntry]{
		selection: s.auditEntries(v), name: "audit",
		head: []string{"id", "at", "mode", "who", "from", "action", "subject", "detail"},
		row:  auditCells,
	}.write(v, w)
}

func auditCells(e checkout.AuditEntry) []string {
	mode := "both"
	if e.Mode != nil {
		mode = string(*e.Mode)
	}
	return []string{e.ID, checkout.FormatTime(e.CreatedAt), mode, e.Actor, e.Address, e.Action, e.Subject, e.Detail}
}
