package dashboard

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/checkout/storage/pg"
)

// days are the first and the last day of a list in UTC, both included, as the person typed them. An empty
// day is no bound.
type days struct{ From, To string }

func readDays(q url.Values) days {
	return days{From: strings.TrimSpace(q.Get("from")), To: strings.TrimSpace(q.Get("to"))}
}

// bound sets the times of a page. It returns the fault of the days, "" for none.
func (d days) bound(p *pg.Page) (fault string) {
	var err error
	if d.From != "" {
		if p.Since, err = time.Parse(time.DateOnly, d.From); err != nil || p.Since.Year() < 1970 {
			return "The first day must be a date such as 2026-11-21."
		}
	}
	if d.To != "" {
		if p.Until, err = time.Parse(time.DateOnly, d.To); err != nil || p.Until.Year() < 1970 {
			return "The last day must be a date such as 2026-11-21."
		}
		p.Until = p.Until.AddDate(0, 0, 1)
	}
	if d.From != "" && d.To != "" && !p.Since.Before(p.Until) {
		return "The first day must not be after the last one."
	}
	return ""
}

// unknown returns the fault of a filter with a value that its list does not have, "" for none.
func unknown[T ~string](name string, value T, list []T) (fault string) {
	if value == "" || slices.Contains(list, value) {
		return ""
	}
	return fmt.Sprintf("There is no %s %q. Choose one from the list.", name, string(value))
}

// addressOf returns path with a query of the values that are not empty.
func addressOf(path string, values map[string]string) string {
	return addressWith(path, queryOf(values))
}

// queryOf returns a query of the values that are not empty.
func queryOf(values map[string]string) url.Values {
	q := url.Values{}
	for name, value := range values {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

func addressWith(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
