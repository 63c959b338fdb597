package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// RegisterCheckout registers the workflows of TaskQueueCheckout.
func RegisterCheckout(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(CheckoutSession, workflow.RegisterOptions{Name: TypeCheckoutSession})
	r.RegisterWorkflowWithOptions(Payout, workflow.RegisterOptions{Name: TypePayout})
}

// RegisterWebhooks registers the workflows of TaskQueueWebhooks.
func RegisterWebhooks(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(WebhookDelivery, workflow.RegisterOptions{Name: TypeWebhookDelivery})
}
