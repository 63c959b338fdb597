package invariant

import (
	"maps"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/worker"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// Statuses of runs.
const (
	completed  = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	failed     = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	running    = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	terminated = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	canceled   = enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
	continued  = enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
)

// Run is one run of a CheckoutSession or a WebhookDelivery.
type Run struct {
	Type                string // contract.TypeCheckoutSession or contract.TypeWebhookDelivery
	WorkflowID, RunID   string
	Status              enumspb.WorkflowExecutionStatus
	StartedAt, ClosedAt time.Time // ClosedAt is zero while it runs
	Last                bool      // the last run of its id
	Parent              string    // the workflow that started it; "": none, or not known

	// ReportLost says that the run is open and the report of its last attempt never came.
	ReportLost bool

	// From the history:
	Result, Failure string      // the status that the run returned, or the type of its error
	ExpiresAt       time.Time   // from the input of a session's run
	RetryNow        []time.Time // times of the signals
	Unsent          bool        // no attempt was started

	pending []*workflowpb.PendingActivityInfo
}

// compare orders the runs of one id by age.
func (r Run) compare(other Run) int {
	switch {
	case r.Last:
		return 1
	case other.Last:
		return -1
	}
	return r.StartedAt.Compare(other.StartedAt)
}

// abandoned reports whether a run was ended from outside. Its attempts then do not explain its end.
func (r Run) abandoned() bool {
	return r.Status == terminated || r.Status == canceled || r.Result == string(webhook.DeliveryCanceled)
}

// joined joins each run that continued as new with its successors: together they are one run of the
// delivery's log.
func joined(runs []Run) []Run {
	var all []Run
	for _, r := range runs {
		if n := len(all); n > 0 && all[n-1].Status == continued {
			before := all[n-1]
			r.StartedAt, r.Parent = before.StartedAt, before.Parent
			r.Unsent = r.Unsent && before.Unsent
			r.RetryNow = slices.Concat(before.RetryNow, r.RetryNow)
			all = all[:n-1]
		}
		all = append(all, r)
	}
	return all
}

// apply stores the facts of the run's history. An unreadable result stays unknown, which is a violation.
func (r *Run) apply(history []*historypb.HistoryEvent) {
	sends := sends{scheduled: map[int64]bool{}, begun: map[int64]bool{}}
	for _, e := range history {
		sends.apply(e)
		if e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == contract.SignalRetryNow {
			r.RetryNow = append(r.RetryNow, e.GetEventTime().AsTime())
		}
		if started := e.GetWorkflowExecutionStartedEventAttributes(); started != nil {
			var in contract.CheckoutSessionInput // a delivery's input has no ExpiresAt
			if decode(started.GetInput(), &in) == nil {
				r.ExpiresAt = in.ExpiresAt
			}
		}
		if ended := e.GetWorkflowExecutionCompletedEventAttributes(); ended != nil {
			var result struct { // fits the results of both workflow types
				Status string `json:"status"`
			}
			if decode(ended.GetResult(), &result) == nil {
				r.Result = result.Status
			}
		}
		if ended := e.GetWorkflowExecutionFailedEventAttributes(); ended != nil {
			r.Failure = ended.GetFailure().GetApplicationFailureInfo().GetType()
		}
	}
	r.Unsent = !sends.any() && !slices.ContainsFunc(r.pending, tried)
}

func decode(payloads *commonpb.Payloads, into any) error {
	return converter.GetDefaultDataConverter().FromPayloads(payloads, into)
}

const sendActivity = "SendAttempt"

// reportLost reports whether Temporal gave up the last attempt because its result never came. A
// first attempt is a local activity; the activity after it shows the loss.
func reportLost(a *workflowpb.PendingActivityInfo) bool {
	failure := a.GetLastFailure()
	lost := failure.GetTimeoutFailureInfo() != nil || failure.GetMessage() == contract.AttemptLost
	return a.GetActivityType().GetName() == sendActivity && lost &&
		a.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
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
		ended := e.GetActivityTaskCompletedEventAttributes()
		id := ended.GetScheduledEventId()
		s.begun[id] = s.begun[id] && begun(ended.GetResult())
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		s.begun[e.EventId] = begunLocally(e.GetMarkerRecordedEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		if e.GetWorkflowTaskFailedEventAttributes().GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
			clear(s.begun) // the events so far belong to the run before the reset
		}
	}
}

func (s sends) any() bool {
	return slices.Contains(slices.Collect(maps.Values(s.begun)), true)
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

// History is the history of one run, replayed on this build.
type History struct {
	WorkflowID, RunID string
	TaskFailures      []string // failures of its workflow tasks, without the normal ones
	ReplayError       string   // "": it replays
}

func (w *world) histories(r *Result) {
	for _, h := range w.Histories {
		r.Checked++
		if h.ReplayError != "" {
			r.violated(h.WorkflowID, "run %s does not replay: %s", h.RunID, h.ReplayError)
		}
	}
}

// replay replays a history. It returns none when the run was ended before its code ran.
func replay(run Run, events []*historypb.HistoryEvent) []History {
	h, decided := History{WorkflowID: run.WorkflowID, RunID: run.RunID}, false
	for _, e := range events {
		decided = decided || e.GetWorkflowTaskCompletedEventAttributes() != nil
		if cause := taskFailure(e); cause != "" {
			h.TaskFailures = append(h.TaskFailures, cause)
		}
	}
	if !decided {
		return nil
	}
	execution := workflow.Execution{ID: run.WorkflowID, RunID: run.RunID}
	if err := worker.Replay(execution, &historypb.History{Events: events}); err != nil {
		h.ReplayError = err.Error()
	}
	return []History{h}
}

// taskFailure returns why a workflow task failed, if the service is at fault. It returns "" for
// normal causes: a message that came during a task, an operator's reset, and a server or worker
// that went away.
func taskFailure(e *historypb.HistoryEvent) string {
	failure := e.GetWorkflowTaskFailedEventAttributes()
	if failure == nil {
		return ""
	}
	switch cause := failure.GetCause(); cause {
	case enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
		enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND, enumspb.WORKFLOW_TASK_FAILED_CAUSE_FAILOVER_CLOSE_COMMAND,
		enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE:
		return ""
	default:
		return cause.String() + ": " + failure.GetFailure().GetMessage()
	}
}
