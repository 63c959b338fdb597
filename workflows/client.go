package workflows

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

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
	// ErrDeliveryInProgress: the delivery has a run that has not ended.
	ErrDeliveryInProgress = errors.New("delivery in progress")
)

// callTimeout bounds every call to Temporal, so that a merchant is told within
// a few seconds that the outcome is unknown.
const callTimeout = 3 * time.Second

// ActionTimeout is how long a customer may take over 3-D Secure before the
// payment is given up.
const ActionTimeout = 10 * time.Minute

// Client is the way into the workflows for everything outside them. It knows
// their ids, messages and time-outs.
type Client struct {
	Temporal client.Client
}

// StartSession starts the session's workflow. Repeating it changes nothing. It
// returns ErrOutcomeUnknown.
func (c *Client) StartSession(ctx context.Context, s checkout.Session) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	owner := Owner{MerchantID: s.MerchantID, Mode: s.Mode}
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                    s.ID,
		TaskQueue:             TaskQueueCheckout,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: owner.searchAttributes(SearchAttributeSessionStatus.ValueSet(string(checkout.StatusPending))),
		StaticSummary:         string(s.Mode) + " session in " + string(s.Currency),
	}, TypeCheckoutSession, CheckoutSessionInput{
		Owner: owner, SessionID: s.ID, ExpiresAt: s.ExpiresAt, ActionTimeout: ActionTimeout,
	})
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil
	}
	return answer("start session", err)
}

// Pay asks the session to have the payment's card charged and waits for the
// outcome. It returns checkout.ErrNotPending, checkout.ErrPaymentInFlight,
// checkout.ErrNotFound (closed or unknown: read the row again),
// ErrPaymentNotFound and ErrOutcomeUnknown.
func (c *Client) Pay(ctx context.Context, sessionID, transactionID string) (PaymentResult, error) {
	var got PaymentResult
	return got, c.update(ctx, sessionID, UpdatePay, transactionID, &got, PayInput{transactionID})
}

// Complete asks the session to find out from the card network whether a payment
// in flight was decided. Errors as Pay.
func (c *Client) Complete(ctx context.Context, sessionID, transactionID string) (PaymentResult, error) {
	var got PaymentResult
	return got, c.update(ctx, sessionID, UpdateComplete, askAgain, &got, CompleteInput{transactionID})
}

// Expire asks the session to expire and returns the state it has then. Errors
// as Pay.
func (c *Client) Expire(ctx context.Context, sessionID string) (SessionState, error) {
	var got SessionState
	return got, c.update(ctx, sessionID, UpdateExpire, askAgain, &got)
}

// askAgain is the update id of messages that may be repeated with another
// answer: a payment that was not decided yet may be now. Pay has a fixed id, so
// that a repeat never charges again.
const askAgain = ""

// SignalComplete tells the session that the card network decided a payment,
// without waiting. It returns checkout.ErrNotFound and ErrOutcomeUnknown.
func (c *Client) SignalComplete(ctx context.Context, sessionID, transactionID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return answer("signal complete", c.Temporal.SignalWorkflow(ctx, sessionID, "", SignalComplete, CompleteInput{transactionID}))
}

// ReplayDelivery starts a new run of the delivery. It returns
// ErrDeliveryInProgress and ErrOutcomeUnknown.
func (c *Client) ReplayDelivery(ctx context.Context, d webhook.Delivery, host string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in := WebhookDeliveryInput{Owner: Owner{d.MerchantID, d.Mode}, DeliveryID: d.ID, EventType: d.EventType, Host: host}
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       d.ID,
		TaskQueue:                                TaskQueueWebhooks,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes:                    in.searchAttributes(in.searchAttribute()),
		Priority:                                 temporal.Priority{FairnessKey: d.MerchantID},
		StaticSummary:                            in.summary(),
	}, TypeWebhookDelivery, in)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return ErrDeliveryInProgress
	}
	return answer("replay delivery", err)
}

// update sends an update and waits until it is answered. The same updateID
// again returns the first answer, also after the workflow has closed.
func (c *Client) update(ctx context.Context, workflowID, name, updateID string, result any, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	handle, err := c.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflowID, UpdateID: updateID, UpdateName: name, Args: args,
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, result)
	}
	return answer(name, err)
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
