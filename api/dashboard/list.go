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

// before returns the cursor in the query, "" for the newest page and for a malformed cursor.
func before(v face.Visit, prefix string) string {
	if cursor := v.URL.Query().Get("before"); checkout.IsID(prefix, cursor) {
		return cursor
	}
	return ""
}

// identified is an entry of a list; cursors are ids.
type identified interface{ PublicID() string }

// onePage cuts a list of at most pageSize+1 entries, which begins at the cursor before, to one page. address returns
// the address of the page at a cursor.
func onePage[T identified](read []T, before string, address func(before string) string) (page []T, others turning) {
	if before != "" {
		others.Newest = address("")
	}
	if len(read) > pageSize {
		read = read[:pageSize]
		others.Older = address(read[pageSize-1].PublicID())
	}
	return read, others
}
