package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/webhook"
)

// WebhookDeliveryInput names the delivery; what is sent and where is read from
// PostgreSQL, so that a new run with the same input is a replay.
type WebhookDeliveryInput struct {
	Owner
	DeliveryID string            `json:"delivery_id"`
	EventType  webhook.EventType `json:"event_type"`
	Host       string            `json:"host"` // of the address, for operators' eyes
}

func (in WebhookDeliveryInput) summary() string { return string(in.EventType) + " to " + in.Host }

func (in WebhookDeliveryInput) searchAttribute() temporal.SearchAttributeUpdate {
	return SearchAttributeEventType.ValueSet(string(in.EventType))
}

// WebhookDeliveryResult says how a run ended that did not fail.
type WebhookDeliveryResult struct {
	Status webhook.DeliveryStatus `json:"status"` // delivered or canceled
}

// WebhookDelivery brings one event to one address in at most six attempts, on
// the schedule of the interface document ("Delivery and retries"). A run that
// used them all up fails with DeliveryPermanentlyFailed. A new run of the same
// workflow id, however it is started, is a replay.
func WebhookDelivery(ctx workflow.Context, in WebhookDeliveryInput) (WebhookDeliveryResult, error) {
	var a *activities.Deliveries
	send := sendOptions
	send.Summary = "attempt to " + in.Host
	ref := activities.DeliveryInput{MerchantID: in.MerchantID, Mode: in.Mode, DeliveryID: in.DeliveryID}
	record := func(activity, input any) error {
		ctx, _ := workflow.NewDisconnectedContext(ctx) // what happened is noted even when an operator cancels
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, recordOptions), activity, input).Get(ctx, nil)
	}

	var sent activities.SendAttemptResult
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, send), a.SendAttempt, ref).Get(ctx, &sent)
	var failure *temporal.ApplicationError
	switch {
	case err == nil && sent.Recorded:
		return WebhookDeliveryResult{sent.Status}, nil
	case err == nil: // the receiver has it, PostgreSQL was away
		return WebhookDeliveryResult{sent.Status}, record(a.RecordAttempt, activities.RecordAttemptInput{DeliveryInput: ref, Attempt: sent.Attempt})
	case errors.As(err, &failure) && failure.Type() == activities.ErrTypeDeliveryNotFound:
		return WebhookDeliveryResult{}, temporal.NewNonRetryableApplicationError("no such delivery", ErrTypeDeliveryWithoutRow, nil)
	case temporal.IsCanceledError(err):
		return WebhookDeliveryResult{webhook.DeliveryCanceled}, record(a.CancelDelivery, ref)
	}
	if err := record(a.FailDelivery, ref); err != nil {
		return WebhookDeliveryResult{}, err
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, SearchAttributeDeliveryStatus.ValueSet(string(webhook.DeliveryFailed))); err != nil {
		return WebhookDeliveryResult{}, err
	}
	return WebhookDeliveryResult{}, temporal.NewNonRetryableApplicationError("every attempt failed", ErrTypeDeliveryPermanentlyFailed, err)
}
