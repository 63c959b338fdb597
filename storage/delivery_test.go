package storage_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func (f fixture) delivery(t *testing.T) checkout.Ref {
	t.Helper()
	f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	s := f.create(t, f.newSession())
	_, got := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	return s.Owner.Ref(got.Deliveries[0].ID)
}

func TestBeginAttempt_NotesTheAttemptBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.delivery(t)
	out, err := f.BeginAttempt(t.Context(), d, webhook.Turn{RunID: "run-a", Try: 1})
	require.NoError(t, err)
	require.Equal(t, 1, out.Run)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM webhook_attempt WHERE duration_ms IS NULL`))

	failed := webhook.Attempt{Run: 1, Number: 1, Duration: time.Second, StatusCode: 500, ErrorKind: webhook.ErrorHTTP, ResponseBody: []byte("no")}
	require.NoError(t, f.FinishAttempt(t.Context(), d, failed, 30*time.Second))
	wait := f.query(t, `SELECT extract(epoch FROM next_attempt_at - (SELECT started_at FROM webhook_attempt))::float8 FROM webhook_delivery`)
	require.InDelta(t, 31.0, wait, 0.001)

	require.NoError(t, f.HurryAttempt(t.Context(), d, "run-a", time.Time{}))
	out, err = f.BeginAttempt(t.Context(), d, webhook.Turn{RunID: "run-a", Try: 2})
	require.NoError(t, err)
	require.Equal(t, 1, out.Run)
	require.NoError(t, f.FinishAttempt(t.Context(), d, webhook.Attempt{Run: 1, Number: 2, StatusCode: 204}, 0))
	got, err := f.AnyDelivery(t.Context(), d.ID)
	require.NoError(t, err)
	require.Equal(t, webhook.DeliveryDelivered, got.Status)
}

func TestBeginAttempt_OfANewRunIsAReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.delivery(t)
	_, err := f.BeginAttempt(t.Context(), d, webhook.Turn{RunID: "run-a", Try: 1})
	require.NoError(t, err)
	_, err = f.EndDelivery(t.Context(), d, "run-a", webhook.DeliveryFailed)
	require.NoError(t, err)

	out, err := f.BeginAttempt(t.Context(), d, webhook.Turn{RunID: "run-b", Try: 1})
	require.NoError(t, err)
	require.Equal(t, 2, out.Run)
	require.Equal(t, webhook.DeliveryPending, out.Status)

	_, err = f.EndDelivery(t.Context(), d, "run-a", webhook.DeliveryFailed)
	require.NoError(t, err, "a late word of the old run")
	require.NoError(t, f.FinishAttempt(t.Context(), d, webhook.Attempt{Run: 1, Number: 1, StatusCode: 200}, 0))
	got, err := f.AnyDelivery(t.Context(), d.ID)
	require.NoError(t, err)
	require.Equal(t, webhook.DeliveryPending, got.Status, "the old run has no say any more")
}

func TestBeginAttempt_OfAForeignDeliveryIsNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.delivery(t)
	for _, foreign := range []checkout.Ref{
		checkout.Owner{MerchantID: d.MerchantID, Mode: checkout.ModeLive}.Ref(d.ID),
		checkout.Owner{MerchantID: checkout.NewID(checkout.PrefixMerchant), Mode: d.Mode}.Ref(d.ID),
		d.Owner.Ref(checkout.NewID(checkout.PrefixDelivery)),
	} {
		_, err := f.BeginAttempt(t.Context(), foreign, webhook.Turn{RunID: "run-a", Try: 1})
		require.ErrorIs(t, err, checkout.ErrNotFound)
	}
}

func TestFinishPayout_RunTwiceReturnsTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint(t, "https://shop.example/a", webhook.PayoutSent, webhook.PayoutFailed)
	s := f.create(t, f.newSession())
	_, settled := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	p := s.Owner.Ref(settled.PayoutID)
	signed, _, err := f.RecordSandboxTransfer(t.Context(), checkout.Payout{Ref: p, Generation: 1}, checkout.SandboxTransfer{Signed: []byte("one"), TxHash: "0x1", Amount: checkout.MustCrypto("1", checkout.USDC), Fee: checkout.MustCrypto("0", checkout.USDC)})
	require.NoError(t, err)
	again, _, err := f.RecordSandboxTransfer(t.Context(), checkout.Payout{Ref: p, Generation: 1}, checkout.SandboxTransfer{Signed: []byte("two"), TxHash: "0x2", Amount: checkout.MustCrypto("2", checkout.USDC), Fee: checkout.MustCrypto("0", checkout.USDC)})
	require.NoError(t, err)
	require.Equal(t, signed, again, "the first transfer that was signed stays")

	first, err := f.FinishPayout(t.Context(), p, 1, "")
	require.NoError(t, err)
	require.Equal(t, webhook.PayoutSent, first.EventType)
	second, err := f.FinishPayout(t.Context(), p, 1, checkout.PayoutNetworkError)
	require.NoError(t, err)
	require.Equal(t, first, second, "sent stays sent")
	got, err := f.Session(t.Context(), s.Ref)
	require.NoError(t, err)
	require.Equal(t, checkout.PayoutSent, got.Payout.Status)
	require.Equal(t, "0x1", got.Payout.TxHash)
	require.Equal(t, checkout.TransactionSucceeded, got.Transaction().Status)
}

// A session and a Payout that Reconcile started may send the same payout. If the refusal of one and
// the signature of the other were both recorded, the service would report a real transfer as
// failed.
func TestRecordSandboxTransfer_TheFirstStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	signed := checkout.SandboxTransfer{Signed: []byte("one"), TxHash: "0x1", Amount: checkout.MustCrypto("1", checkout.USDC), Fee: checkout.MustCrypto("0", checkout.USDC)}
	refused := checkout.SandboxTransfer{Failed: checkout.PayoutInsufficientLiquidity}
	for name, c := range map[string]struct {
		first, second checkout.SandboxTransfer
		signed        []byte
		failure       checkout.PayoutFailure
	}{
		"signed":  {signed, refused, []byte("one"), ""},
		"refused": {refused, signed, nil, checkout.PayoutInsufficientLiquidity},
	} {
		s := f.create(t, f.newSession())
		_, settled := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
		p := s.Owner.Ref(settled.PayoutID)
		for _, transfer := range []checkout.SandboxTransfer{c.first, c.second} {
			signed, failure, err := f.RecordSandboxTransfer(t.Context(), checkout.Payout{Ref: p, Generation: 1}, transfer)
			require.NoError(t, err)
			require.Equal(t, c.signed, signed, name)
			require.Equal(t, c.failure, failure, name)
		}
		got, err := f.Session(t.Context(), s.Ref)
		require.NoError(t, err)
		shown, err := json.Marshal(got.Payout)
		require.NoError(t, err)
		require.Contains(t, string(shown), `"failure":null`, "it is not decided yet")
	}
	_, _, err := f.RecordSandboxTransfer(t.Context(), checkout.Payout{Ref: f.merchant.Owner(checkout.ModeTest).Ref("po_none"), Generation: 1}, signed)
	require.ErrorIs(t, err, checkout.ErrNotFound)
}

func TestChangeEndpoint_NotesWhen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM webhook_endpoint WHERE changed_at IS NOT NULL`))
	_, err := f.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{Events: []webhook.EventType{webhook.PayoutSent}})
	require.NoError(t, err)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM webhook_endpoint WHERE changed_at > created_at`))
}
