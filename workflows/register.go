package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// RegisterCheckout registers the workflows of TaskQueueCheckout.
func RegisterCheckout(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(CheckoutSession,
		workflow.RegisterOptions{Name: TypeCheckoutSession})
	r.RegisterWorkflowWithOptions(Payout, workflow.RegisterOptions{Name: TypePayout})
	r.RegisterWorkflowWithOptions(MerchantUpdate,
		workflow.RegisterOptions{Name: TypeMerchantUpdate})
	r.RegisterWorkflowWithOptions(Reconcile, workflow.RegisterOptions{Name: TypeReconcile})
	r.RegisterWorkflowWithOptions(Retention, workflow.RegisterOptions{Name: TypeRetention})
	r.RegisterWorkflowWithOptions(TreasurySync, workflow.RegisterOptions{Name: TypeTreasurySync})
	r.RegisterWorkflowWithOptions(Books, workflow.RegisterOptions{Name: TypeBooks})
}

// RegisterWebhooks registers the workflows of TaskQueueWebhooks.
func RegisterWebhooks(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(WebhookDelivery,
		workflow.RegisterOptions{Name: TypeWebhookDelivery})
	r.RegisterWorkflowWithOptions(WebhookReplay, workflow.RegisterOptions{Name: TypeWebhookReplay})
	r.RegisterWorkflowWithOptions(PictureFetch, workflow.RegisterOptions{Name: TypePictureFetch})
}
