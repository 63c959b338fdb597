package workflows

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// replaysPerRun limits the history of a run. It also keeps the number of open children far below
// Temporal's limit of 2,000.
const replaysPerRun = 1000

// WebhookReplay starts the deliveries of a bulk replay again, oldest first, at its rate. PostgreSQL holds its progress;
// a new run continues there. Each delivery is a child, and Temporal starts it exactly once even when the worker is
// killed. A delivery with an open run is skipped. Cancel ends the bulk replay; started deliveries go on.
func WebhookReplay(ctx workflow.Context, in checkout.Ref) (contract.WebhookReplayResult, error) {
	// Canceling the replay must not cancel the deliveries that it started.
	steady, _ := workflow.NewDisconnectedContext(ctx)
	var (
		d        *activities.Deliveries
		progress activities.Progress
	)

	note := func(status webhook.ReplayStatus) (contract.WebhookReplayResult, error) {
		err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(steady, decideOptions), d.RecordReplay,
			activities.RecordReplayInput{Ref: in, Status: status,
				Progress: progress}).Get(steady, nil)
		return contract.WebhookReplayResult{
			Status: status, Started: progress.Started, Skipped: progress.Skipped,
		}, err
	}

	for done := 0; ctx.Err() == nil; {
		if done >= replaysPerRun || historyIsLong(ctx) {
			if _, err := note(webhook.ReplayRunning); err != nil {
				return contract.WebhookReplayResult{}, err
			}
			return contract.WebhookReplayResult{}, workflow.NewContinueAsNewError(ctx, contract.TypeWebhookReplay, in)
		}

		second := workflow.NewTimer(ctx, time.Second)
		var next activities.NextReplayedResult
		err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(steady, decideOptions), d.NextReplayed,
			activities.NextReplayedInput{Ref: in, Progress: progress}).Get(steady, &next)
		if err != nil {
			return contract.WebhookReplayResult{}, err
		}
		progress = next.Progress
		if len(next.Deliveries) == 0 {
			return note(webhook.ReplayCompleted)
		}
		if err := startReplayed(steady, in.Owner, next.Deliveries, &progress); err != nil {
			return contract.WebhookReplayResult{}, err
		}
		done += len(next.Deliveries)
		_ = second.Get(ctx, nil) // on cancel the loop ends
	}
	return note(webhook.ReplayCanceled)
}

// startReplayed starts the deliveries, waits until each has a run, and counts them.
func startReplayed(
	ctx workflow.Context, owner checkout.Owner, deliveries []activities.ReplayedDelivery, progress *activities.Progress,
) error {
	started := make([]workflow.ChildWorkflowFuture, 0, len(deliveries))
	for _, found := range deliveries {
		options := deliveryOptions(owner, found.EventType, found.Dispatch)
		options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
		options.Priority.PriorityKey = replayPriority
		started = append(started, startDelivery(ctx, options, owner, found.EventType, found.Dispatch))
	}
	for _, child := range started {
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		switch {
		case err == nil:
			progress.Started++
		case temporal.IsWorkflowExecutionAlreadyStartedError(err):
			progress.Skipped++
		default:
			return err
		}
	}
	progress.After = deliveries[len(deliveries)-1].ID
	return nil
}
