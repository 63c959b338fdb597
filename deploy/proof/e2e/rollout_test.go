package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
)

// TestRollout_FailsNoRequest replaces all processes by those of the next build, and back again, under
// load: two APIs behind HAProxy, one after the other, and two workers.
func TestRollout_FailsNoRequest(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	program := need.Program(t, "apt-get install --no-install-recommends haproxy", "haproxy")
	stack := e2e.Beside(t, devstack.Options{
		RetrySchedule: e2e.SharedSchedule, Env: []string{"TEMPORAL_WORKER_BUILD_ID=one", "CHECKOUT_STOP_DELAY=5s"},
	})
	f := startFleet(t, stack, program)
	e2e.Release(t, stack, "one")
	m := e2e.NewMerchant(t, stack)
	load := e2e.StartLoad(m)
	f.change(m, "one", "two")
	f.change(m, "two", "one")
	paid, faults := load.Stop()
	require.Empty(t, faults, "no request failed meanwhile")
	require.Greater(t, len(paid), 20)
	for _, id := range paid {
		m.AwaitStatus(id, checkout.StatusCompleted, 10*time.Second)
	}
	e2e.RequireInvariants(t, stack, e2e.SharedSchedule)
	f.requireOneBuildEach(paid)
}

// fleet is two APIs and two workers of a stack. The APIs are behind a proxy at the stack's addresses.
type fleet struct {
	t        *testing.T
	stack    *devstack.Stack
	temporal client.Client
	ports    []int // REST API, page and dashboard of the first API, then of the second
	status   string
	apis     []*devstack.Process
	workers  []*devstack.Process
}

// startFleet makes a stack of build one a fleet.
func startFleet(t *testing.T, stack *devstack.Stack, haproxy string) *fleet {
	ports := must.Get(pgtemp.FreePorts(7))(t)
	f := &fleet{
		t: t, stack: stack, temporal: e2e.TemporalClient(t, stack), ports: ports[:6],
		status: fmt.Sprintf("127.0.0.1:%d", ports[6]),
	}
	f.apis = []*devstack.Process{f.startAPI(0, "one"), f.startAPI(1, "one")}
	f.workers = []*devstack.Process{stack.Worker, f.start("worker", "one")}
	require.NoError(t, stack.API.Stop(longestStop))

	dir := t.TempDir()
	file := filepath.Join(dir, "haproxy.cfg")
	require.NoError(t, os.WriteFile(file, []byte(f.configuration()), 0o600))
	proxy := must.Get(devstack.Program{
		Name: "HAProxy", Path: haproxy, Args: []string{"-db", "-f", file}, Dir: dir, Log: stack.Log("haproxy"),
	}.Start())(t)
	t.Cleanup(proxy.Kill)
	f.awaitReady()
	return f
}

// configuration makes HAProxy try each request once.
func (f *fleet) configuration() string {
	address := func(url string) string { return strings.TrimPrefix(url, "http://") }
	return fmt.Sprintf(`
defaults
  mode http
  retries 0
  timeout connect 30s
  timeout client 2m
  timeout server 2m
  timeout check 30s
  option httpchk GET /readyz
  default-server check inter 300ms fall 2 rise 1
listen api
  bind %s
  server first 127.0.0.1:%d
  server second 127.0.0.1:%d
listen page
  bind %s
  server first 127.0.0.1:%d port %d
  server second 127.0.0.1:%d port %d
listen status
  bind %s
  stats enable
  stats uri /
`, address(f.stack.APIURL()), f.ports[0], f.ports[3],
		address(f.stack.PageURL()), f.ports[1], f.ports[0], f.ports[4], f.ports[3], f.status)
}

// awaitReady waits until HAProxy sends requests to both APIs.
func (f *fleet) awaitReady() {
	e2e.Await(f.t, "HAProxy finds both APIs ready", 20*time.Second, func() bool {
		for _, api := range f.apis {
			require.NoError(f.t, api.Err())
		}
		got, _ := e2e.Try(http.MethodGet, "http://"+f.status+"/;csv", "") // no answer while HAProxy starts
		return ready(string(got.Body)) == 4                               // both, for the REST API and for the page
	})
}

// ready counts the servers that HAProxy's table says are up.
func ready(table string) (n int) {
	for row := range strings.Lines(table) {
		const server, status = 1, 17 // columns
		if cells := strings.Split(row, ","); len(cells) > status && cells[status] == "UP" &&
			(cells[server] == "first" || cells[server] == "second") {
			n++
		}
	}
	return n
}

