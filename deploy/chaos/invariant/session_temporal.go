package invariant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"

	flows "example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

// readSessionRuns reads all runs of CheckoutSession: which there are from
// Temporal's list, how each stands by asking for its id.
func readSessionRuns(ctx context.Context, s Sources, f *Facts) error {
	runs := map[string][]SessionRun{}
	for _, session := range f.Sessions {
		runs[session.ID] = nil
	}
	err := eachRun(ctx, s, fmt.Sprintf("WorkflowType = '%s'", flows.TypeCheckoutSession), func(info *workflowpb.WorkflowExecutionInfo) {
		run := sessionRunOf(info)
		runs[run.WorkflowID] = append(runs[run.WorkflowID], run)
	})
	if err != nil {
		return err
	}
	w := newWorld(f)
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(temporalCalls)
	for id, listed := range runs {
		group.Go(func() error {
			last, err := readLastSessionRun(ctx, s, f, id, w.sessions[id])
			if err != nil || last == nil {
				return err
			}
			listed = slices.DeleteFunc(listed, func(r SessionRun) bool { return r.RunID == last.RunID })
			mu.Lock()
			defer mu.Unlock()
			f.SessionRuns = append(append(f.SessionRuns, listed...), *last)
			return nil
		})
	}
	err = group.Wait()
	s.Progress(fmt.Sprintf("Temporal: %d runs of %d sessions", len(f.SessionRuns), len(runs)))
	return err
}

// eachRun calls do with every run that Temporal's list knows for query.
func eachRun(ctx context.Context, s Sources, query string, do func(*workflowpb.WorkflowExecutionInfo)) error {
	var page []byte
	for {
		got, err := s.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: s.Namespace, PageSize: 1000, Query: query, NextPageToken: page,
		})
		if err != nil {
			return err
		}
		for _, info := range got.Executions {
			do(info)
		}
		if page = got.NextPageToken; len(page) == 0 {
			return nil
		}
	}
}

func sessionRunOf(info *workflowpb.WorkflowExecutionInfo) SessionRun {
	run := runOf(info)
	return SessionRun{WorkflowID: run.WorkflowID, RunID: run.RunID, Status: run.Status, StartedAt: run.StartedAt, ClosedAt: run.ClosedAt}
}

// readLastSessionRun returns the last run of a session, nil when there is none. A
// run ends a little after its row, so it asks again for a while.
func readLastSessionRun(ctx context.Context, s Sources, f *Facts, id string, session *Session) (*SessionRun, error) {
	for end := time.Now().Add(temporalLag); ; {
		described, err := s.Temporal.DescribeWorkflowExecution(ctx, id, "")
		var notFound *serviceerror.NotFound
		if errors.As(err, &notFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		run := sessionRunOf(described.WorkflowExecutionInfo)
		run.Last = true
		running := run.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		if running && session != nil && session.Status.Final() && (session.Status != checkout.StatusExpired || f.At.After(session.ExpiresAt)) && time.Now().Before(end) {
			time.Sleep(temporalLagTry)
			continue
		}
		if running && session != nil {
			return &run, nil
		}
		return &run, readSessionEnd(ctx, s, &run)
	}
}

// readSessionEnd reads the first and the last event of a run.
func readSessionEnd(ctx context.Context, s Sources, run *SessionRun) error {
	data := converter.GetDefaultDataConverter()
	events := s.Temporal.GetWorkflowHistory(ctx, run.WorkflowID, run.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return ignoreGone(err)
		}
		if started := e.GetWorkflowExecutionStartedEventAttributes(); started != nil {
			var in flows.CheckoutSessionInput
			if data.FromPayloads(started.GetInput(), &in) == nil { // else its time stays unknown, and is over
				run.ExpiresAt = in.ExpiresAt
			}
		}
		if completed := e.GetWorkflowExecutionCompletedEventAttributes(); completed != nil {
			var result flows.CheckoutSessionResult
			if data.FromPayloads(completed.GetResult(), &result) == nil { // else the result stays unknown, which is a violation
				run.Result = result.Status
			}
		}
	}
	return nil
}

// compare orders the runs of one id by age.
func (r SessionRun) compare(other SessionRun) int {
	switch {
	case r.Last:
		return 1
	case other.Last:
		return -1
	}
	return r.StartedAt.Compare(other.StartedAt)
}

// readHistorySample replays a sample of s.Histories histories, those of sessions
// and deliveries with several runs first.
func readHistorySample(ctx context.Context, s Sources, f *Facts) error {
	type run struct{ id, runID string }
	var all []run
	count := map[string]int{}
	for _, r := range f.SessionRuns {
		all = append(all, run{r.WorkflowID, r.RunID})
		count[r.WorkflowID]++
	}
	for _, r := range f.Runs {
		all = append(all, run{r.WorkflowID, r.RunID})
		count[r.WorkflowID]++
	}
	if s.Histories == 0 || len(all) == 0 {
		return nil
	}
	step := max(1, len(all)/s.Histories)
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2) // a replay is work, not waiting
	for i, r := range all {
		if i%step != 0 && count[r.id] < 2 {
			continue
		}
		group.Go(func() error {
			h, err := replayed(ctx, s, r.id, r.runID)
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

// replayed reads a history and replays it; nil when it is gone, or there is nothing
// to replay.
func replayed(ctx context.Context, s Sources, id, runID string) (*History, error) {
	h := &History{WorkflowID: id, RunID: runID}
	whole, decided := &historypb.History{}, false
	events := s.Temporal.GetWorkflowHistory(ctx, id, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, ignoreGone(err)
		}
		whole.Events = append(whole.Events, e)
		decided = decided || e.GetWorkflowTaskCompletedEventAttributes() != nil
		if cause := taskFailure(e); cause != "" {
			h.TaskFailures = append(h.TaskFailures, cause)
		}
	}
	if !decided { // it was ended before its code ran
		return nil, nil
	}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{})
	if err != nil {
		return nil, err
	}
	flows.RegisterCheckout(replayRegistry{replayer})
	flows.RegisterWebhooks(replayRegistry{replayer})
	err = replayer.ReplayWorkflowHistoryWithOptions(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), whole,
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id, RunID: runID}})
	if err != nil {
		h.ReplayError = err.Error()
	}
	return h, nil
}

// replayRegistry makes a replayer what Register… take; the dynamic part is unused.
type replayRegistry struct{ worker.WorkflowReplayer }

func (replayRegistry) RegisterDynamicWorkflow(any, workflow.DynamicRegisterOptions) {}

// taskFailure returns why a workflow task failed when that says something about
// the service: a message that came while a task ran, an operator's reset and a
// server or worker that went away do not.
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

// Sessions that are not at rest.
var unsettledSessions = fmt.Sprintf(`
	SELECT count(*) AS n, 'pending sessions whose time is over' AS what FROM checkout_session
	WHERE status = '%s' AND NOT payment_in_flight AND expires_at < clock_timestamp()`, checkout.StatusPending)
