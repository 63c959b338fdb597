package api

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/checkout"
)

// failedPayout creates a payout of the merchant and fails it.
func (f *front) failedPayout() checkout.Ref {
	_, settled := f.pay(f.newSession(f.key), checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	ref := f.ref(settled.PayoutID)
	f.finishPayout(ref, 1, checkout.PayoutInvalidAddress)
	return ref
}

func (f *front) finishPayout(ref checkout.Ref, generation int, failure checkout.PayoutFailure) {
	_, err := f.store.Payouts.FinishPayout(f.t.Context(), ref, generation, failure)
	require.NoError(f.t, err)
}

func (f *front) retry(id string) answer {
	return f.do("POST", "/v1/payouts/"+id+"/retry", f.key, "")
}

func TestRetryPayout_SendsItAgain(t *testing.T) {
	f := newFront(t)
	ref := f.failedPayout()
	f.exec(`INSERT INTO payout_address (merchant_id, mode, currency, network, address) SELECT $1, 'test', currency, network, 'sandbox:new'
		FROM payout ON CONFLICT (merchant_id, mode, currency) DO UPDATE SET address = excluded.address`, f.merchant.ID)
	var started []client.StartWorkflowOptions
	f.temporal.Start = func(o client.StartWorkflowOptions) error {
		started = append(started, o)
		if len(started) < 3 { // the run that wrote the failure is closing
			return serviceerror.NewWorkflowExecutionAlreadyStarted("x", "y", "z")
		}
		return nil
	}
	got := f.retry(ref.ID)
	require.Equal(t, 202, got.status, got.body)
	for field, want := range map[string]any{
		"id": ref.ID, "status": "pending", "destination": "sandbox:new", "failure": nil, "failed_at": nil, "tx_hash": nil, "amount": nil,
	} {
		require.Equal(t, want, got.json[field], field)
	}
	require.Len(t, started, 3)
	require.Equal(t, ref.ID, started[2].ID)
	require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, started[2].WorkflowIDReusePolicy)
	require.Equal(t, 1, f.count("audit_entry WHERE action = 'payout.retried' AND subject = '"+ref.ID+"' AND mode = 'test'"))

	require.Equal(t, "409 payout_not_failed", f.retry(ref.ID).refused(), "a double click")
	require.Len(t, started, 3)
	require.Equal(t, 1, f.count("audit_entry WHERE action = 'payout.retried'"))
}

func TestRetryPayout_TheRunIsLeftToReconcile(t *testing.T) {
	f := newFront(t)
	f.temporal.Start = func(client.StartWorkflowOptions) error { return nil }
	ref := f.failedPayout()
	f.temporal.Start = func(client.StartWorkflowOptions) error { return errors.New("Temporal is away") }
	got := f.retry(ref.ID)
	require.Equal(t, 202, got.status, got.body)
	require.Equal(t, "pending", got.json["status"])
}

func TestRetryPayout_AfterARevertedTransferNeedsAnotherAddress(t *testing.T) {
	f := newFront(t)
	ref := f.failedPayout()
	f.exec(`INSERT INTO payout_address (merchant_id, mode, currency, network, address) SELECT $1, 'test', currency, network, 'sandbox:reverts'
		FROM payout ON CONFLICT (merchant_id, mode, currency) DO UPDATE SET address = excluded.address`, f.merchant.ID)
	f.Revert(t, ref.ID)
	got := f.retry(ref.ID)
	require.Equal(t, "409 payout_address_reverted", got.refused())
	require.NotContains(t, got.json, "address_changes_at")

	f.exec(`UPDATE payout_address SET next_network = network, next_address = 'sandbox:new', next_by = 'ann', next_at = '2100-01-02T03:04:05Z'`)
	got = f.retry(ref.ID)
	require.Equal(t, 409, got.status)
	require.Equal(t, "2100-01-02T03:04:05.000Z", got.json["address_changes_at"])
	require.Contains(t, got.json["message"], "The payout address changes at 2100-01-02T03:04:05.000Z.")
	require.Zero(t, f.count("audit_entry WHERE action = 'payout.retried'"))
}

