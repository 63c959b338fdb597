package invariant

import (
	"slices"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
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
			r.violated(s.ID, "is pending %s after its time", w.At.Sub(s.ExpiresAt))
		}
	}
}

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

func (w *world) expiries(r *Result) {
	for _, s := range w.Sessions {
		r.Checked++
		for _, t := range w.transactionsOf[s.ID] {
			switch {
			case t.Status != checkout.TransactionSucceeded:
			case s.Status == checkout.StatusExpired:
				r.violated(s.ID, "is expired, and %s succeeded", t.ID)
			case !t.CreatedAt.Before(s.ExpiresAt):
				r.violated(s.ID, "was paid by %s, which began %s after its time", t.ID, t.CreatedAt.Sub(s.ExpiresAt))
			}
		}
		if s.Status != checkout.StatusExpired || s.EndedAt == nil {
			continue
		}
		early := s.EndedAt.Before(s.ExpiresAt.Add(-clockSkew))
		if early && w.Called && !w.operated(s.ID, OpExpire, OpAdvance, OpSignal, OpCancel) {
			r.violated(s.ID, "expired %s before its time, and nobody wished it", s.ExpiresAt.Sub(*s.EndedAt))
		}
	}
}

func (w *world) sessionRuns(r *Result) {
	for _, s := range w.Sessions {
		gone := s.EndedAt != nil && s.EndedAt.Before(w.At.Add(-w.RunRetention+time.Hour))
		if s.Moved || gone {
			continue
		}
		r.Checked++
		runs := w.runs[s.ID]
		if len(runs) == 0 {
			r.violated(s.ID, "is %s and has no workflow", s.Status)
			continue
		}
		if last := runs[len(runs)-1]; !w.agrees(s, last) {
			r.violated(s.ID, "row is %s, run %s is %s with result %q", s.Status, last.RunID, last.Status, last.Result)
		}
	}
	for id, last := range w.rowless(contract.TypeCheckoutSession) {
		// The creation was rolled back: the run closes quietly when its time is over.
		r.Checked++
		switch {
		case last.Status == running && last.ExpiresAt.Before(w.At.Add(-overdueTime)):
			r.violated(id, "runs without a row %s after its time", w.At.Sub(last.ExpiresAt))
		case last.Result != "":
			r.violated(id, "is %s, and there is no such row", last.Result)
		}
	}
	for _, h := range w.Histories {
		for _, cause := range h.TaskFailures {
			r.violated(h.WorkflowID, "a workflow task of run %s failed: %s", h.RunID, cause)
		}
	}
}

// agrees reports whether a run's state agrees with its row. An operator may have terminated the run
// after the row had ended. While the row is pending, Reconcile starts a new run.
func (w *world) agrees(s *Session, last Run) bool {
	switch last.Status {
	case running:
		// The workflow task that expired the session was lost after it wrote the row. The run
		// learns this when its timer fires.
		endsLater := s.Status == checkout.StatusExpired && w.At.Before(s.ExpiresAt.Add(overdueTime))
		return s.Status == checkout.StatusPending || endsLater
	case completed:
		return last.Result == string(s.Status)
	case terminated:
		return s.Status.Final() && (!w.Called || w.operated(s.ID, OpTerminate))
	}
	return false
}

func (w *world) owners(r *Result) {
	same := func(id, sessionID, merchantID string, mode checkout.Mode) {
		r.Checked++
		if s := w.sessions[sessionID]; s == nil || s.MerchantID != merchantID || s.Mode != mode {
			r.violated(id, "is of %s in %s mode, and its session %s is not", merchantID, mode, sessionID)
		}
	}
	for _, t := range w.Transactions {
		same(t.ID, t.SessionID, t.MerchantID, t.Mode)
	}
	for _, p := range w.Payouts {
		if p.SessionID != "" {
			same(p.ID, p.SessionID, p.MerchantID, p.Mode)
		}
	}
	for _, e := range w.Events {
		if e.SessionID != "" {
			same(e.ID, e.SessionID, e.MerchantID, e.Mode)
		}
	}
}
