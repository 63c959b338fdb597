package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
)

// TestHealth_OldSchemaMakesTheProcessesWait: both processes live without a schema, say what is missing, and go on
// by themselves after checkout setup. A stop makes the API unready before it closes.
func TestHealth_OldSchemaMakesTheProcessesWait(t *testing.T) {
	t.Parallel()
	ports := must.Get(pgtemp.FreePorts(4))(t)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	settings := []string{
		"DATABASE_URL=" + pgtemp.ForTest(t, nil), "TEMPORAL_NAMESPACE=health.a1b2c", "TEMPORAL_ADDRESS=" + e2e.Shared.Temporal.Address(),
		"CHECKOUT_API_ADDRESS=" + at(0), "CHECKOUT_PAGE_ADDRESS=" + at(1), "CHECKOUT_DASHBOARD_ADDRESS=" + at(2),
		"CHECKOUT_HEALTH_ADDRESS=" + at(3), "CHECKOUT_STOP_DELAY=10s",
	}
	urls := map[string]string{"api": "http://" + at(0), "worker": "http://" + at(3)}
	processes := map[string]*devstack.Process{}
	for command := range urls {
		process := must.Get(e2e.Shared.StartMore(command, "health-"+command, settings...))(t)
		t.Cleanup(process.Kill)
		processes[command] = process
	}
	says := func(command, method, path string, status int, want string) (got e2e.Answer) {
		e2e.Await(t, command+" says "+want, 30*time.Second, func() bool {
			require.NoError(t, processes[command].Err())
			got, _ = e2e.Try(method, urls[command]+path, "") // nothing listens yet
			return got.Status == status && bytes.Contains(got.Body, []byte(want))
		})
		return got
	}
	for command := range urls {
		says(command, "GET", "/readyz", 503, "run checkout setup")
		says(command, "GET", "/healthz", 200, "ok")
		says(command, "HEAD", "/healthz", 200, "")
		require.Equal(t, "1", says(command, "GET", "/v1/checkout", 503, "run checkout setup").Header.Get("Retry-After"))
		require.Contains(t, e2e.Log(t, e2e.Shared, "health-"+command), "run checkout setup")
	}

	var out bytes.Buffer
	require.NoError(t, app.Main(t.Context(), []string{"setup"}, settings[:3], &out, &out))
	for command := range urls {
		says(command, "GET", "/readyz", 200, `{"postgresql":"ok","temporal":"ok"}`)
		says(command, "HEAD", "/readyz", 200, "")
	}

	require.NoError(t, syscall.Kill(processes["api"].PID(), syscall.SIGTERM))
	says("api", "GET", "/readyz", 503, "shutting down")
	require.Equal(t, 401, e2e.Ask(t, "GET", urls["api"]+"/v1/checkout", "").Status, "it still answers")
	for _, process := range processes {
		require.NoError(t, process.Stop(40*time.Second))
	}
}

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
	process := must.Get(e2e.Shared.StartMore("worker", "refused-worker", settings...))(t)
	t.Cleanup(process.Kill)
	logged := func(want string) bool { return strings.Contains(e2e.Log(t, e2e.Shared, "refused-worker"), want) }
	e2e.Await(t, "the worker polls", time.Minute, func() bool { return logged("worker polls") })

	temporal := e2e.TemporalClient(t, e2e.Shared)
	gone := &operatorservice.DeleteNamespaceRequest{Namespace: namespace}
	must.Get(temporal.OperatorService().DeleteNamespace(t.Context(), gone))(t)
	e2e.Await(t, "the worker ends", 4*time.Minute, func() bool { return process.Err() != nil })
	require.True(t, logged("the worker is refused by Temporal"))
}

// TestSlowClients_AreCutOffAndHurtNobody: 50 clients that never end their headers.
func TestSlowClients_AreCutOffAndHurtNobody(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	var group sync.WaitGroup
	for range 50 {
		conn := must.Get(net.Dial("tcp", e2e.Shared.APIURL()[len("http://"):]))(t)
		defer func() { _ = conn.Close() }() // all that was to be read has been
		group.Go(func() {
			_, _ = io.WriteString(conn, "POST /v1/checkout HTTP/1.1\r\nHost: x\r\nX-Slow: ") // else the read says it
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Errorf("not cut off: %v after %q", err, answer)
			}
		})
	}
	for range 10 {
		m.Create(e2e.Terms)
	}
	group.Wait()
}
