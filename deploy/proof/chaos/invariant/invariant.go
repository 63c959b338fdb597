// Package invariant checks the service after everything has come to rest. PostgreSQL, Temporal and
// the receivers' log are the witnesses. Gather reads them, and Check compares them.
//
// To add an invariant, add a file with one Invariant and a line in All.
package invariant

import (
	"fmt"
	"slices"
	"strings"
)

// Invariant is one condition that must hold.
type Invariant struct {
	Number int    `json:"number"`
	Title  string `json:"title"` // a sentence
	Names  string `json:"names"` // the kind of thing that a violation's id names

	needs *witness // nil: PostgreSQL and Temporal are enough
	check func(w *world, r *Result)
}

// witness is somebody without whom an invariant is not checked.
type witness struct {
	missing string // why it is not checked then
	heard   func(*Facts) bool
}

var (
	receivers = &witness{"no receiver log was given", func(f *Facts) bool { return f.Logged }}
	clients   = &witness{"nobody recorded the calls of clients", func(f *Facts) bool { return f.Called }}
	outside   = &witness{"there is no simulated live mode", func(f *Facts) bool { return f.Live != nil }}
)

// All lists every invariant, by number.
var All = []Invariant{
	overdue, transitions, events, expiries, charges,
	fanOut, workflows, outcomes, acknowledgements, schedule, requests, egress, attempts,
	answers, idempotency, sessionRuns, payouts, owners, leaks, rest, counts, histories,
	liveCharges, livePayouts, outflows, ledger, given, freezes, waits, burns,
}

// Violation is one case where an invariant does not hold.
type Violation struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Result is the result of one invariant's check.
type Result struct {
	Invariant
	Checked    int         `json:"checked"`               // rows, runs or requests
	NotChecked string      `json:"not_checked,omitempty"` // why nothing was checked
	Violations []Violation `json:"violations"`
}

func (r *Result) violated(id, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{ID: id, Text: fmt.Sprintf(format, args...)})
}

// Check checks every invariant on the facts. It does no I/O.
func Check(f *Facts) []Result {
	w := newWorld(f)
	results := make([]Result, 0, len(All))
	for _, i := range All {
		r := Result{Invariant: i, Violations: []Violation{}}
		if i.needs == nil || i.needs.heard(f) {
			i.check(w, &r)
		} else {
			r.NotChecked = i.needs.missing
		}
		slices.SortStableFunc(r.Violations, func(a, b Violation) int { return strings.Compare(a.ID, b.ID) })
		results = append(results, r)
	}
	return results
}
