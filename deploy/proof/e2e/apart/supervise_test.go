package apart

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
)

// TestSupervise_StartsPostgresAgain: kill -9 of the postmaster from outside, which
// the stack only notices, left its directory taken and the stack without a database.
func TestSupervise_StartsPostgresAgain(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.OwnStack(t, devstack.Options{})
	ctx, stop := context.WithCancel(t.Context())
	supervised := make(chan struct{})
	go func() { defer close(supervised); stack.Supervise(ctx) }()
	t.Cleanup(func() { stop(); <-supervised })
	m := e2e.NewMerchant(t, stack)
	require.NoError(t, syscall.Kill(stack.Postgres.PID(), syscall.SIGKILL))
	e2e.Await(t, "sessions are created again", 30*time.Second, func() bool {
		got, err := m.Call(http.MethodPost, "/v1/checkout", e2e.Terms)
		return err == nil && got.Status == http.StatusCreated
	})
}
