package invariant

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"example.com/checkout/workflows/contract"
)

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
