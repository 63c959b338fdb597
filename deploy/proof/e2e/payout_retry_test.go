package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

// TestPayout_RetriedByAnOperatorToAnotherAddress: the payout fails, the merchant changes the address, and an operator retries
// it. The merchant learns each end once.
func TestPayout_RetriedByAnOperatorToAnotherAddress(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	payTo := func(address string) {
		e2e.Exec(t, m.Stack, `UPDATE payout_address SET address = $2 WHERE merchant_id = $1 AND mode = 'test'`, m.ID, address)
	}
	payTo("sandbox:invalid")
	session := m.Create(e2e.Terms)
	m.MustPay(session, e2e.CardSucceeds)
	awaitPayout := func(status string) {
		e2e.Await(t, "the payout is "+status, 15*time.Second, func() bool { return m.Session(session).Field("payout.status") == status })
	}
	awaitPayout("failed")
	payTo("sandbox:another")
	payout := m.Session(session).Field("payout.id").(string)
	out, err := e2e.CheckoutCommand(t, e2e.Shared, "payout", "retry", payout)
	require.NoError(t, err, out)
	require.Contains(t, out, payout+" is pending again, to sandbox:another; its run has started")
	awaitPayout("sent")
	told := map[string]int{}
	for _, a := range m.Arrivals(3, 20*time.Second) {
		told[a.Type]++
	}
	require.Equal(t, map[string]int{"checkout.completed": 1, "payout.failed": 1, "payout.sent": 1}, told)
	require.Equal(t, "operator test of "+session+", after invalid_address", e2e.Query[string](t, e2e.Shared, `
		SELECT actor || ' ' || mode || ' ' || detail FROM audit_entry WHERE action = 'payout.retried' AND subject = $1 AND merchant_id = $2`, payout, m.ID))
	require.Equal(t, 1, e2e.Query[int](t, e2e.Shared, `SELECT count(*) FROM sandbox_transfer WHERE payout_id = $1`, payout))
	e2e.RequireRefused(t, e2e.Shared, "has not failed", "payout", "retry", payout)
}
