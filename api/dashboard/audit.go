package dashboard

import (
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// auditPage is a page of the audit log.
type auditPage struct {
	Entries []checkout.AuditEntry
	Next    string // cursor of the next page, "" on the last
}

const pageSize = 50

// listAudit serves GET /{mode}/audit.
func (s *server) listAudit(v visit) (answer, error) {
	entries, err := s.Store.AuditEntries(
		v.Context(), v.Owner(),
		pg.Page{Before: v.before(checkout.PrefixAuditEntry), Limit: pageSize + 1},
	)
	if err != nil {
		return answer{}, err
	}
	p := auditPage{}
	p.Entries, p.Next = onePage(entries, func(e checkout.AuditEntry) string { return e.ID })
	return show("audit", "Audit log", p)
}

// before returns the cursor in the query, "" for the newest page and for a malformed cursor.
func (v visit) before(prefix string) string {
	if cursor := v.URL.Query().Get("before"); checkout.IsID(prefix, cursor) {
		return cursor
	}
	return ""
}

// onePage cuts a list of at most pageSize+1 entries to one page. next is the cursor of the next
// page, "" on the last.
func onePage[T any](read []T, id func(T) string) (page []T, next string) {
	if len(read) <= pageSize {
		return read, ""
	}
	return read[:pageSize], id(read[pageSize-1])
}
