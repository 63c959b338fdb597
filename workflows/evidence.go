package workflows

import (
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// DisputeEvidence sends a merchant's evidence about a dispute to the card network. It ends when the network does not
// answer for some minutes: a run that waits for days would pin its build. Reconcile starts it again. What the bank
// decides comes with the network's reports.
func DisputeEvidence(ctx workflow.Context, in checkout.Ref) (result contract.EvidenceResult, _ error) {
	var a *activities.Payments
	// The network may have taken the evidence, so an operator's cancel must not stop the run.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	sent := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, evidenceOptions), a.SendEvidence, in)
	if sent.Get(ctx, &result.Failure) != nil {
		workflow.SetCurrentDetails(ctx, "The evidence waits: the card network does not answer.")
		result.Waits = true
	}
	return result, nil
}
