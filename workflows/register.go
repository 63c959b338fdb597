// Package workflows holds the Temporal workflows of the service. They are deterministic and do no
// I/O; activities do. Their names, inputs and results are in package contract.
package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/workflows/contract"
)

// RegisterCheckout registers the workflows of TaskQueueCheckout.
func RegisterCheckout(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(CheckoutSession,
		workflow.RegisterOptions{Name: contract.TypeCheckoutSession})
	r.RegisterWorkflowWithOptions(Payout, workflow.RegisterOptions{Name: contract.TypePayout})
	r.RegisterWorkflowWithOptions(Refund, workflow.RegisterOptions{Name: contract.TypeRefund})
	r.RegisterWorkflowWithOptions(DisputeEvidence,
		workflow.RegisterOptions{Name: contract.TypeDisputeEvidence})
	r.RegisterWorkflowWithOptions(MerchantUpdate,
		workflow.RegisterOptions{Name: contract.TypeMerchantUpdate})
	r.RegisterWorkflowWithOptions(Reconcile, workflow.RegisterOptions{Name: contract.TypeReconcile})
	r.RegisterWorkflowWithOptions(Retention, workflow.RegisterOptions{Name: contract.TypeRetention})
	r.RegisterWorkflowWithOptions(TreasurySync, workflow.RegisterOptions{Name: contract.TypeTreasurySync})
	r.RegisterWorkflowWithOptions(Books, workflow.RegisterOptions{Name: contract.TypeBooks})
}

// RegisterWebhooks registers the workflows of TaskQueueWebhooks.
func RegisterWebhooks(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(WebhookDelivery,
		workflow.RegisterOptions{Name: contract.TypeWebhookDelivery})
	r.RegisterWorkflowWithOptions(WebhookReplay, workflow.RegisterOptions{Name: contract.TypeWebhookReplay})
	r.RegisterWorkflowWithOptions(PictureFetch, workflow.RegisterOptions{Name: contract.TypePictureFetch})
}
