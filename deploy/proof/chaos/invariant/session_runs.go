package invariant

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

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
		case last.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && last.ExpiresAt.Before(w.At.Add(-overdueTime)):
			r.violated(id, "runs without a row %s after its time", w.At.Sub(last.ExpiresAt).Round(time.Second))
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
func (w *world) agrees(s Session, last Run) bool {
	switch last.Status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		// The workflow task that expired the session was lost after it wrote the row. The run
		// learns this when its timer fires.
		endsLater := s.Status == checkout.StatusExpired && w.At.Before(s.ExpiresAt.Add(overdueTime))
		return s.Status == checkout.StatusPending || endsLater
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return last.Result == string(s.Status)
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return s.Status.Final() && (!w.Called || w.operated(s.ID, OpTerminate))
	}
	return false
}
