package dashboard

import (
	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/workflows/checkout"
)

// pageSize is how many entries a page of a list has.
const pageSize = 50

// turning has the addresses of other pages of a list.
type turning struct {
	Newest string // the first page, "" on the first page
	Older  string // the next page, "" on the last
}

// besides returns the pages beside the one that begins at the cursor before. next is the cursor of the next page, ""
// on the last. address returns the address of the page at a cursor.
func besides(before, next string, address func(before string) string) turning {
	var p turning
	if before != "" {
		p.Newest = address("")
	}
	if next != "" {
		p.Older = address(next)
	}
	return p
}

// before returns the cursor in the query, "" for the newest page and for a malformed cursor.
func before(v face.Visit, prefix string) string {
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
