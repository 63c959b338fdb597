// Package worker turns a Temporal client and activities into running workers.
package worker

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows"
)

// Options of Start.
type Options struct {
	Payments     *activities.Payments
	Deliveries   *activities.Deliveries
	Housekeeping *activities.Housekeeping
	// Deliver is how many webhook attempts run at once; 0 is 1,000. An attempt
	// mostly waits for a receiver, and each endpoint may take only a few.
	Deliver int
	// BuildID names the code. Runs stay with the build that they began with, and
	// begin with the one that was released last; "" is for one build at a time.
	BuildID string
}

// stopTimeout is longer than an attempt: a worker that is told to stop finishes
// what it sends, and the receiver gets nothing twice.
const stopTimeout = 15 * time.Second

const defaultDeliver = 1000

// cachedRuns is how many runs a process keeps in memory between their workflow
// tasks, some 60 KB each. One that is not kept is read again from its short history
// when it goes on. So only what happens within seconds gains by it: sessions that
// wait for their customer, and deliveries for their next attempt, do for minutes
// and hours.
const cachedRuns = 1000

// Workers are the running workers of one process.
type Workers struct{ running []worker.Worker }

// Start begins to poll both task queues. It returns an error when Temporal
// refuses; an absent Temporal is waited for.
func Start(c client.Client, o Options) (*Workers, error) {
	if o.Deliver == 0 {
		o.Deliver = defaultDeliver
	}
	worker.SetStickyWorkflowCacheSize(cachedRuns)
	checkout := worker.New(c, workflows.TaskQueueCheckout, options(o.BuildID))
	workflows.RegisterCheckout(checkout)
	checkout.RegisterActivity(o.Payments)
	checkout.RegisterActivity(o.Housekeeping)
	delivering := options(o.BuildID)
	delivering.MaxConcurrentActivityExecutionSize = o.Deliver
	// A delivery's first attempt is made within its first workflow task.
	delivering.MaxConcurrentLocalActivityExecutionSize = o.Deliver
	delivering.MaxConcurrentWorkflowTaskExecutionSize = max(o.Deliver, delivering.MaxConcurrentWorkflowTaskExecutionSize)
	webhooks := worker.New(c, workflows.TaskQueueWebhooks, delivering)
	workflows.RegisterWebhooks(webhooks)
	webhooks.RegisterActivity(o.Deliveries)

	w := &Workers{}
	for _, next := range []worker.Worker{checkout, webhooks} {
		if err := next.Start(); err != nil {
			w.Stop()
			return nil, fmt.Errorf("start worker: %w", err)
		}
		w.running = append(w.running, next)
	}
	return w, nil
}

func options(buildID string) worker.Options {
	var deployment worker.DeploymentOptions
	if buildID != "" {
		deployment = worker.DeploymentOptions{
			UseVersioning: true, Version: worker.WorkerDeploymentVersion{DeploymentName: workflows.Deployment, BuildID: buildID},
			DefaultVersioningBehavior: workflow.VersioningBehaviorPinned, // a session lives an hour, a delivery fifteen: no run has to change its code
		}
	}
	return worker.Options{
		DeploymentOptions:                      deployment,
		WorkerStopTimeout:                      stopTimeout,
		WorkflowTaskPollerBehavior:             worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		ActivityTaskPollerBehavior:             worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		MaxConcurrentWorkflowTaskExecutionSize: 100,
	}
}

// Stop ends the polling and waits for what is being done, up to stopTimeout.
func (w *Workers) Stop() {
	for _, running := range w.running {
		running.Stop()
	}
}
