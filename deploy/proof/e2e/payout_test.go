package e2e_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/runs"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/activities"
	"example.com/checkout/activities/sandbox"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/worker"
	"example.com/checkout/workflows/checkout"
)

// hangingChain does not answer the first time that it is asked to sign.
type hangingChain struct {
	checkout.SandboxChain
	asked atomic.Int64
}

func (c *hangingChain) Sign(ctx context.Context, request checkout.TransferRequest) (checkout.SandboxTransfer, error) {
	if c.asked.Add(1) == 1 {
		<-ctx.Done()
		return checkout.SandboxTransfer{}, ctx.Err()
	}
	return c.SandboxChain.Sign(ctx, request)
}

// TestPayout_TheSessionTriesOnce: while the chain hangs, the customer gets the answer
// after the session's one try, and the merchant gets its event. A Payout then sends it.
func TestPayout_TheSessionTriesOnce(t *testing.T) {
	t.Parallel()
	stack := e2e.Beside(t, devstack.Options{})
	stack.Worker.Kill()
	store, c := e2e.OpenStore(t, stack), e2e.TemporalClient(t, stack)
	workWith(t, stack, store, &hangingChain{SandboxChain: &sandbox.Chain{Store: store}})
	m := e2e.NewMerchant(t, stack)

	id := m.Create(e2e.Terms)
	e2e.Await(t, "the customer gets the answer", 10*time.Second, func() bool { // of a busy computer at the second try
		return strings.Contains(m.MustPay(id, e2e.CardSucceeds), "Payment successful")
	})
	require.Equal(t, 1, m.Charges(id))
	var told []string
	for _, a := range m.Arrivals(2, 20*time.Second) {
		told = append(told, a.Type)
	}
	require.Equal(t, []string{"checkout.completed", "payout.sent"}, told)
	run, _ := m.Session(id).Field("payout.id").(string)
	e2e.Await(t, "the payout's own run ends", 10*time.Second, func() bool { return e2e.StatusOf(t, c, run) == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED })
	require.Equal(t, 1, e2e.Query[int](t, stack, `SELECT count(*) FROM sandbox_transfer WHERE payout_id = $1`, run))
}

// workWith runs the workers in this process, with another chain.
func workWith(t *testing.T, stack *devstack.Stack, store *storage.Store, chain checkout.SandboxChain) {
	t.Helper()
	c := e2e.TemporalClient(t, stack)
	flows := &runs.Client{Temporal: c}
	workers, err := worker.Start(c, worker.Options{
		Payments: &activities.Payments{
			Store: store, CheckoutURL: stack.PageURL(),
			Test: activities.SandboxNetworks(&sandbox.CardNetwork{Store: store}, activities.Chain{
				Rates: sandbox.Rates{}, Payouts: &sandbox.Payouts{Store: store, Chain: chain},
			}),
		},
		Deliveries:   activities.NewDeliveries(store, activities.NewAddressGuard(true), nil),
		Pictures:     activities.NewPictures(store, activities.NewAddressGuard(true)),
		Housekeeping: &activities.Housekeeping{Store: store, Runs: flows},
	})
	require.NoError(t, err)
	t.Cleanup(func() { workers.Stop() })
	require.NoError(t, flows.EnsureSchedules(t.Context(), runs.Schedules{ReconcileEvery: time.Second, Retention: contract.RetentionInput{Age: 24 * time.Hour}}))
}
