package workflows

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
	"example.com/checkout/workflows/webhook"
)

// Errors of Client, besides those of package checkout.
var (
	// ErrOutcomeUnknown: Temporal did not answer in time. The call may have
	// taken effect, now or later; repeating it is safe.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrPaymentNotFound: the session has no such payment in flight.
	ErrPaymentNotFound = errors.New("no such payment in flight")
)

// callTimeout bounds every call to Temporal, so that a merchant is told within
// a few seconds that the outcome is unknown.
const callTimeout = 3 * time.Second

// ActionTimeout is how long a customer may take over 3-D Secure before the
// payment is given up.
const ActionTimeout = 10 * time.Minute

// Client is the way into the workflows for everything outside them. It knows
// their ids, messages and time-outs. The namespace is that of Temporal.
type Client struct {
	Temporal client.Client

	underWay singleflight.Group // updates
}

// StartSession starts the workflow of a session that is being created. A run
// that is there already is of an earlier try whose row was rolled back; it has
// another time of expiry and is replaced. It returns ErrOutcomeUnknown.
func (c *Client) StartSession(ctx context.Context, s checkout.Session) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       s.ID,
		TaskQueue:                TaskQueueCheckout,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING,
		TypedSearchAttributes:    searchAttributes(s.Owner, SearchAttributeSessionStatus.ValueSet(string(checkout.StatusPending))),
		StaticSummary:            string(s.Mode) + " session in " + string(s.Currency),
	}, TypeCheckoutSession, CheckoutSessionInput{
		Ref: s.Ref, ExpiresAt: s.ExpiresAt, ActionTimeout: ActionTimeout,
	})
	return answer("start session", err)
}

// Pay asks the session to have the payment's card charged and waits for the
// outcome. It returns checkout.ErrNotPending, checkout.ErrPaymentInFlight,
// checkout.ErrNotFound (closed or unknown: read the row again),
// ErrPaymentNotFound and ErrOutcomeUnknown.
func (c *Client) Pay(ctx context.Context, sessionID, transactionID string) (PaymentResult, error) {
	return update[PaymentResult](ctx, c, sessionID, UpdatePay, transactionID, PayInput{transactionID})
}

// Complete asks the session to find out from the card network whether a payment
// in flight was decided. Errors as Pay.
func (c *Client) Complete(ctx context.Context, sessionID, transactionID string) (PaymentResult, error) {
	return update[PaymentResult](ctx, c, sessionID, UpdateComplete, askAgain, CompleteInput{transactionID})
}

// Expire asks the session to expire and returns the state it has then. Errors
// as Pay.
func (c *Client) Expire(ctx context.Context, sessionID string) (SessionState, error) {
	return update[SessionState](ctx, c, sessionID, UpdateExpire, askAgain)
}

// Advance asks a test session to behave as if its time were over and returns
// the state it has then. Errors as Pay.
func (c *Client) Advance(ctx context.Context, sessionID string) (SessionState, error) {
	return update[SessionState](ctx, c, sessionID, UpdateAdvance, askAgain)
}

// askAgain is the update id of messages that may be repeated with another
// answer: a payment that was not decided yet may be now. Pay has a fixed id, so
// that a repeat never charges again.
const askAgain = ""

// SignalComplete tells the session that the card network decided a payment,
// without waiting. It returns checkout.ErrNotFound and ErrOutcomeUnknown.
func (c *Client) SignalComplete(ctx context.Context, sessionID, transactionID string) error {
	return c.signal(ctx, sessionID, SignalComplete, CompleteInput{transactionID})
}

// ReplayDelivery starts a new run of a delivery that has ended. It returns
// webhook.ErrDeliveryInProgress and ErrOutcomeUnknown.
func (c *Client) ReplayDelivery(ctx context.Context, d webhook.Delivery) error {
	err := c.startDelivery(ctx, d.Owner, d.EventType, d.Dispatch(), enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return webhook.ErrDeliveryInProgress
	}
	return answer("replay delivery", err)
}

// StartDelivery starts the first run of a delivery. Repeating it changes
// nothing. It returns ErrOutcomeUnknown.
func (c *Client) StartDelivery(ctx context.Context, e webhook.Event, ref webhook.Dispatch) error {
	err := c.startDelivery(ctx, e.Owner, e.Type, ref, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil
	}
	return answer("start delivery", err)
}

