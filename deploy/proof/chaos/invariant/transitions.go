package invariant

import (
	"slices"

	"example.com/checkout/workflows/checkout"
)

// guards are the constraints with which PostgreSQL itself prevents a second end of a session. The
// service's compare-and-set statements come first.
var guards = []string{
	"checkout_session_status_check", "checkout_session_ended_check", "checkout_session_in_flight_check",
	"transaction_succeeded_key", "transaction_in_flight_key",
}

func (w *world) transitions(r *Result) {
	for _, name := range guards {
		if !slices.Contains(w.Constraints, name) {
			r.violated(name, "is no valid constraint of the database")
		}
	}
	for _, s := range w.Sessions {
		r.Checked++
		ends, last := 0, checkout.StatusPending
		for _, t := range w.transactionsOf[s.ID] {
			if t.SessionStatus.Final() && t.CompletedAt != nil {
				ends++
				last = t.SessionStatus
			}
		}
		switch {
		case !slices.Contains(checkout.Statuses, s.Status):
			r.violated(s.ID, "is %q", s.Status)
		case (s.EndedAt != nil) != s.Status.Final():
			r.violated(s.ID, "is %s and its end is %v", s.Status, s.EndedAt)
		case ends > 1:
			r.violated(s.ID, "was ended by %d payments", ends)
		case ends == 1 && last != s.Status:
			r.violated(s.ID, "is %s, and a payment made it %s", s.Status, last)
		case ends == 0 && (s.Status == checkout.StatusCompleted || s.Status == checkout.StatusFailed):
			r.violated(s.ID, "is %s, and no payment made it that", s.Status)
		}
	}
}
