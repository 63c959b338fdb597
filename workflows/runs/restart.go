package runs

import (
	"context"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/activities"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Restart starts a run of an orphan and reports whether it did: an open run goes on. With again it also
// starts one when Temporal has a closed run of the id. It returns ErrOutcomeUnknown.
func (c *Client) Restart(ctx context.Context, o activities.Orphan, again bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	options := client.StartWorkflowOptions{
		ID:                                       o.ID,
		TaskQueue:                                workflows.TaskQueueCheckout,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Priority:                                 temporal.Priority{FairnessKey: o.MerchantID},
	}
	if again {
		options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	err := c.restart(ctx, o, options)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return false, nil
	}
	return err == nil, answer("restart", err)
}

func (c *Client) restart(ctx context.Context, o activities.Orphan, options client.StartWorkflowOptions) error {
	var (
		typ        string
		in         any
		attributes []temporal.SearchAttributeUpdate
	)
	switch prefix, _, _ := strings.Cut(o.ID, "_"); prefix {
	case checkout.PrefixSession:
		typ, options.StaticSummary = workflows.TypeCheckoutSession, "session"
		in = workflows.CheckoutSessionInput{
			Ref: o.Ref, ExpiresAt: o.ExpiresAt, ActionTimeout: workflows.ActionTimeout, PaymentID: o.PaymentID,
		}
		attributes = append(attributes,
			workflows.SearchAttributeSessionStatus.ValueSet(string(checkout.StatusPending)))
	case checkout.PrefixPayout:
		typ, options.StaticSummary, in = workflows.TypePayout, "payout", workflows.PayoutInput{Ref: o.Ref}
	case checkout.PrefixReplay:
		typ, options.StaticSummary, in = workflows.TypeWebhookReplay, "bulk replay", workflows.WebhookReplayInput{Ref: o.Ref}
		options.TaskQueue = workflows.TaskQueueWebhooks
	case checkout.PrefixPicture:
		typ, options.StaticSummary, in = workflows.TypePictureFetch, "picture", workflows.PictureFetchInput{Ref: o.Ref}
		options.TaskQueue = workflows.TaskQueueWebhooks
	default:
		ref := webhook.Dispatch{ID: o.ID, EndpointID: o.EndpointID, Host: o.Host}
		delivery := workflows.NewWebhookDeliveryInput(o.Owner, o.EventType, ref)
		typ, options.StaticSummary, in = workflows.TypeWebhookDelivery, delivery.Summary(), delivery
		options.StaticDetails = delivery.Details()
		options.TaskQueue = workflows.TaskQueueWebhooks
		attributes = append(attributes, delivery.SearchAttribute())
	}
	options.TypedSearchAttributes = workflows.SearchAttributesOf(o.Owner, attributes...)
	_, err := c.Temporal.ExecuteWorkflow(ctx, options, typ, in)
	return err
}
