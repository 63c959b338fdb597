package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/workflows/contract"
)

// OpenRuns are the runs that workers of this program get when they start: those without a build, and those of theirs.
type OpenRuns struct {
	Temporal client.Client
	// Deployment and BuildID are those of Options.
	Deployment, BuildID string
}

// UnreadableRunsError names, for each workflow type, a run that this program cannot go on with.
type UnreadableRunsError map[string]error

func (e UnreadableRunsError) Error() string {
	said := "this version cannot go on with open runs of an earlier one"
	for _, name := range slices.Sorted(maps.Keys(e)) {
		said += fmt.Sprintf("\n  %s %v", name, e[name])
	}
	return said
}

// Limits of Check.
const (
	checkPatience = 10 * time.Second
	checkSample   = 4    // runs of each workflow type and age
	checkEvents   = 5000 // a run with a longer history is left out
)

// checkAges are the ages at which Check looks for more runs: a delivery is then at another attempt.
var checkAges = []time.Duration{0, time.Minute, 10 * time.Minute, time.Hour, 5 * time.Hour}

// Check replays a sample of the runs, for 10 seconds at most, and returns how many. It returns an
// UnreadableRunsError. Another error means that Temporal does not answer.
func (o OpenRuns) Check(ctx context.Context) (replayed int, err error) {
	patient, stop := context.WithTimeout(ctx, checkPatience)
	defer stop()
	unreadable := UnreadableRunsError{}
	known := slices.Sorted(maps.Keys(register(worker.NewWorkflowReplayer())))
	for _, name := range append(known, "") {
		n, err := o.checkType(patient, known, name, unreadable)
		if replayed += n; err != nil && (patient.Err() == nil || ctx.Err() != nil) {
			return replayed, err
		}
	}
	if len(unreadable) > 0 {
		return replayed, unreadable
	}
	return replayed, nil
}

// checkType replays runs of a workflow type that is known, or with "" of all others, until one is unreadable.
func (o OpenRuns) checkType(
	ctx context.Context, known []string, name string, found UnreadableRunsError,
) (n int, err error) {
	which := fmt.Sprintf("WorkflowType = '%s'", name)
	if name == "" {
		which = "WorkflowType NOT IN ('" + strings.Join(known, "', '") + "')"
	}
	seen := map[string]bool{}
	for _, age := range checkAges {
		page, err := o.list(ctx, checkSample, fmt.Sprintf("%s AND StartTime <= '%s'", which,
			time.Now().Add(-age).UTC().Format(time.RFC3339Nano)))
		if err != nil {
			return n, err
		}
		for _, info := range page {
			run := workflow.Execution{ID: info.Execution.WorkflowId, RunID: info.Execution.RunId}
			history, err := o.history(ctx, run)
			if err != nil {
				return n, err
			}
			if history == nil || seen[run.RunID] {
				continue
			}
			seen[run.RunID] = true
			n++
			if fault := Replay(run, history); fault != nil {
				why, _, _ := strings.Cut(fault.Error(), "\n")
				found[info.Type.Name] = fmt.Errorf("%s (run %s): %s", run.ID, run.RunID, why)
				return n, nil
			}
		}
		if len(page) < checkSample { // there are no older ones
			break
		}
	}
	return n, nil
}

// list returns the newest open runs to which the query applies too.
func (o OpenRuns) list(ctx context.Context, most int32, query string) ([]*workflowpb.WorkflowExecutionInfo, error) {
	versions := "TemporalWorkerDeploymentVersion IS NULL"
	if o.BuildID != "" {
		versions = fmt.Sprintf("(%s OR TemporalWorkerDeploymentVersion = '%s:%s'"+
			" OR TemporalWorkflowVersioningBehavior = 'AutoUpgrade')", versions, o.Deployment, o.BuildID)
	}
	got, err := o.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: most, Query: fmt.Sprintf("ExecutionStatus = 'Running' AND TaskQueue IN ('%s', '%s') AND %s AND %s",
			contract.TaskQueueCheckout, contract.TaskQueueWebhooks, versions, query),
	})
	if err != nil {
		return nil, fmt.Errorf("list open runs: %w", err)
	}
	return got.Executions, nil
}

// history returns the history of a run, nil when there is nothing to replay: the run has ended, or has not begun, or
// turns out to belong to another build.
func (o OpenRuns) history(ctx context.Context, run workflow.Execution) (*historypb.History, error) {
	history, begun := &historypb.History{}, false
	events := o.Temporal.GetWorkflowHistory(ctx, run.ID, run.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone || len(history.Events) == checkEvents {
			return nil, nil //nolint:nilnil // nothing to replay
		}
		if err != nil {
			return nil, fmt.Errorf("read the history of %s: %w", run.ID, err)
		}
		if done := e.GetWorkflowTaskCompletedEventAttributes(); done != nil {
			version := done.GetDeploymentVersion()
			begun = version == nil || version.BuildId == o.BuildID ||
				done.GetVersioningBehavior() == enumspb.VERSIONING_BEHAVIOR_AUTO_UPGRADE
		}
		history.Events = append(history.Events, e)
	}
	if !begun {
		return nil, nil //nolint:nilnil // nothing to replay
	}
	return history, nil
}

// Terminate ends all runs of the workflow types that Check found unreadable. Reconcile starts them again.
func (o OpenRuns) Terminate(ctx context.Context, found UnreadableRunsError, reason string) (int, error) {
	var ended atomic.Int64
	for {
		page, err := o.list(ctx, 1000, "WorkflowType IN ('"+strings.Join(slices.Sorted(maps.Keys(found)), "', '")+"')")
		if err != nil || len(page) == 0 {
			return int(ended.Load()), err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(16)
		for _, info := range page {
			group.Go(func() error {
				err := o.Temporal.TerminateWorkflow(ctx, info.Execution.WorkflowId, info.Execution.RunId, reason)
				if _, gone := errors.AsType[*serviceerror.NotFound](err); gone { // the list is a moment late
					return nil
				}
				ended.Add(1)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return int(ended.Load()), err
		}
	}
}
