package runs

import (
	"context"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// Start starts the first run of a merchant update or a picture. A repeat changes nothing. It returns ErrOutcomeUnknown.
func (c *Client) Start(ctx context.Context, ref checkout.Ref) error {
	_, err := c.Restart(ctx, contract.Orphan{Ref: ref}, false)
	return err
}

// Restart starts a run of an orphan and reports whether it did: an open run goes on. With again it also starts one when
// Temporal has a closed run of the id. A row that was just stored is an orphan, too. It returns ErrOutcomeUnknown.
func (c *Client) Restart(ctx context.Context, o contract.Orphan, again bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	options := client.StartWorkflowOptions{
		ID:                                       o.ID,
		TaskQueue:                                contract.TaskQueueCheckout,
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
	return err == nil, answer("start a run", err)
}

func (c *Client) restart(ctx context.Context, o contract.Orphan, options client.StartWorkflowOptions) error {
	var (
		typ        string
		in         any = o.Ref
		attributes []temporal.SearchAttributeUpdate
	)
	switch prefix, _, _ := strings.Cut(o.ID, "_"); prefix {
	case checkout.PrefixSession:
		typ, options.StaticSummary = contract.TypeCheckoutSession, string(o.Mode)+" session"
		in = contract.CheckoutSessionInput{
			Ref: o.Ref, ExpiresAt: o.ExpiresAt, ActionTimeout: contract.ActionTimeout, PaymentID: o.PaymentID,
		}
		attributes = append(attributes, contract.SearchAttributeSessionStatus.ValueSet(string(checkout.StatusPending)))
	case checkout.PrefixPayout:
		typ, options.StaticSummary = contract.TypePayout, "payout"
	case checkout.PrefixReplay:
		typ, options.StaticSummary = contract.TypeWebhookReplay, "bulk replay of "+o.EndpointID
		options.TaskQueue = contract.TaskQueueWebhooks
	case checkout.PrefixPicture:
		typ, options.StaticSummary = contract.TypePictureFetch, "picture"
		options.TaskQueue = contract.TaskQueueWebhooks
	case checkout.PrefixEvent:
		typ, options.StaticSummary = contract.TypeMerchantUpdate, "settings of a merchant changed"
		attributes = append(attributes, contract.SearchAttributeEventType.ValueSet(string(webhook.MerchantUpdated)))
	default:
		ref := webhook.Dispatch{ID: o.ID, EndpointID: o.EndpointID, Host: o.Host}
		delivery := contract.NewWebhookDeliveryInput(o.Owner, o.EventType, ref)
		typ, options.StaticSummary, in = contract.TypeWebhookDelivery, delivery.Summary(), delivery
		options.StaticDetails = delivery.Details()
		options.TaskQueue = contract.TaskQueueWebhooks
		attributes = append(attributes, delivery.SearchAttribute())
	}
	options.TypedSearchAttributes = contract.SearchAttributesOf(o.Owner, attributes...)
	_, err := c.Temporal.ExecuteWorkflow(ctx, options, typ, in)
	return err
}
