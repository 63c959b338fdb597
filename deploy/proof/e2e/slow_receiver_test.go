package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/deploy/proof/e2e"
)

// TestSlowReceiver_IsNoWarning: an attempt that runs into the time-out has its
// line in the log, and Temporal's SDK adds none about a slow workflow task.
func TestSlowReceiver_IsNoWarning(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	c := e2e.TemporalClient(t, e2e.Shared)
	release := m.Receiver.Hang()
	session := m.Create(e2e.Terms)
	m.MustPay(session, e2e.CardDeclined)
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
		log, err := os.ReadFile(e2e.Shared.Log("worker"))
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
		return attempts >= 2
	})
}
