package runs

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// ReplayDelivery starts a new run of a delivery that has ended. It returns
// webhook.ErrDeliveryInProgress and ErrOutcomeUnknown.
func (c *Client) ReplayDelivery(ctx context.Context, d webhook.Delivery) error {
	err := c.startDelivery(ctx, d.Owner, d.EventType, d.Dispatch(), enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return webhook.ErrDeliveryInProgress
	}
	return answer("replay delivery", err)
}

// StartDelivery starts the first run of a delivery. A repeat changes nothing. It returns
// ErrOutcomeUnknown.
func (c *Client) StartDelivery(ctx context.Context, e webhook.Event, ref webhook.Dispatch) error {
	err := c.startDelivery(ctx, e.Owner, e.Type, ref, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil
	}
	return answer("start delivery", err)
}

func (c *Client) startDelivery(
	ctx context.Context, owner checkout.Owner, typ webhook.EventType, ref webhook.Dispatch,
	reuse enumspb.WorkflowIdReusePolicy,
) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in := contract.NewWebhookDeliveryInput(owner, typ, ref)
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       ref.ID,
		TaskQueue:                                contract.TaskQueueWebhooks,
		WorkflowIDReusePolicy:                    reuse,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes:                    contract.SearchAttributesOf(owner, in.SearchAttribute()),
		Priority:                                 temporal.Priority{FairnessKey: owner.MerchantID},
		StaticSummary:                            in.Summary(), StaticDetails: in.Details(),
	}, contract.TypeWebhookDelivery, in)
	return err
}

// RetryNow makes the next attempt of a waiting delivery at once. It returns checkout.ErrNotFound
// when the delivery has no run, and ErrOutcomeUnknown.
func (c *Client) RetryNow(ctx context.Context, deliveryID string) error {
	return c.signal(ctx, deliveryID, contract.SignalRetryNow, nil)
}

// ResumeDelivery wakes a parked delivery; a delivery that is not parked ignores it. It returns the
// errors of RetryNow.
func (c *Client) ResumeDelivery(ctx context.Context, deliveryID string) error {
	return c.signal(ctx, deliveryID, contract.SignalResume, nil)
}

// CancelDelivery cancels a delivery's run, and the run ends the row. It returns the errors of
// RetryNow.
func (c *Client) CancelDelivery(ctx context.Context, deliveryID string) error {
	return c.cancel(ctx, deliveryID)
}
