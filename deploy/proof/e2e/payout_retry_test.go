package e2e_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/workflows/checkout"
)

// payTo sets the merchant's payout address.
func payTo(m *e2e.Merchant, address string) {
	m.T.Helper()
	require.Equal(m.T, address, e2e.Query[string](m.T, m.Stack, `
		UPDATE payout_address SET address = $2 WHERE merchant_id = $1 AND mode = 'test' RETURNING address`, m.ID, address))
}

// unpaid creates a paid session whose payout fails, and returns the ids of both.
func unpaid(m *e2e.Merchant, address string) (session, payout string) {
	m.T.Helper()
	payTo(m, address)
	session = m.Create(e2e.Terms)
	require.Contains(m.T, m.MustPay(session, e2e.CardSucceeds), "Payment successful")
	awaitPayout(m, session, "failed")
	payout, _ = m.Session(session).Field("payout.id").(string)
	return session, payout
}

func awaitPayout(m *e2e.Merchant, session, status string) {
	m.T.Helper()
	e2e.Await(m.T, "the payout is "+status, 15*time.Second, func() bool { return m.Session(session).Field("payout.status") == status })
}

// steps returns the payout's steps in the session's timeline.
func steps(m *e2e.Merchant, session string) (all []string) {
	m.T.Helper()
	for _, entry := range m.Session(session).Field("timeline").([]any) {
		if step := entry.(map[string]any); step["payout_id"] != nil {
			all = append(all, step["status"].(string))
		}
	}
	return all
}

// TestPayout_RetriedToAnotherAddress: a retry to the same address fails again. After the merchant has
// changed it, one of two retries at once sends the payout, once.
func TestPayout_RetriedToAnotherAddress(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	session, payout := unpaid(m, "sandbox:network-error")
	retry := func() e2e.Answer {
		got, err := m.Call(http.MethodPost, "/v1/payouts/"+payout+"/retry", "")
		require.NoError(t, err)
		return got
	}
	got := retry()
	require.Equal(t, http.StatusAccepted, got.Status, string(got.Body))
	require.Equal(t, "pending", got.Field("status"))
	m.Arrivals(3, 20*time.Second)
	awaitPayout(m, session, "failed")
	require.Equal(t, "network_error", m.Must(http.StatusOK, http.MethodGet, "/v1/payouts/"+payout, "").Field("failure.code"))

	payTo(m, "sandbox:another")
	statuses := map[int]int{}
	var (
		lock  sync.Mutex
		group sync.WaitGroup
	)
	for range 2 {
		group.Go(func() {
			got := retry()
			lock.Lock()
			defer lock.Unlock()
			statuses[got.Status]++
		})
	}
	group.Wait()
	require.Equal(t, map[int]int{http.StatusAccepted: 1, http.StatusConflict: 1}, statuses)
	awaitPayout(m, session, "sent")
	told := map[string]int{}
	for _, a := range m.Arrivals(4, 20*time.Second) {
		told[a.Type]++
	}
	require.Equal(t, map[string]int{"checkout.completed": 1, "payout.failed": 2, "payout.sent": 1}, told)
	require.Equal(t, []string{
		"payout_pending", "payout_failed", "payout_pending", "payout_failed", "payout_pending", "payout_sent",
	}, steps(m, session))
	sent := m.Must(http.StatusOK, http.MethodGet, "/v1/payouts/"+payout, "")
	require.Equal(t, "sandbox:another", sent.Field("destination"))
	require.Nil(t, sent.Field("failure"))
	require.Nil(t, sent.Field("failed_at"))
	require.Equal(t, sent.Field("tx_hash"), e2e.Query[string](t, e2e.Shared, `SELECT min(tx_hash) FROM sandbox_transfer WHERE payout_id = $1 HAVING count(*) = 1`, payout))
	require.Equal(t, "payout_not_failed", retry().Field("error"))
}

// TestPayout_RetriedByAnOperator: the command line does the same, and the merchant's audit log says so.
func TestPayout_RetriedByAnOperator(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	session, payout := unpaid(m, "sandbox:invalid")
	payTo(m, "sandbox:another")
	out, err := e2e.CheckoutCommand(t, e2e.Shared, "payout", "retry", payout)
	require.NoError(t, err, out)
	require.Contains(t, out, payout+" is pending again, to sandbox:another; its run has started")
	awaitPayout(m, session, "sent")
	require.Equal(t, "operator test of "+session+", after invalid_address", e2e.Query[string](t, e2e.Shared, `
		SELECT actor || ' ' || mode || ' ' || detail FROM audit_entry WHERE action = 'payout.retried' AND subject = $1 AND merchant_id = $2`, payout, m.ID))
	out, err = e2e.CheckoutCommand(t, e2e.Shared, "payout", "retry", payout)
	require.Error(t, err)
	require.Contains(t, out, "has not failed")
	out, err = e2e.CheckoutCommand(t, e2e.Shared, "payout", "retry", checkout.NewID(checkout.PrefixPayout))
	require.Error(t, err)
	require.Contains(t, out, "there is no payout")
}
