package storage_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

func (f fixture) delivery(t *testing.T) checkout.Ref {
	t.Helper()
	f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	s := f.create(t, f.newSession())
	_, got := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	return s.Owner.Ref(got.Deliveries[0].ID)
}

func TestBeginAttempt_OfANewRunIsAReplay(t *testing.T) {
	f := newFixture(t)
	d := f.delivery(t)
	must.Get(f.Webhooks.BeginAttempt(t.Context(), d, webhook.Turn{RunID: "run-a", Try: 1}))(t)
	must.Get(f.Webhooks.EndDelivery(t.Context(), d, "run-a", webhook.DeliveryFailed))(t)

	out := must.Get(f.Webhooks.BeginAttempt(t.Context(), d, webhook.Turn{RunID: "run-b", Try: 1}))(t)
	require.Equal(t, 2, out.Run)
	require.Equal(t, webhook.DeliveryPending, out.Status)

	_, err := f.Webhooks.EndDelivery(t.Context(), d, "run-a", webhook.DeliveryFailed)
	require.NoError(t, err, "a late word of the old run")
	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), d, webhook.Attempt{Run: 1, Number: 1, StatusCode: 200}, 0))
	got := must.Get(f.Webhooks.AnyDelivery(t.Context(), d.ID))(t)
	require.Equal(t, webhook.DeliveryPending, got.Status, "the old run has no say any more")
}

// A session and a Payout that Reconcile started may send the same payout. If the refusal of one and the signature of
// the other were both recorded, the service would report a real transfer as failed.
func TestRecordSandboxTransfer_TheFirstStays(t *testing.T) {
	f := newFixture(t)
	signed := treasury.SandboxTransfer{Signed: []byte("one"), TxHash: "0x1", Amount: money.MustCrypto("1", money.USDC), Fee: money.MustCrypto("0", money.USDC)}
	refused := treasury.SandboxTransfer{Failed: checkout.PayoutInsufficientLiquidity}
	for name, c := range map[string]struct {
		first, second treasury.SandboxTransfer
		signed        []byte
		failure       checkout.PayoutFailure
	}{
		"signed":  {signed, refused, []byte("one"), ""},
		"refused": {refused, signed, nil, checkout.PayoutInsufficientLiquidity},
	} {
		s := f.create(t, f.newSession())
		_, settled := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
		p := s.Owner.Ref(settled.PayoutID)
		for _, transfer := range []treasury.SandboxTransfer{c.first, c.second} {
			signed, failure, err := f.Sandbox.RecordSandboxTransfer(t.Context(), checkout.Payout{Ref: p, Generation: 1}, transfer)
			require.NoError(t, err)
			require.Equal(t, c.signed, signed, name)
			require.Equal(t, c.failure, failure, name)
		}
		got := must.Get(f.Sessions.Session(t.Context(), s.Ref))(t)
		require.Contains(t, string(must.Get(json.Marshal(got.Payout))(t)), `"failure":null`, "it is not decided yet")
	}
	_, _, err := f.Sandbox.RecordSandboxTransfer(t.Context(), checkout.Payout{Ref: f.merchant.Owner(checkout.ModeTest).Ref("po_none"), Generation: 1}, signed)
	require.ErrorIs(t, err, checkout.ErrNotFound)
}

func TestChangeEndpoint_NotesWhen(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM webhook_endpoint WHERE changed_at IS NOT NULL`))
	must.Get(f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{Events: []webhook.EventType{webhook.PayoutSent}}))(t)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM webhook_endpoint WHERE changed_at > created_at`))
}
