package workflows_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// TestBooks_APartThatFailsStopsNoOther: each part is an activity, and the findings of two are counted.
func TestBooks_APartThatFailsStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"", "ReadReports", "ReconcileCharges", "BookOldCharges", "LookAtCharges"} {
		env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
		var called atomic.Int32
		answer := func(ctx context.Context) error {
			called.Add(1)
			if activity.GetInfo(ctx).ActivityType.Name == failing {
				return temporal.NewNonRetryableApplicationError("it failed", "Broken", nil)
			}
			return nil
		}
		for _, name := range []string{"ReadReports", "BookOldCharges", "LookAtCharges"} {
			env.RegisterActivityWithOptions(func(ctx context.Context, _ contract.ModeInput) (int, error) {
				return 1, answer(ctx)
			}, activity.RegisterOptions{Name: name})
		}
		env.RegisterActivityWithOptions(func(ctx context.Context, _ contract.ModeInput) (activities.ReconcileChargesResult, error) {
			return activities.ReconcileChargesResult{Charges: 5, Found: 2}, answer(ctx)
		}, activity.RegisterOptions{Name: "ReconcileCharges"})

		env.ExecuteWorkflow(workflows.Books, contract.ModeInput{Mode: checkout.ModeLive})

		require.EqualValues(t, 4, called.Load(), failing)
		if failing != "" {
			require.ErrorContains(t, env.GetWorkflowError(), "it failed")
			continue
		}
		require.NoError(t, env.GetWorkflowError())
		var got workflows.BooksResult
		require.NoError(t, env.GetWorkflowResult(&got))
		require.Equal(t, workflows.BooksResult{Reports: 1, Looked: 1, Charges: 5, Found: 3}, got)
	}
}
