package workflows

import (
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// Refund gives money of a payment back to the card and tells the merchant: refund.succeeded or refund.failed. It ends
// when the card network does not answer for some minutes, and when the bank has not decided: a run that waits for days
// would pin its build. Reconcile starts the refund again. A report of a later change starts it again, too.
func Refund(ctx workflow.Context, in checkout.Ref) (contract.RefundResult, error) {
	var (
		a   *activities.Payments
		got activities.SendRefundResult
	)
	// The network may have taken the refund, so an operator's cancel must not stop the run.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, refundOptions), a.SendRefund, in).Get(ctx, &got)
	if isType(err, contract.ErrTypeRefundNotFound) {
		return contract.RefundResult{}, err
	}
	if err != nil {
		got.Waits = contract.RefundWaitsNetwork
		decide := workflow.WithLocalActivityOptions(ctx, decideOptions)
		if err := workflow.ExecuteLocalActivity(decide, a.PostponeRefund, in).Get(ctx, nil); err != nil {
			return contract.RefundResult{}, err
		}
	}
	if got.Waits != "" {
		workflow.SetCurrentDetails(ctx, "The refund waits: "+string(got.Waits)+".")
	}
	return contract.RefundResult{Status: got.Status, Waits: got.Waits},
		awaitStarts(ctx, startDeliveries(ctx, in.Owner, got.EventType, got.Deliveries))
}
