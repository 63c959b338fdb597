package workflows_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/workflows"
)

// A round that leaves nothing to do omits "more" from its JSON.
func TestReconcile_EndsWithTheRoundThatLeavesNothing(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	rounds := 0
	register := func(name string, run any) {
		env.RegisterActivityWithOptions(run, activity.RegisterOptions{Name: name})
	}
	register("ResumeParked", func(context.Context) (int, error) { return 0, nil })
	register("CancelOrphaned", func(context.Context) (int, error) { return 0, nil })
	register("RestartOrphans", func(_ context.Context, done activities.Restarts) (activities.Restarts, error) {
		rounds++
		done.Restarted++
		done.More = rounds == 1
		return done, nil
	})

	env.ExecuteWorkflow(workflows.Reconcile)

	require.NoError(t, env.GetWorkflowError())
	var got workflows.ReconcileResult
	require.NoError(t, env.GetWorkflowResult(&got))
	require.Equal(t, 2, rounds)
	require.Equal(t, 2, got.Restarted)
	require.False(t, got.More)
}
