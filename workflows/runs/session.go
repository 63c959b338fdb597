package runs

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// StartSession starts the workflow of a session that is being created. It replaces an open run with the same id: such a
// run belongs to an earlier try whose row was rolled back, and has another expiry time. It returns ErrOutcomeUnknown.
func (c *Client) StartSession(ctx context.Context, s checkout.Session) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       s.ID,
		TaskQueue:                contract.TaskQueueCheckout,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING,
		TypedSearchAttributes: contract.SearchAttributesOf(s.Owner,
			contract.SearchAttributeSessionStatus.ValueSet(string(checkout.StatusPending))),
		StaticSummary: string(s.Mode) + " session in " + string(s.Currency),
	}, contract.TypeCheckoutSession,
		contract.CheckoutSessionInput{Ref: s.Ref, ExpiresAt: s.ExpiresAt, ActionTimeout: contract.ActionTimeout})
	return answer("start session", err)
}

// askSession sends an update to a session. When the session has no open run although it is pending, as
// after the loss of Temporal, it starts the run again first. A run ends only after its session's row has
// ended, so a row that is pending afterwards has lost its run.
func askSession[T any](ctx context.Context, c *Client, sessionID, name, updateID string, args ...any) (T, error) {
	got, err := update[T](ctx, c, sessionID, name, updateID, args...)
	if c.Pending == nil || !errors.Is(err, checkout.ErrNotFound) {
		return got, err
	}
	lost, findErr := c.Pending(ctx, sessionID)
	if findErr != nil || lost == nil {
		return got, err
	}
	if _, err := c.StartRun(ctx, *lost, true); err != nil {
		return got, err
	}
	return update[T](ctx, c, sessionID, name, updateID, args...)
}

// Pay asks the session to charge the card of the payment and waits for the outcome. It returns
// checkout.ErrNotPending, checkout.ErrPaymentInFlight, ErrPaymentNotFound and ErrOutcomeUnknown. It
// returns checkout.ErrNotFound when the run is closed or unknown; the caller reads the row again.
func (c *Client) Pay(ctx context.Context, sessionID, transactionID string) (contract.PaymentResult, error) {
	return askSession[contract.PaymentResult](ctx, c, sessionID, contract.UpdatePay, transactionID,
		contract.PayInput{TransactionID: transactionID})
}

// Complete asks the session to look up a payment in flight at the card network. It returns the errors of Pay.
func (c *Client) Complete(ctx context.Context, sessionID, transactionID string) (contract.PaymentResult, error) {
	return askSession[contract.PaymentResult](ctx, c, sessionID, contract.UpdateComplete, askAgain,
		contract.CompleteInput{TransactionID: transactionID})
}

// Expire asks the session to expire and returns its state afterwards. It returns the errors of Pay.
func (c *Client) Expire(ctx context.Context, sessionID string) (contract.SessionState, error) {
	return askSession[contract.SessionState](ctx, c, sessionID, contract.UpdateExpire, askAgain)
}

// Advance asks a test session to act as if its time were over and returns its state afterwards. It
// returns the errors of Pay.
func (c *Client) Advance(ctx context.Context, sessionID string) (contract.SessionState, error) {
	return askSession[contract.SessionState](ctx, c, sessionID, contract.UpdateAdvance, askAgain)
}

// askAgain is the update id of messages whose repeat may get a new answer: an undecided payment may
// be decided by then. Pay has a fixed update id, so that a repeat never charges again.
const askAgain = ""

// SignalComplete tells the session that the card network decided a payment. It does not wait for an
// outcome. It returns checkout.ErrNotFound and ErrOutcomeUnknown.
func (c *Client) SignalComplete(ctx context.Context, sessionID, transactionID string) error {
	return c.signal(ctx, sessionID, contract.SignalComplete, contract.CompleteInput{TransactionID: transactionID})
}
