package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
)

// TestSlowReceiver_IsNoWarning: an attempt that runs into the time-out has its
// line in the log, and Temporal's SDK adds none about a slow workflow task.
func TestSlowReceiver_IsNoWarning(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	c := temporalClient(t, shared)
	release := m.receiver.Hang()
	session := m.create(terms)
	m.mustPay(session, cardDeclined)
	delivery := deliveryOf(t, shared, session, "checkout.failed")
	await(t, "the workflow task of the first attempt is done", 40*time.Second, func() bool {
		for _, e := range events(t, c, delivery, "") {
			if e.EventType == enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
				return true
			}
		}
		return false
	})
	release()
	m.awaitDelivery(delivery, "status", "delivered", 30*time.Second)
	log, err := os.ReadFile(shared.Log("worker"))
	require.NoError(t, err)
	attempts := 0
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, delivery) {
			continue
		}
		require.NotContains(t, line, `"WARN"`)
		require.NotContains(t, line, `"ERROR"`)
		if strings.Contains(line, "webhook attempt") {
			attempts++
		}
	}
	require.GreaterOrEqual(t, attempts, 2)
}
