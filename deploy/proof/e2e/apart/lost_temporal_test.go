package apart

import (
	"flag"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

var lostSessions = flag.Int("lost-sessions", 60, "how many sessions lose their run in TestLostTemporal")

// TestLostTemporal_EveryPendingSessionHasARunAgain: Temporal has lost its databases. The sessions have nearly
// an hour left, and nobody asks anything of them: Reconcile starts their runs. A delivery that waits for its
// next attempt goes on, too.
func TestLostTemporal_EveryPendingSessionHasARunAgain(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.OwnStack(t, devstack.Options{
		RetrySchedule: e2e.SharedSchedule, Env: []string{"CHECKOUT_RECONCILE_INTERVAL=5s"},
	})
	m, other := e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)
	sessions := createMany(t, m, *lostSessions)
	refused := other.RefusedDelivery()
	require.NoError(t, stack.LoseTemporal(t.Context()))
	other.Receiver.Answer(http.StatusOK)

	c := e2e.TemporalClient(t, stack)
	running := func() int {
		got, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: `ExecutionStatus = "Running" AND WorkflowType = "CheckoutSession" AND MerchantId = "` + m.ID + `"`,
		})
		if err != nil {
			return 0 // Temporal has just started
		}
		return int(got.Count)
	}
	var began time.Time
	e2e.Await(t, "every session has a run again", 10*time.Minute, func() bool {
		n := running()
		if n > 0 && began.IsZero() {
			began = time.Now()
		}
		return n == len(sessions)
	})
	t.Logf("%d runs within %v of the first", len(sessions), time.Since(began).Round(100*time.Millisecond))
	other.AwaitDelivery(refused, "status", string(webhook.DeliveryDelivered), time.Minute)

	for _, id := range sessions[:2] {
		m.MustPay(id, e2e.CardSucceeds)
		m.AwaitStatus(id, checkout.StatusCompleted, 20*time.Second)
		require.Equal(t, 1, m.Charges(id))
	}
	for _, id := range sessions[2:min(len(sessions), 60)] {
		m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+id+"/advance", "")
		m.AwaitStatus(id, checkout.StatusExpired, 20*time.Second)
		require.Zero(t, m.Charges(id))
	}
	e2e.Await(t, "only the delivery has fewer runs in Temporal than in its row", time.Minute, func() bool {
		results, err := e2e.CheckStack(t.Context(), stack, e2e.SharedSchedule)
		require.NoError(t, err)
		found := slices.DeleteFunc(e2e.ViolationsOf(results), func(v string) bool { return strings.HasSuffix(v, refused) })
		if len(found) > 0 {
			t.Log(found)
			time.Sleep(time.Second)
		}
		return len(found) == 0
	})
}

// createMany creates n sessions, some at the same time.
func createMany(t *testing.T, m *e2e.Merchant, n int) (ids []string) {
	t.Helper()
	var (
		creating errgroup.Group
		mu       sync.Mutex
	)
	creating.SetLimit(8)
	for range n {
		creating.Go(func() error {
			id, err := m.TryCreate(e2e.Terms)
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, id)
			return err
		})
	}
	require.NoError(t, creating.Wait())
	return ids
}
