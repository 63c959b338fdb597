package workflows

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/workflows/webhook"
)

// decideOptions are for the one transaction in PostgreSQL that decides
// something. It is local, because a round trip to Temporal would cost more than
// the work, and it repeats until PostgreSQL is back: a decision is never given up.
var decideOptions = workflow.LocalActivityOptions{
	StartToCloseTimeout: 10 * time.Second, // PostgreSQL ends a statement after 5 s
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
	StartToCloseTimeout: 30 * time.Second,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
	},
}

// sendOptions allow one attempt per entry of the retry schedule and the first.
// The delays come with each failed attempt's error (NextRetryDelay): the five
// are no geometric series, so a policy alone cannot hold them. The policy's own
// back-off serves only when a worker died in an attempt; 6.16 is the fourth root
// of 1440 (12 h over 30 s). No schedule-to-close: an outage of the workers
// delays a delivery and never fails it.
var sendOptions = workflow.ActivityOptions{
	TaskQueue:           TaskQueueWebhooks,
	StartToCloseTimeout: 15 * time.Second, // 10 s for the receiver, the rest for us
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 30 * time.Second, BackoffCoefficient: 6.16, MaximumInterval: 12 * time.Hour,
		MaximumAttempts: webhook.MaxAttempts,
	},
}

// recordOptions repeat until PostgreSQL is back: what a receiver answered is
// never lost.
var recordOptions = workflow.ActivityOptions{
	TaskQueue:           TaskQueueWebhooks,
	StartToCloseTimeout: 10 * time.Second,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Minute,
	},
}

// childOptions are for a child that outlives its parent. A child that is there
// already is the same child: ids are public ids.
func childOptions(id, queue, summary string, owner Owner, attributes ...temporal.SearchAttributeUpdate) workflow.ChildWorkflowOptions {
	return workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		TaskQueue:             queue,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: owner.searchAttributes(attributes...),
		Priority:              temporal.Priority{FairnessKey: owner.MerchantID}, // no merchant's backlog delays another's
		StaticSummary:         summary,
	}
}
