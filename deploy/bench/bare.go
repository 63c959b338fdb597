package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// bareApplication is what Temporal costs alone: the same messages, activities
// and children, and nothing behind them.
type bareApplication struct {
	temporal client.Client
	queue    string
	worker   worker.Worker
	done     sync.Map // workflow id to a channel that gets one value a child
}

// newBare starts a bare application's worker.
func newBare(queue string, temporal client.Client) (*bareApplication, error) {
	b := &bareApplication{temporal: temporal, queue: queue}
	b.worker = worker.New(temporal, queue, worker.Options{
		WorkflowTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		ActivityTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
	})
	b.worker.RegisterWorkflow(bareSession)
	b.worker.RegisterWorkflow(barePayout)
	b.worker.RegisterWorkflow(bareDelivery)
	b.worker.RegisterActivity(b)
	return b, b.worker.Start()
}

// shape is which workflows and activities the bare application has; its zero
// value is the simplest that does the same.
type shape struct {
	Payout         bool // a workflow sends the payout and starts its delivery, as in the service
	LocalAttempt   bool // deliveries make their first attempt as a local activity, as in the service
	LocalBroadcast bool // payouts are sent by a local activity, as in the service
	LocalCharge    bool // cards are charged by a local activity
	OwnPayout      bool // the session sends its payout itself, by a local activity, once its first delivery exists
}

var bareSessions atomic.Int64

// as returns what does one session in a shape.
func (b *bareApplication) as(s shape) func(context.Context) error {
	return func(ctx context.Context) error { return b.payOne(ctx, s) }
}

// payOne is one session of the bare application.
func (b *bareApplication) payOne(ctx context.Context, s shape) error {
	id := fmt.Sprintf("bare-%d-%d", time.Now().UnixNano(), bareSessions.Add(1))
	done := make(chan struct{}, 2)
	b.done.Store(id, done)
	defer b.done.Delete(id)
	_, err := b.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: b.queue}, bareSession, s)
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
	for range 2 {
		select {
		case <-done:
		case <-time.After(patience):
			return fmt.Errorf("%s: %w", id, errPatience)
		}
	}
	return nil
}

// Nothing is the charge and the decision.
func (b *bareApplication) Nothing(context.Context) error { return nil }

// Arrive is the delivery.
func (b *bareApplication) Arrive(_ context.Context, session string) error {
	if done, ok := b.done.Load(session); ok {
		done.(chan struct{}) <- struct{}{}
	}
	return nil
}

// bareSession waits for pay, or for its hour.
func bareSession(ctx workflow.Context, s shape) error {
	var b *bareApplication
	paid := false
	err := workflow.SetUpdateHandler(ctx, "pay", func(ctx workflow.Context) error {
		if err := execute(ctx, s.LocalCharge, b.Nothing); err != nil {
			return err
		}
		err := execute(ctx, true, b.Nothing)
		paid = true
		return err
	})
	if err != nil {
		return err
	}
	if _, err := workflow.AwaitWithTimeout(ctx, time.Hour, func() bool { return paid }); err != nil {
		return err
	}
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	children := []workflow.ChildWorkflowFuture{startBare(ctx, bareDelivery, s, id)}
	switch {
	case s.OwnPayout:
		if err := started(ctx, children...); err != nil { // the customer has the answer now
			return err
		}
		if err := barePayout(ctx, s, id); err != nil {
			return err
		}
	case s.Payout:
		children = append(children, startBare(ctx, barePayout, s, id))
	default:
		children = append(children, startBare(ctx, bareDelivery, s, id))
	}
	if err := started(ctx, children...); err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// barePayout sends the payout and tells the merchant.
func barePayout(ctx workflow.Context, s shape, session string) error {
	var b *bareApplication
	if err := execute(ctx, s.LocalBroadcast, b.Nothing); err != nil {
		return err
	}
	if err := execute(ctx, true, b.Nothing); err != nil {
		return err
	}
	return started(ctx, startBare(ctx, bareDelivery, s, session))
}

func bareDelivery(ctx workflow.Context, s shape, session string) error {
	var b *bareApplication
	return execute(ctx, s.LocalAttempt, b.Arrive, session)
}

// execute runs an activity, or one that is local, to its end.
func execute(ctx workflow.Context, local bool, activity any, args ...any) error {
	if local {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: 10 * time.Second})
		return workflow.ExecuteLocalActivity(ctx, activity, args...).Get(ctx, nil)
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	return workflow.ExecuteActivity(ctx, activity, args...).Get(ctx, nil)
}

// startBare starts a child that outlives its parent.
func startBare(ctx workflow.Context, child any, args ...any) workflow.ChildWorkflowFuture {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON})
	return workflow.ExecuteChildWorkflow(ctx, child, args...)
}

// started waits until children exist.
func started(ctx workflow.Context, children ...workflow.ChildWorkflowFuture) error {
	for _, child := range children {
		if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}
