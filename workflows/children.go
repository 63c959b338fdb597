package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/workflows/webhook"
)

// startDeliveries starts one WebhookDelivery for each ref and does not wait.
func startDeliveries(ctx workflow.Context, owner Owner, typ webhook.EventType, refs []webhook.DeliveryRef) []workflow.ChildWorkflowFuture {
	started := make([]workflow.ChildWorkflowFuture, 0, len(refs))
	for _, ref := range refs {
		in := WebhookDeliveryInput{Owner: owner, DeliveryID: ref.ID, EventType: typ, Host: ref.Host}
		child := workflow.WithChildOptions(ctx, childOptions(ref.ID, TaskQueueWebhooks, in.summary(), owner, in.searchAttribute()))
		started = append(started, workflow.ExecuteChildWorkflow(child, TypeWebhookDelivery, in))
	}
	return started
}

// startPayout starts the Payout child and does not wait.
func startPayout(ctx workflow.Context, owner Owner, payoutID string) workflow.ChildWorkflowFuture {
	child := workflow.WithChildOptions(ctx, childOptions(payoutID, TaskQueueCheckout, "payout", owner))
	return workflow.ExecuteChildWorkflow(child, TypePayout, PayoutInput{Owner: owner, PayoutID: payoutID})
}

// awaitStarts waits until every child exists. Without it a parent that returns
// takes the children with it before they were ever started, and no error tells.
func awaitStarts(ctx workflow.Context, children []workflow.ChildWorkflowFuture) error {
	for _, child := range children {
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return err
		}
	}
	return nil
}
