package workflows

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/webhook"
)

// WebhookReplayInput names the bulk replay and says how far it has come, for a
// run that goes on where the one before left off.
type WebhookReplayInput struct {
	Owner
	ReplayID string `json:"replay_id"`
	After    string `json:"after,omitempty"` // the last delivery that was started
	Started  int    `json:"started"`
	Skipped  int    `json:"skipped"`
}

// WebhookReplayResult says how a bulk replay ended.
type WebhookReplayResult struct {
	Status  webhook.ReplayStatus `json:"status"` // completed or canceled
	Started int                  `json:"started"`
	Skipped int                  `json:"skipped"`
}

// replaysPerRun keeps a run's history small, and its open children far below
// Temporal's limit of 2,000.
const replaysPerRun = 1000

// WebhookReplay starts the deliveries of one registration again that a bulk
// replay chose, oldest first, at its rate. Each is a child, which Temporal
// starts exactly once whatever is killed; one that is in progress already is
// skipped. Cancel ends it; what was started goes on.
func WebhookReplay(ctx workflow.Context, in WebhookReplayInput) (WebhookReplayResult, error) {
	// Canceling the replay must not cancel the deliveries that it started.
	steady, _ := workflow.NewDisconnectedContext(ctx)
	end := func(status webhook.ReplayStatus) (WebhookReplayResult, error) {
		var d *activities.Deliveries
		err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(steady, decideOptions), d.RecordReplay,
			activities.RecordReplayInput{ReplayInput: in.ref(), Status: status, Started: in.Started, Skipped: in.Skipped}).Get(steady, nil)
		return WebhookReplayResult{status, in.Started, in.Skipped}, err
	}
	for before := in.Started + in.Skipped; ctx.Err() == nil; {
		if in.Started+in.Skipped-before >= replaysPerRun {
			return WebhookReplayResult{}, workflow.NewContinueAsNewError(ctx, TypeWebhookReplay, in)
		}
		second := workflow.NewTimer(ctx, time.Second)
		more, err := in.startSome(steady)
		if err != nil {
			return WebhookReplayResult{}, err
		}
		if !more {
			return end(webhook.ReplayCompleted)
		}
		_ = second.Get(ctx, nil) // canceled: the loop sees it
	}
	return end(webhook.ReplayCanceled)
}

func (in *WebhookReplayInput) ref() activities.ReplayInput {
	return activities.ReplayInput{MerchantID: in.MerchantID, Mode: in.Mode, ReplayID: in.ReplayID}
}

// startSome starts as many deliveries as may start in a second and notes how far
// the replay has come. It reports whether there were any.
func (in *WebhookReplayInput) startSome(ctx workflow.Context) (bool, error) {
	var (
		d    *activities.Deliveries
		next activities.NextReplayedResult
	)
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, decideOptions), d.NextReplayed,
		activities.NextReplayedInput{ReplayInput: in.ref(), After: in.After, Started: in.Started, Skipped: in.Skipped}).Get(ctx, &next)
	if err != nil || len(next.Deliveries) == 0 {
		return false, err
	}
	started := make([]workflow.ChildWorkflowFuture, 0, len(next.Deliveries))
	for _, found := range next.Deliveries {
		options := deliveryOptions(in.Owner, found.EventType, found.DeliveryRef)
		options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
		options.Priority.PriorityKey = replayPriority
		started = append(started, startDelivery(ctx, options, in.Owner, found.EventType, found.DeliveryRef))
	}
	for _, child := range started {
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		switch {
		case err == nil:
			in.Started++
		case temporal.IsWorkflowExecutionAlreadyStartedError(err):
			in.Skipped++
		default:
			return false, err
		}
	}
	in.After = next.Deliveries[len(next.Deliveries)-1].ID
	return true, nil
}
