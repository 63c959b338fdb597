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
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

const (
	temporalCalls  = 8 // calls at once
	progressEvery  = 2 * time.Second
	temporalLag    = 15 * time.Second // how long Temporal's list may be behind, and a run behind its row
	temporalLagTry = 250 * time.Millisecond
)

// Run is one run of a CheckoutSession or a WebhookDelivery.
type Run struct {
	Type                string // contract.TypeCheckoutSession or contract.TypeWebhookDelivery
	WorkflowID, RunID   string
	Status              enumspb.WorkflowExecutionStatus
	StartedAt, ClosedAt time.Time // ClosedAt is zero while it runs
	Last                bool      // the last run of its id
	Parent              string    // the workflow that started it; "": none, or not known

	// Result is the status that the run returned; Failure is the type of its error. They are known
	// for the last run of an id, and if History is set.
	Result, Failure string

	// ExpiresAt is from the input of a session's run. It is known for open runs without a row.
	ExpiresAt time.Time

	// ReportLost says that the run is open and the report of its last attempt never came.
	ReportLost bool

	// History says that the whole history of a delivery's run was read, because the row alone did
	// not explain it.
	History  bool
	Sent     bool        // an attempt was started
	RetryNow []time.Time // times of the signals
}

// readTemporal reads all runs of sessions and deliveries.
func readTemporal(ctx context.Context, s Sources, f *Facts) error {
	namespace, err := s.Temporal.WorkflowService().DescribeNamespace(ctx,
		&workflowservice.DescribeNamespaceRequest{Namespace: s.Namespace})
	if err != nil {
		return err
	}
	f.RunRetention = namespace.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	return readRuns(ctx, s, f)
}

// runReader reads runs.
type runReader struct {
	Sources
	rows *world // without runs

	mu   sync.Mutex
	runs map[string][]Run // by workflow id
}

// readRuns reads all runs, by id. Temporal's list gives the runs. A question for each id gives the state of the
// workflow. The history gives the end of its last run.
func readRuns(ctx context.Context, s Sources, f *Facts) error {
	t := &runReader{Sources: s, rows: newWorld(f), runs: map[string][]Run{}}
	types := fmt.Sprintf("WorkflowType IN ('%s', '%s')", contract.TypeCheckoutSession, contract.TypeWebhookDelivery)
	if err := t.list(ctx, types); err != nil {
		return err
	}
	ids := slices.Concat(slices.Collect(maps.Keys(t.runs)), slices.Collect(maps.Keys(t.rows.sessions)),
		slices.Collect(maps.Keys(t.rows.deliveries)))
	slices.Sort(ids)
	if err := t.readAll(ctx, slices.Compact(ids)); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(t.runs)) {
		f.Runs = append(f.Runs, t.runs[id]...)
	}
	s.Progress(fmt.Sprintf("Temporal: %d runs of %d workflows", len(f.Runs), len(t.runs)))
	return nil
}

// list adds the runs that Temporal's list knows for a query.
func (t *runReader) list(ctx context.Context, query string) error {
	var page []byte
	for {
		got, err := t.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: t.Namespace, PageSize: 1000, Query: query, NextPageToken: page,
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

// put adds a run, or replaces an earlier reading of it.
func (t *runReader) put(run Run) {
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
		Type: info.GetType().GetName(), WorkflowID: info.GetExecution().GetWorkflowId(),
		RunID: info.GetExecution().GetRunId(), Status: info.GetStatus(),
		StartedAt: info.GetStartTime().AsTime(), Parent: info.GetParentExecution().GetWorkflowId(),
	}
	if info.GetCloseTime() != nil {
		run.ClosedAt = info.GetCloseTime().AsTime()
	}
	return run
}

// readAll reads the workflows with these ids, several at once, and reports its progress.
func (t *runReader) readAll(ctx context.Context, ids []string) error {
	var done atomic.Int64
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for tick := time.Tick(progressEvery); ; {
			select {
			case <-stop:
				return
			case <-tick:
				t.Progress(fmt.Sprintf("Temporal: %d of %d workflows", done.Load(), len(ids)))
			}
		}
	}()

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(temporalCalls)
	for _, id := range ids {
		group.Go(func() error {
			defer done.Add(1)
			return t.read(ctx, id)
		})
	}
	return group.Wait()
}

