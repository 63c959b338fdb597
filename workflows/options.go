package workflows

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// historyIsLong reports whether the run should continue as new. Temporal terminates a run at 51,200 events, and a long
// history is slow to read again. The server suggests a new run from 4,096 events on. Signals alone cannot reach the
// limit of 51,200: the server accepts 10,000 signals per run, and each costs four events.
func historyIsLong(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested()
}

// forever is longer than any outage.
const forever = 10 * 365 * 24 * time.Hour

// backoff is a policy without a last attempt, whose delays double from the first to the longest.
func backoff(first, longest time.Duration) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: first, BackoffCoefficient: 2, MaximumInterval: longest}
}

// decideOptions are for the one PostgreSQL transaction that decides something. The activity is
// local, because a round trip to Temporal would cost more than the transaction. It repeats until
// PostgreSQL is back: a decision is never given up. ScheduleToClose must be set for this: by
// default the SDK would use StartToClose for it, and a charged payment would stay undecided.
var decideOptions = workflow.LocalActivityOptions{
	StartToCloseTimeout:    10 * time.Second, // PostgreSQL ends a statement after 5 s
	ScheduleToCloseTimeout: forever,
	RetryPolicy:            backoff(200*time.Millisecond, 5*time.Second),
}

// chargeOptions limit how long a payment waits for a card network that does not answer. After that
// the workflow cancels the payment with cancelOptions.
var chargeOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    40 * time.Second, // two requests to the network of at most 15 s each
	ScheduleToCloseTimeout: 2 * time.Minute,
	RetryPolicy:            backoff(500*time.Millisecond, 10*time.Second),
}

// watchOptions are for the one activity that watches a live payment until it has news or the payment is decided. It
// asks every few seconds and sends a heartbeat each time. Any failure makes Temporal start it again.
var watchOptions = workflow.ActivityOptions{
	Summary:             "watch for the bank's or the card network's answer",
	StartToCloseTimeout: 2 * contract.ActionTimeout,
	HeartbeatTimeout:    30 * time.Second,
	RetryPolicy:         backoff(time.Second, 30*time.Second),
}

// cancelOptions have no end: only the network knows whether it charged the card, so the activity
// asks until the network answers.
var cancelOptions = workflow.ActivityOptions{
	StartToCloseTimeout: 40 * time.Second,
	RetryPolicy:         backoff(time.Second, time.Minute),
}

// broadcastOptions end after some minutes, in both modes and on every chain. The payout is then on hold: a
// run that waits for days for a node would pin its build. Nothing is decided by that, because the transfer
// may be on the chain. The longest CHECKOUT_BITCOIN_BATCH_INTERVAL must end before them.
var broadcastOptions = workflow.ActivityOptions{
	Summary:                "sign and broadcast the transfer",
	StartToCloseTimeout:    30 * time.Second,
	ScheduleToCloseTimeout: 5 * time.Minute,
	RetryPolicy:            backoff(time.Second, time.Minute),
}

// refundOptions end after some minutes. Then the refund waits for Reconcile.
var refundOptions = workflow.ActivityOptions{
	Summary:                "send the refund to the card network",
	StartToCloseTimeout:    50 * time.Second, // three requests to the network of at most 15 s each
	ScheduleToCloseTimeout: 5 * time.Minute,
	RetryPolicy:            backoff(time.Second, time.Minute),
}

// evidenceOptions end after some minutes. Then the evidence waits for Reconcile.
var evidenceOptions = workflow.ActivityOptions{
	Summary:                "send the evidence to the card network",
	StartToCloseTimeout:    2 * time.Minute, // files are uploaded one after the other
	ScheduleToCloseTimeout: 6 * time.Minute,
	RetryPolicy:            backoff(time.Second, time.Minute),
}

// followOptions are for one round of TreasurySync. The next round does the work of a failed one.
var followOptions = workflow.ActivityOptions{
	Summary:             "follow the transfers",
	StartToCloseTimeout: 2 * time.Minute,
	RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
}

