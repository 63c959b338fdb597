package workflows

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// optionsRow is what Temporal is told of one activity. A time of 0 is not set.
type optionsRow struct {
	queue                                    string // "": that of the workflow
	startToClose, scheduleToClose, heartbeat time.Duration
	first                                    time.Duration // before the second attempt
	factor                                   float64
	longest                                  time.Duration
	attempts                                 int32 // 0: no limit
	waitForCancel                            bool
}

func (r *optionsRow) retry(p *temporal.RetryPolicy) {
	r.first, r.factor, r.longest = p.InitialInterval, p.BackoffCoefficient, p.MaximumInterval
	r.attempts = p.MaximumAttempts
}

func ofActivity(o workflow.ActivityOptions) optionsRow {
	r := optionsRow{
		queue: o.TaskQueue, startToClose: o.StartToCloseTimeout, scheduleToClose: o.ScheduleToCloseTimeout,
		heartbeat: o.HeartbeatTimeout, waitForCancel: o.WaitForCancellation,
	}
	r.retry(o.RetryPolicy)
	return r
}

func ofLocal(o workflow.LocalActivityOptions) optionsRow {
	r := optionsRow{startToClose: o.StartToCloseTimeout, scheduleToClose: o.ScheduleToCloseTimeout}
	r.retry(o.RetryPolicy)
	return r
}

// TestOptions_AreThese holds every option of an activity: a replay does not see a changed time-out or retry policy.
func TestOptions_AreThese(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	rows := map[string]struct{ is, want optionsRow }{
		"decideOptions": {ofLocal(decideOptions), optionsRow{
			startToClose: 10 * time.Second, scheduleToClose: forever, first: 200 * ms, factor: 2, longest: 5 * time.Second,
		}},
		"chargeOptions": {ofActivity(chargeOptions), optionsRow{
			startToClose: 40 * time.Second, scheduleToClose: 2 * time.Minute, first: 500 * ms, factor: 2, longest: 10 * time.Second,
		}},
		"cancelOptions": {ofActivity(cancelOptions), optionsRow{
			startToClose: 40 * time.Second, first: time.Second, factor: 2, longest: time.Minute,
		}},
		"watchOptions": {ofActivity(watchOptions), optionsRow{
			startToClose: 20 * time.Minute, heartbeat: 30 * time.Second, first: time.Second, factor: 2, longest: 30 * time.Second,
		}},
		"followOptions": {ofActivity(followOptions), optionsRow{startToClose: 2 * time.Minute, attempts: 1}},
		"broadcastOptions": {ofActivity(broadcastOptions), optionsRow{
			startToClose: 30 * time.Second, scheduleToClose: 5 * time.Minute, first: time.Second, factor: 2, longest: time.Minute,
		}},
		"sendPayoutOptions": {ofLocal(sendPayoutOptions("po_1")), optionsRow{startToClose: time.Second, attempts: 1}},
		"sendOptions": {ofActivity(sendOptions(0, "shop.example")), optionsRow{
			queue: contract.TaskQueueWebhooks, startToClose: 15 * time.Second, first: 30 * time.Second, factor: 6.16,
			longest: 12 * time.Hour, attempts: 6, waitForCancel: true,
		}},
		"firstAttemptOptions": {ofLocal(firstAttemptOptions("shop.example")), optionsRow{startToClose: 15 * time.Second, attempts: 1}},
		"recordOptions": {ofActivity(recordOptions), optionsRow{
			queue: contract.TaskQueueWebhooks, startToClose: 10 * time.Second, first: 500 * ms, factor: 2, longest: time.Minute,
		}},
		"fetchOptions": {ofActivity(fetchOptions), optionsRow{
			queue: contract.TaskQueueWebhooks, startToClose: 40 * time.Second, first: 5 * time.Second, factor: 2, longest: time.Minute,
		}},
		"housekeepingOptions": {ofActivity(housekeepingOptions), optionsRow{
			startToClose: 10 * time.Minute, scheduleToClose: 15 * time.Minute, heartbeat: 30 * time.Second,
			first: time.Second, factor: 2, longest: time.Minute,
		}},
	}
	var named []string
	for name, row := range rows {
		named = append(named, name)
		require.Equal(t, row.want, row.is, name)
	}
	slices.Sort(named)
	require.Equal(t, optionsOf(t, "ActivityOptions", "LocalActivityOptions"), named, "every option has a row")

	resumed := sendOptions(4, "shop.example").RetryPolicy
	require.EqualValues(t, 2, resumed.MaximumAttempts, "four were made")
	require.Equal(t, webhook.FallbackDelay(5), resumed.InitialInterval)
}

// TestOptions_OfChildren holds what every child has: it outlives its parent, its id is used once,
// and its merchant is its fairness key.
func TestOptions_OfChildren(t *testing.T) {
	t.Parallel()
	owner := checkout.Owner{MerchantID: "mer_1", Mode: checkout.ModeTest}
	to := webhook.Dispatch{ID: "whd_1", Host: "shop.example"}
	rows := map[string]struct {
		is                 workflow.ChildWorkflowOptions
		id, queue, summary string
	}{
		"deliveryOptions": {deliveryOptions(owner, webhook.PayoutSent, to), "whd_1", contract.TaskQueueWebhooks, "payout.sent to shop.example (webhook_url of the session)"},
		"payoutOptions":   {payoutOptions(owner, "po_1"), "po_1", contract.TaskQueueCheckout, "payout"},
		"childOptions":    {childOptions("cs_1", contract.TaskQueueCheckout, "session", owner), "cs_1", contract.TaskQueueCheckout, "session"},
	}
	var named []string
	for name, row := range rows {
		named = append(named, name)
		require.Equal(t, []string{row.id, row.queue, row.summary}, []string{row.is.WorkflowID, row.is.TaskQueue, row.is.StaticSummary}, name)
		require.Equal(t, enumspb.PARENT_CLOSE_POLICY_ABANDON, row.is.ParentClosePolicy, name)
		require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, row.is.WorkflowIDReusePolicy, name)
		require.Equal(t, temporal.Priority{FairnessKey: "mer_1"}, row.is.Priority, name)
		require.Zero(t, row.is.WorkflowExecutionTimeout+row.is.WorkflowRunTimeout, name)
		merchant, _ := row.is.TypedSearchAttributes.GetKeyword(contract.SearchAttributeMerchantID)
		require.Equal(t, "mer_1", merchant, name)
	}
	slices.Sort(named)
	require.Equal(t, optionsOf(t, "ChildWorkflowOptions"), named, "every option has a row")
}

// optionsOf names what options.go declares of these types of package workflow.
func optionsOf(t *testing.T, types ...string) []string {
	file := must.Get(parser.ParseFile(token.NewFileSet(), "options.go", nil, 0))(t)
	is := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && slices.Contains(types, s.Sel.Name)
	}
	var names []string
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Type.Results != nil && is(d.Type.Results.List[0].Type) {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && len(v.Values) > 0 {
					if lit, ok := v.Values[0].(*ast.CompositeLit); ok && is(lit.Type) {
						names = append(names, v.Names[0].Name)
					}
				}
			}
		}
	}
	require.NotEmpty(t, names, strings.Join(types, ", "))
	slices.Sort(names)
	return names
}
