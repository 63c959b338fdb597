package runs

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// StartReplay starts a bulk replay. A repeat changes nothing. It returns ErrOutcomeUnknown.
func (c *Client) StartReplay(ctx context.Context, r webhook.Replay) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                    r.ID,
		TaskQueue:             contract.TaskQueueWebhooks,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: contract.SearchAttributesOf(r.Owner),
		StaticSummary:         "bulk replay of " + r.EndpointID,
	}, contract.TypeWebhookReplay, contract.WebhookReplayInput{Ref: r.Ref})
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil
	}
	return answer("start replay", err)
}

// CancelReplay stops a bulk replay; started deliveries go on. It returns the errors of RetryNow.
func (c *Client) CancelReplay(ctx context.Context, replayID string) error {
	return c.cancel(ctx, replayID)
}
