package dashboard

import (
	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/workflows/checkout"
)

// pageSize is how many entries a page of a list has.
const pageSize = 50

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
