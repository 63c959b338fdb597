package invariant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

const (
	temporalCalls  = 8 // calls at once
	progressEvery  = 1000
	temporalLag    = 15 * time.Second // how long Temporal's list may be behind, and a run behind its row
	temporalLagTry = 250 * time.Millisecond
)

// readTemporal reads all runs of sessions and deliveries with their histories, and replays a sample of these.
// Temporal's list gives the runs. A question for each id gives the state of the workflow.
func readTemporal(ctx context.Context, s Sources, f *Facts) error {
	namespace, err := s.Temporal.WorkflowService().DescribeNamespace(ctx,
		&workflowservice.DescribeNamespaceRequest{Namespace: s.Namespace})
	if err != nil {
		return err
	}
	f.RunRetention = namespace.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	return readRuns(ctx, s, f)
}

func readRuns(ctx context.Context, s Sources, f *Facts) error {
	t := runReader{s, newWorld(f)}
	listed, err := t.list(ctx, fmt.Sprintf("WorkflowType IN ('%s', '%s')",
		contract.TypeCheckoutSession, contract.TypeWebhookDelivery))
	if err != nil {
		return err
	}
	runsOf := grouped(listed, func(r Run) string { return r.WorkflowID })
	ids := slices.Concat(slices.Collect(maps.Keys(runsOf)), slices.Collect(maps.Keys(t.rows.sessions)),
		slices.Collect(maps.Keys(t.rows.deliveries)))
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var mu sync.Mutex
	done := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(temporalCalls)
	for i, id := range ids {
		group.Go(func() error {
			sampled := s.Histories > 0 && i%max(1, len(ids)/s.Histories) == 0
			runs, histories, err := t.read(ctx, id, runsOf[id], sampled)
			mu.Lock()
			defer mu.Unlock()
			f.Runs, f.Histories = append(f.Runs, runs...), append(f.Histories, histories...)
			if done++; done%progressEvery == 0 || done == len(ids) {
				s.Progress(fmt.Sprintf("Temporal: %d runs of %d of %d workflows, %d replayed",
					len(f.Runs), done, len(ids), len(f.Histories)))
			}
			return err
		})
	}
	return group.Wait()
}

// runReader reads runs.
type runReader struct {
	Sources
	rows *world // without runs
}

// list returns the runs that Temporal's list has for a query.
func (t runReader) list(ctx context.Context, query string) (all []Run, err error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{Namespace: t.Namespace, PageSize: 1000, Query: query}
	for {
		got, err := t.Temporal.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, info := range got.Executions {
			all = append(all, runOf(info))
		}
		if request.NextPageToken = got.NextPageToken; len(request.NextPageToken) == 0 {
			return all, nil
		}
	}
}

func runOf(info *workflowpb.WorkflowExecutionInfo) Run {
	run := Run{
		Type: info.GetType().GetName(), WorkflowID: info.GetExecution().GetWorkflowId(),
		RunID: info.GetExecution().GetRunId(), Status: info.GetStatus(),
		StartedAt: info.GetStartTime().AsTime(), Parent: info.GetParentExecution().GetWorkflowId(),
	}
	if info.GetCloseTime() != nil {
		run.ClosedAt = info.GetCloseTime().AsTime()
	}
	return run
}

// read reads the workflow with an id: its runs with their histories, and the replays of these when they are sampled
// or several. Temporal's list and the end of a run come a little after the row, so read repeats the question for a
// while.
func (t runReader) read(
	ctx context.Context, id string, listed []Run, sampled bool,
) (runs []Run, histories []History, err error) {
	for end := time.Now().Add(temporalLag); runs == nil; {
		described, err := t.Temporal.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return nil, nil, ignoreGone(err) // the list may still have it
		}
		last := runOf(described.WorkflowExecutionInfo)
		last.Last, last.pending = true, described.PendingActivities
		last.ReportLost = slices.ContainsFunc(last.pending, reportLost)
		is := func(r Run) bool { return r.RunID == last.RunID }
		known := slices.ContainsFunc(listed, is)
		if time.Now().After(end) || known && !t.rows.behind(last) {
			runs = append(slices.DeleteFunc(listed, is), last)
			break
		}
		time.Sleep(temporalLagTry)
		if !known {
			if listed, err = t.list(ctx, fmt.Sprintf("WorkflowId = '%s'", id)); err != nil {
				return nil, nil, err
			}
		}
	}
	for i := range runs {
		events, err := t.history(ctx, runs[i])
		if ignoreGone(err) != nil {
			return nil, nil, err
		}
		if err != nil {
			continue // its history has gone meanwhile
		}
		runs[i].apply(events)
		if sampled || len(runs) > 1 && t.Histories > 0 {
			histories = append(histories, replay(runs[i], events)...)
		}
	}
	return runs, histories, nil
}

// history returns the events of a run.
func (t runReader) history(ctx context.Context, run Run) (all []*historypb.HistoryEvent, err error) {
	events := t.Temporal.GetWorkflowHistory(ctx, run.WorkflowID, run.RunID, false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// behind reports whether an open run must still learn that its row has ended, and will soon.
func (w *world) behind(run Run) bool {
	if run.Status != running {
		return false
	}
	if s := w.sessions[run.WorkflowID]; s != nil {
		return s.Status.Final() && (s.Status != checkout.StatusExpired || w.At.After(s.ExpiresAt))
	}
	d := w.deliveries[run.WorkflowID]
	return d != nil && d.Status != webhook.DeliveryPending && !run.ReportLost
}

// ignoreGone returns nil for the error of a run that Temporal has removed.
func ignoreGone(err error) error {
	if _, notFound := errors.AsType[*serviceerror.NotFound](err); notFound {
		return nil
	}
	return err
}

// Tally counts runs by status.
type Tally map[enumspb.WorkflowExecutionStatus]int64

// counts checks Temporal's counts, which operators watch. The service's own counters cannot be
// checked: they end with their processes, and many were killed.
func (w *world) counts(r *Result) {
	for _, name := range slices.Sorted(maps.Keys(w.Counted)) {
		there := w.tally(name)
		for _, status := range slices.Sorted(maps.Keys(enumspb.WorkflowExecutionStatus_name)) {
			status := enumspb.WorkflowExecutionStatus(status)
			counted := w.Counted[name][status]
			r.Checked += int(counted)
			if counted != there[status] {
				r.violated(name, "%d runs are counted as %s, and %d are", counted, status, there[status])
			}
		}
	}
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
func readCounts(ctx context.Context, s Sources, f *Facts) (err error) {
	if s.Rest == nil {
		return nil
	}
	f.Counted = map[string]Tally{}
	for _, name := range []string{contract.TypeCheckoutSession, contract.TypeWebhookDelivery} {
		for end := time.Now().Add(temporalLag); ; time.Sleep(temporalLagTry) {
			if f.Counted[name], err = askCount(ctx, s, name); err != nil {
				return err
			}
			if maps.Equal(f.Counted[name], f.tally(name)) || time.Now().After(end) {
				break
			}
		}
	}
	return nil
}

func askCount(ctx context.Context, s Sources, workflowType string) (Tally, error) {
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
