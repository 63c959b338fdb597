package workflows

import (
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/contract"
)

// TreasurySync is one round of a mode's treasury. It follows the signed transfers: it sends them again, raises fees,
// notes what is final, and freezes an account with an outflow that is not ours. On Bitcoin it signs the next batch too.
// A schedule for each mode runs it every few seconds, one run at a time.
func TreasurySync(ctx workflow.Context, in contract.ModeInput) (activities.TreasuryResult, error) {
	var (
		t      *activities.Treasury
		result activities.TreasuryResult
	)
	ctx = workflow.WithActivityOptions(ctx, followOptions)
	if err := workflow.ExecuteActivity(ctx, t.SyncTreasury, in).Get(ctx, &result); err != nil {
		return result, err
	}
	var started []workflow.ChildWorkflowFuture
	for _, p := range result.Failed {
		started = append(started, startDeliveries(ctx, p.Owner, p.EventType, p.Deliveries)...)
	}
	return result, awaitStarts(ctx, started)
}
