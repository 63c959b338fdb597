package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// TestInvariants_TheCheckNamesWhatIsBroken breaks a stack that is in order, one thing after the other. What each
// invariant allows and forbids is a table in package invariant; this proves that the witnesses are heard.
func TestInvariants_TheCheckNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.Beside(t, devstack.Options{RetrySchedule: e2e.SharedSchedule})
	m := e2e.NewMerchant(t, stack)
	m.Receiver.Answer(503)
	session := m.Sell(e2e.CardDeclined)
	m.Arrivals(1, 10*time.Second)
	m.Receiver.Answer(200)
	got := m.Arrivals(2, 20*time.Second)
	retried, event := got[0].Delivery, got[0].EventID // one delivery with two attempts
	require.Equal(t, retried, got[1].Delivery)
	m.MustPay(session, e2e.CardSucceeds)
	m.Arrivals(4, 20*time.Second)
	e2e.RequireInvariants(t, stack, e2e.SharedSchedule)

	for _, c := range []struct {
		broken, id, sql, undo string
		want                  []string
	}{
		{"the row counts a run that Temporal does not have", retried,
			`UPDATE webhook_delivery SET run = 2 WHERE id = $1`, `UPDATE webhook_delivery SET run = 1 WHERE id = $1`,
			[]string{"13 " + retried, "7 " + retried, "9 " + retried}},
		{"the retry came before its time", retried,
			`UPDATE webhook_attempt SET duration_ms = duration_ms + 900 WHERE delivery_id = $1 AND number = 1`,
			`UPDATE webhook_attempt SET duration_ms = duration_ms - 900 WHERE delivery_id = $1 AND number = 1`, []string{"10 " + retried}},
		{"other bytes were sent than are kept", event,
			`UPDATE event SET body = body || ' ' WHERE id = $1`, `UPDATE event SET body = substr(body, 1, length(body) - 1) WHERE id = $1`,
			[]string{"11 " + retried}},
	} {
		require.EqualValues(t, 1, e2e.Exec(t, stack, c.sql, c.id), c.broken)
		results, err := e2e.CheckStack(t.Context(), stack, e2e.SharedSchedule)
		require.NoError(t, err, c.broken)
		require.Equal(t, c.want, e2e.ViolationsOf(results), "%s: %+v", c.broken, results)
		require.EqualValues(t, 1, e2e.Exec(t, stack, c.undo, c.id), c.broken)
	}

	// A canary that was reached, and a run without a row.
	forged := filepath.Join(t.TempDir(), "canary.jsonl")
	require.NoError(t, os.WriteFile(forged, []byte(fmt.Sprintf(
		`{"at":%q,"listener":"http://169.254.169.254:80","canary":true,"method":"POST","delivery":%q,"attempt":"1"}`+"\n",
		checkout.FormatTime(got[0].At), retried)), 0o600))
	rowless := checkout.NewID(checkout.PrefixDelivery)
	run, err := e2e.TemporalClient(t, stack).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: rowless, TaskQueue: contract.TaskQueueWebhooks},
		contract.TypeWebhookDelivery, contract.WebhookDeliveryInput{Ref: checkout.Owner{MerchantID: m.ID, Mode: checkout.ModeTest}.Ref(rowless)})
	require.NoError(t, err)
	require.ErrorContains(t, run.Get(t.Context(), nil), contract.ErrTypeDeliveryWithoutRow)
	results := must.Get(e2e.CheckStack(t.Context(), stack, e2e.SharedSchedule, forged))(t)
	require.Equal(t, []string{"12 " + retried, "7 " + rowless}, e2e.ViolationsOf(results), "%+v", results)

	// The command finds the same, and says so with its exit status.
	cmd := exec.CommandContext(t.Context(), "go", "run", "example.com/checkout/deploy/proof/chaos", "check", "-json", "-receiver-log", stack.ReceiverLogFile(), "-receiver-log", forged)
	cmd.Env = append(os.Environ(), stack.Environment()...)
	out, err := cmd.Output()
	require.ErrorContains(t, err, "exit status 1")
	var report struct {
		Violations int
		Invariants []invariant.Result
	}
	require.NoError(t, json.Unmarshal(out, &report), string(out))
	require.Equal(t, 2, report.Violations)
	require.Equal(t, e2e.ViolationsOf(results), e2e.ViolationsOf(report.Invariants))
}
