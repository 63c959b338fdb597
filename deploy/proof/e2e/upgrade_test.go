package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/contract"
)

// TestUpgrade_RunsEndOnTheirBuild: two builds at once under load. Runs that are open stay with the old one, new ones
// begin with the new one after its release, and the old one can stop once its runs have ended.
func TestUpgrade_RunsEndOnTheirBuild(t *testing.T) { // alone: it measures time
	stack := e2e.Beside(t, devstack.Options{RetrySchedule: "1h,1h,1h,1h,1h", Env: []string{"TEMPORAL_WORKER_BUILD_ID=one"}})
	c := e2e.TemporalClient(t, stack)
	e2e.Await(t, "the worker says that its build must be released", 10*time.Second, func() bool {
		return strings.Contains(e2e.Log(t, stack, "worker"), "run checkout release")
	})
	e2e.Release(t, stack, "one")
	m, failing := e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)
	waiting := m.Create(e2e.Terms)
	failing.Receiver.Answer(http.StatusInternalServerError)
	refused := failing.Sell(e2e.CardDeclined)
	failing.Arrivals(1, 10*time.Second)

	load := e2e.StartLoad(m)
	two := startWorker(t, stack, "two")
	e2e.Release(t, stack, "two")
	released := time.Now()
	migrate(t, stack)
	e2e.Await(t, "sessions of the new build", 30*time.Second, func() bool { return load.Since(released) > 10 })
	paid, faults := load.Stop()
	require.Empty(t, faults, "no request failed meanwhile")
	require.Greater(t, len(paid), 5)

	log := e2e.Log(t, stack, "worker-two")
	require.Contains(t, log, "open runs fit this version")

	m.Complete(waiting)
	failing.Receiver.Answer(http.StatusOK)
	delivery := e2e.DeliveryOf(t, stack, refused, "checkout.failed")
	failing.Must(http.StatusAccepted, http.MethodPost, "/v1/deliveries/"+delivery+"/retry_now", "")
	failing.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
	builds := map[string]int{}
	for _, id := range append(paid, waiting) {
		require.Equal(t, "completed", m.Session(id).Field("status"))
		e2e.AwaitRun(t, c, id, id+" has ended in Temporal", 10*time.Second, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		builds[buildOf(t, c, id)]++
	}
	require.Equal(t, "one", buildOf(t, c, waiting), "open runs stay")
	require.Positive(t, builds["two"], "new runs begin with the new build")
	require.Equal(t, len(paid)+1, builds["one"]+builds["two"])

	// The refused payment may be tried again. The index of runs follows with a delay.
	e2e.Await(t, "one run is open", 60*time.Second, func() bool {
		out, err := e2e.CheckoutCommand(t, stack, "release", "--drained", "one")
		return err != nil && strings.Contains(out, "build one is needed: it has 1 open runs")
	})
	out := e2e.MustCommand(t, stack, "release", "--runs")
	require.Contains(t, out, "one\t1 open")
	failing.Must(http.StatusOK, http.MethodPost, "/v1/checkout/"+refused+"/expire", "")
	e2e.Await(t, "the old build is drained", 60*time.Second, func() bool {
		out, err := e2e.CheckoutCommand(t, stack, "release", "--drained", "one")
		return err == nil && strings.Contains(out, "Build one has drained")
	})
	e2e.RequireRefused(t, stack, "build two is needed: new runs start on it", "release", "--drained", "two")
	out = e2e.MustCommand(t, stack, "release", "--drained", "three")
	require.Contains(t, out, "Temporal knows no build three")
	require.NoError(t, stack.Worker.Stop(20*time.Second), "the old build is not needed any more")
	last := m.Complete(m.Create(e2e.Terms))
	require.Equal(t, "two", buildOf(t, c, last))
	require.NoError(t, two.Stop(20*time.Second))
}

// TestUpgrade_ABuildWithoutWorkersIsToldAndNotReleased: the workers of the released build are gone, so new payments
// stand still. A worker of another build says so, and the build is not released a second time.
func TestUpgrade_ABuildWithoutWorkersIsToldAndNotReleased(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.Beside(t, devstack.Options{Env: []string{"TEMPORAL_WORKER_BUILD_ID=one"}})
	e2e.Release(t, stack, "one")
	m := e2e.NewMerchant(t, stack)
	two := startWorker(t, stack, "two")
	e2e.Release(t, stack, "two")
	require.NoError(t, two.Stop(20*time.Second))
	id := m.Create(e2e.Terms)

	e2e.Await(t, "build two is refused", 3*time.Minute, func() bool { // its last poll counts for 90 seconds
		out, err := e2e.CheckoutCommand(t, stack, "release", "two")
		return err != nil && strings.Contains(out, "no worker of this build polls both task queues")
	})
	e2e.Await(t, "the worker of build one names build two", 3*time.Minute, func() bool {
		return strings.Contains(e2e.Log(t, stack, "worker"), `"builds":["two"]`)
	})
	e2e.MustCommand(t, stack, "release", "one")
	m.MustPay(id, e2e.CardSucceeds)
	m.Complete(m.Create(e2e.Terms))
}

