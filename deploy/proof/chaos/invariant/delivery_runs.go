package invariant

import (
	"context"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

const sendActivity = "SendAttempt"

// reportLost reports whether Temporal gave up the last attempt because its result never came. A
// first attempt is a local activity; the activity after it shows the loss.
func reportLost(pending []*workflowpb.PendingActivityInfo) bool {
	return slices.ContainsFunc(pending, func(a *workflowpb.PendingActivityInfo) bool {
		failure := a.GetLastFailure()
		lost := failure.GetTimeoutFailureInfo() != nil || failure.GetMessage() == contract.AttemptLost
		return a.GetActivityType().GetName() == sendActivity && lost &&
			a.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
	})
}

// readMore reads the whole history of each run if only the histories show whether a delivery is
// correct.
func (t *runReader) readMore(ctx context.Context, id string, runs []Run) error {
	row := t.rows.deliveries[id]
	if row == nil || !t.rows.odd(row, runs) {
		return nil
	}
	for i := range runs {
		if err := t.readHistory(ctx, &runs[i]); err != nil {
			return ignoreGone(err)
		}
	}
	return nil
}

// odd reports whether only the histories show if a delivery is correct.
func (w *world) odd(row *Delivery, runs []Run) bool {
	for run := 1; run <= row.Run; run++ {
		if len(row.ofRun(run)) == 0 {
			return true
		}
	}
	return len(runs) != row.Run || len(w.shortGaps(row)) > 0
}

// readHistory reads a run's history and notes its events on the run.
func (t *runReader) readHistory(ctx context.Context, run *Run) error {
	sends := sends{scheduled: map[int64]bool{}, begun: map[int64]bool{}}
	err := eachEvent(
		ctx,
		t.Sources,
		*run,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT,
		func(e *historypb.HistoryEvent) {
			run.apply(e)
			sends.apply(e)
			signal := e.GetWorkflowExecutionSignaledEventAttributes()
			if signal.GetSignalName() == contract.SignalRetryNow {
				run.RetryNow = append(run.RetryNow, e.GetEventTime().AsTime())
			}
		},
	)
	if err != nil {
		return err
	}

	run.Sent = sends.any()
	if run.open() {
		described, err := t.Temporal.DescribeWorkflowExecution(ctx, run.WorkflowID, run.RunID)
		if err != nil {
			return err
		}
		run.Sent = run.Sent || slices.ContainsFunc(described.PendingActivities, tried)
	}
	run.History = true
	return nil
}

// tried reports whether a pending activity is an attempt that has begun.
func tried(a *workflowpb.PendingActivityInfo) bool {
	return a.GetActivityType().GetName() == sendActivity && (a.GetAttempt() > 1 || a.GetLastStartedTime() != nil)
}

// sends holds the attempts in a history, by the event that scheduled the activity.
type sends struct{ scheduled, begun map[int64]bool }

func (s sends) apply(e *historypb.HistoryEvent) {
	switch e.EventType {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		name := e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
		s.scheduled[e.EventId] = name == sendActivity
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		id := e.GetActivityTaskStartedEventAttributes().GetScheduledEventId()
		s.begun[id] = s.scheduled[id]
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		completed := e.GetActivityTaskCompletedEventAttributes()
		id := completed.GetScheduledEventId()
		s.begun[id] = s.begun[id] && begun(completed.GetResult())
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		s.begun[e.EventId] = begunLocally(e.GetMarkerRecordedEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		if e.GetWorkflowTaskFailedEventAttributes().
			GetCause() ==
			enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
			clear(s.begun) // the events so far belong to the run before the reset
		}
	}
}

func (s sends) any() bool {
	for _, begun := range s.begun {
		if begun {
			return true
		}
	}
	return false
}

// begun reports whether a completed SendAttempt had begun an attempt or was put on hold. Both count
// the run. It is false if the endpoint was busy or PostgreSQL was away.
func begun(result *commonpb.Payloads) bool {
	var got contract.SendAttemptResult
	if err := decode(result, &got); err != nil {
		return true // unknown: assume that it had
	}
	return got.Status != webhook.DeliveryPending || got.Reason == contract.ReasonHeld || got.AttemptsMade > 0
}

// begunLocally reports whether a marker belongs to a local SendAttempt that began an attempt.
func begunLocally(marker *historypb.MarkerRecordedEventAttributes) bool {
	var local struct{ ActivityType string }
	if marker.GetMarkerName() != "LocalActivity" || decode(marker.GetDetails()["data"], &local) != nil {
		return false
	}
	return local.ActivityType == sendActivity &&
		(marker.GetFailure() != nil || begun(marker.GetDetails()["result"]))
}
