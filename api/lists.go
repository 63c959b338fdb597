package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// Limits of a list. Source: api/decisions/lists.md, "`limit`".
const (
	defaultLimit = 10
	maxLimit     = 100
)

// pageParameters are the parameters of every list.
var pageParameters = []string{"limit", "cursor", "since", "until"}

// nextPage is how a merchant gets the next page of a list. Source: api/decisions/lists.md, "`cursor`".
const nextPage = "for the next page send cursor, set to next_cursor"

// page is the answer to a list.
type page[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"` // null on the last page
}

// listEntry is an object that lists have.
type listEntry interface{ PublicID() string }

// answerList reads pageParameters and serves that page. find gets a limit of one more than the page
// has.
func answerList[T listEntry](q query, prefix string, find func(pg.Page) ([]T, error)) (int, any, error) {
	chosen := q.page(prefix)
	if err := q.err(); err != nil {
		return 0, nil, err
	}
	limit := chosen.Limit
	chosen.Limit++
	found, err := find(chosen)
	if err != nil {
		return 0, nil, err
	}
	p := page[T]{Data: found}
	if len(found) > limit {
		p.Data, p.HasMore = found[:limit], true
		last := p.Data[limit-1].PublicID()
		p.NextCursor = &last
	}
	return http.StatusOK, p, nil
}

// listOf serves a list of the caller's objects.
func listOf[T listEntry, F any](
	r *http.Request, q query, prefix string, filter F,
	read func(context.Context, checkout.Owner, F, pg.Page) ([]T, error),
) (int, any, error) {
	ctx, owner := r.Context(), callerFrom(r.Context()).Key.Owner
	return answerList(q, prefix, func(p pg.Page) ([]T, error) { return read(ctx, owner, filter, p) })
}

// query holds the parameters of a list by name, each at most once. Its methods add mistakes to the
// faults.
type query struct {
	*faults
	values map[string]string
}

// readQuery reads the parameters of a list: filters and pageParameters. It adds a fault for an
// unknown parameter. If the service ignored a misspelled filter, the list would show wrong entries.
func readQuery(r *http.Request, filters ...string) query {
	q := query{&faults{}, map[string]string{}}
	known := slices.Concat(filters, pageParameters)
	parsed, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.add("query", "must be name=value pairs, joined by & and percent-encoded")
	}
	for _, name := range slices.Sorted(maps.Keys(parsed)) {
		_, inMetadata := metadataKey(name)
		switch values := parsed[name]; {
		case name == afterEvent && !slices.Contains(known, name):
			q.add(name, "is only for GET /v1/events?order=asc; "+nextPage)
		case !slices.Contains(known, name) && !(inMetadata && slices.Contains(known, metadataFilter)):
			q.add(shorten(name), "is not a known parameter"+suggestField(name, known))
		case len(values) > 1:
			q.add(name, "appears twice")
		default:
			q.values[name] = values[0]
		}
	}
	return q
}

func (q query) optionalText(name string) (string, bool) {
	text, ok := q.values[name]
	return text, ok
}

// page reads pageParameters. A cursor is the id of the last entry on the page before; merchants
// need not know that. The cursor's owner needs no check, because the list has only the caller's
// entries.
func (q query) page(prefix string) pg.Page {
	p := pg.Page{Limit: defaultLimit, Since: optionalTime(q, "since"), Until: optionalTime(q, "until")}
	if text, ok := q.values["limit"]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit || strconv.Itoa(n) != text {
			q.add("limit", fmt.Sprintf("must be a whole number from 1 to %d", maxLimit))
		}
		p.Limit = n
	}
	if cursor, ok := q.values["cursor"]; ok {
		if !checkout.IsID(prefix, cursor) {
			q.add("cursor", "must be the next_cursor of an earlier page of this list")
		}
		p.Before = cursor
	}
	checkRange(q, p.Since, p.Until)
	return p
}

// textSource are the methods that fields and query share.
type textSource interface {
	optionalText(name string) (string, bool)
	add(param, message string)
}

// optionalChoice returns an optional value that must be one of choices, "" when it is missing.
func optionalChoice[T ~string](in textSource, name string, choices []T) T {
	text, ok := in.optionalText(name)
	if ok && !slices.Contains(choices, T(text)) {
		in.add(name, "must be one of "+list(choices))
	}
	return T(text)
}

// optionalID returns an optional id that must begin with one of the prefixes, "" when it is missing.
func optionalID(in textSource, name string, prefixes ...string) string {
	text, ok := in.optionalText(name)
	if ok && !slices.ContainsFunc(prefixes, func(prefix string) bool { return checkout.IsID(prefix, text) }) {
		in.add(name, "must be an id that begins with "+strings.Join(prefixes, "_ or ")+"_")
	}
	return text
}

// optionalTime returns an optional time, zero when it is missing.
func optionalTime(in textSource, name string) time.Time {
	text, ok := in.optionalText(name)
	if !ok {
		return time.Time{}
	}
	return parsedTime(in, name, text)
}

// requiredTime returns a required time.
func (f fields) requiredTime(name string) time.Time {
	text, ok := f.requiredText(name)
	if !ok {
		return time.Time{}
	}
	return parsedTime(f, name, text)
}

func parsedTime(in textSource, name, text string) time.Time {
	t, err := checkout.ParseTime(text)
	if err != nil || t.Unix() < 0 {
		in.add(name, "must be an RFC 3339 time, for example 2026-01-31T09:30:00Z; in a query, + must be written %2B")
		return time.Time{}
	}
	return t
}

// checkRange adds a fault when since is not before until.
func checkRange(in textSource, since, until time.Time) {
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		in.add("until", "must be after since")
	}
}
