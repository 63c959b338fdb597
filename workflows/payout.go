package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/treasury"
)

// sendPayout sends the payout within a workflow task of its session. Most transfers of the sandbox succeed at once,
// so most need no workflow of their own. The customer's answer waits for the try, a second at most, because it leaves
// at the end of the task. sendPayout starts a Payout when the try fails. A payout in live mode always has a Payout:
// the customer's answer does not wait for nodes. It returns the started children, without waiting for them.
func sendPayout(ctx workflow.Context, in checkout.Ref) []workflow.ChildWorkflowFuture {
	if !in.Mode.Live() {
		var (
			a    *activities.Payments
			next activities.FollowUp
		)
		options := workflow.WithLocalActivityOptions(ctx, sendPayoutOptions(in.ID))
		err := workflow.ExecuteLocalActivity(options, a.SendSandboxPayout, in).Get(ctx, &next)
		if err == nil {
			return startDeliveries(ctx, in.Owner, next.EventType, next.Deliveries)
		}
	}
	child := workflow.WithChildOptions(ctx, payoutOptions(in.Owner, in.ID))
	return []workflow.ChildWorkflowFuture{workflow.ExecuteChildWorkflow(child, contract.TypePayout, in)}
}

// Payout sends the crypto payout of a completed session: every payout on a real chain, and one of the sandbox that
// the session could not send at once. It tells the merchant: payout.sent or payout.failed. Source: api/interface.md,
// "Event types".
//
// A payout on a real chain may have to wait, for example until the treasury is topped up or a node is back. The run
// then ends, because a run that waits for days would pin its build. Reconcile starts the payout again.
func Payout(ctx workflow.Context, in checkout.Ref) (contract.PayoutResult, error) {
	var (
		a    *activities.Payments
		sent treasury.TransferOutcome
	)

	// A signed transfer may reach the chain at any time, so an operator's cancel must not stop the run.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	once := workflow.WithLocalActivityOptions(ctx, sendPayoutOptions(in.ID))
	err := workflow.ExecuteLocalActivity(once, a.BroadcastPayout, in).Get(ctx, &sent)
	if err != nil && !isType(err, contract.ErrTypePayoutNotFound) {
		repeated := workflow.WithActivityOptions(ctx, broadcastOptions)
		err = workflow.ExecuteActivity(repeated, a.BroadcastPayout, in).Get(ctx, &sent)
	}
	if err != nil && !isType(err, contract.ErrTypePayoutNotFound) {
		decide := workflow.WithLocalActivityOptions(ctx, decideOptions)
		err = workflow.ExecuteLocalActivity(decide, a.HoldPayout, in).Get(ctx, &sent)
	}
	if isType(err, contract.ErrTypePayoutNotFound) {
		return contract.PayoutResult{}, temporal.NewNonRetryableApplicationError("no such payout",
			contract.ErrTypePayoutWithoutRow, nil)
	}
	if err != nil {
		return contract.PayoutResult{}, err
	}
	if sent.Held != "" {
		workflow.SetCurrentDetails(ctx, "The payout waits: "+string(sent.Held)+".")
		return contract.PayoutResult{Held: sent.Held}, nil
	}

	var next activities.FollowUp
	finish := activities.FinishPayoutInput{Ref: in, Failure: sent.Failure, Generation: sent.Generation}
	if err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, decideOptions),
		a.FinishPayout, finish).Get(ctx, &next); err != nil {
		return contract.PayoutResult{}, err
	}
	return contract.PayoutResult{Failure: sent.Failure},
		awaitStarts(ctx, startDeliveries(ctx, in.Owner, next.EventType, next.Deliveries))
}
