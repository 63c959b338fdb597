package e2e_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/storage/pgtemp"
)

// TestWorker_ThatTemporalRefusesEnds: Temporal lost its namespace. The SDK stops polling two minutes after the last
// successful poll. A process that lived on would look healthy, and all its work would stand still.
func TestWorker_ThatTemporalRefusesEnds(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	const namespace = "refused.a1b2c"
	settings := []string{
		"DATABASE_URL=" + pgtemp.ForTest(t, nil), "TEMPORAL_NAMESPACE=" + namespace,
		"TEMPORAL_ADDRESS=" + e2e.Shared.Temporal.Address(), "CHECKOUT_HEALTH_ADDRESS=127.0.0.1:0",
	}
	var out bytes.Buffer
	require.NoError(t, app.Main(t.Context(), []string{"setup"}, settings[:3], &out, &out))
	process, err := e2e.Shared.StartMore("worker", "refused-worker", settings...)
	require.NoError(t, err)
	t.Cleanup(process.Kill)
	logged := func(want string) func() bool {
		return func() bool {
			log, err := os.ReadFile(e2e.Shared.Log("refused-worker"))
			require.NoError(t, err)
			return bytes.Contains(log, []byte(want))
		}
	}
	e2e.Await(t, "the worker polls", time.Minute, logged("worker polls"))

	temporal := e2e.TemporalClient(t, e2e.Shared)
	_, err = temporal.OperatorService().DeleteNamespace(t.Context(), &operatorservice.DeleteNamespaceRequest{Namespace: namespace})
	require.NoError(t, err)
	e2e.Await(t, "the worker ends", 4*time.Minute, func() bool { return process.Err() != nil })
	require.True(t, logged("the worker is refused by Temporal")())
}