// sendPayoutOptions allow one try within a workflow task. Cutting the try short is safe: the
// transfer is stored before it is sent, and can be sent again. It is also necessary: the task takes
// a slot of the worker, and the session gets no other message until the task ends.
func sendPayoutOptions(payoutID string) workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		Summary:             "send the payout " + payoutID,
		StartToCloseTimeout: time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

// sendOptions allow as many attempts as the retry schedule has left after the attempts made. The delay comes with each
// failed attempt's error (NextRetryDelay), because a retry policy alone can hold only a geometric series, and its
// delays are not one. The policy's own back-off applies only when a worker died during an attempt. There is no
// schedule-to-close: an outage of the workers delays a delivery and never fails it.
func sendOptions(made int, receiver string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:           contract.TaskQueueWebhooks,
		StartToCloseTimeout: webhook.AttemptTimeout,
		WaitForCancellation: true, // an attempt under way may still succeed
		Summary:             "attempt to " + receiver,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    webhook.FallbackDelay(made + 1),
			BackoffCoefficient: webhook.FallbackFactor, MaximumInterval: webhook.LongestFallback,
			MaximumAttempts: int32(webhook.MaxAttempts - made), //nolint:gosec // at least 1
		},
	}
}

// firstAttemptOptions allow the first attempt of a run.
func firstAttemptOptions(receiver string) workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout: webhook.AttemptTimeout,
		Summary:             "attempt to " + receiver,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

// fetchOptions have no end: the row counts the tries at the merchant's server, and the activity ends after the
// last one. What else fails is ours, or the merchant's other pictures come first.
var fetchOptions = workflow.ActivityOptions{
	TaskQueue:           contract.TaskQueueWebhooks,
	StartToCloseTimeout: 40 * time.Second, // 10 s for the server, the rest for a place and the decoding
	RetryPolicy:         backoff(5*time.Second, time.Minute),
}

// maxAwayDelay is the longest delay between two tries while PostgreSQL is down, before an attempt.
const maxAwayDelay = 10 * time.Minute

// recordOptions repeat until PostgreSQL is back: a receiver's answer is never lost.
var recordOptions = workflow.ActivityOptions{
	TaskQueue:           contract.TaskQueueWebhooks,
	StartToCloseTimeout: 10 * time.Second,
	RetryPolicy:         backoff(500*time.Millisecond, time.Minute),
}

// housekeepingOptions give up after a while: the schedule runs the activity again.
var housekeepingOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    10 * time.Minute, // thousands of deliveries, some milliseconds each
	HeartbeatTimeout:       30 * time.Second,
	ScheduleToCloseTimeout: 15 * time.Minute,
	RetryPolicy:            backoff(time.Second, time.Minute),
}

// replayPriority puts bulk replays after new deliveries. Temporal's default is 3; a lower number runs sooner.
const replayPriority = 4

// deliveryOptions are for the run of a delivery.
func deliveryOptions(owner checkout.Owner, typ webhook.EventType, ref webhook.Dispatch) workflow.ChildWorkflowOptions {
	in := contract.NewWebhookDeliveryInput(owner, typ, ref)
	options := childOptions(ref.ID, contract.TaskQueueWebhooks, in.Summary(), owner, in.SearchAttribute())
	options.StaticDetails = in.Details()
	return options
}

// payoutOptions are for the run of a payout.
func payoutOptions(owner checkout.Owner, payoutID string) workflow.ChildWorkflowOptions {
	return childOptions(payoutID, contract.TaskQueueCheckout, "payout", owner)
}

// childOptions are for a child that outlives its parent. Workflow ids are public ids, so a child
// that already exists is the right child.
func childOptions(
	id, queue, summary string, owner checkout.Owner, attributes ...temporal.SearchAttributeUpdate,
) workflow.ChildWorkflowOptions {
	return workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		TaskQueue:             queue,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: contract.SearchAttributesOf(owner, attributes...),
		// A merchant's backlog delays no other merchant.
		Priority:      temporal.Priority{FairnessKey: owner.MerchantID},
		StaticSummary: summary,
	}
}
