package e2e_test

import (
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
)

// madeUp are the options of stacks whose rows a test makes up.
var madeUp = devstack.Options{RetrySchedule: e2e.SharedSchedule, Env: []string{"CHECKOUT_RECONCILE_INTERVAL=5s"}}

var bulkReplay = flag.Int("bulk-replay", 0, "deliveries of the bulk replay that survives kill -9; 0 leaves this long test out")

// replayFrom starts a replay of the last hour's deliveries with further options, and returns its path and id.
func replayFrom(m *e2e.Merchant, endpoint, options string) (path, id string) {
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	created := m.Must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+endpoint+"/replay",
		fmt.Sprintf(`{"since": %q, %s}`, since, options))
	return created.Header.Get("Location"), created.Field("id").(string)
}

// progress returns how many deliveries a replay has started, and its status.
func progress(m *e2e.Merchant, path string) (started int, status string) {
	got, err := m.Call(http.MethodGet, path, "")
	if err != nil || got.Status != http.StatusOK {
		return 0, ""
	}
	m.T.Logf("started %v of %v, skipped %v", got.Field("started"), got.Field("total"), got.Field("skipped"))
	return int(got.Field("started").(float64)), got.Field("status").(string)
}

// awaitProgress waits until a replay has started so many deliveries and, unless it is "", has a status.
func awaitProgress(m *e2e.Merchant, path string, least int, want string) {
	e2e.Await(m.T, fmt.Sprint("the replay has started ", least, " ", want), 2*time.Minute, func() bool {
		started, status := progress(m, path)
		return started >= least && (want == "" || status == want)
	})
}

// TestBulkReplay_SurvivesKill9 replays thousands of deliveries and kills the worker and Temporal in the middle: none is
// lost, and the replay starts each exactly once.
func TestBulkReplay_SurvivesKill9(t *testing.T) {
	t.Parallel()
	n := *bulkReplay
	if n == 0 {
		t.Skip("takes long: -bulk-replay 1000 runs it")
	}
	stack := e2e.OwnStack(t, devstack.Options{Env: []string{"CHECKOUT_RECONCILE_INTERVAL=5s"}})
	m := e2e.NewMerchant(t, stack)
	endpoint := m.FailedDeliveries(n)
	path, _ := replayFrom(m, endpoint, `"rate": 100`)
	awaitProgress(m, path, n/4, "")
	stack.Worker.Kill()
	require.NoError(t, stack.StartWorker(t.Context()))
	awaitProgress(m, path, n/2, "")
	stack.Temporal.Kill()
	require.NoError(t, stack.Temporal.Start(t.Context()))
	awaitProgress(m, path, n, "completed")
	e2e.AwaitQuery(t, "everything is delivered", 5*time.Minute, stack, n, `SELECT count(*) FROM webhook_delivery WHERE status = 'delivered'`)
	require.Equal(t, n, e2e.Query[int](t, stack, `SELECT count(*) FROM webhook_delivery WHERE run = 2`), "each was started exactly once")
	arrived := map[string]int{}
	all, _ := m.Receiver.Arrivals()
	for _, a := range all {
		require.NoError(t, a.Signature)
		arrived[a.Delivery+" "+a.Attempt]++
	}
	lost := e2e.Query[int](t, stack, `SELECT count(*) FROM webhook_attempt WHERE run = 2 AND duration_ms IS NULL`)
	t.Logf("%d requests for %d deliveries; %d attempts were lost with the worker", len(all), n, lost)
	require.LessOrEqual(t, len(all), n+lost, "only what was under way when the worker died came twice")
	for delivery, times := range arrived {
		require.Equal(t, 1, times, delivery)
	}
}

// TestBulkReplay_Cancel stops a replay; what it has started goes on.
func TestBulkReplay_Cancel(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Beside(t, madeUp))
	endpoint := m.FailedDeliveries(300)
	path, _ := replayFrom(m, endpoint, `"rate": 5`)
	awaitProgress(m, path, 1, "")
	m.Must(http.StatusOK, http.MethodPost, path+"/cancel", "")
	awaitProgress(m, path, 1, "canceled")
	started, _ := progress(m, path)
	require.Less(t, started, 300)
	m.Arrivals(started, 30*time.Second)
	e2e.AwaitQuery(t, "what was started is delivered", 10*time.Second, m.Stack, started, `SELECT count(*) FROM webhook_delivery WHERE endpoint_id = $1 AND status = 'delivered'`, endpoint)
	require.Equal(t, 300-started, e2e.Query[int](t, m.Stack, `SELECT count(*) FROM webhook_delivery WHERE endpoint_id = $1 AND status = 'failed'`, endpoint))
}

// TestBulkReplay_GoesOnAfterItWasTerminated: Reconcile starts it again where it was.
func TestBulkReplay_GoesOnAfterItWasTerminated(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Beside(t, madeUp))
	endpoint := m.FailedDeliveries(24)
	// A delivery that stays delivered is chosen again, however often it is replayed.
	e2e.Query[int](t, m.Stack, `WITH u AS (UPDATE webhook_delivery SET status = 'delivered' WHERE endpoint_id = $1 RETURNING 1) SELECT count(*) FROM u`, endpoint)
	path, id := replayFrom(m, endpoint, `"status": "delivered", "rate": 5`)
	awaitProgress(m, path, 10, "")
	require.NoError(t, e2e.TemporalClient(t, m.Stack).TerminateWorkflow(t.Context(), id, "", "a test"))
	awaitProgress(m, path, 10, "completed")
	again := e2e.Query[int](t, m.Stack, `SELECT count(*) FROM webhook_delivery WHERE endpoint_id = $1 AND run > 2`, endpoint)
	require.LessOrEqual(t, again, 5, "at most those of the second in which it was terminated")
	m.Arrivals(24+again, 10*time.Second)
}
