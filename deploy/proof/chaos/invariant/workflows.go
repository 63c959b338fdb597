package invariant

import (
	"strings"
	"time"

	"example.com/checkout/workflows/runs"

	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

func (w *world) workflows(r *Result) {
	for i := range w.Deliveries {
		d := &w.Deliveries[i]
		if d.Moved || w.runsGone(d) {
			continue
		}
		r.Checked++
		runs := w.runs[d.ID]
		switch {
		case len(runs) == 0 && d.Run == 0 && d.Status == webhook.DeliveryCanceled &&
			w.endpoints[d.EndpointID].DeletedAt != nil:
			// The registration was deleted before a run was started.
		case len(runs) == 0:
			r.violated(d.ID, "is %s and has no workflow", d.Status)
		case w.foundOnly(d, runs[0]):
			r.violated(d.ID, "was never started until %s found it", runs[0].Parent)
		case d.CreatedAt.Before(w.At.Add(-w.RunRetention)):
			// The delivery's first runs may be gone.
		case len(runs) < d.Run && d.Run-len(runs) > activityResets(d, runs):
			r.violated(d.ID, "row counts %d runs, Temporal %d", d.Run, len(runs))
		case len(runs) > d.Run && len(runs)-d.Run > runsWithoutAttempt(runs):
			r.violated(d.ID, "row counts %d runs, Temporal %d", d.Run, len(runs))
		}
	}
	for id, last := range w.rowless(contract.TypeWebhookDelivery) {
		r.Checked++
		if last.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING &&
			last.ClosedAt.Before(w.At.Add(-w.DeliveryRetention)) {
			continue // the row may be gone
		}
		r.violated(id, "is a workflow (%s) without a row", last.Status)
	}
}

// foundOnly reports whether a session's run closed without starting a delivery, and Reconcile
// started it later. It returns false in two cases where this is correct: an operator acted on the
// session or the delivery, or Reconcile was faster than a slow run.
func (w *world) foundOnly(d *Delivery, first Run) bool {
	e := w.events[d.EventID]
	ofParent := w.runs[e.SessionID]
	found := strings.HasPrefix(first.Parent, runs.ScheduleReconcile+"-")
	ofSession := e.Type == webhook.CheckoutCompleted || e.Type == webhook.CheckoutFailed
	if !found || !ofSession || len(ofParent) == 0 || w.operated(e.SessionID, OpTerminate, OpReset) ||
		w.operated(d.ID, OpTerminate, OpReset) {
		return false
	}
	parent := ofParent[len(ofParent)-1]
	return parent.Status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED &&
		parent.ClosedAt.Before(first.StartedAt)
}

// runsGone reports whether Temporal may have removed all runs of a delivery.
func (w *world) runsGone(d *Delivery) bool {
	return len(w.runs[d.ID]) == 0 && d.FinishedAt != nil &&
		d.FinishedAt.Before(w.At.Add(-w.RunRetention+time.Hour))
}

// activityResets returns how many more runs the row may count than Temporal. When an operator
// resets the activity, a new run of the log begins in the same run of Temporal. The log's run
// before it then ended in the middle of its attempts.
func activityResets(d *Delivery, runs []Run) int {
	n := 0
	for run := 1; run < d.Run; run++ {
		of := d.ofRun(run)
		if len(of) == 0 || (!succeeded(of[len(of)-1]) && of[len(of)-1].Number < webhook.MaxAttempts) {
			n++
		}
	}
	for _, run := range runs {
		if run.abandoned() {
			n-- // a new run of Temporal explains the end in the middle
		}
	}
	return max(0, n)
}

// runsWithoutAttempt returns how many fewer runs the row may count than Temporal. The row counts a
// run with its first attempt, or when that attempt is put on hold.
func runsWithoutAttempt(runs []Run) int {
	n := 0
	for _, run := range runs {
		if run.abandoned() || (run.History && !run.Sent) {
			n++
		}
	}
	return n
}

func succeeded(a webhook.Attempt) bool { return a.Finished && a.Succeeded() }
