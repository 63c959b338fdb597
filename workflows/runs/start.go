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

// Start starts the first run of a refund, a merchant update or a picture. A repeat changes nothing. It returns
// ErrOutcomeUnknown.
func (c *Client) Start(ctx context.Context, ref checkout.Ref) error {
	_, err := c.StartRun(ctx, contract.RunRequest{Ref: ref}, false)
	return err
}

// StartAgain starts the run of evidence about a dispute, also after an earlier one. It returns ErrOutcomeUnknown.
func (c *Client) StartAgain(ctx context.Context, ref checkout.Ref) error {
	_, err := c.StartRun(ctx, contract.RunRequest{Ref: ref}, true)
	return err
}

// StartRun starts the run of a row and reports whether it did: an open run goes on. With again it also starts one when
// Temporal has a closed run of the id. It returns ErrOutcomeUnknown.
func (c *Client) StartRun(ctx context.Context, run contract.RunRequest, again bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	options := client.StartWorkflowOptions{
		ID:                                       run.ID,
		TaskQueue:                                contract.TaskQueueCheckout,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Priority:                                 temporal.Priority{FairnessKey: run.MerchantID},
	}
	if again {
		options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	err := c.execute(ctx, run, options)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return false, nil
	}
	return err == nil, answer("start a run", err)
}

func (c *Client) execute(ctx context.Context, run contract.RunRequest, options client.StartWorkflowOptions) error {
	var (
		typ        string
		in         any = run.Ref
		attributes []temporal.SearchAttributeUpdate
	)
	switch prefix, _, _ := strings.Cut(run.ID, "_"); prefix {
	case checkout.PrefixSession:
		typ, options.StaticSummary = contract.TypeCheckoutSession, string(run.Mode)+" session"
		in = contract.CheckoutSessionInput{
			Ref: run.Ref, ExpiresAt: run.ExpiresAt, ActionTimeout: contract.ActionTimeout, PaymentID: run.PaymentID,
		}
		attributes = append(attributes, contract.SearchAttributeSessionStatus.ValueSet(string(checkout.StatusPending)))
	case checkout.PrefixPayout:
		typ, options.StaticSummary = contract.TypePayout, "payout"
	case checkout.PrefixRefund:
		typ, options.StaticSummary = contract.TypeRefund, "refund"
	case checkout.PrefixDispute:
		typ, options.StaticSummary = contract.TypeDisputeEvidence, "evidence about a dispute"
	case checkout.PrefixReplay:
		typ, options.StaticSummary = contract.TypeWebhookReplay, "bulk replay of "+run.EndpointID
		options.TaskQueue = contract.TaskQueueWebhooks
	case checkout.PrefixPicture:
		typ, options.StaticSummary = contract.TypePictureFetch, "picture"
		options.TaskQueue = contract.TaskQueueWebhooks
	case checkout.PrefixEvent:
		typ, options.StaticSummary = contract.TypeMerchantUpdate, "settings of a merchant changed"
		attributes = append(attributes, contract.SearchAttributeEventType.ValueSet(string(webhook.MerchantUpdated)))
	default:
		ref := webhook.Dispatch{ID: run.ID, EndpointID: run.EndpointID, Host: run.Host}
		delivery := contract.NewWebhookDeliveryInput(run.Owner, run.EventType, ref)
		typ, options.StaticSummary, in = contract.TypeWebhookDelivery, delivery.Summary(), delivery
		options.StaticDetails = delivery.Details()
		options.TaskQueue = contract.TaskQueueWebhooks
		attributes = append(attributes, delivery.SearchAttribute())
	}
	options.TypedSearchAttributes = contract.SearchAttributesOf(run.Owner, attributes...)
	_, err := c.Temporal.ExecuteWorkflow(ctx, options, typ, in)
	return err
}
