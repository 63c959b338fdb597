package pgtemp_test

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
)

// TestReady_SaysWhyThereIsNoAnswer has a process that ends, one that never answers, and one that answers late.
func TestReady_SaysWhyThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	refuse := func(context.Context) error { return refused }

	ends, err := pgtemp.StartTied(exec.Command("sh", "-c", "exit 3"), syscall.SIGKILL)
	require.NoError(t, err)
	require.EqualError(t, ends.Ready(t.Context(), refuse), "it ended (exit status 3): connection refused")

	runs, err := pgtemp.StartTied(exec.Command("sleep", "600"), syscall.SIGKILL)
	require.NoError(t, err)
	t.Cleanup(runs.Kill)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("too late"))
	defer cancel()
	err = runs.Ready(ctx, refuse)
	require.EqualError(t, err, "too late: connection refused")
	require.ErrorIs(t, err, refused)

	looks := 0
	require.NoError(t, runs.Ready(t.Context(), func(context.Context) error {
		if looks++; looks < 3 {
			return refused
		}
		return nil
	}))
}
