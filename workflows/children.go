package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// startDelivery starts a WebhookDelivery and does not wait.
func startDelivery(
	ctx workflow.Context, options workflow.ChildWorkflowOptions, owner checkout.Owner,
	typ webhook.EventType, ref webhook.Dispatch,
) workflow.ChildWorkflowFuture {
	return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, options),
		contract.TypeWebhookDelivery, contract.NewWebhookDeliveryInput(owner, typ, ref))
}

// startDeliveries starts one WebhookDelivery for each ref and does not wait.
func startDeliveries(
	ctx workflow.Context, owner checkout.Owner, typ webhook.EventType, refs []webhook.Dispatch,
) []workflow.ChildWorkflowFuture {
	started := make([]workflow.ChildWorkflowFuture, 0, len(refs))
	for _, ref := range refs {
		started = append(started, startDelivery(ctx, deliveryOptions(owner, typ, ref), owner, typ, ref))
	}
	return started
}

// awaitStarts waits until every child has started. Without this wait, Temporal drops children that
// have not started when the parent returns, and reports no error.
func awaitStarts(ctx workflow.Context, children []workflow.ChildWorkflowFuture) error {
	for _, child := range children {
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return err
		}
	}
	return nil
}