// read reads the state of the workflow with an id. Temporal's list and the end of a run come a
// little after the row, so read repeats the question for a while.
func (t *runReader) read(ctx context.Context, id string) error {
	for end := time.Now().Add(temporalLag); ; time.Sleep(temporalLagTry) {
		described, err := t.Temporal.DescribeWorkflowExecution(ctx, id, "")
		if _, notFound := errors.AsType[*serviceerror.NotFound](err); notFound {
			t.forget(id) // the workflow was removed, but the list still has it
			return nil
		}
		if err != nil {
			return err
		}

		last, waits := runOf(described.WorkflowExecutionInfo), time.Now().Before(end)
		behind := last.open() && t.rows.behind(&last, described.PendingActivities)
		if behind && waits {
			continue
		}
		if !t.listed(last) && waits {
			if err := t.list(ctx, fmt.Sprintf("WorkflowId = '%s'", id)); err != nil {
				return err
			}
			continue
		}
		return t.finish(ctx, last)
	}
}

// finish adds the last run of an id and reads its end.
func (t *runReader) finish(ctx context.Context, last Run) error {
	last.Last = true
	if filter, ok := t.eventsOf(last); ok {
		if err := eachEvent(ctx, t.Sources, last, filter, last.apply); ignoreGone(err) != nil {
			return err
		}
	}
	t.mu.Lock()
	t.put(last)
	runs := t.runs[last.WorkflowID]
	t.mu.Unlock()
	return t.readMore(ctx, last.WorkflowID, runs)
}

// eventsOf says which events of a last run to read: the last event of a closed run, or the first
// event of a run without a row. It returns false for no event.
func (t *runReader) eventsOf(last Run) (enumspb.HistoryEventFilterType, bool) {
	if last.open() {
		hasRow := t.rows.sessions[last.WorkflowID] != nil || t.rows.deliveries[last.WorkflowID] != nil
		return enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT, !hasRow
	}
	return enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT, true
}

// listed reports whether a run is in Temporal's list.
func (t *runReader) listed(run Run) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.runs[run.WorkflowID], func(r Run) bool { return r.RunID == run.RunID })
}

func (t *runReader) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, id)
}

// eachEvent calls do with the events of a run.
func eachEvent(
	ctx context.Context, s Sources, run Run, filter enumspb.HistoryEventFilterType, do func(*historypb.HistoryEvent),
) error {
	events := s.Temporal.GetWorkflowHistory(ctx, run.WorkflowID, run.RunID, false, filter)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return err
		}
		do(e)
	}
	return nil
}

// apply stores the facts of an event about the run's begin or end. An unreadable result stays
// unknown, which is a violation.
func (r *Run) apply(e *historypb.HistoryEvent) {
	if started := e.GetWorkflowExecutionStartedEventAttributes(); started != nil {
		var in contract.CheckoutSessionInput // a delivery's input has no ExpiresAt
		if decode(started.GetInput(), &in) == nil {
			r.ExpiresAt = in.ExpiresAt
		}
	}
	if completed := e.GetWorkflowExecutionCompletedEventAttributes(); completed != nil {
		var result struct { // fits the results of both workflow types
			Status string `json:"status"`
		}
		if decode(completed.GetResult(), &result) == nil {
			r.Result = result.Status
		}
	}
	if failed := e.GetWorkflowExecutionFailedEventAttributes(); failed != nil {
		r.Failure = failed.GetFailure().GetApplicationFailureInfo().GetType()
	}
}

func decode(payloads *commonpb.Payloads, into any) error {
	return converter.GetDefaultDataConverter().FromPayloads(payloads, into)
}

// behind reports whether an open run must still learn that its row has ended. If the run will not learn it soon, the
// reason is noted on the run.
func (w *world) behind(run *Run, pending []*workflowpb.PendingActivityInfo) bool {
	if s := w.sessions[run.WorkflowID]; s != nil {
		return s.Status.Final() && (s.Status != checkout.StatusExpired || w.At.After(s.ExpiresAt))
	}
	run.ReportLost = reportLost(pending)
	d := w.deliveries[run.WorkflowID]
	return d != nil && d.Status != webhook.DeliveryPending && !run.ReportLost
}

func (r Run) open() bool { return r.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING }

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

// ignoreGone returns nil for the error of a run that Temporal removed during the reading.
func ignoreGone(err error) error {
	if _, notFound := errors.AsType[*serviceerror.NotFound](err); notFound {
		return nil
	}
	return err
}
