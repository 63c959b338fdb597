package invariant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/activities"
	flows "example.com/checkout/workflows"
	"example.com/checkout/workflows/webhook"
)

const (
	temporalCalls  = 8 // at once
	progressEvery  = 2 * time.Second
	temporalLag    = 15 * time.Second // by which Temporal's list may be behind, and a run behind its row
	temporalLagTry = 250 * time.Millisecond
	sendActivity   = "SendAttempt"
)

// temporalReader reads the runs of WebhookDelivery.
type temporalReader struct {
	client    client.Client
	namespace string
	facts     *Facts
	world     *world // without runs

	mu   sync.Mutex
	runs map[string][]Run
}

// readTemporal reads all runs: which there are from Temporal's list, how each
// workflow stands by asking for its id, how its last run ended from the end of its
// history, and the whole history where something looks odd.
func readTemporal(ctx context.Context, s Sources, f *Facts) error {
	t := &temporalReader{client: s.Temporal, namespace: s.Namespace, facts: f, world: newWorld(f), runs: map[string][]Run{}}
	namespace, err := s.Temporal.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.Namespace})
	if err != nil {
		return err
	}
	f.RunRetention = namespace.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	if err := t.list(ctx, fmt.Sprintf("WorkflowType = '%s'", flows.TypeWebhookDelivery)); err != nil {
		return err
	}
	ids := map[string]bool{}
	for id := range t.runs {
		ids[id] = true
	}
	for _, d := range f.Deliveries {
		ids[d.ID] = true
	}
	var done atomic.Int64
	stop := make(chan struct{})
	go func() {
		for tick := time.Tick(progressEvery); ; {
			select {
			case <-stop:
				return
			case <-tick:
				s.Progress(fmt.Sprintf("Temporal: %d of %d workflows", done.Load(), len(ids)))
			}
		}
	}()
	defer close(stop)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(temporalCalls)
	for id := range ids {
		group.Go(func() error {
			defer done.Add(1)
			return t.read(ctx, id)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(t.runs)) {
		f.Runs = append(f.Runs, t.runs[id]...)
	}
	s.Progress(fmt.Sprintf("Temporal: %d runs of %d workflows", len(f.Runs), len(t.runs)))
	return nil
}

// list adds the runs that Temporal's list knows.
func (t *temporalReader) list(ctx context.Context, query string) error {
	var page []byte
	for {
		got, err := t.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: t.namespace, PageSize: 1000, Query: query, NextPageToken: page,
		})
		if err != nil {
			return err
		}
		t.mu.Lock()
		for _, info := range got.Executions {
			t.put(runOf(info))
		}
		t.mu.Unlock()
		if page = got.NextPageToken; len(page) == 0 {
			return nil
		}
	}
}

// put adds a run, or replaces what was known of it.
func (t *temporalReader) put(run Run) {
	runs := t.runs[run.WorkflowID]
	for i := range runs {
		if runs[i].RunID == run.RunID {
			runs[i] = run
			return
		}
	}
	t.runs[run.WorkflowID] = append(runs, run)
}

func runOf(info *workflowpb.WorkflowExecutionInfo) Run {
	run := Run{
		WorkflowID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId(), Status: info.GetStatus(),
		StartedAt: info.GetStartTime().AsTime(), Parent: info.GetParentExecution().GetWorkflowId(),
	}
	if info.GetCloseTime() != nil {
		run.ClosedAt = info.GetCloseTime().AsTime()
	}
	return run
}

// read asks how the workflow with an id stands. Temporal's list and the end of a
// run come a little after the row, so it asks again for a while.
func (t *temporalReader) read(ctx context.Context, id string) error {
	d := t.world.deliveries[id]
	for end := time.Now().Add(temporalLag); ; {
		described, err := t.client.DescribeWorkflowExecution(ctx, id, "")
		var notFound *serviceerror.NotFound
		if errors.As(err, &notFound) {
			t.mu.Lock()
			delete(t.runs, id) // the list is behind the removal
			t.mu.Unlock()
			return nil
		}
		if err != nil {
			return err
		}
		last := runOf(described.WorkflowExecutionInfo)
		last.ReportLost = reportLost(described.PendingActivities)
		behind := d != nil && d.Status != webhook.DeliveryPending && last.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && !last.ReportLost
		if (behind || !t.listed(last)) && time.Now().Before(end) {
			time.Sleep(temporalLagTry)
			if !behind {
				err = t.list(ctx, fmt.Sprintf("WorkflowId = '%s'", id))
			}
			if err != nil {
				return err
			}
			continue
		}
		last.Last = true
		if last.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			if err := t.readEnd(ctx, &last); err != nil {
				return err
			}
		}
		t.mu.Lock()
		t.put(last)
		runs := t.runs[id]
		t.mu.Unlock()
		if t.odd(d, runs) {
			return t.readHistories(ctx, runs)
		}
		return nil
	}
}

