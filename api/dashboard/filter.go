package dashboard

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/checkout/storage/pg"
)

// listForm is the filter of a list as the person typed it: the fields that are not empty.
type listForm struct{ url.Values }

// readForm reads the fields with these names, and the first and the last day.
func readForm(q url.Values, names ...string) listForm {
	f := listForm{url.Values{}}
	for _, name := range append(names, "from", "to") {
		if text := strings.TrimSpace(q.Get(name)); text != "" {
			f.Set(name, text)
		}
	}
	return f
}

// Chosen reports whether any filter is set.
func (f listForm) Chosen() bool { return len(f.Values) > 0 }

// days sets the times of a page: from the first to the last day in UTC, both included. A day that is not set is no
// bound. It returns the fault of the days, "" for none.
func (f listForm) days(p *pg.Page) (fault string) {
	from, to := f.Get("from"), f.Get("to")
	var err error
	if from != "" {
		if p.Since, err = time.Parse(time.DateOnly, from); err != nil || p.Since.Year() < 1970 {
			return "The first day must be a date such as 2026-11-21."
		}
	}
	if to != "" {
		if p.Until, err = time.Parse(time.DateOnly, to); err != nil || p.Until.Year() < 1970 {
			return "The last day must be a date such as 2026-11-21."
		}
		p.Until = p.Until.AddDate(0, 0, 1)
	}
	if from != "" && to != "" && !p.Since.Before(p.Until) {
		return "The first day must not be after the last one."
	}
	return ""
}

// unknownChoice returns the fault of a filter with a value that its list does not have, "" for none.
func unknownChoice[T ~string](name string, value T, list []T) (fault string) {
	if value == "" || slices.Contains(list, value) {
		return ""
	}
	return fmt.Sprintf("There is no %s %q. Choose one from the list.", name, value)
}

// address returns the address of the filtered list at path. more alternates names and values of further parameters;
// it leaves out an empty one.
func (f listForm) address(path string, more ...string) string {
	q := url.Values{}
	maps.Copy(q, f.Values)
	for pair := range slices.Chunk(more, 2) {
		if pair[1] != "" {
			q.Set(pair[0], pair[1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// addressOf returns path with a query. pairs alternates names and values; addressOf leaves out an empty one.
func addressOf(path string, pairs ...string) string { return listForm{}.address(path, pairs...) }
