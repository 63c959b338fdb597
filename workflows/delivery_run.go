package workflows

import (
	"cmp"
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// WebhookDeliveryInput names the delivery; what is sent and where is read from
// PostgreSQL, so that a new run with the same input is a replay.
type WebhookDeliveryInput struct {
	checkout.Ref

	EventType  webhook.EventType `json:"event_type"`
	EndpointID string            `json:"endpoint_id,omitempty"`
	Host       string            `json:"host"` // of the address, for operators' eyes
	// Continued is where an earlier run left off whose history had grown long;
	// nil: this one begins with attempt 1.
	Continued *ContinuedDelivery `json:"continued,omitempty"`
}

// ContinuedDelivery is what a run needs to go on with the attempts of another.
type ContinuedDelivery struct {
	RunID string `json:"run_id"` // that began the run of the delivery's log
	Made  int    `json:"made,omitempty"`
}

// WebhookDeliveryResult says how a run ended that did not fail.
type WebhookDeliveryResult struct {
	Status webhook.DeliveryStatus `json:"status"` // delivered or canceled; of a replay whose endpoint is gone, what it was
}

// Summary is what lists in Temporal's UI show of the run.
func (in WebhookDeliveryInput) Summary() string { return string(in.EventType) + " to " + in.Host }

// SearchAttribute is what the run is found by besides its owner.
func (in WebhookDeliveryInput) SearchAttribute() temporal.SearchAttributeUpdate {
	return SearchAttributeEventType.ValueSet(string(in.EventType))
}

// newDelivery is the state in which a run begins. A copy that an operator starts of
// a run that went on with another's attempts is a replay.
func newDelivery(ctx workflow.Context, in WebhookDeliveryInput) *delivery {
	d := &delivery{
		in:       in,
		ref:      activities.DeliveryInput{Ref: in.Ref},
		retryNow: workflow.GetSignalChannel(ctx, SignalRetryNow),
		resume:   workflow.GetSignalChannel(ctx, SignalResume),
	}
	if in.Continued != nil && workflow.GetInfo(ctx).ContinuedExecutionRunID != "" {
		d.made, d.scheduled = in.Continued.Made, true
		d.ref.Continues = &activities.ContinuedRun{RunID: in.Continued.RunID, By: originalRunID(ctx)}
	}
	return d
}

// continueAsNew lets a new run of Temporal's go on with the same run of the log.
func (d *delivery) continueAsNew(ctx workflow.Context) error {
	in := d.in
	in.Continued = &ContinuedDelivery{RunID: d.runID(ctx), Made: d.made}
	return workflow.NewContinueAsNewError(ctx, TypeWebhookDelivery, in)
}

// runID names the run of the delivery's log that this run makes.
func (d *delivery) runID(ctx workflow.Context) string {
	if d.ref.Continues != nil && !wasReset(ctx) {
		return d.ref.Continues.RunID
	}
	return workflow.GetInfo(ctx).WorkflowExecution.RunID
}

// wasReset reports whether an operator reset a run, and this is the new one.
func wasReset(ctx workflow.Context) bool {
	return originalRunID(ctx) != workflow.GetInfo(ctx).WorkflowExecution.RunID
}

// originalRunID is of the run that this one was before it was reset.
func originalRunID(ctx workflow.Context) string {
	info := workflow.GetInfo(ctx)
	return cmp.Or(info.OriginalRunID, info.WorkflowExecution.RunID)
}

// record runs an activity that notes what happened, also when an operator cancels.
func record(ctx workflow.Context, activity, input, result any) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, recordOptions), activity, input).Get(ctx, result)
}

// drop forgets the signals that have come, and reports whether there were any.
func drop(signals workflow.ReceiveChannel) (came bool) {
	for signals.ReceiveAsync(nil) {
		came = true
	}
	return came
}

// errWithoutRow ends a run whose delivery PostgreSQL does not know.
var errWithoutRow = temporal.NewNonRetryableApplicationError("no such delivery", ErrTypeDeliveryWithoutRow, nil)

func isNotFound(err error) bool {
	var failure *temporal.ApplicationError
	return errors.As(err, &failure) && failure.Type() == activities.ErrTypeDeliveryNotFound
}

// canceledUnlessDelivered: an attempt that was accepted counts, whoever cancels.
func canceledUnlessDelivered(status webhook.DeliveryStatus) webhook.DeliveryStatus {
	if status == webhook.DeliveryDelivered {
		return status
	}
	return webhook.DeliveryCanceled
}

// permanentlyFailed is the error of a run whose last attempt failed with cause.
func permanentlyFailed(ctx workflow.Context, cause error) error {
	failed := SearchAttributeDeliveryStatus.ValueSet(string(webhook.DeliveryFailed))
	if err := workflow.UpsertTypedSearchAttributes(ctx, failed); err != nil {
		return err
	}
	return temporal.NewNonRetryableApplicationError("every attempt failed", ErrTypeDeliveryPermanentlyFailed, cause)
}