// TestUpgrade_OverRunsThatDoNotFitIsRefusedWithTheSteps: an earlier version without a build id called the session's id
// otherwise, and began a delivery with another command. The setup and a worker refuse to start over such runs and say
// what to do; the steps lose nothing.
func TestUpgrade_OverRunsThatDoNotFitIsRefusedWithTheSteps(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.Beside(t, devstack.Options{})
	c := e2e.TemporalClient(t, stack)
	m := e2e.NewMerchant(t, stack)
	m.Receiver.Answer(http.StatusInternalServerError)
	refused := m.Sell(e2e.CardDeclined)
	m.Arrivals(1, 10*time.Second)
	delivery := e2e.DeliveryOf(t, stack, refused, "checkout.failed")
	pending := m.Create(e2e.Terms)
	require.NoError(t, stack.Worker.Stop(20*time.Second))

	earlier := map[string]worker.Worker{contract.TaskQueueCheckout: nil, contract.TaskQueueWebhooks: nil}
	for queue := range earlier {
		earlier[queue] = worker.New(c, queue, worker.Options{})
		for _, name := range []string{contract.TypeCheckoutSession, contract.TypeWebhookDelivery} {
			earlier[queue].RegisterWorkflowWithOptions(func(ctx workflow.Context, _ map[string]string) error {
				return workflow.Sleep(ctx, time.Hour)
			}, workflow.RegisterOptions{Name: name})
		}
		require.NoError(t, earlier[queue].Start())
	}
	begin := func(queue, name, id string, input map[string]string) {
		must.Get(c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			ID: id, TaskQueue: queue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING,
		}, name, input))(t)
		e2e.Await(t, id+" sleeps", 20*time.Second, func() bool { return len(e2e.Events(t, c, id, "")) >= 5 })
	}
	begin(contract.TaskQueueCheckout, contract.TypeCheckoutSession, pending, map[string]string{"session_id": pending})
	begin(contract.TaskQueueWebhooks, contract.TypeWebhookDelivery, delivery, map[string]string{
		"merchant_id": m.ID, "mode": "test", "id": delivery, "event_type": "checkout.failed", "host": "127.0.0.1",
	})
	for _, old := range earlier {
		old.Stop()
	}

	var out string
	e2e.Await(t, "Temporal's list has the runs, and the setup refuses", 30*time.Second, func() bool {
		var err error
		out, err = e2e.CheckoutCommand(t, stack, "setup")
		return err != nil && strings.Contains(out, pending) && strings.Contains(out, delivery)
	})
	require.Contains(t, out, "this version cannot go on with open runs of an earlier one")
	require.Contains(t, out, `contract.CheckoutSessionInput cannot be read: json: unknown field "session_id"`)
	require.Contains(t, out, "checkout setup --restart-runs")
	require.Contains(t, out, `"checkout release --runs" counts those without one`)
	require.NoError(t, stack.StartWorker(t.Context()))
	<-stack.Worker.Done()
	require.ErrorContains(t, stack.Worker.Err(), "exit status 1")
	log := e2e.Log(t, stack, "worker")
	require.Contains(t, log, "checkout setup --restart-runs")
	out = e2e.MustCommand(t, stack, "release", "--runs")
	require.Regexp(t, `without a build\t[2-9] open`, out)

	m.Receiver.Answer(http.StatusOK)
	out = e2e.MustCommand(t, stack, "setup", "--restart-runs")
	require.Regexp(t, "terminated [2-9] open runs", out)
	require.NoError(t, stack.StartWorker(t.Context()))
	m.Complete(pending)
	m.AwaitDelivery(delivery, "status", "delivered", 2*time.Minute)
	require.Equal(t, 1, m.Charges(pending))
}

// migrate changes the schema as a migration for the next build may: something is added that this build does not know.
func migrate(t *testing.T, stack *devstack.Stack) {
	for _, statement := range []string{
		`ALTER TABLE checkout_session ADD COLUMN next_build text`,
		`ALTER TABLE webhook_delivery ADD COLUMN next_build integer NOT NULL DEFAULT 7`,
		`CREATE INDEX CONCURRENTLY checkout_session_next ON checkout_session (next_build)`,
	} {
		e2e.Exec(t, stack, statement)
	}
}

func startWorker(t *testing.T, stack *devstack.Stack, build string) *devstack.Process {
	worker := must.Get(stack.StartMore("worker", "worker-"+build, "TEMPORAL_WORKER_BUILD_ID="+build))(t)
	t.Cleanup(worker.Kill)
	return worker
}

func buildOf(t *testing.T, c client.Client, id string) string {
	got := must.Get(c.DescribeWorkflowExecution(t.Context(), id, ""))(t)
	return got.WorkflowExecutionInfo.GetVersioningInfo().GetDeploymentVersion().GetBuildId()
}
