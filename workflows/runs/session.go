package runs

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

// StartSession starts the workflow of a session that is being created. It replaces an open run with
// the same id: such a run belongs to an earlier try whose row was rolled back, and has another
// expiry time. It returns ErrOutcomeUnknown.
func (c *Client) StartSession(ctx context.Context, s checkout.Session) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       s.ID,
		TaskQueue:                workflows.TaskQueueCheckout,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING,
		TypedSearchAttributes: workflows.SearchAttributesOf(s.Owner,
			workflows.SearchAttributeSessionStatus.ValueSet(string(checkout.StatusPending))),
		StaticSummary: string(s.Mode) + " session in " + string(s.Currency),
	}, workflows.TypeCheckoutSession, workflows.CheckoutSessionInput{
		Ref: s.Ref, ExpiresAt: s.ExpiresAt, ActionTimeout: workflows.ActionTimeout,
	})
	return answer("start session", err)
}

// Pay asks the session to charge the card of the payment and waits for the outcome. It returns
// checkout.ErrNotPending, checkout.ErrPaymentInFlight, ErrPaymentNotFound and ErrOutcomeUnknown. It
// returns checkout.ErrNotFound when the run is closed or unknown; the caller reads the row again.
func (c *Client) Pay(
	ctx context.Context, sessionID, transactionID string,
) (workflows.PaymentResult, error) {
	return update[workflows.PaymentResult](ctx, c, sessionID, workflows.UpdatePay, transactionID,
		workflows.PayInput{TransactionID: transactionID})
}

// Complete asks the session to look up a payment in flight at the card network. It returns the
// errors of Pay.
func (c *Client) Complete(
	ctx context.Context, sessionID, transactionID string,
) (workflows.PaymentResult, error) {
	return update[workflows.PaymentResult](ctx, c, sessionID, workflows.UpdateComplete, askAgain,
		workflows.CompleteInput{TransactionID: transactionID})
}

// Expire asks the session to expire and returns its state afterwards. It returns the errors of Pay.
func (c *Client) Expire(ctx context.Context, sessionID string) (workflows.SessionState, error) {
	return update[workflows.SessionState](ctx, c, sessionID, workflows.UpdateExpire, askAgain)
}

// Advance asks a test session to act as if its time were over and returns its state afterwards. It
// returns the errors of Pay.
func (c *Client) Advance(ctx context.Context, sessionID string) (workflows.SessionState, error) {
	return update[workflows.SessionState](ctx, c, sessionID, workflows.UpdateAdvance, askAgain)
}

// askAgain is the update id of messages whose repeat may get a new answer: an undecided payment may
// be decided by then. Pay has a fixed update id, so that a repeat never charges again.
const askAgain = ""

// SignalComplete tells the session that the card network decided a payment. It does not wait for an
// outcome. It returns checkout.ErrNotFound and ErrOutcomeUnknown.
func (c *Client) SignalComplete(ctx context.Context, sessionID, transactionID string) error {
	return c.signal(ctx, sessionID, workflows.SignalComplete,
		workflows.CompleteInput{TransactionID: transactionID})
}
