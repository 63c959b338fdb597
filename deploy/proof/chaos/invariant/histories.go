package invariant

import (
	"context"
	"fmt"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/worker"
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
