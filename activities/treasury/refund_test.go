package treasury_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

// operators is the entry of a command about a payout in the audit log.
func operators(ref checkout.Ref, action string) merchant.AuditEntry {
	return merchant.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: ref.MerchantID, Mode: &ref.Mode, Actor: "operator",
		Action: action, Subject: ref.ID,
	}
}

func TestRefundPayout_NothingIsSignedAfterwards(t *testing.T) {
	f := newFixture(t)
	f.open(t, f.Treasury)
	ref := f.usdc(t)
	f.Limits.Payout = 1
	_ = f.transfer(t, ref)
	require.Equal(t, checkout.HoldLarge, f.read(t, ref).Hold)
	f.Limits = generous

	first := must.Get(f.Store.Refunds.RefundPayout(t.Context(), ref, operators(ref, "transaction.refunded")))(t)
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutRefunded, checkout.PayoutHold("")}, []any{p.Status, p.Failure, p.Hold})
	require.Equal(t, []webhook.EventType{webhook.PayoutFailed}, f.eventTypes(t, ref))
	require.Equal(t, []any{p.TransactionID, checkout.RefundByOperator, checkout.RefundPending},
		[]any{first.TransactionID, first.Origin, first.Status})
	require.NotEmpty(t, first.Reference)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM checkout_session WHERE status = 'completed'`))
	require.Equal(t, map[string]string{"acquirer:receivable EUR": "0", "revenue:fee EUR": "0", "merchant:payable EUR": "0"}, f.ledger(t))

	again := must.Get(f.Store.Refunds.RefundPayout(t.Context(), ref, operators(ref, "transaction.refunded")))(t)
	require.Equal(t, first, again, "a repeat changes nothing")
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM audit_entry`))

	// A run that was believed dead, and a retry, sign nothing.
	require.Equal(t, treasury.TransferOutcome{Failure: checkout.PayoutRefunded, Generation: 1}, f.transfer(t, ref))
	f.end(t, ref, 0, checkout.PayoutRefunded)
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPaymentRefunded)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer`))
}

func TestRefundPayout_IsRefusedOnceATransferIsSigned(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	_ = f.transfer(t, ref)
	for range 2 { // while it is pending, and after it was sent
		require.ErrorIs(t, f.refundError(t, ref, operators(ref, "transaction.refunded")), checkout.ErrTransferStands)
		f.end(t, ref, 0, "")
	}
	f.settle(t)
	require.ErrorIs(t, f.refundError(t, ref, operators(ref, "transaction.refunded")), checkout.ErrTransferStands)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM refund`))
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM audit_entry`))
	require.ErrorIs(t, f.refundError(t, f.merchant(t, "0xOther").Ref(ref.ID)), checkout.ErrNotFound)
}

func TestRefundPayout_OfAFailedPayout(t *testing.T) {
	f := newFixture(t)
	f.open(t, f.Treasury)
	f.chain.reverts["0xMerchant"] = true
	ref, _ := f.sent(t)
	f.settle(t)
	require.Equal(t, checkout.PayoutInvalidAddress, f.read(t, ref).Failure)
	r := must.Get(f.Store.Refunds.RefundPayout(t.Context(), ref, operators(ref, "transaction.refunded")))(t)
	require.Equal(t, checkout.PayoutInvalidAddress, f.read(t, ref).Failure, "the merchant was told why")
	require.Equal(t, []webhook.EventType{webhook.PayoutSent, webhook.PayoutFailed}, f.eventTypes(t, ref))
	require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPaymentRefunded)
	require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])

	// The card network refuses: the merchant is owed its money again, and may get it.
	for range 2 {
		require.NoError(t, must.Err(f.Store.Refunds.RecordRefund(t.Context(), r, checkout.RefundResult{Status: checkout.RefundFailed})))
	}
	require.Equal(t, "-9900", f.requireBooked(t)["merchant:payable EUR"])
	f.retry(t, ref, "0xNew")
	f.send(t, ref)
	f.settle(t)
	require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])
}

// The network refused a refund, the payout was retried and held, and then the network shows the refund.
func TestRefundPayout_OneThatExistsAfterAllEndsTheRetry(t *testing.T) {
	f := newFixture(t)
	f.open(t, f.Treasury)
	ref := f.usdc(t)
	r := must.Get(f.Store.Refunds.RefundPayout(t.Context(), ref, operators(ref, "transaction.refunded")))(t)
	require.NoError(t, must.Err(f.Store.Refunds.RecordRefund(t.Context(), r, checkout.RefundResult{Status: checkout.RefundFailed})))
	f.retried(t, ref)
	require.NoError(t, must.Err(f.Store.Payouts.HoldPayout(t.Context(), f.read(t, ref), checkout.HoldRisk, time.Hour)))
	made := checkout.RefundResult{Status: checkout.RefundSucceeded, Reference: "re_1", Amount: r.Amount}
	require.NoError(t, must.Err(f.Store.Refunds.RecordRefund(t.Context(), r, made)))
	for range 2 {
		require.Equal(t, checkout.PayoutRefunded, f.transfer(t, ref).Failure)
		require.ErrorIs(t, f.Store.Payouts.ReleasePayout(t.Context(), ref), checkout.ErrConflict)
		require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPaymentRefunded)
		require.NoError(t, must.Err(f.Store.Refunds.RecordRefund(t.Context(), r, made)))
	}
	require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
	require.Equal(t, []webhook.EventType{webhook.PayoutFailed, webhook.PayoutFailed}, f.eventTypes(t, ref))
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer`))

	made.Status = checkout.RefundFailed // the bank returns it
	require.NoError(t, must.Err(f.Store.Refunds.RecordRefund(t.Context(), r, made)))
	f.retried(t, ref)
	f.send(t, ref)
	f.settle(t)
	require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])
}

// The delay of the refund follows the last winner, so that the two stay close to each other.
func TestRefundPayout_RacesASignature(t *testing.T) {
	f := newFixture(t)
	var refunded, signed int
	delay := 4 * time.Millisecond
	rounds := max(60, *payouts/2)
	for round := range rounds {
		f.open(t, f.Treasury)
		ref := f.usdc(t)
		var (
			group     errgroup.Group
			refusal   error
			transfers = func() error { _, err := f.Transfer(t.Context(), ref); return err }
		)
		group.Go(transfers)
		if round%2 == 0 {
			group.Go(transfers)
		}
		time.Sleep(delay)
		group.Go(func() error { _, refusal = f.Store.Refunds.RefundPayout(t.Context(), ref); return nil })
		err := group.Wait()

		transferred := f.query(t, `SELECT count(*) FROM transfer_payout WHERE payout_id = $1`, ref.ID)
		refunds := f.query(t, `SELECT count(*) FROM refund r JOIN payout p USING (transaction_id) WHERE p.id = $1`, ref.ID)
		status := f.read(t, ref).Status
		switch {
		case refusal == nil:
			refunded++
			delay += delay/4 + time.Microsecond
			require.Equal(t, []any{int64(0), int64(1), checkout.PayoutFailed}, []any{transferred, refunds, status})
		default:
			signed++
			delay -= delay / 5
			require.ErrorIs(t, refusal, checkout.ErrTransferStands)
			require.NoError(t, err)
			require.Equal(t, []any{int64(1), int64(0), checkout.PayoutPending}, []any{transferred, refunds, status})
		}
		if err != nil {
			require.ErrorIs(t, err, treasurer.ErrNotTaken, "a run that comes too late is repeated")
		}
	}
	t.Logf("the refund won %d times, the signature %d times", refunded, signed)
	require.Greater(t, min(refunded, signed), rounds/7)
	f.ledger(t)
}
