package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// bareApplication shows the cost of Temporal alone: it has the same messages, activities and
// children as the service, but the activities do nothing.
type bareApplication struct {
	temporal client.Client
	queue    string
	worker   worker.Worker
	done     arrivals // of children, by session
}

// newBare starts a bare application's worker.
func newBare(queue string, temporal client.Client) (*bareApplication, error) {
	b := &bareApplication{temporal: temporal, queue: queue}
	b.worker = worker.New(temporal, queue, worker.Options{
		WorkflowTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		ActivityTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
	})
	b.worker.RegisterWorkflow(bareSession)
	b.worker.RegisterWorkflow(bareDelivery)
	b.worker.RegisterActivity(b)
	return b, b.worker.Start()
}

var bareSessions atomic.Int64

// payOne pays one session of the bare application.
func (b *bareApplication) payOne(ctx context.Context) error {
	id := fmt.Sprintf("bare-%d-%d", time.Now().UnixNano(), bareSessions.Add(1))
	_, err := b.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: b.queue}, bareSession)
	if err != nil {
		return err
	}
	paid, err := b.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: "pay", WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	if err := paid.Get(ctx, nil); err != nil {
		return err
	}
	return b.done.await(ctx, id, 2)
}

// Nothing stands for the charge and the decision.
func (b *bareApplication) Nothing(context.Context) error { return nil }

// Arrive stands for the delivery.
func (b *bareApplication) Arrive(_ context.Context, session string) error {
	b.done.add(session)
	return nil
}

// bareSession waits for pay, or for one hour, and starts two deliveries.
func bareSession(ctx workflow.Context) error {
	var b *bareApplication
	paid := false
	err := workflow.SetUpdateHandler(ctx, "pay", func(ctx workflow.Context) error {
		if err := workflow.ExecuteActivity(bareActivity(ctx), b.Nothing).Get(ctx, nil); err != nil {
			return err
		}
		err := workflow.ExecuteLocalActivity(bareActivity(ctx), b.Nothing).Get(ctx, nil)
		paid = true
		return err
	})
	if err != nil {
		return err
	}
	if _, err := workflow.AwaitWithTimeout(ctx, time.Hour, func() bool { return paid }); err != nil {
		return err
	}
	ctx = workflow.WithChildOptions(
		ctx, workflow.ChildWorkflowOptions{ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON},
	)
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	first := workflow.ExecuteChildWorkflow(ctx, bareDelivery, id)
	second := workflow.ExecuteChildWorkflow(ctx, bareDelivery, id)
	for _, child := range []workflow.ChildWorkflowFuture{first, second} {
		if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
			return err
		}
	}
	return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

func bareDelivery(ctx workflow.Context, session string) error {
	var b *bareApplication
	return workflow.ExecuteActivity(bareActivity(ctx), b.Arrive, session).Get(ctx, nil)
}

func bareActivity(ctx workflow.Context) workflow.Context {
	const timeout = 10 * time.Second
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: timeout})
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: timeout})
}
