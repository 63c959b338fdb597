package sandbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// newSlowNetwork returns a network whose time goes on by age alone. The test runs beside others.
func newSlowNetwork(t *testing.T) (*CardNetwork, storagetest.Database) {
	t.Parallel()
	db := storagetest.New(t)
	return &CardNetwork{Sandbox: db.Open(t, 0).Sandbox, SettleAfter: time.Hour}, db
}

// age makes everything an hour older.
func age(t *testing.T, db storagetest.Database) {
	db.Exec(t, `UPDATE sandbox_charge SET settle_at = settle_at - interval '1 h'`)
	db.Exec(t, `UPDATE sandbox_refund SET later_at = later_at - interval '1 h', report_at = report_at - interval '1 h'`)
	db.Exec(t, `UPDATE sandbox_dispute SET later_at = later_at - interval '1 h', report_at = report_at - interval '1 h',
		respond_by = respond_by - interval '1 h'`)
}

func (n *CardNetwork) mustRefund(t *testing.T, reference, id string, amount money.Amount) checkout.RefundResult {
	return must.Get(n.Refund(t.Context(), checkout.RefundRequest{ID: id, Reference: reference, Amount: amount}))(t)
}

func TestRefund_EndsAsTheCardSays(t *testing.T) {
	n, db := newSlowNetwork(t)
	const returned = "expired_or_canceled_card"
	for number, want := range map[string][2]checkout.RefundResult{
		"4242424242424242": {{Status: checkout.RefundSucceeded}, {Status: checkout.RefundSucceeded}},
		"4000000000007726": {{Status: checkout.RefundPending}, {Status: checkout.RefundSucceeded}},
		"4000000000005126": {{Status: checkout.RefundSucceeded}, {Status: checkout.RefundFailed, Why: returned}},
	} {
		req, _, err := charge(t, n, number)
		require.NoError(t, err)
		id := checkout.NewID(checkout.PrefixRefund)
		for i := range want {
			want[i].Reference, want[i].Amount = id, 400
		}
		for range 2 {
			require.Equal(t, want[0], n.mustRefund(t, req.TransactionID, id, 400), number)
		}
		age(t, db)
		require.Equal(t, want[1], n.mustRefund(t, req.TransactionID, id, 400), number)
	}
}

func TestRefund_IsRefused(t *testing.T) {
	n := newNetwork(t)
	paid, _, err := charge(t, n, "4242424242424242")
	require.NoError(t, err)
	declined, _, err := charge(t, n, "4000000000000002")
	require.NoError(t, err)
	refuses, _, err := charge(t, n, "4000000000000283")
	require.NoError(t, err)
	for _, c := range []struct {
		reference string
		amount    money.Amount
		why       string
	}{
		{paid.TransactionID, 1051, "amount_too_large"},
		{paid.TransactionID, 0, "parameter_invalid_integer"},
		{paid.TransactionID, -1, "parameter_invalid_integer"},
		{declined.TransactionID, 1, "charge_not_refundable"},
		{refuses.TransactionID, 1, "charge_not_refundable"},
		{"txn_unknown", 1, "charge_not_refundable"},
	} {
		got := n.mustRefund(t, c.reference, checkout.NewID(checkout.PrefixRefund), c.amount)
		require.Equal(t, checkout.RefundResult{Status: checkout.RefundFailed, Why: c.why}, got)
	}
}

func TestRefund_PartsGiveBackNoMoreThanTheCharge(t *testing.T) {
	n, db := newSlowNetwork(t)
	req, _, err := charge(t, n, "4000000000005126")
	require.NoError(t, err)
	statuses := make([]checkout.RefundStatus, 5)
	var all sync.WaitGroup
	for i := range statuses {
		all.Go(func() {
			statuses[i] = n.mustRefund(t, req.TransactionID, checkout.NewID(checkout.PrefixRefund), 400).Status
		})
	}
	all.Wait()
	slices.Sort(statuses)
	require.Equal(t, []checkout.RefundStatus{"failed", "failed", "failed", "succeeded", "succeeded"}, statuses)

	age(t, db)
	got := n.mustRefund(t, req.TransactionID, checkout.NewID(checkout.PrefixRefund), 1050)
	require.Equal(t, checkout.RefundSucceeded, got.Status, "the bank has returned what went back before")
}

func TestCallbacks_ReportARefundThatChangesLater(t *testing.T) {
	n, db := newSlowNetwork(t)
	var refunds []string
	for _, number := range []string{"4000000000007726", "4000000000005126", "4242424242424242"} {
		req, _, err := charge(t, n, number)
		require.NoError(t, err)
		id := checkout.NewID(checkout.PrefixRefund)
		n.mustRefund(t, req.TransactionID, id, 1050)
		refunds = append(refunds, id)
	}
	calls := map[string]int{}
	refuse := true
	round := func() {
		require.NoError(t, n.callBackDue(t.Context(), Callbacks{RefundChanged: func(_ context.Context, id string) error {
			calls[id]++
			if id == refunds[0] && refuse {
				return errors.New("not now")
			}
			return nil
		}}))
	}
	round()
	require.Empty(t, calls, "none is due")
	age(t, db)
	round()
	round()
	require.Equal(t, map[string]int{refunds[0]: 1, refunds[1]: 1}, calls, "a refused one comes again, but not at once")
	refuse = false
	age(t, db)
	round()
	round()
	require.Equal(t, map[string]int{refunds[0]: 2, refunds[1]: 1}, calls)
}
