package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/activities"
	"example.com/checkout/activities/sandbox"
	"example.com/checkout/deploy/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/worker"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
)

// heldChain asks the test before it signs a transfer.
type heldChain struct {
	checkout.PayoutNetwork
	asked  chan struct{}
	answer chan error
}

func (c *heldChain) Sign(ctx context.Context, request checkout.TransferRequest) (checkout.Transfer, error) {
	select {
	case c.asked <- struct{}{}:
	case <-ctx.Done():
		return checkout.Transfer{}, ctx.Err()
	}
	select {
	case err := <-c.answer:
		if err != nil {
			return checkout.Transfer{}, err
		}
	case <-ctx.Done():
		return checkout.Transfer{}, ctx.Err()
	}
	return c.PayoutNetwork.Sign(ctx, request)
}

// TestPayout_IsNotWaitedForAndOutlivesItsSession: the customer has the answer, and
// the merchant its event, while the chain still thinks; and when the session's run
// is terminated just then, a run of its own sends the payout, once.
func TestPayout_IsNotWaitedForAndOutlivesItsSession(t *testing.T) {
	t.Parallel()
	stack := ownStack(t, devstack.Options{})
	stack.Worker.Kill()
	store, c := openStore(t, stack), temporalClient(t, stack)
	chain := &heldChain{&sandbox.PayoutNetwork{Store: store}, make(chan struct{}), make(chan error)}
	workWith(t, stack, store, chain)
	m := newMerchant(t, stack)

	id := m.create(terms)
	require.Contains(t, m.mustPay(id, cardSucceeds), "Payment successful")
	<-chain.asked
	m.arrivals(1, 10*time.Second)
	require.Equal(t, "completed", m.session(id).field("status"))
	require.Equal(t, "pending", m.session(id).field("payout.status"))

	require.NoError(t, c.TerminateWorkflow(t.Context(), id, "", "an operator's mistake"))
	chain.answer <- errors.New("the chain is away")
	<-chain.asked
	chain.answer <- nil
	var told []string
	for _, a := range m.arrivals(2, 10*time.Second) {
		told = append(told, a.Type)
	}
	require.ElementsMatch(t, []string{"checkout.completed", "payout.sent"}, told)
	require.Equal(t, "sent", m.session(id).field("payout.status"))
	run, _ := m.session(id).field("payout.id").(string)
	await(t, "the payout's own run ends", 10*time.Second, func() bool { return statusOf(t, c, run) == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED })
	require.Equal(t, 1, query[int](t, stack, `SELECT count(*) FROM sandbox_transfer WHERE payout_id = $1`, run))
}

// workWith runs the workers in this process, with another chain.
func workWith(t *testing.T, stack *devstack.Stack, store *storage.Store, chain checkout.PayoutNetwork) {
	t.Helper()
	c := temporalClient(t, stack)
	flows := &workflows.Client{Temporal: c}
	workers, err := worker.Start(c, worker.Options{
		Payments: &activities.Payments{
			Store: store, CheckoutURL: stack.PageURL(), Test: activities.Networks{Cards: &sandbox.CardNetwork{Store: store}, Payouts: chain},
		},
		Deliveries:   activities.NewDeliveries(store, activities.NewAddressGuard(true), nil),
		Housekeeping: &activities.Housekeeping{Store: store, Runs: flows},
	})
	require.NoError(t, err)
	t.Cleanup(workers.Stop)
	require.NoError(t, flows.EnsureSchedules(t.Context(), workflows.Schedules{ReconcileEvery: time.Second, Retention: 24 * time.Hour}))
}
