package workflows_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/worker"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/contract"
)

// The histories were recorded on the real server from code that was committed:
// go test ./deploy/proof/e2e -run TestHistories -record-histories $PWD/workflows/testdata/histories

// historiesDir lets the same tests replay histories that were recorded just now.
var historiesDir = flag.String("histories", storedHistories, "directory of the histories")

const storedHistories = "testdata/histories"

// history is one recorded run.
type history struct {
	*historypb.History
	name, workflow string
	run            workflow.Execution // of one that an operator reset: it has another id than the one that it began with
	signals        int
	closed         bool
}

func histories(t *testing.T) []history {
	paths := must.Get(filepath.Glob(filepath.Join(*historiesDir, "*.json")))(t)
	require.NotEmpty(t, paths, "no histories are stored")
	var all []history
	for _, path := range paths {
		h := history{History: readHistory(t, path), name: strings.TrimSuffix(filepath.Base(path), ".json")}
		h.workflow = h.Events[0].GetWorkflowExecutionStartedEventAttributes().WorkflowType.Name
		for _, e := range h.Events {
			if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
				h.signals++
			}
			if reset := e.GetWorkflowTaskFailedEventAttributes().GetNewRunId(); reset != "" {
				h.run = workflow.Execution{ID: "replayed", RunID: reset}
			}
		}
		last := h.Events[len(h.Events)-1].EventType
		h.closed = last == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED || last == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED
		all = append(all, h)
	}
	return all
}

func readHistory(t *testing.T, path string) *historypb.History {
	text := must.Get(os.ReadFile(path))(t)
	h := must.Get(client.HistoryFromJSON(bytes.NewReader(text), client.HistoryJSONOptions{}))(t)
	return h
}

func TestReplay_EveryStoredHistory(t *testing.T) {
	t.Parallel()
	seen := map[string][2]bool{}
	for _, h := range histories(t) {
		require.NoError(t, worker.Replay(h.run, h.History), h.name)
		s := seen[h.workflow]
		if h.closed {
			s[0] = true
		} else {
			s[1] = true
		}
		seen[h.workflow] = s
	}
	for _, name := range []string{contract.TypeCheckoutSession, contract.TypePayout, contract.TypeWebhookDelivery, contract.TypeWebhookReplay} {
		require.Equal(t, [2]bool{true, true}, seen[name], "%s has a closed and an open history", name)
	}
}

// TestReplay_SessionsStayWithinTheirBudget holds the stored histories of sessions that have
// ended against the table of README.md. Histories that were recorded just now may have a task more:
// on a busy machine a message or a child's end comes in a task of its own.
func TestReplay_SessionsStayWithinTheirBudget(t *testing.T) {
	t.Parallel()
	if *historiesDir != storedHistories {
		t.Skip("the budget is that of the stored histories")
	}
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	budgets := map[string]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| .* \\| `(\\w+)` \\| (\\d+) \\|$").FindAllStringSubmatch(string(text), -1) {
		budgets[row[1]], err = strconv.Atoi(row[2])
		require.NoError(t, err)
	}

	for _, h := range histories(t) {
		if h.workflow != contract.TypeCheckoutSession || !h.closed {
			continue
		}
		require.Contains(t, budgets, h.name, "README.md does not say what such a session costs")
		budget := budgets[h.name] + 4*max(0, h.signals-1) // a slow worker is called again
		require.LessOrEqual(t, len(h.Events), budget, h.name)
		t.Logf("%s: %d of %d events", h.name, len(h.Events), budget)
	}
}

