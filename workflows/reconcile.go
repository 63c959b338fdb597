package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
)

// ReconcileResult says what a Reconcile mended.
type ReconcileResult struct {
	activities.Restarts

	Resumed  int `json:"resumed"`
	Canceled int `json:"canceled"`
}

// Reconcile makes Temporal agree with PostgreSQL. It starts missing runs, wakes deliveries that are
// no longer on hold, and cancels the deliveries of deleted registrations. A schedule runs it every
// minute. The API also runs it after a change that affects deliveries.
func Reconcile(ctx workflow.Context) (ReconcileResult, error) {
	var (
		h      *activities.Housekeeping
		result ReconcileResult
	)
	ctx = workflow.WithActivityOptions(ctx, housekeepingOptions)
	for {
		var (
			resumedNow, canceledNow int
			round                   activities.Restarts // a fresh one: what JSON omits would stay as the round before left it
		)
		resumed := workflow.ExecuteActivity(ctx, h.ResumeParked)
		canceled := workflow.ExecuteActivity(ctx, h.CancelOrphaned)
		if err := workflow.ExecuteActivity(ctx, h.RestartOrphans, result.Restarts).Get(ctx, &round); err != nil {
			return result, err
		}
		result.Restarts = round
		if err := resumed.Get(ctx, &resumedNow); err != nil {
			return result, err
		}
		if err := canceled.Get(ctx, &canceledNow); err != nil {
			return result, err
		}
		result.Resumed, result.Canceled = result.Resumed+resumedNow, result.Canceled+canceledNow
		if !result.More {
			return result, nil
		}
		// A loss of Temporal's data takes many rounds.
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d runs started again, %d rows left to the next Reconcile.",
			result.Restarted, result.Failed))
	}
}
