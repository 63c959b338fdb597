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

// StartMerchantUpdate starts the run that delivers one merchant.updated event. A repeat changes
// nothing. It returns ErrOutcomeUnknown.
func (c *Client) StartMerchantUpdate(ctx context.Context, ref checkout.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                    ref.ID,
		TaskQueue:             contract.TaskQueueCheckout,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: contract.SearchAttributesOf(ref.Owner,
			contract.SearchAttributeEventType.ValueSet(string(webhook.MerchantUpdated))),
		StaticSummary: "settings of a merchant changed",
	}, contract.TypeMerchantUpdate, contract.MerchantUpdateInput{Ref: ref})
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil
	}
	return answer("start merchant update", err)
}