func (c *Client) startDelivery(ctx context.Context, owner checkout.Owner, typ webhook.EventType, ref webhook.Dispatch, reuse enumspb.WorkflowIdReusePolicy) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in := deliveryInput(owner, typ, ref)
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       ref.ID,
		TaskQueue:                                TaskQueueWebhooks,
		WorkflowIDReusePolicy:                    reuse,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes:                    searchAttributes(owner, in.searchAttribute()),
		Priority:                                 temporal.Priority{FairnessKey: owner.MerchantID},
		StaticSummary:                            in.summary(),
	}, TypeWebhookDelivery, in)
	return err
}

// StartMerchantUpdate starts the deliveries of a change of a merchant's settings.
// Repeating it changes nothing. It returns ErrOutcomeUnknown.
func (c *Client) StartMerchantUpdate(ctx context.Context, ref checkout.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                    ref.ID,
		TaskQueue:             TaskQueueCheckout,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: searchAttributes(ref.Owner, SearchAttributeEventType.ValueSet(string(webhook.MerchantUpdated))),
		StaticSummary:         "settings of a merchant changed",
	}, TypeMerchantUpdate, MerchantUpdateInput{Ref: ref})
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil
	}
	return answer("start merchant update", err)
}

// RetryNow makes a waiting delivery's next attempt at once. It returns
// checkout.ErrNotFound (it has no run) and ErrOutcomeUnknown.
func (c *Client) RetryNow(ctx context.Context, deliveryID string) error {
	return c.signal(ctx, deliveryID, SignalRetryNow, nil)
}

// ResumeDelivery wakes a parked delivery; another takes no notice. Errors as
// RetryNow.
func (c *Client) ResumeDelivery(ctx context.Context, deliveryID string) error {
	return c.signal(ctx, deliveryID, SignalResume, nil)
}

// CancelDelivery cancels a delivery's run, which ends its row. Errors as
// RetryNow.
func (c *Client) CancelDelivery(ctx context.Context, deliveryID string) error {
	return c.cancel(ctx, deliveryID)
}

// StartReplay starts a bulk replay. Repeating it changes nothing. It returns
// ErrOutcomeUnknown.
func (c *Client) StartReplay(ctx context.Context, r webhook.Replay) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                    r.ID,
		TaskQueue:             TaskQueueWebhooks,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: searchAttributes(r.Owner),
		StaticSummary:         "bulk replay of " + r.EndpointID,
	}, TypeWebhookReplay, WebhookReplayInput{Ref: r.Ref})
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil
	}
	return answer("start replay", err)
}

// CancelReplay stops a bulk replay; what it has started goes on. Errors as
// RetryNow.
func (c *Client) CancelReplay(ctx context.Context, replayID string) error {
	return c.cancel(ctx, replayID)
}

// Open reports whether a workflow id has a run that has not ended. It returns
// ErrOutcomeUnknown.
func (c *Client) Open(ctx context.Context, workflowID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := c.Temporal.DescribeWorkflow(ctx, workflowID, "")
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return false, nil
	}
	if err != nil {
		return false, answer("describe", err)
	}
	return got.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// maxTerminated bounds Terminated; whoever terminates more waits for the rest
// until it is overdue.
const maxTerminated = 1000

// Terminated returns the ids whose runs were terminated in the last while, as
// far as Temporal's list, which lags, knows. It returns ErrOutcomeUnknown.
func (c *Client) Terminated(ctx context.Context, within time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := c.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: maxTerminated, // in the client's own namespace, as nothing else is said
		Query:    fmt.Sprintf("ExecutionStatus = 'Terminated' AND CloseTime > '%s'", time.Now().Add(-within).UTC().Format(time.RFC3339)),
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
	var already *serviceerror.CancellationAlreadyRequested
	if errors.As(err, &already) {
		return nil
	}
	return answer("cancel", err)
}

// update sends an update and waits until it is answered. The same updateID
// again returns the first answer, also after the workflow has closed. Those who
// ask for the same at once get one answer: Temporal takes ten updates of a run
// at a time, and refuses more.
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

// answer turns Temporal's error into one that callers know.
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
		case ErrTypeSessionNotPending:
			return fmt.Errorf("%s: %w", doing, checkout.ErrNotPending)
		case ErrTypePaymentInFlight:
			return fmt.Errorf("%s: %w", doing, checkout.ErrPaymentInFlight)
		case ErrTypePaymentNotFound:
			return fmt.Errorf("%s: %w", doing, ErrPaymentNotFound)
		}
	case errors.As(err, &notFound):
		return fmt.Errorf("%s: %w", doing, checkout.ErrNotFound)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrOutcomeUnknown, err)
}
