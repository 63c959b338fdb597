package dashboard

import (
	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// pageSize is how many entries a page of a list has.
const pageSize = 50

// turning has the addresses of other pages of a list.
type turning struct {
	Newest string // the first page, "" on the first page
	Older  string // the next page, "" on the last
}

// identified is an entry of a list; cursors are ids.
type identified interface{ PublicID() string }

// pageOf reads the page that the visitor asks for of the list at path, which f filters. page bounds the times. The
// cursor is in the query; a malformed one is the newest page.
func pageOf[T identified](
	v face.Visit, path, prefix string, f listForm, page pg.Page, read func(pg.Page) ([]T, error),
) (shown []T, others turning, err error) {
	page.Limit = pageSize + 1
	if cursor := v.URL.Query().Get("before"); checkout.IsID(prefix, cursor) {
		page.Before, others.Newest = cursor, f.address(v.Path(path))
	}
	if shown, err = read(page); len(shown) > pageSize {
		shown = shown[:pageSize]
		others.Older = f.address(v.Path(path), "before", shown[pageSize-1].PublicID())
	}
	return shown, others, err
}
