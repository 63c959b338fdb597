package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"
)

var bareSessions atomic.Int64

// payOne is one session of the bare application.
func (b *bareApplication) payOne(ctx context.Context) error {
	id := fmt.Sprintf("bare-%d-%d", time.Now().UnixNano(), bareSessions.Add(1))
	done := make(chan struct{}, 2)
	b.done.Store(id, done)
	defer b.done.Delete(id)
	_, err := b.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: bareQueue}, bareSession)
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
func bareSession(ctx workflow.Context) error {
	var b *bareApplication
	paid := false
	err := workflow.SetUpdateHandler(ctx, "pay", func(ctx workflow.Context) error {
		charge := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
		if err := workflow.ExecuteActivity(charge, b.Nothing).Get(ctx, nil); err != nil {
			return err
		}
		decide := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: 10 * time.Second})
		err := workflow.ExecuteLocalActivity(decide, b.Nothing).Get(ctx, nil)
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
	var children []workflow.ChildWorkflowFuture
	for i := range 2 {
		child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID: fmt.Sprintf("%s-%d", id, i), ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		})
		children = append(children, workflow.ExecuteChildWorkflow(child, bareChild, id))
	}
	for _, child := range children {
		if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
			return err
		}
	}
	return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

func bareChild(ctx workflow.Context, session string) error {
	var b *bareApplication
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	return workflow.ExecuteActivity(ctx, b.Arrive, session).Get(ctx, nil)
}
