package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/treasury"
)

// livePayout charges a live card and returns the payout of it.
func (w *world) livePayout() checkout.Ref {
	require.NoError(w.t, w.Merchants.CreateMerchant(w.t.Context(), w.merchant, checkout.ModeLive, nil))
	return w.payout(checkout.ModeLive, "eip155:1")
}

// payout charges a card and returns the payout of it.
func (w *world) payout(mode checkout.Mode, chain string) checkout.Ref {
	s := storagetest.Session(w.t, w.Store, w.merchant.Owner(mode))
	id := storagetest.Begin(w.t, w.Store, s.Ref, storage.NewPayment{ChainRef: chain}, "")
	return s.Owner.Ref(storagetest.Finish(w.t, w.Store, s.Ref, id, storagetest.Succeeded).PayoutID)
}

// runPayout runs the workflow of a payout whose treasury gets no answer from its nodes. Each try takes 20 s and begins
// with what meanwhile does. It returns the result, how often the treasury was called, and what the workflow took.
func (w *world) runPayout(ref checkout.Ref, meanwhile func()) (got contract.PayoutResult, tries int, took time.Duration) {
	away := sends(func(context.Context, storage.PayoutToSend) (treasury.TransferOutcome, error) {
		tries++
		meanwhile()
		return treasury.TransferOutcome{}, errors.New("no node answers")
	})
	w.payments.Live = activities.Networks{Chains: map[string]activities.PayoutRoute{"eip155:1": {Payouts: away}}}
	w.payments.Test.Chains["eip155:31337"] = activities.PayoutRoute{Payouts: away}
	env := w.env(ref.ID, time.Now())
	before(env, w.payments.BroadcastPayout, func(context.Context) {}).After(20 * time.Second)
	began := env.Now()
	got = execute[contract.PayoutResult](w.t, env, contract.TypePayout, ref)
	return got, tries, env.Now().Sub(began)
}

// A run that waited for days would pin the build of its worker.
func TestPayout_IsHeldWhenNoNodeAnswersForMinutes(t *testing.T) {
	w := newWorld(t)
	ref := w.livePayout()
	got, tries, took := w.runPayout(ref, func() {})
	require.Equal(t, contract.PayoutResult{Held: checkout.HoldAway}, got)
	require.LessOrEqual(t, took, 6*time.Minute, "of the workflow's time")
	require.Greater(t, tries, 5)
	require.Equal(t, 1, w.count(`
		SELECT count(*) FROM payout WHERE status = 'pending' AND failure = '' AND hold = 'away' AND next_action_at > now()`))
	require.Equal(t, 0, w.count(`SELECT count(*) FROM event WHERE type LIKE 'payout.%'`), "nothing is decided")

	w.Exec(w.t, `UPDATE payout SET held_at = held_at - interval '10 days', next_action_at = now() - interval '1 minute'`)
	require.Len(t, must.Get(w.Installation.Overdue(t.Context(), 0, ref.ID[:3], 10))(t), 1, "Reconcile starts it again")
	got, _, _ = w.runPayout(ref, func() {})
	require.Equal(t, contract.PayoutResult{Held: checkout.HoldAway}, got, "however long it lasts")
}

// On a test network too: a node may be away for days.
func TestPayout_OfTestModeIsHeldToo(t *testing.T) {
	w := newWorld(t)
	got, _, took := w.runPayout(w.payout(checkout.ModeTest, "eip155:31337"), func() {})
	require.Equal(t, contract.PayoutResult{Held: checkout.HoldAway}, got)
	require.LessOrEqual(t, took, 6*time.Minute, "of the workflow's time")
}

func TestPayout_ThatIsDecidedMeanwhileIsNotHeld(t *testing.T) {
	w := newWorld(t)
	account := must.Get(w.Treasury.OpenTreasury(t.Context(), checkout.ModeLive,
		treasury.Account{Network: "ethereum", ChainID: "eip155:1", Address: "0xTreasury"}, treasury.AccountSnapshot{}))(t)
	require.NoError(t, w.Treasury.RecordComparison(t.Context(), account.ID, treasury.AccountSnapshot{}))
	ref := w.livePayout()
	got, _, _ := w.runPayout(ref, func() { must.Get(w.Refunds.RefundPayout(context.Background(), ref))(t) })
	require.Equal(t, contract.PayoutResult{Failure: checkout.PayoutRefunded}, got)
}
