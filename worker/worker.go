// Package worker builds the activities from plain settings, and runs them as the Temporal workers of the service.
package worker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// Options of Start.
type Options struct {
	Payments     *activities.Payments
	Deliveries   *activities.Deliveries
	Pictures     *activities.Pictures
	Housekeeping *activities.Housekeeping
	// Treasury and Books have no mode when all networks are the sandbox's.
	Treasury activities.Treasury
	Books    activities.Books
	// Synced is when a round of a mode's treasury last succeeded, or the worker started, in seconds since 1970.
	Synced map[checkout.Mode]*atomic.Int64
	// Deliver is how many webhook attempts run at once; 0 means activities.Slots.
	Deliver int
	// Deployment names the workers' deployment in Temporal. It is needed with a BuildID.
	Deployment string
	// BuildID names the version of the code. A run stays with the build that it began with. A new
	// run begins with the build that was released last. With "" there is one build at a time.
	BuildID string
	// Refused is called when Temporal refuses a poll for good, as an empty Temporal without the namespace does. Then a
	// queue is no longer polled.
	Refused func(error)
}

const (
	// stopTimeout is longer than an attempt. So a stopping worker finishes its attempts, and no receiver gets one twice.
	stopTimeout = 15 * time.Second
	// longestStop limits Stop. The SDK stops its parts one after the other and waits up to stopTimeout for each. None
	// begins new work meanwhile, so they are all done within one stopTimeout, unless something hangs.
	longestStop = stopTimeout + 3*time.Second
)

// cachedRuns is how many runs a process keeps in memory between their workflow tasks, about 60 KB each. A run outside
// the cache is rebuilt from its short history. So the cache helps only runs that go on within seconds. Most runs do
// not: a session waits minutes for its customer, a delivery waits minutes or hours for its next attempt.
const cachedRuns = 1000

// fewestPollers stay when there is nothing to do. Temporal takes a poller away for each poll that waited longer than
// a second, and gives one back only when tasks have waited 200 ms. So with the SDK's minimum of one, a burst after a
// pause would wait for its pollers. A poll that waits costs a request a minute.
const fewestPollers = 5

// Workers holds the running workers of one process.
type Workers struct{ running []worker.Worker }

// Start begins to poll both task queues. It returns an error when Temporal refuses the worker, and when Temporal does
// not answer within some seconds. Then it may be called again.
func Start(c client.Client, o Options) (*Workers, error) {
	if o.Deliver == 0 {
		o.Deliver = activities.Slots
	}

	worker.SetStickyWorkflowCacheSize(cachedRuns)
	payments := worker.New(c, contract.TaskQueueCheckout, o.sdk())
	workflows.RegisterCheckout(payments)
	payments.RegisterActivity(o.Payments)
	payments.RegisterActivity(o.Housekeeping)
	payments.RegisterActivity(&o.Treasury)
	payments.RegisterActivity(&o.Books)
	delivering := o.sdk()
	delivering.MaxConcurrentActivityExecutionSize = o.Deliver
	// A delivery makes its first attempt within its first workflow task.
	delivering.MaxConcurrentLocalActivityExecutionSize = o.Deliver
	delivering.MaxConcurrentWorkflowTaskExecutionSize = max(o.Deliver, delivering.MaxConcurrentWorkflowTaskExecutionSize)
	webhooks := worker.New(c, contract.TaskQueueWebhooks, delivering)
	workflows.RegisterWebhooks(webhooks)
	webhooks.RegisterActivity(o.Deliveries)
	webhooks.RegisterActivity(o.Pictures)

	w := &Workers{}
	for _, next := range []worker.Worker{payments, webhooks} {
		if err := next.Start(); err != nil {
			w.Stop()
			return nil, fmt.Errorf("start worker: %w", err)
		}

		w.running = append(w.running, next)
	}
	return w, nil
}

// sdk returns the options of both queues.
func (o Options) sdk() worker.Options {
	var deployment worker.DeploymentOptions
	if o.BuildID != "" {
		deployment = worker.DeploymentOptions{
			UseVersioning: true,
			Version:       worker.WorkerDeploymentVersion{DeploymentName: o.Deployment, BuildID: o.BuildID},
			// Runs are short, so each stays on its build: a session 1 hour, a delivery as long as its retry schedule.
			DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
		}
	}
	polling := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		MinimumNumberOfPollers: fewestPollers,
	})
	return worker.Options{
		DeploymentOptions:                      deployment,
		OnFatalError:                           o.Refused,
		WorkerStopTimeout:                      stopTimeout,
		WorkflowTaskPollerBehavior:             polling,
		ActivityTaskPollerBehavior:             polling,
		MaxConcurrentWorkflowTaskExecutionSize: 100,
	}
}

// Stop ends the polling of both task queues at the same time and waits up to longestStop for the work
// in progress. It reports whether all of it has ended.
func (w *Workers) Stop() bool {
	var stopping sync.WaitGroup
	for _, running := range w.running {
		stopping.Go(running.Stop)
	}
	stopped := make(chan struct{})
	go func() {
		stopping.Wait()
		close(stopped)
	}()
	select {
	case <-stopped:
		return true
	case <-time.After(longestStop):
		return false
	}
}