func (f *fleet) start(command, build string, env ...string) *devstack.Process {
	process, err := f.stack.StartMore(command, command+"-"+build, append(env, "TEMPORAL_WORKER_BUILD_ID="+build)...)
	require.NoError(f.t, err)
	f.t.Cleanup(process.Kill)
	return process
}

// startAPI starts the first or the second API (0, 1) and waits until it is ready.
func (f *fleet) startAPI(i int, build string) *devstack.Process {
	at := func(listener int) string { return fmt.Sprintf("127.0.0.1:%d", f.ports[3*i+listener]) }
	api := f.start("api", build, "CHECKOUT_API_ADDRESS="+at(0), "CHECKOUT_PAGE_ADDRESS="+at(1), "CHECKOUT_DASHBOARD_ADDRESS="+at(2))
	e2e.Await(f.t, "an API of build "+build+" is ready", 20*time.Second, func() bool {
		require.NoError(f.t, api.Err())
		got, _ := e2e.Try(http.MethodGet, "http://"+at(0)+"/readyz", "") // no answer while it starts
		return got.Status == http.StatusOK
	})
	return api
}

// change replaces all processes of build from by those of build to, as deploy/release/operate.md says.
func (f *fleet) change(m *e2e.Merchant, from, to string) {
	waiting := m.Create(e2e.Terms)
	e2e.Await(f.t, "the run begins with build "+from, 10*time.Second, func() bool {
		return buildOf(f.t, f.temporal, waiting) == from
	})
	for i := range f.apis {
		f.awaitReady()
		require.NoError(f.t, f.apis[i].Stop(longestStop))
		f.apis[i] = f.startAPI(i, to)
	}

	old := f.workers
	f.workers = []*devstack.Process{f.start("worker", to), f.start("worker", to)}
	require.ErrorContains(f.t, f.drained(from), "new runs start on it")
	require.NoError(f.t, f.drained(to), "it is not released yet")
	e2e.Await(f.t, "build "+to+" is released", time.Minute, func() bool { // Temporal may time out on a busy computer
		return f.release(to, "--wait") == nil
	})
	require.ErrorContains(f.t, f.drained(to), "new runs start on it")
	require.ErrorContains(f.t, f.drained(from), "open runs")
	m.Complete(waiting)
	e2e.Await(f.t, "build "+from+" is drained", 60*time.Second, func() bool { return f.drained(from) == nil })
	for _, worker := range old {
		require.NoError(f.t, worker.Stop(longestStop))
	}
	last := m.Complete(m.Create(e2e.Terms))
	require.Equal(f.t, to, buildOf(f.t, f.temporal, last))
	require.NoError(f.t, f.drained(from), "no run needed the stopped workers")
}

func (f *fleet) drained(build string) error { return f.release("--drained", build) }

func (f *fleet) release(args ...string) error {
	return must.Err(e2e.CheckoutCommand(f.t, f.stack, append([]string{"release"}, args...)...))
}

// requireOneBuildEach requires that every run of a session, payout or delivery ended with the build it
// began with, and that the runs of sessions began with both.
func (f *fleet) requireOneBuildEach(sessions []string) {
	began := map[string]int{} // runs by build
	seen := map[string]string{}
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: `WorkflowType IN ('CheckoutSession', 'Payout', 'WebhookDelivery')`,
	}
	for {
		page := must.Get(f.temporal.ListWorkflow(f.t.Context(), request))(f.t)
		for _, run := range page.Executions {
			builds := map[string]bool{}
			for _, event := range e2e.Events(f.t, f.temporal, run.Execution.WorkflowId, run.Execution.RunId) {
				if task := event.GetWorkflowTaskCompletedEventAttributes(); task != nil {
					seen[run.Execution.WorkflowId] = task.GetDeploymentVersion().GetBuildId()
					builds[seen[run.Execution.WorkflowId]] = true
				}
			}
			require.Len(f.t, builds, 1, "builds of %s: %v", run.Execution.WorkflowId, builds)
			began[seen[run.Execution.WorkflowId]]++
		}
		if request.NextPageToken = page.NextPageToken; len(request.NextPageToken) == 0 {
			break
		}
	}
	for _, id := range sessions {
		require.Contains(f.t, []string{"one", "two"}, seen[id], id)
	}
	f.t.Logf("%d sessions were paid; runs by build: %v", len(sessions), began)
	require.Positive(f.t, began["one"])
	require.Positive(f.t, began["two"])
}

// longestStop is longer than deploy/release/README.md says of an API and of a worker: the computer may be busy.
const longestStop = 60 * time.Second
