package invariant

import (
	enumspb "go.temporal.io/api/enums/v1"

	flows "example.com/checkout/workflows"
	"example.com/checkout/workflows/webhook"
)

var outcomes = Invariant{
	Number: 8, Names: "delivery",
	Title: "a delivery's row says what the last run of its workflow says",
	check: func(w *world, r *Result) {
		for i := range w.Deliveries {
			d := &w.Deliveries[i]
			runs := w.runs[d.ID]
			if d.Moved || len(runs) == 0 {
				continue
			}
			r.Checked++
			last := runs[len(runs)-1]
			if last.outcome() == d.Status || w.endedWithoutRun(d, last) || endsLater(d, last) || w.terminatedAtItsEnd(d, last) {
				continue
			}
			r.violated(d.ID, "row is %s, run %s is %s%s", d.Status, last.RunID, last.Status, detail(last))
		}
	},
}

// outcome is the status of the row that goes with a run; "" when none does.
func (r Run) outcome() webhook.DeliveryStatus {
	switch r.Status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return webhook.DeliveryPending
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return webhook.DeliveryStatus(r.Result)
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return webhook.DeliveryCanceled
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		if r.Failure == flows.ErrTypeDeliveryPermanentlyFailed {
			return webhook.DeliveryFailed
		}
	}
	return ""
}

// endedWithoutRun: the run was terminated, and before it was started again the
// registration was deleted, which ends the row alone.
func (w *world) endedWithoutRun(d *Delivery, last Run) bool {
	return d.Status == webhook.DeliveryCanceled && last.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED &&
		w.endpoints[d.EndpointID].DeletedAt != nil
}

// terminatedAtItsEnd: an operator terminated the run after its row had ended, or
// while its last attempt was under way, which then noted how it ended. There is
// nothing left to start again for.
func (w *world) terminatedAtItsEnd(d *Delivery, last Run) bool {
	ended := d.Status == webhook.DeliveryDelivered || d.Status == webhook.DeliveryFailed
	return ended && last.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED && (!w.Called || w.operated(d.ID, OpTerminate))
}

// endsLater: the worker died, or lost its way to Temporal, after it had noted how
// the delivery ended. The run finds that out when its next attempt is due, by the
// policy's own back-off, and sends nothing.
func endsLater(d *Delivery, last Run) bool {
	return d.Status == webhook.DeliveryDelivered && last.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && last.ReportLost
}

func detail(r Run) string {
	switch {
	case r.Result != "":
		return " with result " + r.Result
	case r.Failure != "":
		return " with " + r.Failure
	}
	return ""
}
