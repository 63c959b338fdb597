// Package runstest replaces Temporal in tests of what starts and asks workflows.
package runstest

import (
	"context"
	"sync/atomic"

	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/contract"
)

// Temporal answers with what the test's functions return. It accepts what the test has no function for. Only an update
// and a cancellation panic then.
type Temporal struct {
	client.Client
	Start    func(client.StartWorkflowOptions) error
	Update   func(client.UpdateWorkflowOptions) error
	State    contract.SessionState  // answers updates
	Payment  contract.PaymentResult // likewise
	Signal   func(workflowID, name string) error
	Cancel   func(workflowID string) error
	Trigger  func() error
	Triggers atomic.Int32 // of the schedule of Reconcile
}

// ExecuteWorkflow returns no run.
func (d *Temporal) ExecuteWorkflow(
	_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any,
) (client.WorkflowRun, error) {
	if d.Start == nil {
		return nil, nil
	}
	return nil, d.Start(o)
}

// UpdateWorkflow returns State or Payment, whichever is asked for.
func (d *Temporal) UpdateWorkflow(
	_ context.Context, o client.UpdateWorkflowOptions,
) (client.WorkflowUpdateHandle, error) {
	return answered{d: d}, d.Update(o)
}

// SignalWorkflow drops the signal.
func (d *Temporal) SignalWorkflow(_ context.Context, workflowID, _, name string, _ any) error {
	if d.Signal == nil {
		return nil
	}
	return d.Signal(workflowID, name)
}

// CancelWorkflow returns what Cancel returns.
func (d *Temporal) CancelWorkflow(_ context.Context, workflowID, _ string) error {
	return d.Cancel(workflowID)
}

// CheckHealth says that all is well.
func (d *Temporal) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return &client.CheckHealthResponse{}, nil
}

// ScheduleClient knows one schedule, that of Reconcile.
func (d *Temporal) ScheduleClient() client.ScheduleClient { return schedule{d: d} }

type schedule struct {
	client.ScheduleClient
	client.ScheduleHandle
	d *Temporal
}

func (s schedule) GetHandle(context.Context, string) client.ScheduleHandle { return s }

func (s schedule) Trigger(context.Context, client.ScheduleTriggerOptions) error {
	s.d.Triggers.Add(1)
	if s.d.Trigger == nil {
		return nil
	}
	return s.d.Trigger()
}

type answered struct {
	client.WorkflowUpdateHandle
	d *Temporal
}

func (a answered) Get(_ context.Context, result any) error {
	switch result := result.(type) {
	case *contract.SessionState:
		*result = a.d.State
	case *contract.PaymentResult:
		*result = a.d.Payment
	}
	return nil
}
