package runs

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

// StartSession starts the workflow of a session that is being created. A run
// that is there already is of an earlier try whose row was rolled back; it has
// another time of expiry and is replaced. It returns ErrOutcomeUnknown.
func (c *Client) StartSession(ctx context.Context, s checkout.Session) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       s.ID,
		TaskQueue:                workflows.TaskQueueCheckout,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING,
		TypedSearchAttributes:    workflows.SearchAttributesOf(s.Owner, workflows.SearchAttributeSessionStatus.ValueSet(string(checkout.StatusPending))),
		StaticSummary:            string(s.Mode) + " session in " + string(s.Currency),
	}, workflows.TypeCheckoutSession, workflows.CheckoutSessionInput{
		Ref: s.Ref, ExpiresAt: s.ExpiresAt, ActionTimeout: workflows.ActionTimeout,
	})
	return answer("start session", err)
}

// Pay asks the session to have the payment's card charged and waits for the
// outcome. It returns checkout.ErrNotPending, checkout.ErrPaymentInFlight,
// checkout.ErrNotFound (closed or unknown: read the row again),
// ErrPaymentNotFound and ErrOutcomeUnknown.
func (c *Client) Pay(ctx context.Context, sessionID, transactionID string) (workflows.PaymentResult, error) {
	return update[workflows.PaymentResult](ctx, c, sessionID, workflows.UpdatePay, transactionID, workflows.PayInput{TransactionID: transactionID})
}

// Complete asks the session to find out from the card network whether a payment
// in flight was decided. Errors as Pay.
func (c *Client) Complete(ctx context.Context, sessionID, transactionID string) (workflows.PaymentResult, error) {
	return update[workflows.PaymentResult](ctx, c, sessionID, workflows.UpdateComplete, askAgain, workflows.CompleteInput{TransactionID: transactionID})
}

// Expire asks the session to expire and returns the state it has then. Errors
// as Pay.
func (c *Client) Expire(ctx context.Context, sessionID string) (workflows.SessionState, error) {
	return update[workflows.SessionState](ctx, c, sessionID, workflows.UpdateExpire, askAgain)
}

// Advance asks a test session to behave as if its time were over and returns
// the state it has then. Errors as Pay.
func (c *Client) Advance(ctx context.Context, sessionID string) (workflows.SessionState, error) {
	return update[workflows.SessionState](ctx, c, sessionID, workflows.UpdateAdvance, askAgain)
}

// askAgain is the update id of messages that may be repeated with another
// answer: a payment that was not decided yet may be now. Pay has a fixed id, so
// that a repeat never charges again.
const askAgain = ""

// SignalComplete tells the session that the card network decided a payment,
// without waiting. It returns checkout.ErrNotFound and ErrOutcomeUnknown.
func (c *Client) SignalComplete(ctx context.Context, sessionID, transactionID string) error {
	return c.signal(ctx, sessionID, workflows.SignalComplete, workflows.CompleteInput{TransactionID: transactionID})
}
