package invariant

import (
	"slices"
	"strings"
	"time"

	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

func (w *world) workflows(r *Result) {
	for _, d := range w.Deliveries {
		runs := w.runs[d.ID]
		gone := len(runs) == 0 && d.FinishedAt != nil && d.FinishedAt.Before(w.At.Add(-w.RunRetention+time.Hour))
		if d.Moved || gone {
			continue
		}
		r.Checked++
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
		case d.Run-len(runs) > activityResets(d, runs):
			r.violated(d.ID, "row counts %d runs, Temporal %d", d.Run, len(runs))
		// The row counts a run with its first attempt, or when that attempt is put on hold.
		case len(runs)-d.Run > count(runs, func(run Run) bool { return run.abandoned() || run.Unsent }):
			r.violated(d.ID, "row counts %d runs, Temporal %d", d.Run, len(runs))
		}
	}
	for id, last := range w.rowless(contract.TypeWebhookDelivery) {
		r.Checked++
		if last.Status != running &&
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
	return parent.Status == completed && parent.ClosedAt.Before(first.StartedAt)
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
	return max(0, n-count(runs, Run.abandoned)) // a new run of Temporal explains the end in the middle
}

func succeeded(a webhook.Attempt) bool { return a.Finished && a.Succeeded() }

func (w *world) outcomes(r *Result) {
	for _, d := range w.Deliveries {
		runs := w.runs[d.ID]
		if d.Moved || len(runs) == 0 {
			continue
		}
		r.Checked++
		last := runs[len(runs)-1]
		byOperator := last.Status == terminated
		ended := d.Status == webhook.DeliveryDelivered || d.Status == webhook.DeliveryFailed
		switch {
		case last.outcome() == d.Status:
		case d.Status == webhook.DeliveryCanceled && byOperator && w.endpoints[d.EndpointID].DeletedAt != nil:
			// The registration was deleted before a new run started.
		case ended && byOperator && (!w.Called || w.operated(d.ID, OpTerminate)):
			// An operator terminated the run after its row had ended, or during its last attempt, which then noted the
			// end. Such a run needs no new start.
		case d.Status == webhook.DeliveryDelivered && last.outcome() == webhook.DeliveryPending && last.ReportLost:
			// The worker died, or lost Temporal, after it had noted the end. The run learns this at its next attempt,
			// which is due by the policy's own back-off, and sends nothing.
		default:
			r.violated(d.ID, "row is %s, run %s is %s %s%s", d.Status, last.RunID, last.Status, last.Result, last.Failure)
		}
	}
}

// outcome returns the row's status that fits the end of a run; "" when none fits.
func (r Run) outcome() webhook.DeliveryStatus {
	switch r.Status {
	case running:
		return webhook.DeliveryPending
	case completed:
		return webhook.DeliveryStatus(r.Result)
	case canceled:
		return webhook.DeliveryCanceled
	case failed:
		if r.Failure == contract.ErrTypeDeliveryPermanentlyFailed {
			return webhook.DeliveryFailed
		}
	}
	return ""
}

func (w *world) acknowledgements(r *Result) {
	for _, d := range w.Deliveries {
		if d.Moved {
			continue
		}
		if w.checkEnd(d, r) {
			r.Checked++
		}
		for _, a := range d.Attempts {
			if w.logged(d, a) {
				w.checkAttemptArrived(d, a, r)
			}
		}
	}
}

// checkEnd compares a delivery's status with the requests of its last run. It reports whether this
// was possible.
func (w *world) checkEnd(d *Delivery, r *Result) bool {
	last := d.ofRun(d.Run)
	if count(last, func(a webhook.Attempt) bool { return w.logged(d, a) }) < len(last) {
		return false
	}
	switch d.Status {
	case webhook.DeliveryDelivered:
		accepted := func(a webhook.Attempt) bool { return succeeded(a) && w.accepted(d, a) != nil }
		if !slices.ContainsFunc(last, accepted) {
			r.violated(d.ID, "is delivered, and no receiver accepted it in run %d", d.Run)
		}
	case webhook.DeliveryFailed:
		w.checkFailed(d, last, r)
	default:
		return false
	}
	return true
}

// checkFailed checks a failed delivery. It must have all attempts, except those that died before
// they were noted. No request may be accepted, except those whose answer was lost on the way back.
func (w *world) checkFailed(d *Delivery, last []webhook.Attempt, r *Result) {
	if n := len(last); n > 0 && last[n-1].Number < webhook.MaxAttempts && d.FinishedAt != nil {
		a := last[n-1]
		from := ended(a).Add(w.retryDelay(d, a.Number))
		if !lost(from, *d.FinishedAt, a.Number+1, webhook.MaxAttempts) {
			r.violated(d.ID, "is failed after attempt %d of %d", a.Number, webhook.MaxAttempts)
		}
	}
	for _, a := range last {
		if got := w.accepted(d, a); got != nil && !answerLost(a, *got) {
			r.violated(d.ID, "is failed, and attempt %d.%d was answered %d", a.Run, a.Number, got.Status)
		}
	}
}

// accepted returns the request of an attempt that the receiver answered with 2xx, or nil.
func (w *world) accepted(d *Delivery, a webhook.Attempt) *arrival {
	for _, got := range w.byAttempt[attemptKey{d.ID, a.Run, a.Number}] {
		if got.Status >= 200 && got.Status <= 299 && got.AnsweredAt != nil {
			return &got
		}
	}
	return nil
}

// answerLost reports whether an answer may have been lost: the worker died, the connection broke,
// or the answer came at the very end of the time-out.
func answerLost(a webhook.Attempt, got arrival) bool {
	switch {
	case !a.Finished, a.ErrorKind == webhook.ErrorConnect, a.ErrorKind == webhook.ErrorInternal:
		return true
	case a.ErrorKind == webhook.ErrorTimeout:
		return got.AnsweredAt.After(ended(a).Add(-500 * time.Millisecond))
	}
	return false
}

// checkAttemptArrived checks an attempt with an answer: the receiver must have logged the request,
// with the same answer.
func (w *world) checkAttemptArrived(d *Delivery, a webhook.Attempt, r *Result) {
	if !a.Finished || (a.StatusCode == 0 && a.ErrorKind != webhook.ErrorHTTP) {
		return // such an attempt may have sent no request
	}
	got := w.byAttempt[attemptKey{d.ID, a.Run, a.Number}]
	if len(got) == 0 {
		r.violated(d.ID, "attempt %d.%d was answered %d, and no receiver saw it", a.Run, a.Number, a.StatusCode)
	}
	for _, one := range got {
		if a.StatusCode != 0 && one.Status != a.StatusCode {
			r.violated(d.ID, "attempt %d.%d says that %d was answered, the receiver says %d",
				a.Run, a.Number, a.StatusCode, one.Status)
		}
	}
}
