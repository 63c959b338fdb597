package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func newReplay(e webhook.Endpoint) webhook.Replay {
	return webhook.Replay{
		Ref: e.Owner.Ref(checkout.NewID(checkout.PrefixReplay)), EndpointID: e.ID,
		Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour), Filter: webhook.DeliveryFailed, Rate: 10,
	}
}

func TestReplayedDeliveries_AreThoseOfTheRegistrationStatusAndTime(t *testing.T) {
	f := newFixture(t)
	a := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	b := f.endpoint(t, "https://shop.example/b", webhook.CheckoutCompleted)
	var want []string
	for i := range 7 {
		_, ref := f.publishTest(t, a, webhook.PayoutSent)
		if i < 5 {
			f.end(t, ref, webhook.DeliveryFailed)
			want = append(want, ref.ID)
		}
	}
	_, other := f.publishTest(t, b, webhook.PayoutSent)
	f.end(t, other, webhook.DeliveryFailed)
	own := f.sessionURLDelivery(t, a)
	f.end(t, own, webhook.DeliveryFailed)
	first := f.read(t, a.Owner.Ref(want[0])).CreatedAt
	f.Exec(t, `UPDATE webhook_delivery SET created_at = $1 WHERE id <> $2`, first.Add(time.Second), want[0])

	r := newReplay(a)
	require.Equal(t, 5, must.Get(f.Webhooks.PreviewReplay(t.Context(), r))(t))
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM webhook_replay`))
	r = must.Get(f.Webhooks.CreateReplay(t.Context(), r))(t)
	require.Equal(t, 5, r.Total)
	require.Equal(t, webhook.ReplayRunning, r.Status)

	var got []string
	for ; ; r.After = got[len(got)-1] {
		page := must.Get(f.Webhooks.ReplayedDeliveries(t.Context(), r, 2))(t)
		if len(page) == 0 {
			break
		}
		require.LessOrEqual(t, len(page), 2)
		for _, d := range page {
			require.Equal(t, webhook.PayoutSent, d.EventType)
			require.Equal(t, "shop.example", d.Host)
			require.Equal(t, a.ID, d.EndpointID)
			got = append(got, d.ID)
		}
	}
	require.ElementsMatch(t, want, got)
	require.IsIncreasing(t, got, "oldest first")
	r.After = ""

	for name, tc := range map[string]struct {
		change func(*webhook.Replay)
		want   int
	}{
		"since is in it":  {func(r *webhook.Replay) { r.Since = first; r.Until = first.Add(time.Millisecond) }, 1},
		"until is not":    {func(r *webhook.Replay) { r.Until = first }, 0},
		"the rest":        {func(r *webhook.Replay) { r.Since = first.Add(time.Millisecond) }, 4},
		"delivered":       {func(r *webhook.Replay) { r.Filter = webhook.DeliveryDelivered }, 0},
		"b":               {func(r *webhook.Replay) { r.EndpointID = b.ID }, 1},
		"a long time ago": {func(r *webhook.Replay) { r.Since, r.Until = time.Unix(0, 0), time.Unix(1, 0) }, 0},
	} {
		changed := r
		tc.change(&changed)
		require.Equal(t, tc.want, must.Get(f.Webhooks.PreviewReplay(t.Context(), changed))(t), name)
		require.Len(t, must.Get(f.Webhooks.ReplayedDeliveries(t.Context(), changed, 100))(t), tc.want, name)
	}
}

func TestReplayedDeliveries_DoesNotComeBackToWhatItStarted(t *testing.T) {
	f := newFixture(t)
	a := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	for range 3 {
		_, ref := f.publishTest(t, a, webhook.PayoutSent)
		f.end(t, ref, webhook.DeliveryFailed)
	}
	r := must.Get(f.Webhooks.CreateReplay(t.Context(), newReplay(a)))(t)
	page := must.Get(f.Webhooks.ReplayedDeliveries(t.Context(), r, 1))(t)
	again := a.Owner.Ref(page[0].ID)
	f.begin(t, again, "run-b", 1)
	_, err := f.Webhooks.EndDelivery(t.Context(), again, "run-b", webhook.DeliveryFailed)
	require.NoError(t, err, "it fails again")
	r.After = page[0].ID
	require.Len(t, must.Get(f.Webhooks.ReplayedDeliveries(t.Context(), r, 10))(t), 2)
}

func TestRecordReplay_KeepsTheFirstEnd(t *testing.T) {
	f := newFixture(t)
	a := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	r := must.Get(f.Webhooks.CreateReplay(t.Context(), newReplay(a)))(t)
	read := func() webhook.Replay { return must.Get(f.Webhooks.Replay(t.Context(), r.Ref))(t) }
	r.Started, r.Skipped = 3, 1
	require.NoError(t, f.Webhooks.RecordReplay(t.Context(), r))
	require.Equal(t, 3, read().Started)
	require.Equal(t, 1, read().Skipped)
	require.Nil(t, read().FinishedAt)

	r.Status = webhook.ReplayCanceled
	require.NoError(t, f.Webhooks.RecordReplay(t.Context(), r))
	ended := read()
	require.Equal(t, webhook.ReplayCanceled, ended.Status)
	require.NotNil(t, ended.FinishedAt)
	r.Status, r.Started = webhook.ReplayCompleted, 9
	require.NoError(t, f.Webhooks.RecordReplay(t.Context(), r))
	require.Equal(t, ended, read())

	for _, other := range f.strangers() {
		require.ErrorIs(t, must.Err(f.Webhooks.Replay(t.Context(), other.Ref(r.ID))), checkout.ErrNotFound)
		require.Empty(t, must.Get(f.Webhooks.Replays(t.Context(), other, "", pg.Page{Limit: 10}))(t))
	}
	b := f.endpoint(t, "https://shop.example/b", webhook.CheckoutCompleted)
	require.Empty(t, must.Get(f.Webhooks.Replays(t.Context(), r.Owner, b.ID, pg.Page{Limit: 10}))(t))
}
