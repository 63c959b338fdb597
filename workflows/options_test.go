package workflows

import (
	"fmt"
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

// told writes the options of an activity, without those that are not set.
func told(startToClose, scheduleToClose, heartbeat time.Duration, p *temporal.RetryPolicy) string {
	text := "a try " + startToClose.String()
	if scheduleToClose > 0 {
		text += ", all tries " + scheduleToClose.String()
	}
	if heartbeat > 0 {
		text += ", heartbeat " + heartbeat.String()
	}
	if p.InitialInterval > 0 {
		text += fmt.Sprintf(", retried after %v × %v up to %v", p.InitialInterval, p.BackoffCoefficient, p.MaximumInterval)
	}
	if p.MaximumAttempts > 0 {
		text += fmt.Sprintf(", %d tries", p.MaximumAttempts)
	}
	return text
}

func ofActivity(o workflow.ActivityOptions) string {
	text := told(o.StartToCloseTimeout, o.ScheduleToCloseTimeout, o.HeartbeatTimeout, o.RetryPolicy)
	if o.TaskQueue != "" {
		text += ", on " + o.TaskQueue
	}
	if o.WaitForCancellation {
		text += ", awaited after a cancel"
	}
	return text
}

func ofLocal(o workflow.LocalActivityOptions) string {
	return told(o.StartToCloseTimeout, o.ScheduleToCloseTimeout, 0, o.RetryPolicy)
}

// TestOptions_AreThese holds every option of an activity: a replay does not see a changed time-out or retry policy.
func TestOptions_AreThese(t *testing.T) {
	t.Parallel()
	rows := map[string]struct{ is, want string }{
		"decideOptions":     {ofLocal(decideOptions), "a try 10s, all tries 87600h0m0s, retried after 200ms × 2 up to 5s"},
		"chargeOptions":     {ofActivity(chargeOptions), "a try 40s, all tries 2m0s, retried after 500ms × 2 up to 10s"},
		"cancelOptions":     {ofActivity(cancelOptions), "a try 40s, retried after 1s × 2 up to 1m0s"},
		"watchOptions":      {ofActivity(watchOptions), "a try 20m0s, heartbeat 30s, retried after 1s × 2 up to 30s"},
		"followOptions":     {ofActivity(followOptions), "a try 2m0s, 1 tries"},
		"broadcastOptions":  {ofActivity(broadcastOptions), "a try 30s, all tries 5m0s, retried after 1s × 2 up to 1m0s"},
		"refundOptions":     {ofActivity(refundOptions), "a try 50s, all tries 5m0s, retried after 1s × 2 up to 1m0s"},
		"evidenceOptions":   {ofActivity(evidenceOptions), "a try 2m0s, all tries 6m0s, retried after 1s × 2 up to 1m0s"},
		"sendPayoutOptions": {ofLocal(sendPayoutOptions("po_1")), "a try 1s, 1 tries"},
		"sendOptions": {
			ofActivity(sendOptions(0, "shop.example")),
			"a try 15s, retried after 30s × 6.16 up to 12h0m0s, 6 tries, on webhooks, awaited after a cancel",
		},
		"firstAttemptOptions": {ofLocal(firstAttemptOptions("shop.example")), "a try 15s, 1 tries"},
		"recordOptions":       {ofActivity(recordOptions), "a try 10s, retried after 500ms × 2 up to 1m0s, on webhooks"},
		"fetchOptions":        {ofActivity(fetchOptions), "a try 40s, retried after 5s × 2 up to 1m0s, on webhooks"},
		"housekeepingOptions": {
			ofActivity(housekeepingOptions), "a try 10m0s, all tries 15m0s, heartbeat 30s, retried after 1s × 2 up to 1m0s",
		},
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
