package invariant

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/worker"
	"example.com/checkout/workflows/contract"
)

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

// readHistorySample replays a sample of s.Histories histories. Sessions and deliveries with several
// runs come first.
func readHistorySample(ctx context.Context, s Sources, f *Facts) error {
	count := map[string]int{}
	for _, r := range f.Runs {
		count[r.WorkflowID]++
	}
	if s.Histories == 0 || len(f.Runs) == 0 {
		return nil
	}

	step := max(1, len(f.Runs)/s.Histories)
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2) // a replay needs CPU time
	for i, r := range f.Runs {
		if i%step != 0 && count[r.WorkflowID] < 2 {
			continue
		}
		group.Go(func() error {
			h, err := replayed(ctx, s, r)
			if err != nil || h == nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			f.Histories = append(f.Histories, *h)
			return nil
		})
	}

	err := group.Wait()
	s.Progress(fmt.Sprintf("replayed %d histories", len(f.Histories)))
	return err
}

// replayed reads a history and replays it. It returns nil when the history is gone or has nothing
// to replay.
func replayed(ctx context.Context, s Sources, run Run) (*History, error) {
	h := &History{WorkflowID: run.WorkflowID, RunID: run.RunID}
	whole, decided := &historypb.History{}, false
	err := eachEvent(ctx, s, run, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT, func(e *historypb.HistoryEvent) {
		whole.Events = append(whole.Events, e)
		decided = decided || e.GetWorkflowTaskCompletedEventAttributes() != nil
		if cause := taskFailure(e); cause != "" {
			h.TaskFailures = append(h.TaskFailures, cause)
		}
	})
	if err != nil {
		return nil, ignoreGone(err)
	}
	if !decided { // the run was ended before its code ran
		return nil, nil
	}

	err = worker.Replay(workflow.Execution{ID: run.WorkflowID, RunID: run.RunID}, whole)
	if err != nil {
		h.ReplayError = err.Error()
	}
	return h, nil
}

// taskFailure returns why a workflow task failed, if the service is at fault. It returns "" for
// normal causes: a message that came during a task, an operator's reset, and a server or worker
// that went away.
func taskFailure(e *historypb.HistoryEvent) string {
	failed := e.GetWorkflowTaskFailedEventAttributes()
	if failed == nil {
		return ""
	}
	switch cause := failed.GetCause(); cause {
	case enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
		enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND, enumspb.WORKFLOW_TASK_FAILED_CAUSE_FAILOVER_CLOSE_COMMAND,
		enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE:
		return ""
	default:
		return cause.String() + ": " + failed.GetFailure().GetMessage()
	}
}

// Tally counts runs by status.
type Tally map[enumspb.WorkflowExecutionStatus]int64

// counts checks Temporal's counts, which operators watch. The service's own counters cannot be
// checked: they end with their processes, and many were killed.
func (w *world) counts(r *Result) {
	for _, name := range slices.Sorted(maps.Keys(w.Counted)) {
		there := w.tally(name)
		r.Checked += int(w.Counted[name].sum())
		for _, status := range slices.Sorted(maps.Keys(enumspb.WorkflowExecutionStatus_name)) {
			status := enumspb.WorkflowExecutionStatus(status)
			if counted := w.Counted[name][status]; counted != there[status] {
				r.violated(name, "%d runs are counted as %s, and %d are", counted, status, there[status])
			}
		}
	}
}

func (t Tally) sum() (n int64) {
	for _, one := range t {
		n += one
	}
	return n
}

// tally counts the runs that Gather read, one by one.
func (f *Facts) tally(workflowType string) Tally {
	t := Tally{}
	for _, run := range f.Runs {
		if run.Type == workflowType {
			t[run.Status]++
		}
	}
	return t
}

// readCounts asks Temporal for its counts. It repeats the question for a while, because Temporal's
// list is a little behind.
func readCounts(ctx context.Context, s Sources, f *Facts) error {
	if s.Rest == nil {
		return nil
	}
	f.Counted = map[string]Tally{}
	for _, name := range []string{contract.TypeCheckoutSession, contract.TypeWebhookDelivery} {
		for end := time.Now().Add(temporalLag); ; time.Sleep(temporalLagTry) {
			counted, err := count(ctx, s, name)
			if err != nil {
				return err
			}
			f.Counted[name] = counted
			if maps.Equal(counted, f.tally(name)) || time.Now().After(end) {
				break
			}
		}
	}
	return nil
}

func count(ctx context.Context, s Sources, workflowType string) (Tally, error) {
	got, err := s.Temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: s.Namespace, Query: fmt.Sprintf("WorkflowType = '%s' GROUP BY ExecutionStatus", workflowType),
	})
	if err != nil {
		return nil, err
	}
	t := Tally{}
	for _, group := range got.GetGroups() {
		var name string
		if err := converter.GetDefaultDataConverter().FromPayload(group.GetGroupValues()[0], &name); err != nil {
			return nil, err
		}
		status, err := enumspb.WorkflowExecutionStatusFromString(name)
		if err != nil {
			return nil, err
		}
		t[status] = group.GetCount()
	}
	return t, nil
}