// A payout of a test network or of live mode says until when its rate is locked, and which it was.
func TestRetryPayout_TheAnswerSaysWhichRateItHas(t *testing.T) {
	f := newFront(t)
	ref := f.failedPayout()
	got := f.do("GET", "/v1/payouts/"+ref.ID, f.key, "")
	require.Equal(t, []any{"1.08", "1.08", nil}, []any{
		got.json["exchange_rate"], got.json["locked_exchange_rate"], got.json["exchange_rate_locked_until"]})
	f.exec(`UPDATE transaction SET rate_until = '2026-01-02T03:04:05Z'`)
	f.exec(`UPDATE payout SET exchange_rate = '1.02'`)
	got = f.retry(ref.ID)
	require.Equal(t, 202, got.status)
	require.Equal(t, []any{"1.02", "1.08", "2026-01-02T03:04:05.000Z"}, []any{
		got.json["exchange_rate"], got.json["locked_exchange_rate"], got.json["exchange_rate_locked_until"]})
}

func TestRetryPayout_SaysWhyNot(t *testing.T) {
	f := newFront(t)
	ref := f.failedPayout()
	f.temporal.Start = func(client.StartWorkflowOptions) error { t.Error("a run was started"); return nil }
	// A row that somebody changed by hand: its transfer stands.
	f.exec(`INSERT INTO treasury_account (id, mode, network, chain_id, address, next_nonce, next_block, seen_height, created_at)
		VALUES ('tre_1', 'test', 'ethereum', 'eip155:1', '0x1', 1, 1, 1, now())`)
	f.exec(`INSERT INTO transfer (id, account_id, nonce, status, base, created_at) VALUES ('tr_1', 'tre_1', 0, 'live', 1, now())`)
	f.exec(`INSERT INTO transfer_payout (transfer_id, payout_id, merchant_id, mode, currency, destination, amount, fee, value, standing, created_at)
		VALUES ('tr_1', $1, $2, 'test', 'USDC', '0x2', 1, 0, 100, true, now())`, ref.ID, f.merchant.ID)
	require.Equal(t, "409 transfer_not_final", f.retry(ref.ID).refused())
	require.Equal(t, "failed", f.do("GET", "/v1/payouts/"+ref.ID, f.key, "").json["status"])
	require.Zero(t, f.count("audit_entry WHERE action = 'payout.retried'"))
}

// TestTransactions_ShowsDecidedPayments: an undecided payment is not there, and the session says that one is under way.
func TestTransactions_ShowsDecidedPayments(t *testing.T) {
	f := newFront(t)
	session, _ := f.newPayout(f.merchant, checkout.ModeTest)
	id := f.transactionOf(session)
	got := f.answers(200, "GET", "/v1/transactions/"+id, f.key, "")
	require.Equal(t, session, got.json["session_id"])
	require.Equal(t, []string{id}, f.do("GET", "/v1/transactions?status=succeeded", f.key, "").ids())
	require.Empty(t, f.do("GET", "/v1/transactions?status=failed", f.key, "").ids())
	require.Equal(t, []string{session}, f.do("GET", "/v1/checkout?transaction="+id, f.key, "").ids())

	f.exec(`UPDATE transaction SET customer_email = 'Ann@shop.example' WHERE id = $1`, id)
	require.Equal(t, []string{session}, f.do("GET", "/v1/checkout?customer_email=ann@shop.example", f.key, "").ids())
	require.Empty(t, f.do("GET", "/v1/checkout?customer_email=bob@shop.example", f.key, "").ids())
	require.Equal(t, []string{"customer_email"}, f.do("GET", "/v1/checkout?customer_email=x", f.key, "").params())

	f.exec(`DELETE FROM payout`)
	f.exec(`UPDATE transaction SET status = 'processing', completed_at = NULL WHERE id = $1`, id)
	f.exec(`UPDATE checkout_session SET status = 'pending', ended_at = NULL, payment_in_flight = true WHERE id = $1`, session)
	require.Equal(t, 404, f.do("GET", "/v1/transactions/"+id, f.key, "").status)
	require.Empty(t, f.do("GET", "/v1/transactions", f.key, "").ids())
	paying := f.do("GET", "/v1/checkout/"+session, f.key, "")
	require.Equal(t, []any{"pending", true, nil}, []any{paying.json["status"], paying.json["payment_in_progress"], paying.json["transaction"]})
}