// TestReplay_FindsChangedWorkflows breaks each workflow on purpose; replaying the stored histories must find every
// break. An open history that ends before the break cannot; that is why closed ones are stored as well.
func TestReplay_FindsChangedWorkflows(t *testing.T) {
	t.Parallel()
	var (
		payments     *activities.Payments
		deliveries   *activities.Deliveries
		housekeeping *activities.Housekeeping
		books        *activities.Books
	)
	pause := func(ctx workflow.Context) { _ = workflow.Sleep(ctx, time.Second) } // the command is what counts
	run := func(activity any) func(workflow.Context) {
		return func(ctx workflow.Context) {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Second})
			_ = workflow.ExecuteActivity(ctx, activity, nil).Get(ctx, nil)
		}
	}
	for name, variant := range map[string]struct {
		workflow string
		changed  any
	}{
		"session: a pause before the timer":              {contract.TypeCheckoutSession, after(pause, workflows.CheckoutSession)},
		"payout: another activity":                       {contract.TypePayout, after(run(payments.ChargeCard), workflows.Payout)},
		"delivery: another activity":                     {contract.TypeWebhookDelivery, after(run(deliveries.FailDelivery), workflows.WebhookDelivery)},
		"merchant update: a pause before the deliveries": {contract.TypeMerchantUpdate, after(pause, workflows.MerchantUpdate)},
		"bulk replay: an activity before its first step": {contract.TypeWebhookReplay, after(run(deliveries.NextReplayed), workflows.WebhookReplay)},
		"reconcile: another order":                       {contract.TypeReconcile, after(run(housekeeping.RestartOrphans), workflows.Reconcile)},
		"books: another order":                           {contract.TypeBooks, after(run(books.SendRefunds), workflows.Books)},
	} {
		found := 0
		for _, h := range histories(t) {
			if h.workflow != variant.workflow {
				continue
			}
			replayer := sdkworker.NewWorkflowReplayer()
			replayer.RegisterWorkflowWithOptions(variant.changed, workflow.RegisterOptions{Name: variant.workflow})
			err := replayer.ReplayWorkflowHistoryWithOptions(quiet, h.History, sdkworker.ReplayWorkflowHistoryOptions{OriginalExecution: h.run})
			if err != nil {
				require.ErrorContains(t, err, "TMPRL1100", name) // non-deterministic, and nothing else is wrong
				found++
			}
		}
		require.NotZero(t, found, name)
		t.Logf("%s: found in %d histories", name, found)
	}
}

// after returns a workflow that begins with another step.
func after(step func(workflow.Context), story any) any {
	return reflect.MakeFunc(reflect.TypeOf(story), func(args []reflect.Value) []reflect.Value {
		step(args[0].Interface().(workflow.Context))
		return reflect.ValueOf(story).Call(args)
	}).Interface()
}

func TestReplay_FindsRenamedFieldsAndUnknownWorkflows(t *testing.T) {
	t.Parallel()
	stored := func(name string) *historypb.History { return readHistory(t, filepath.Join(storedHistories, name)) }

	renamed := stored("checkout_session_waiting.json")
	input := renamed.Events[0].GetWorkflowExecutionStartedEventAttributes().Input.Payloads[0]
	input.Data = bytes.Replace(input.Data, []byte(`"id"`), []byte(`"session_id"`), 1)
	require.EqualError(t, worker.Replay(workflow.Execution{}, renamed),
		`contract.CheckoutSessionInput cannot be read: json: unknown field "session_id"`)

	input.Data = bytes.Replace(input.Data, []byte(`"session_id"`), []byte(`"payment_id"`), 1)
	require.EqualError(t, worker.Replay(workflow.Execution{}, renamed), `contract.CheckoutSessionInput has no field "id"`)

	answered := stored("webhook_delivery_delivered.json")
	changed := false
	for _, e := range answered.Events {
		for _, result := range e.GetMarkerRecordedEventAttributes().GetDetails()["result"].GetPayloads() {
			result.Data = bytes.Replace(result.Data, []byte(`"status"`), []byte(`"state"`), 1)
			changed = true
		}
	}
	require.True(t, changed)
	require.EqualError(t, worker.Replay(workflow.Execution{}, answered),
		`contract.SendAttemptResult cannot be read: json: unknown field "state"`)

	gone := stored("merchant_update.json")
	gone.Events[0].GetWorkflowExecutionStartedEventAttributes().WorkflowType.Name = "Gone"
	require.EqualError(t, worker.Replay(workflow.Execution{}, gone), "this version does not have the workflow")
}
