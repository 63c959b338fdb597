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

// A stack is PostgreSQL and Temporal in one directory.
type stack struct {
	postgres *pgtemp.Server
	temporal *devstack.Temporal
	program  string
	dir      string
}

// newStack returns a stack without Temporal.
func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{dir: t.TempDir()}
	var err error
	s.program, err = devstack.TemporalProgram.Build(t.Context(), t.Output())
	require.NoError(t, err)
	s.startPostgres(t)
	t.Cleanup(func() { require.NoError(t, s.postgres.Stop()) })
	return s
}

func (s *stack) startPostgres(t *testing.T) {
	t.Helper()
	port := 0
	if s.postgres != nil {
		port = s.postgres.Port()
	}
	var err error
	s.postgres, err = pgtemp.Start(t.Context(), pgtemp.Options{Dir: filepath.Join(s.dir, "postgres"), Port: port})
	require.NoError(t, err)
}

func (s *stack) startTemporal(t *testing.T) *devstack.Temporal {
	t.Helper()
	server, err := devstack.StartTemporal(t.Context(), s.temporalOptions())
	require.NoError(t, err)
	return server
}

func (s *stack) temporalOptions() devstack.TemporalOptions {
	return devstack.TemporalOptions{
		Program:     s.program,
		PostgresURL: s.postgres.URL("postgres"),
		Dir:         filepath.Join(s.dir, "temporal"),
	}
}

func requireRunning(t *testing.T, c client.Client, id string) {
	t.Helper()
	description, err := c.DescribeWorkflowExecution(t.Context(), id, "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, description.WorkflowExecutionInfo.Status)
}

// Every round gets a little further before the test kills everything. What the last one starts goes on
// after a kill, on the same address.
func TestStack_FirstStartIsKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("breaks a stack on purpose: -long runs it")
	}
	s := newStack(t)
	for moment := 150 * time.Millisecond; moment < 2*time.Second; moment += 150 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), moment)
		server, err := devstack.StartTemporal(ctx, s.temporalOptions())
		cancel()
		if err == nil {
			server.Kill()
		}
		s.postgres.Kill()
		s.startPostgres(t)
	}
	s.temporal = s.startTemporal(t)
	defer func() { require.NoError(t, s.temporal.Stop()) }()
	c, err := s.temporal.Dial(t.Context())
	require.NoError(t, err)
	defer c.Close()
	address := s.temporal.Address()
	_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "cs_after", TaskQueue: "nobody-polls", TypedSearchAttributes: temporal.NewSearchAttributes(
			contract.SearchAttributeMerchantID.ValueSet("mer_1"), contract.SearchAttributeSessionStatus.ValueSet("pending")),
	}, "CheckoutSession")
	require.NoError(t, err)
	requireRunning(t, c, "cs_after")

	require.ErrorContains(t, s.temporal.Start(t.Context()), "it runs already")
	s.temporal.Kill()
	require.ErrorContains(t, s.temporal.Err(), "temporal ended (signal: killed)")
	s.temporal = s.startTemporal(t)
	require.Equal(t, address, s.temporal.Address(), "clients find it again")
	requireRunning(t, c, "cs_after")
}

func TestStartTemporal_TellsWhyItCannot(t *testing.T) {
	t.Parallel()
	_, err := devstack.StartTemporal(t.Context(), devstack.TemporalOptions{PostgresURL: "postgres://me:secret@[::1"})
	require.EqualError(t, err, "start Temporal: PostgresURL is not a postgres:// URL with user and host")
}
