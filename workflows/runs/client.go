// Package runs is the way into the workflows for all other code. It starts, finds, signals and cancels runs in
// Temporal, and owns the time-outs of these calls. It uses the namespace of the Temporal client.
package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/singleflight"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// Errors of Client, besides those of package checkout.
var (
	// ErrOutcomeUnknown: Temporal did not answer in time. The call may take effect, now or later. Repeating it is safe.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrPaymentNotFound: the session has no such payment in flight.
	ErrPaymentNotFound = errors.New("no such payment in flight")
)

// callTimeout limits every call to Temporal. So a merchant learns within a few seconds that the outcome is unknown.
const callTimeout = 3 * time.Second

// Client is the way into the workflows for all other code. It knows their ids, messages and time-outs.
type Client struct {
	Temporal client.Client
	// Pending returns what starts the run of a session that is pending, nil for any other session. Without it a message to
	// a session that has lost its run gets checkout.ErrNotFound, and Reconcile starts the run when it is overdue.
	Pending func(ctx context.Context, sessionID string) (*contract.RunRequest, error)

	underWay singleflight.Group // updates under way, by workflow id, name and update id
}

// Open reports whether a workflow id has an open run. It returns ErrOutcomeUnknown.
func (c *Client) Open(ctx context.Context, workflowID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := c.Temporal.DescribeWorkflow(ctx, workflowID, "")
	if _, notFound := errors.AsType[*serviceerror.NotFound](err); notFound {
		return false, nil
	}
	if err != nil {
		return false, answer("describe", err)
	}
	return got.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// maxTerminated limits the result of Terminated. Reconcile finds the other runs when they are overdue.
const maxTerminated = 1000

// Terminated returns the workflow ids of runs that were terminated less than within ago. Temporal's
// list lags, so the newest may be missing. It returns ErrOutcomeUnknown.
func (c *Client) Terminated(ctx context.Context, within time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := c.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: maxTerminated, // no namespace: the client's own
		Query: fmt.Sprintf("ExecutionStatus = 'Terminated' AND CloseTime > '%s'",
			time.Now().Add(-within).UTC().Format(time.RFC3339)),
	})
	if err != nil {
		return nil, answer("list terminated", err)
	}
	ids := make([]string, 0, len(got.Executions))
	for _, run := range got.Executions {
		ids = append(ids, run.Execution.WorkflowId)
	}
	return ids, nil
}

func (c *Client) signal(ctx context.Context, workflowID, name string, arg any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return answer("signal "+name, c.Temporal.SignalWorkflow(ctx, workflowID, "", name, arg))
}

func (c *Client) cancel(ctx context.Context, workflowID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.Temporal.CancelWorkflow(ctx, workflowID, "")
	if _, already := errors.AsType[*serviceerror.CancellationAlreadyRequested](err); already {
		return nil
	}
	return answer("cancel", err)
}

// update sends an update and waits for its answer. A repeat with the same updateID returns the
// first answer, even after the workflow has closed. Concurrent calls with equal arguments share one
// call, because Temporal refuses more than ten updates of a run at a time.
func update[T any](ctx context.Context, c *Client, workflowID, name, updateID string, args ...any) (T, error) {
	got, err, _ := c.underWay.Do(fmt.Sprint(workflowID, name, updateID, args), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		var got T
		handle, err := c.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: workflowID, UpdateID: updateID, UpdateName: name, Args: args,
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = handle.Get(ctx, &got)
		}
		return got, answer(name, err)
	})
	return got.(T), err
}

// answer turns an error of Temporal into an error that callers know.
func answer(doing string, err error) error {
	if err == nil {
		return nil
	}
	var (
		refused  *temporal.ApplicationError
		notFound *serviceerror.NotFound
	)
	switch {
	case errors.As(err, &refused):
		switch refused.Type() {
		case contract.ErrTypeSessionNotPending:
			return fmt.Errorf("%s: %w", doing, checkout.ErrNotPending)
		case contract.ErrTypePaymentNotPossible:
			return fmt.Errorf("%s: %w", doing, checkout.ErrPaymentNotPossible)
		case contract.ErrTypePaymentInFlight:
			return fmt.Errorf("%s: %w", doing, checkout.ErrPaymentInFlight)
		case contract.ErrTypePaymentNotFound:
			return fmt.Errorf("%s: %w", doing, ErrPaymentNotFound)
		}
	case errors.As(err, &notFound):
		return fmt.Errorf("%s: %w", doing, checkout.ErrNotFound)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrOutcomeUnknown, err)
}
