package invariant

import (
	"time"

	"example.com/checkout/workflows/checkout"
)

// overdueTime is how long after its time a session may end: the timer may be late, and the services
// may have to recover before it can fire.
const overdueTime = 30 * time.Second

func (w *world) overdue(r *Result) {
	for _, s := range w.Sessions {
		if s.Moved {
			continue
		}
		r.Checked++
		if s.Status == checkout.StatusPending && !s.InFlight && s.ExpiresAt.Before(w.At.Add(-overdueTime)) {
			r.violated(s.ID, "is pending %s after its time", w.At.Sub(s.ExpiresAt).Round(time.Second))
		}
	}
}
