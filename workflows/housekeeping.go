package workflows

import (
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// ReconcileResult says what a Reconcile mended.
type ReconcileResult struct {
	activities.Restarts

	Resumed  int `json:"resumed"`
	Canceled int `json:"canceled"`
}

// Reconcile makes Temporal agree with PostgreSQL. It starts missing runs, wakes deliveries that are
// no longer on hold, and cancels the deliveries of deleted registrations. A schedule runs it every
// minute. The API also runs it after a change that affects deliveries.
func Reconcile(ctx workflow.Context) (ReconcileResult, error) {
	var (
		h      *activities.Housekeeping
		result ReconcileResult
	)
	ctx = workflow.WithActivityOptions(ctx, housekeepingOptions)
	restartOrphans := restartAsChildren
	if workflow.GetVersion(ctx, changeRestartOrphans, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		restartOrphans = func(ctx workflow.Context, done *activities.Restarts) error {
			var round activities.Restarts // a fresh one: what JSON omits would stay as the round before left it
			err := workflow.ExecuteActivity(ctx, h.RestartOrphans, *done).Get(ctx, &round)
			if err == nil {
				*done = round
			}
			return err
		}
	}

	for {
		var resumedNow, canceledNow int
		resumed := workflow.ExecuteActivity(ctx, h.ResumeParked)
		canceled := workflow.ExecuteActivity(ctx, h.CancelOrphaned)
		if err := restartOrphans(ctx, &result.Restarts); err != nil {
			return result, err
		}
		if err := resumed.Get(ctx, &resumedNow); err != nil {
			return result, err
		}
		if err := canceled.Get(ctx, &canceledNow); err != nil {
			return result, err
		}
		result.Resumed, result.Canceled = result.Resumed+resumedNow, result.Canceled+canceledNow
		if !result.More {
			return result, nil
		}
		// A loss of Temporal's data takes many rounds.
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d runs started again, %d rows left to the next Reconcile.",
			result.Restarted, result.Failed))
	}
}

// restartAsChildren is how Reconcile started missing runs before changeRestartOrphans.
func restartAsChildren(ctx workflow.Context, _ *activities.Restarts) error {
	var (
		h       *activities.Housekeeping
		orphans []contract.Orphan
	)
	if err := workflow.ExecuteActivity(ctx, h.FindOrphans).Get(ctx, &orphans); err != nil {
		return err
	}
	started := make([]workflow.ChildWorkflowFuture, 0, len(orphans))
	for _, o := range orphans {
		started = append(started, restart(ctx, o))
	}
	return awaitStarts(ctx, started)
}

// restart starts the run of an orphan, even when its id has closed runs. If an open run exists by
// now, that run goes on.
func restart(ctx workflow.Context, o contract.Orphan) workflow.ChildWorkflowFuture {
	prefix, _, _ := strings.Cut(o.ID, "_")
	again := func(options workflow.ChildWorkflowOptions) workflow.ChildWorkflowOptions {
		options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
		return options
	}

	switch prefix {
	case checkout.PrefixSession:
		options := again(childOptions(o.ID, contract.TaskQueueCheckout, "session", o.Owner,
			contract.SearchAttributeSessionStatus.ValueSet(string(checkout.StatusPending))))
		return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, options),
			contract.TypeCheckoutSession, contract.CheckoutSessionInput{
				Ref: o.Ref, ExpiresAt: o.ExpiresAt, ActionTimeout: contract.ActionTimeout,
				PaymentID: o.PaymentID,
			})
	case checkout.PrefixPayout:
		options := again(payoutOptions(o.Owner, o.ID))
		return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, options), contract.TypePayout,
			contract.PayoutInput{Ref: o.Ref})
	case checkout.PrefixReplay:
		options := again(childOptions(o.ID, contract.TaskQueueWebhooks, "bulk replay", o.Owner))
		return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, options),
			contract.TypeWebhookReplay, contract.WebhookReplayInput{Ref: o.Ref})
	}

	ref := webhook.Dispatch{ID: o.ID, EndpointID: o.EndpointID, Host: o.Host}
	return startDelivery(ctx, again(deliveryOptions(o.Owner, o.EventType, ref)), o.Owner,
		o.EventType, ref)
}

// Retention deletes finished deliveries and old events from the log, and what else is old by in. A
// schedule runs it every hour. It returns the number of deleted deliveries and events.
func Retention(ctx workflow.Context, in contract.RetentionInput) (int, error) {
	var (
		h       *activities.Housekeeping
		deleted int
	)
	ctx = workflow.WithActivityOptions(ctx, housekeepingOptions)
	err := workflow.ExecuteActivity(ctx, h.DeleteFinished, in).Get(ctx, &deleted)
	return deleted, err
}
