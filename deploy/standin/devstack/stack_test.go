package devstack_test

import (
	"context"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/contract"
)

var long = flag.Bool("long", false, "kill PostgreSQL and Temporal too")

// Every round gets a little further before the test kills everything. What the last one starts goes on
// after a kill, on the same address.
func TestStack_FirstStartIsKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("breaks a stack on purpose: -long runs it")
	}
	program, err := devstack.TemporalProgram.Build(t.Context(), t.Output())
	require.NoError(t, err)
	dir := t.TempDir()
	options := pgtemp.Options{Dir: filepath.Join(dir, "postgres")}
	postgres, err := pgtemp.Start(t.Context(), options)
	require.NoError(t, err)
	defer func() { require.NoError(t, postgres.Stop()) }()
	options.Port = postgres.Port()
	o := devstack.TemporalOptions{Program: program, PostgresURL: postgres.URL("postgres"), Dir: filepath.Join(dir, "temporal")}
	for moment := 150 * time.Millisecond; moment < 2*time.Second; moment += 150 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), moment)
		server, err := devstack.StartTemporal(ctx, o)
		cancel()
		if err == nil {
			server.Kill()
		}
		postgres.Kill()
		postgres, err = pgtemp.Start(t.Context(), options)
		require.NoError(t, err)
	}
	server, err := devstack.StartTemporal(t.Context(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	c, err := server.Dial(t.Context())
	require.NoError(t, err)
	defer c.Close()
	running := func() {
		description, err := c.DescribeWorkflowExecution(t.Context(), "cs_after", "")
		require.NoError(t, err)
		require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, description.WorkflowExecutionInfo.Status)
	}
	_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "cs_after", TaskQueue: "nobody-polls", TypedSearchAttributes: temporal.NewSearchAttributes(
			contract.SearchAttributeMerchantID.ValueSet("mer_1"), contract.SearchAttributeSessionStatus.ValueSet("pending")),
	}, "CheckoutSession")
	require.NoError(t, err)
	running()

	require.ErrorContains(t, server.Start(t.Context()), "it runs already")
	address := server.Address()
	server.Kill()
	require.ErrorContains(t, server.Err(), "temporal ended (signal: killed)")
	server, err = devstack.StartTemporal(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, address, server.Address(), "clients find it again")
	running()
}

func TestStartTemporal_TellsWhyItCannot(t *testing.T) {
	t.Parallel()
	_, err := devstack.StartTemporal(t.Context(), devstack.TemporalOptions{PostgresURL: "postgres://me:secret@[::1"})
	require.EqualError(t, err, "start Temporal: PostgresURL is not a postgres:// URL with user and host")
}
