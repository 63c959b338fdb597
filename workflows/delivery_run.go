package workflows

import (
	"cmp"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// newDelivery returns the state in which a run begins. It uses in.Continued only if Temporal
// continued the run. If an operator starts a new run with the same input, that run is a replay.
func newDelivery(ctx workflow.Context, in contract.WebhookDeliveryInput) *delivery {
	d := &delivery{
		in:       in,
		ref:      activities.DeliveryInput{Ref: in.Ref},
		retryNow: workflow.GetSignalChannel(ctx, contract.SignalRetryNow),
		resume:   workflow.GetSignalChannel(ctx, contract.SignalResume),
	}
	if in.Continued != nil && workflow.GetInfo(ctx).ContinuedExecutionRunID != "" {
		d.made, d.scheduled = in.Continued.AttemptsMade, true
		d.ref.Continues = &activities.ContinuedRun{RunID: in.Continued.RunID, By: originalRunID(ctx)}
	}
	return d
}

// continueAsNew returns the error that ends this run of Temporal and starts a new one, which
// goes on with the same run of the log.
func (d *delivery) continueAsNew(ctx workflow.Context) error {
	in := d.in
	in.Continued = &contract.ContinuedDelivery{RunID: d.runID(ctx), AttemptsMade: d.made}
	return workflow.NewContinueAsNewError(ctx, contract.TypeWebhookDelivery, in)
}

// runID returns the id of the delivery's current run in the log: the id of Temporal's run that began it.
func (d *delivery) runID(ctx workflow.Context) string {
	if d.ref.Continues != nil && !wasReset(ctx) {
		return d.ref.Continues.RunID
	}
	return workflow.GetInfo(ctx).WorkflowExecution.RunID
}

// wasReset reports whether this run began when an operator reset an earlier one.
func wasReset(ctx workflow.Context) bool {
	return originalRunID(ctx) != workflow.GetInfo(ctx).WorkflowExecution.RunID
}

// originalRunID returns the run id from before the reset; without a reset, the run's own id.
func originalRunID(ctx workflow.Context) string {
	info := workflow.GetInfo(ctx)
	return cmp.Or(info.OriginalRunID, info.WorkflowExecution.RunID)
}

// record runs an activity that notes an outcome. A cancel by an operator does not stop it.
func record(ctx workflow.Context, activity, input, result any) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, recordOptions), activity, input).Get(ctx, result)
}

// drop reads and ignores the waiting signals, and reports whether there were any.
func drop(signals workflow.ReceiveChannel) (came bool) {
	for signals.ReceiveAsync(nil) {
		came = true
	}
	return came
}

// errWithoutRow ends a run whose delivery has no row in PostgreSQL.
var errWithoutRow = temporal.NewNonRetryableApplicationError(
	"no such delivery", contract.ErrTypeDeliveryWithoutRow, nil)

// canceledUnlessDelivered returns the status after a cancel. If the receiver accepted the event
// before the cancel, the status is delivered.
func canceledUnlessDelivered(status webhook.DeliveryStatus) webhook.DeliveryStatus {
	if status == webhook.DeliveryDelivered {
		return status
	}
	return webhook.DeliveryCanceled
}

// permanentlyFailed marks the run as failed in Temporal's search attributes. It returns the error
// that ends the run; cause is the error of the last attempt.
func permanentlyFailed(ctx workflow.Context, cause error) error {
	failed := contract.SearchAttributeDeliveryStatus.ValueSet(string(webhook.DeliveryFailed))
	if err := workflow.UpsertTypedSearchAttributes(ctx, failed); err != nil {
		return err
	}
	return temporal.NewNonRetryableApplicationError(
		"every attempt failed", contract.ErrTypeDeliveryPermanentlyFailed, cause)
}
