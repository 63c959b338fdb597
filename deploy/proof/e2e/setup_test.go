package e2e_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/workflows/runs"
)

// TestSetup_MakesEverythingOutsideTheProcesses runs checkout setup for a new namespace, without a
// master key, and runs it again with other settings.
func TestSetup_MakesEverythingOutsideTheProcesses(t *testing.T) {
	t.Parallel()
	stack := e2e.Shared
	setup := func(settings ...string) string {
		var out, notes bytes.Buffer
		err := app.Main(t.Context(), []string{"setup"}, slices.Concat([]string{
			"DATABASE_URL=" + stack.DatabaseURL(), "TEMPORAL_ADDRESS=" + stack.Temporal.Address(),
			"TEMPORAL_NAMESPACE=setup.a1b2c",
		}, settings), &out, &notes)
		require.NoError(t, err)
		return out.String()
	}
	require.Equal(t, "the database's schema is up to date\n"+
		"connecting to Temporal at "+stack.Temporal.Address()+" (TEMPORAL_ADDRESS), for 3m0s at most\n"+
		"Temporal has the namespace setup.a1b2c and its search attributes\n"+
		"Temporal has the schedules\n", setup())
	c, err := client.DialContext(t.Context(), client.Options{HostPort: stack.Temporal.Address(), Namespace: "setup.a1b2c"})
	require.NoError(t, err)
	defer c.Close()
	got, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "setup.a1b2c"})
	require.NoError(t, err)
	require.Equal(t, 168*time.Hour, got.Config.WorkflowExecutionRetentionTtl.AsDuration())
	require.Equal(t, time.Minute, every(t, c, runs.ScheduleReconcile))
	require.Equal(t, time.Hour, every(t, c, runs.ScheduleRetention))

	setup("CHECKOUT_RECONCILE_INTERVAL=7s", "CHECKOUT_ETHEREUM_TREASURY=0x0000000000000000000000000000000000000001")
	require.Equal(t, 7*time.Second, every(t, c, runs.ScheduleReconcile))
	require.Equal(t, 15*time.Second, every(t, c, runs.ScheduleTreasury))
}

// every returns the interval of a schedule.
func every(t *testing.T, c client.Client, id string) time.Duration {
	t.Helper()
	schedule, err := c.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, schedule.Schedule.Policy.Overlap)
	return schedule.Schedule.Spec.Intervals[0].Every
}
