package workflows

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// historyIsLong reports whether the run should continue as new: Temporal
// terminates one of 51,200 events, and long ones are slow to read again. The
// server suggests it from 4,096 on. Signals alone reach neither limit of the
// server: it takes 10,000 of a run, which cost four events each.
func historyIsLong(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested()
}

// ActionTimeout is how long a customer may take over 3-D Secure before the
// payment is given up.
const ActionTimeout = 10 * time.Minute

// forever is longer than any outage.
const forever = 10 * 365 * 24 * time.Hour

// decideOptions are for the one transaction in PostgreSQL that decides
// something. It is local, because a round trip to Temporal would cost more than
// the work, and it repeats until PostgreSQL is back: a decision is never given up.
// That has to be said: without a schedule-to-close, the SDK takes the
// start-to-close for it, and a card that was charged would stay undecided.
var decideOptions = workflow.LocalActivityOptions{
	StartToCloseTimeout:    10 * time.Second, // PostgreSQL ends a statement after 5 s
	ScheduleToCloseTimeout: forever,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
	},
}

// chargeOptions bound how long a customer's payment may hang on a card network
// that does not answer. When they run out, cancelOptions settle it.
var chargeOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    20 * time.Second, // the network's adapter answers within 15 s
	ScheduleToCloseTimeout: 2 * time.Minute,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
	},
}

// cancelOptions have no end: only the network can say whether money moved, so
// the question is asked until it is answered.
var cancelOptions = workflow.ActivityOptions{
	StartToCloseTimeout: 20 * time.Second,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
	},
}

// broadcastOptions have no end for the same reason: an unknown outcome is never
// called a failure, because the transfer may be on the chain.
var broadcastOptions = workflow.ActivityOptions{
	Summary:             "sign and broadcast the transfer",
	StartToCloseTimeout: 30 * time.Second,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
	},
}

// sendPayoutOptions allow one try within a workflow task. It may be cut short: the
// transfer is stored before it is sent, and sent again. It has to be: meanwhile the
// task takes one of the worker's slots, and no other message reaches the session.
func sendPayoutOptions(payoutID string) workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		Summary:             "send the payout " + payoutID,
		StartToCloseTimeout: time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

// sendOptions allow one attempt per entry of the retry schedule and the first,
// without those that were made before. The delays come with each failed
// attempt's error (NextRetryDelay): the five are no geometric series, so a policy
// alone cannot hold them. The policy's own back-off serves only when a worker
// died in an attempt. No schedule-to-close: an outage of the workers delays a
// delivery and never fails it.
func sendOptions(made int, host string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:           TaskQueueWebhooks,
		StartToCloseTimeout: webhook.AttemptTimeout,
		WaitForCancellation: true, // an attempt under way may still succeed
		Summary:             "attempt to " + host,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: webhook.FallbackDelay(made + 1), BackoffCoefficient: webhook.FallbackFactor, MaximumInterval: 12 * time.Hour,
			MaximumAttempts: int32(webhook.MaxAttempts - made), //nolint:gosec // 1 to 6
		},
	}
}

// firstAttemptOptions allow the first attempt of a run.
func firstAttemptOptions(host string) workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout: webhook.AttemptTimeout,
		Summary:             "attempt to " + host,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

// maxAwayDelay is the longest wait for PostgreSQL before an attempt.
const maxAwayDelay = 10 * time.Minute

// recordOptions repeat until PostgreSQL is back: what a receiver answered is
// never lost.
var recordOptions = workflow.ActivityOptions{
	TaskQueue:           TaskQueueWebhooks,
	StartToCloseTimeout: 10 * time.Second,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Minute,
	},
}

// housekeepingOptions give up after a while: the schedule comes again.
var housekeepingOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    10 * time.Minute, // thousands of deliveries, some milliseconds each
	HeartbeatTimeout:       30 * time.Second,
	ScheduleToCloseTimeout: 15 * time.Minute,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
	},
}

// replayPriority lets what happens now go before what is replayed in bulk;
// Temporal's default is 3, and lower is sooner.
const replayPriority = 4

// deliveryOptions are for the run of a delivery.
func deliveryOptions(owner checkout.Owner, typ webhook.EventType, ref webhook.Dispatch) workflow.ChildWorkflowOptions {
	in := NewWebhookDeliveryInput(owner, typ, ref)
	return childOptions(ref.ID, TaskQueueWebhooks, in.Summary(), owner, in.SearchAttribute())
}

// payoutOptions are for the run of a payout.
func payoutOptions(owner checkout.Owner, payoutID string) workflow.ChildWorkflowOptions {
	return childOptions(payoutID, TaskQueueCheckout, "payout", owner)
}

// childOptions are for a child that outlives its parent. A child that is there
// already is the same child: ids are public ids.
func childOptions(id, queue, summary string, owner checkout.Owner, attributes ...temporal.SearchAttributeUpdate) workflow.ChildWorkflowOptions {
	return workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		TaskQueue:             queue,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: SearchAttributesOf(owner, attributes...),
		Priority:              temporal.Priority{FairnessKey: owner.MerchantID}, // no merchant's backlog delays another's
		StaticSummary:         summary,
	}
}
