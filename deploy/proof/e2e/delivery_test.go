package e2e_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/workflows/checkout"
)

// TestDelivery_WaitsTheScheduleFailsAndIsReplayed runs the whole life of a delivery on the shared stack's schedule of
// 1, 2, 3, 4 and 5 seconds. A replay is refused before its end. A delivery that is late, because all workers were away,
// is not started twice.
func TestDelivery_WaitsTheScheduleFailsAndIsReplayed(t *testing.T) {
	t.Parallel()
	c := e2e.TemporalClient(t, e2e.Shared)
	m, delivery := failBySchedule(t, c)
	for lostAttempt(t, c, delivery) {
		m, delivery = failBySchedule(t, c)
	}

	got, _ := m.Receiver.Arrivals()
	require.Len(t, got, 6)
	for i, a := range got {
		require.NoError(t, a.Signature)
		require.Equal(t, strconv.Itoa(i+1), a.Attempt)
		require.Equal(t, got[0].Body, a.Body, "the same bytes")
		if i > 0 {
			gap := a.At.Sub(got[i-1].At)
			require.GreaterOrEqual(t, gap, time.Duration(i)*time.Second, "gap %d", i)
			require.Less(t, gap, time.Duration(i)*time.Second+10*time.Second, "gap %d", i) // production waits 30 s first
		}
	}
	e2e.Await(t, "the run is Failed", 10*time.Second, func() bool {
		run, err := c.DescribeWorkflowExecution(t.Context(), delivery, "")
		return err == nil && run.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	})

	require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT run FROM webhook_delivery WHERE id = $1`, delivery))

	// Replay by an engineer: checkout replay whd_….
	m.Receiver.Answer(http.StatusOK)
	out := e2e.MustCommand(t, e2e.Shared, "replay", delivery)
	require.Contains(t, out, "started run 2 of "+delivery)
	e2e.Await(t, "the replay is delivered", 10*time.Second, func() bool { return e2e.DeliveryStatus(t, delivery) == "delivered" })
	again, _ := m.Receiver.Arrivals()
	require.Len(t, again, 7)
	require.Equal(t, got[0].Body, again[6].Body, "the same event, byte for byte")
	require.Equal(t, "1", again[6].Attempt, "attempts are numbered per run")
	const noted = `SELECT string_agg(actor || ' ' || mode || ' ' || detail, ';') FROM audit_entry WHERE action = 'delivery.replay_requested' AND subject = $1`
	require.Regexp(t, `^operator test checkout\.failed to 127\.0\.0\.1:\d+$`, e2e.Query[string](t, e2e.Shared, noted, delivery))

	m.Must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+e2e.Query[string](t, e2e.Shared, `SELECT endpoint_id FROM webhook_delivery WHERE id = $1`, delivery), "")
	e2e.RequireRefused(t, e2e.Shared, "was deleted: nothing more is sent to it", "replay", delivery)
	require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT count(*) FROM audit_entry WHERE action = 'delivery.replay_requested' AND subject = $1`, delivery))
}

// failBySchedule makes a delivery and waits until each of its attempts was refused, or Temporal has lost one.
func failBySchedule(t *testing.T, c client.Client) (m *e2e.Merchant, delivery string) {
	m = e2e.NewMerchant(t, e2e.Shared)
	m.Receiver.Answer(http.StatusInternalServerError)
	id := m.Sell(e2e.CardDeclined) // one event only
	delivery = e2e.DeliveryOf(t, e2e.Shared, id, "checkout.failed")
	refuses := func(id, why string) { e2e.RequireRefused(t, e2e.Shared, why, "replay", id) }
	refuses(checkout.NewID(checkout.PrefixDelivery), "there is no delivery whd_")
	refuses(delivery, "still in progress")

	e2e.Await(t, "the fifth attempt is noted", time.Minute, func() bool {
		return lostAttempt(t, c, delivery) || e2e.Query[bool](t, e2e.Shared, `
			SELECT count(*) > 0 FROM webhook_attempt WHERE delivery_id = $1 AND number = 5 AND duration_ms IS NOT NULL`, delivery)
	})
	// Reconcile runs every 5 seconds and now finds it overdue.
	e2e.Query[string](t, e2e.Shared, `
		UPDATE webhook_delivery SET next_attempt_at = next_attempt_at - interval '1 hour' WHERE id = $1 RETURNING id`, delivery)
	e2e.Await(t, "the delivery is permanently failed", 40*time.Second, func() bool {
		return lostAttempt(t, c, delivery) || e2e.DeliveryStatus(t, delivery) == "failed"
	})
	return m, delivery
}

// lostAttempt reports whether Temporal handed an attempt out and no worker got it, which happens on a busy machine. The
// next attempt follows after production's delay.
func lostAttempt(t *testing.T, c client.Client, delivery string) bool {
	run, err := c.DescribeWorkflowExecution(t.Context(), delivery, "")
	return err == nil && slices.ContainsFunc(run.PendingActivities, func(a *workflowpb.PendingActivityInfo) bool {
		return a.LastFailure.GetTimeoutFailureInfo() != nil
	})
}

// TestSlowReceiver_IsNoWarning: an attempt that runs into the time-out has its
// line in the log, and Temporal's SDK adds none about a slow workflow task.
func TestSlowReceiver_IsNoWarning(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	c := e2e.TemporalClient(t, e2e.Shared)
	release := m.Receiver.Hang()
	session := m.Sell(e2e.CardDeclined)
	delivery := e2e.DeliveryOf(t, e2e.Shared, session, "checkout.failed")
	e2e.Await(t, "the workflow task of the first attempt is done", 40*time.Second, func() bool {
		for _, e := range e2e.Events(t, c, delivery, "") {
			if e.EventType == enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
				return true
			}
		}
		return false
	})
	release()
	m.AwaitDelivery(delivery, "status", "delivered", 30*time.Second)
	e2e.Await(t, "both attempts are logged", 10*time.Second, func() bool { // after the delivery's row is written
		log := e2e.Log(t, e2e.Shared, "worker")
		attempts := 0
		for line := range strings.Lines(log) {
			if !strings.Contains(line, delivery) {
				continue
			}
			require.NotContains(t, line, `"WARN"`)
			require.NotContains(t, line, `"ERROR"`)
			if strings.Contains(line, "webhook attempt") {
				attempts++
			}
		}
		return attempts >= 2
	})
}
