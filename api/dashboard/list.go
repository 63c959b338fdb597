package dashboard

import (
	"example.com/checkout/api/dashboard/page"
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

// selection is what the form of a list asks for: a page shows a part of it, and a file has it all.
type selection[T identified] struct {
	form  listForm
	fault string                     // of the form, "" for none
	page  pg.Page                    // bounds the times
	read  func(pg.Page) ([]T, error) // newest first
}

// listing is what the page of every list shows beside its rows.
type listing struct {
	Form  listForm
	Fault string // of the form, "" for none
	CSV   string // address of the filtered list as a file
	turning
}

// list reads the page that the visitor asks for of the list with this name; see pageOf.
func (l selection[T]) list(v page.Visit, name, prefix string) (shown []T, p listing, err error) {
	p = listing{Form: l.form, Fault: l.fault}
	if l.fault == "" {
		p.CSV = l.form.address(v.Path("/" + name + ".csv"))
		shown, p.turning, err = pageOf(v, "/"+name, prefix, l.form, l.page, l.read)
	}
	return shown, p, err
}

// pageOf reads the page that the visitor asks for of the list at path, which f filters. page bounds the times. The
// cursor is in the query; a malformed one is the newest page.
func pageOf[T identified](
	v page.Visit, path, prefix string, f listForm, page pg.Page, read func(pg.Page) ([]T, error),
) (shown []T, others turning, err error) {
	page.Limit = pageSize + 1
	if cursor := v.URL.Query().Get("before"); checkout.IsID(prefix, cursor) {
		page.Before, others.Newest = cursor, f.address(v.Path(path))
	}
	if shown, err = read(page); err != nil {
		return nil, others, err
	}
	if len(shown) > pageSize {
		shown = shown[:pageSize]
		others.Older = f.address(v.Path(path), "before", shown[pageSize-1].PublicID())
	}
	return shown, others, nil
}
