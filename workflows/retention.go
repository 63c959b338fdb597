package workflows

import (
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/contract"
)

// Retention deletes finished deliveries and old events from the log, and what else is old by in. A
// schedule runs it every hour. It returns the number of deleted deliveries and events.
func Retention(ctx workflow.Context, in contract.RetentionInput) (int, error) {
	var (
		h       *activities.Housekeeping
		deleted int
	)
	ctx = workflow.WithActivityOptions(ctx, housekeepingOptions)
	err := workflow.ExecuteActivity(ctx, h.DeleteFinished, in).Get(ctx, &deleted)
	return deleted, err
}
