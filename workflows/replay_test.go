package workflows_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
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
	path, workflow string
	events         int
	signals        int
	closed         bool
}

func histories(t testing.TB) []history {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(*historiesDir, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, "no histories are stored")
	var all []history
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var h struct {
			Events []struct {
				EventType  string
				Attributes struct {
					WorkflowType struct{ Name string }
				} `json:"workflowExecutionStartedEventAttributes"`
			}
		}
		require.NoError(t, json.Unmarshal(text, &h))
		last := h.Events[len(h.Events)-1].EventType
		signals := 0
		for _, e := range h.Events {
			if e.EventType == "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED" {
				signals++
			}
		}
		all = append(all, history{path, h.Events[0].Attributes.WorkflowType.Name, len(h.Events), signals,
			strings.HasPrefix(last, "EVENT_TYPE_WORKFLOW_EXECUTION_") && (strings.HasSuffix(last, "COMPLETED") || strings.HasSuffix(last, "FAILED"))})
	}
	return all
}

func replay(path string, register func(worker.WorkflowReplayer)) error {
	r := worker.NewWorkflowReplayer()
	register(r)
	text, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = text.Close() }() // read only
	history, err := client.HistoryFromJSON(text, client.HistoryJSONOptions{})
	if err != nil {
		return err
	}
	var options worker.ReplayWorkflowHistoryOptions
	for _, e := range history.Events { // a run that an operator reset has another id than the one that it began with
		if reset := e.GetWorkflowTaskFailedEventAttributes().GetNewRunId(); reset != "" {
			options.OriginalExecution = workflow.Execution{ID: "replayed", RunID: reset}
		}
	}
	return r.ReplayWorkflowHistoryWithOptions(quiet, history, options)
}

func registered(r worker.WorkflowReplayer) {
	workflows.RegisterCheckout(replayRegistry{r})
	workflows.RegisterWebhooks(replayRegistry{r})
}

// replayRegistry makes a replayer what Register… take; the dynamic part is unused.
type replayRegistry struct{ worker.WorkflowReplayer }

func (replayRegistry) RegisterDynamicWorkflow(any, workflow.DynamicRegisterOptions) {}

func TestReplay_EveryStoredHistory(t *testing.T) {
	t.Parallel()
	seen := map[string][2]bool{}
	for _, h := range histories(t) {
		require.NoError(t, replay(h.path, registered), h.path)
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
		name := strings.TrimSuffix(filepath.Base(h.path), ".json")
		require.Contains(t, budgets, name, "README.md does not say what such a session costs")
		budget := budgets[name] + 4*max(0, h.signals-1) // a slow worker is called again
		require.LessOrEqual(t, h.events, budget, name)
		t.Logf("%s: %d of %d events", name, h.events, budget)
	}
}

// TestReplay_FindsChangedWorkflows breaks each workflow on purpose; replaying
// the stored histories must find every break. An open history that ends before
// the break cannot; that is why closed ones are stored as well.
func TestReplay_FindsChangedWorkflows(t *testing.T) {
	t.Parallel()
	var (
		payments   *activities.Payments
		deliveries *activities.Deliveries

		housekeeping *activities.Housekeeping
		books        *activities.Books
	)
	activityFirst := func(ctx workflow.Context, activity any) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Second})
		_ = workflow.ExecuteActivity(ctx, activity, nil).Get(ctx, nil) // the command is what counts
	}
	for name, variant := range map[string]struct {
		workflow string
		changed  any
	}{
		"session: a pause before the timer": {contract.TypeCheckoutSession,
			func(ctx workflow.Context, in contract.CheckoutSessionInput) (contract.CheckoutSessionResult, error) {
				_ = workflow.Sleep(ctx, time.Second)
				return workflows.CheckoutSession(ctx, in)
			}},
		"payout: another activity": {contract.TypePayout,
			func(ctx workflow.Context, in contract.PayoutInput) (contract.PayoutResult, error) {
				activityFirst(ctx, payments.ChargeCard)
				return contract.PayoutResult{}, nil
			}},
		"delivery: another activity": {contract.TypeWebhookDelivery,
			func(ctx workflow.Context, in contract.WebhookDeliveryInput) (contract.WebhookDeliveryResult, error) {
				activityFirst(ctx, deliveries.FailDelivery)
				return contract.WebhookDeliveryResult{}, nil
			}},
		"merchant update: a pause before the deliveries": {contract.TypeMerchantUpdate,
			func(ctx workflow.Context, in contract.MerchantUpdateInput) error {
				_ = workflow.Sleep(ctx, time.Second)
				return workflows.MerchantUpdate(ctx, in)
			}},
		"bulk replay: an activity before its first step": {contract.TypeWebhookReplay,
			func(ctx workflow.Context, in contract.WebhookReplayInput) (contract.WebhookReplayResult, error) {
				activityFirst(ctx, deliveries.NextReplayed)
				return workflows.WebhookReplay(ctx, in)
			}},
		"reconcile: another order": {contract.TypeReconcile,
			func(ctx workflow.Context) (workflows.ReconcileResult, error) {
				activityFirst(ctx, housekeeping.RestartOrphans)
				return workflows.Reconcile(ctx)
			}},
		"books: another order": {contract.TypeBooks,
			func(ctx workflow.Context, in contract.ModeInput) (workflows.BooksResult, error) {
				activityFirst(ctx, books.SendRefunds)
				return workflows.Books(ctx, in)
			}},
	} {
		found := 0
		for _, h := range histories(t) {
			if h.workflow != variant.workflow {
				continue
			}
			err := replay(h.path, func(r worker.WorkflowReplayer) {
				r.RegisterWorkflowWithOptions(variant.changed, workflow.RegisterOptions{Name: variant.workflow})
			})
			if err != nil {
				require.ErrorContains(t, err, "TMPRL1100", name) // non-deterministic, and nothing else is wrong
				found++
			}
		}
		require.NotZero(t, found, name)
		t.Logf("%s: found in %d histories", name, found)
	}
}

// BenchmarkReplay is what a worker pays for a run that it does not have in memory:
// after a restart it is every open one.
func BenchmarkReplay(b *testing.B) {
	for _, h := range histories(b) {
		b.Run(strings.TrimSuffix(filepath.Base(h.path), ".json"), func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, replay(h.path, registered))
			}
		})
	}
}