// reportLost reports whether an attempt was given up because nobody said how it
// ended, and none has followed. Of a first attempt, which is a local activity, the
// activity says so that follows it.
func reportLost(pending []*workflowpb.PendingActivityInfo) bool {
	return slices.ContainsFunc(pending, func(a *workflowpb.PendingActivityInfo) bool {
		lost := a.GetLastFailure().GetTimeoutFailureInfo() != nil || a.GetLastFailure().GetMessage() == activities.AttemptLost
		return a.GetActivityType().GetName() == sendActivity && lost && a.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
	})
}

// listed reports whether a run is in Temporal's list.
func (t *temporalReader) listed(run Run) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.runs[run.WorkflowID], func(r Run) bool { return r.RunID == run.RunID })
}

// odd reports whether only histories can tell if a delivery is in order.
func (t *temporalReader) odd(d *Delivery, runs []Run) bool {
	if d == nil {
		return false
	}
	for run := 1; run <= d.Run; run++ {
		if len(d.ofRun(run)) == 0 {
			return true
		}
	}
	return len(runs) != d.Run || len(t.world.shortGaps(d)) > 0
}

// readEnd reads how a closed run ended.
func (t *temporalReader) readEnd(ctx context.Context, run *Run) error {
	events := t.client.GetWorkflowHistory(ctx, run.WorkflowID, run.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return ignoreGone(err)
		}
		run.end(e)
	}
	return nil
}

func (r *Run) end(e *historypb.HistoryEvent) {
	if completed := e.GetWorkflowExecutionCompletedEventAttributes(); completed != nil {
		var result flows.WebhookDeliveryResult
		if converter.GetDefaultDataConverter().FromPayloads(completed.GetResult(), &result) == nil { // else the result stays unknown, which is a violation
			r.Result = result.Status
		}
	}
	if failed := e.GetWorkflowExecutionFailedEventAttributes(); failed != nil {
		r.Failure = failed.GetFailure().GetApplicationFailureInfo().GetType()
	}
}

// readHistories reads what happened in each run of a workflow.
func (t *temporalReader) readHistories(ctx context.Context, runs []Run) error {
	for i := range runs {
		run := &runs[i]
		sends, sent := map[int64]bool{}, map[int64]bool{} // by the event that scheduled the activity
		events := t.client.GetWorkflowHistory(ctx, run.WorkflowID, run.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				return ignoreGone(err)
			}
			run.end(e)
			switch e.EventType {
			case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
				sends[e.EventId] = e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == sendActivity
			case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
				id := e.GetActivityTaskStartedEventAttributes().GetScheduledEventId()
				sent[id] = sends[id]
			case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
				completed := e.GetActivityTaskCompletedEventAttributes()
				id := completed.GetScheduledEventId()
				sent[id] = sent[id] && begun(completed.GetResult())
			case enumspb.EVENT_TYPE_MARKER_RECORDED:
				sent[e.EventId] = begunLocally(e.GetMarkerRecordedEventAttributes())
			case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
				if e.GetWorkflowTaskFailedEventAttributes().GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
					clear(sent) // until here it is the history of the run that was reset
				}
			case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
				if signal := e.GetWorkflowExecutionSignaledEventAttributes(); signal.GetSignalName() == flows.SignalRetryNow {
					run.RetryNow = append(run.RetryNow, e.GetEventTime().AsTime())
				}
			}
		}
		for _, one := range sent {
			run.Sent = run.Sent || one
		}
		if run.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			described, err := t.client.DescribeWorkflowExecution(ctx, run.WorkflowID, run.RunID)
			if err != nil {
				return ignoreGone(err)
			}
			for _, a := range described.PendingActivities {
				run.Sent = run.Sent || (a.GetActivityType().GetName() == sendActivity && (a.GetAttempt() > 1 || a.GetLastStartedTime() != nil))
			}
		}
		run.History = true
	}
	return nil
}

// begun reports whether a SendAttempt that completed had begun an attempt, or was
// put on hold, which also counts the run: the endpoint was not busy, PostgreSQL not
// away.
func begun(result *commonpb.Payloads) bool {
	var got activities.SendAttemptResult
	if err := converter.GetDefaultDataConverter().FromPayloads(result, &got); err != nil {
		return true // not known
	}
	return got.Status != webhook.DeliveryPending || got.Reason == activities.ReasonHeld || got.Made > 0
}

// begunLocally reports whether a marker is that of a SendAttempt which ran as a
// local activity and began an attempt.
func begunLocally(marker *historypb.MarkerRecordedEventAttributes) bool {
	var local struct{ ActivityType string }
	if marker.GetMarkerName() != "LocalActivity" || converter.GetDefaultDataConverter().FromPayloads(marker.GetDetails()["data"], &local) != nil {
		return false
	}
	return local.ActivityType == sendActivity && (marker.GetFailure() != nil || begun(marker.GetDetails()["result"]))
}

// ignoreGone: a run that Temporal removed while it was read says nothing.
func ignoreGone(err error) error {
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return nil
	}
	return err
}
