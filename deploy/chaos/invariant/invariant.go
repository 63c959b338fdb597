// Package invariant holds what must be true of the service once everything has
// come to rest, and checks it. PostgreSQL, Temporal and the receivers' log are the
// witnesses: Gather lets them speak, Check holds what they say against each other.
//
// A further invariant is a file of its own with one Invariant, and a line in All.
package invariant

import (
	"fmt"
	"slices"
)

// Invariant is one thing that must be true.
type Invariant struct {
	Number int    `json:"number"`
	Title  string `json:"title"` // a sentence
	Names  string `json:"names"` // what the id of a violation is of
	// NeedsLog: without a receivers' log there is nothing to check.
	NeedsLog bool `json:"-"`
	// needs says what else is missing for the check, "" for nothing; nil: it needs
	// no more.
	needs func(*Facts) string

	check func(w *world, r *Result)
}

// All lists every invariant, by number.
var All = []Invariant{
	overdue, transitions, events, expiries, charges,
	fanOut, workflows, outcomes, acknowledgements, schedule, requests, egress, attempts,
	answers, idempotency, sessionRuns, payouts, owners, leaks, rest, counts, histories,
}

// Violation is one case in which an invariant does not hold.
type Violation struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Result says what came of one invariant.
type Result struct {
	Invariant
	Checked    int         `json:"checked"`               // rows, runs or requests
	NotChecked string      `json:"not_checked,omitempty"` // why nothing was
	Violations []Violation `json:"violations"`
}

func (r *Result) violated(id, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{ID: id, Text: fmt.Sprintf(format, args...)})
}

// missing says what the facts lack for a check, "" for nothing.
func (i Invariant) missing(f *Facts) string {
	switch {
	case i.NeedsLog && !f.Logged:
		return "no receiver log was given"
	case i.needs != nil:
		return i.needs(f)
	}
	return ""
}

// Check holds the facts against every invariant. It does no I/O.
func Check(f *Facts) []Result {
	w := newWorld(f)
	results := make([]Result, 0, len(All))
	for _, i := range All {
		r := Result{Invariant: i, Violations: []Violation{}}
		if r.NotChecked = i.missing(f); r.NotChecked == "" {
			i.check(w, &r)
		}
		slices.SortStableFunc(r.Violations, func(a, b Violation) int { return compare(a.ID, b.ID) })
		results = append(results, r)
	}
	return results
}
