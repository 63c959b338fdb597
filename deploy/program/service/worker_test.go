package service

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/activities"
	"example.com/checkout/worker"
)

// TestStartWorkers_WaitsForASilentTemporal: a server that takes connections and never answers does not end the process.
func TestStartWorkers_WaitsForASilentTemporal(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	temporal, err := client.NewLazyClient(client.Options{HostPort: silent.Addr().String()})
	require.NoError(t, err)
	defer temporal.Close()
	o := worker.Options{Payments: &activities.Payments{}, Housekeeping: &activities.Housekeeping{},
		Deliveries: &activities.Deliveries{}, Pictures: &activities.Pictures{}}

	_, err = worker.Start(temporal, o)
	require.True(t, temporalIsAway(err), "%T %v", err, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = startWorkers(ctx, temporal, o)
	require.ErrorContains(t, err, "last answer", "it waited until the process was stopped")
}
