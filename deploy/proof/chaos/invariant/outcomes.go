package invariant

import (
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

func (w *world) outcomes(r *Result) {
	for i := range w.Deliveries {
		d := &w.Deliveries[i]
		runs := w.runs[d.ID]
		if d.Moved || len(runs) == 0 {
			continue
		}
		r.Checked++
		last := runs[len(runs)-1]
		if last.outcome() == d.Status || w.endedWithoutRun(d, last) || endsLater(d, last) ||
			w.terminatedAtItsEnd(d, last) {
			continue
		}
		r.violated(d.ID, "row is %s, run %s is %s%s", d.Status, last.RunID, last.Status, detail(last))
	}
}

// outcome returns the row's status that fits the end of a run; "" when none fits.
func (r Run) outcome() webhook.DeliveryStatus {
	switch r.Status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return webhook.DeliveryPending
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return webhook.DeliveryStatus(r.Result)
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return webhook.DeliveryCanceled
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		if r.Failure == contract.ErrTypeDeliveryPermanentlyFailed {
			return webhook.DeliveryFailed
		}
	}
	return ""
}

// endedWithoutRun reports whether the row ended without a run: the run was terminated, and the
// registration was deleted before a new run started.
func (w *world) endedWithoutRun(d *Delivery, last Run) bool {
	return d.Status == webhook.DeliveryCanceled && last.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED &&
		w.endpoints[d.EndpointID].DeletedAt != nil
}

// terminatedAtItsEnd reports whether an operator terminated the run after its row had ended, or
// during its last attempt, which then noted the end. Such a run needs no new start.
func (w *world) terminatedAtItsEnd(d *Delivery, last Run) bool {
	ended := d.Status == webhook.DeliveryDelivered || d.Status == webhook.DeliveryFailed
	return ended && last.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED &&
		(!w.Called || w.operated(d.ID, OpTerminate))
}

// endsLater reports whether the run will end later than its row: the worker died, or lost Temporal,
// after it had noted the delivery's end. The run learns this at its next attempt, which is due by
// the policy's own back-off, and sends nothing.
func endsLater(d *Delivery, last Run) bool {
	return d.Status == webhook.DeliveryDelivered && last.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING &&
		last.ReportLost
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
