package storage_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// deliveries sends test events to e: one is due, one has an hour left, one came due while on hold, and one has failed.
func (f fixture) deliveries(t *testing.T, e webhook.Endpoint) (delivery, later, parked, ended checkout.Ref) {
	_, delivery = f.publishTest(t, e, webhook.PayoutSent)
	_, later = f.publishTest(t, e, webhook.PayoutSent)
	require.NoError(t, f.Webhooks.DeferAttempt(t.Context(), later, time.Hour, 0))
	_, parked = f.publishTest(t, e, webhook.PayoutSent)
	require.NoError(t, f.Webhooks.HoldDelivery(t.Context(), parked))
	f.begin(t, parked, "run-a", 1)
	_, ended = f.publishTest(t, e, webhook.PayoutSent)
	f.end(t, ended, webhook.DeliveryFailed)
	return delivery, later, parked, ended
}

func TestOverdue_IsEverythingThatShouldHaveDoneSomething(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example:8443/a", webhook.MerchantUpdated)
	pending := f.create(t, f.newSession())
	paid := f.create(t, f.newSession())
	_, settled := f.pay(t, paid, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	delivery, later, parked, ended := f.deliveries(t, e)
	replay := must.Get(f.Webhooks.CreateReplay(t.Context(), newReplay(e)))(t)
	over := newReplay(f.endpoint(t, "https://shop.example/b", webhook.CheckoutCompleted))
	over = must.Get(f.Webhooks.CreateReplay(t.Context(), over))(t)
	over.Status = webhook.ReplayCompleted
	require.NoError(t, f.Webhooks.RecordReplay(t.Context(), over))

	overdue := func(margin time.Duration) (ids []string) {
		after := ""
		for {
			got := must.Get(f.Installation.Overdue(t.Context(), margin, after, 2))(t)
			if len(got) == 0 {
				return ids
			}
			require.LessOrEqual(t, len(got), 2)
			for _, o := range got {
				ids = append(ids, o.ID)
			}
			after = ids[len(ids)-1]
		}
	}
	require.Empty(t, overdue(time.Minute), "nothing is late by a minute")
	want := []string{settled.PayoutID, delivery.ID, replay.ID}
	slices.Sort(want)
	require.Equal(t, want, overdue(0), "the session has an hour, one delivery too, the others wait or have ended")
	f.Exec(t, `UPDATE checkout_session SET expires_at = clock_timestamp() - interval '1 minute' WHERE id = $1`, pending.ID)
	require.Equal(t, append([]string{pending.ID}, want...), overdue(0))
	require.Equal(t, []string{pending.ID}, overdue(50*time.Second))

	all := []string{pending.ID, paid.ID, settled.PayoutID, delivery.ID, later.ID, parked.ID, ended.ID, replay.ID, over.ID, "reconcile-2026", ""}
	found, refs := map[string]storage.Overdue{}, []checkout.Ref{}
	for _, o := range must.Get(f.Installation.Unfinished(t.Context(), all))(t) {
		found[o.ID], refs = o, append(refs, o.Ref)
	}
	own := f.merchant.Owner(checkout.ModeTest)
	require.ElementsMatch(t, []checkout.Ref{
		pending.Ref, own.Ref(settled.PayoutID), delivery, later, parked, replay.Ref,
	}, refs)
	require.False(t, found[pending.ID].ExpiresAt.IsZero())
	require.True(t, found[replay.ID].ExpiresAt.IsZero())
	require.Equal(t, e.ID, found[replay.ID].EndpointID)
	require.Equal(t, storage.Overdue{
		Ref: parked, EventType: webhook.PayoutSent, EndpointID: e.ID, Host: "shop.example",
	}, found[parked.ID])
}

func TestPendingSessions_ComeInTheOrderOfTheirEnds(t *testing.T) {
	f := newFixture(t)
	var want []string
	for range 5 {
		want = append(want, f.create(t, f.newSession()).ID)
	}
	paid := f.create(t, f.newSession())
	f.pay(t, paid, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	f.Exec(t, `UPDATE checkout_session SET expires_at = '2040-01-01' WHERE id = ANY ($1)`, want[1:4]) // at the same time
	f.Exec(t, `UPDATE checkout_session SET expires_at = '2039-01-01' WHERE id = $1`, want[0])
	f.Exec(t, `UPDATE checkout_session SET expires_at = '2041-01-01' WHERE id = $1`, want[4])
	slices.Sort(want[1:4])

	var (
		got  []string
		last storage.SessionCursor
	)
	for {
		page := must.Get(f.Installation.PendingSessions(t.Context(), last, 2))(t)
		for _, s := range page {
			got = append(got, s.ID)
			last = storage.SessionCursor{ExpiresAt: s.ExpiresAt, ID: s.ID}
		}
		if len(page) < 2 {
			break
		}
	}
	require.Equal(t, want, got)
	some := must.Get(f.Installation.SomePendingSessions(t.Context(), 3))(t)
	require.Len(t, some, 3)
	require.NotContains(t, []string{some[0].ID, some[1].ID, some[2].ID}, paid.ID)
}

func TestParkedDeliveries_AreThoseThatMayGoOn(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	var refs []checkout.Ref
	for range 3 {
		_, ref := f.publishTest(t, e, webhook.PayoutSent)
		require.NoError(t, f.Webhooks.HoldDelivery(t.Context(), ref))
		f.begin(t, ref, "run", 1)
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b checkout.Ref) int { return strings.Compare(a.ID, b.ID) })
	parked := func(after string) []checkout.Ref {
		return must.Get(f.Webhooks.ParkedDeliveries(t.Context(), after, 10))(t)
	}
	require.Empty(t, parked(""), "all are on hold")
	require.NoError(t, f.Webhooks.ResumeDelivery(t.Context(), refs[0]))
	require.NoError(t, f.Webhooks.ResumeDelivery(t.Context(), refs[2]))
	require.Equal(t, []checkout.Ref{refs[0], refs[2]}, parked(""))
	require.Equal(t, []checkout.Ref{refs[2]}, parked(refs[0].ID))

	f.setStatus(t, e, webhook.EndpointDisabled)
	require.Empty(t, parked(""), "their registration holds them")
	f.setStatus(t, e, webhook.EndpointEnabled)

	f.begin(t, refs[0], "run", 1)
	require.Equal(t, []checkout.Ref{refs[2]}, parked(""), "the other goes on")
	require.NoError(t, f.Webhooks.UnparkDelivery(t.Context(), refs[2]))
	require.Empty(t, parked(""))
	overdue := must.Get(f.Installation.Overdue(t.Context(), 0, "", 10))(t)
	require.Len(t, overdue, 1, "its run is gone, so it is overdue")
	require.Equal(t, refs[2].ID, overdue[0].ID)
	f.end(t, refs[1], webhook.DeliveryCanceled)
	require.NoError(t, f.Webhooks.UnparkDelivery(t.Context(), refs[1]), "it has ended")
	require.Equal(t, webhook.DeliveryCanceled, f.read(t, refs[1]).Status)
}

func TestOrphanedDeliveries_AreThePendingOnesOfDeletedRegistrations(t *testing.T) {
	f := newFixture(t)
	kept := f.endpoint(t, "https://shop.example/kept", webhook.MerchantUpdated)
	gone := f.endpoint(t, "https://shop.example/gone", webhook.MerchantUpdated)
	f.publishTest(t, kept, webhook.PayoutSent)
	_, pending := f.publishTest(t, gone, webhook.PayoutSent)
	_, parked := f.publishTest(t, gone, webhook.PayoutSent)
	_, failed := f.publishTest(t, gone, webhook.PayoutSent)
	require.NoError(t, f.Webhooks.HoldDelivery(t.Context(), parked))
	f.begin(t, parked, "run", 1)
	f.end(t, failed, webhook.DeliveryFailed)
	f.sessionURLDelivery(t, gone)
	orphaned := func(after string) (ids []string) {
		for _, ref := range must.Get(f.Webhooks.OrphanedDeliveries(t.Context(), after, 10))(t) {
			ids = append(ids, ref.ID)
		}
		return ids
	}
	require.Empty(t, orphaned(""))
	require.NoError(t, f.Webhooks.DeleteEndpoint(t.Context(), gone.Ref))
	want := []string{pending.ID, parked.ID}
	slices.Sort(want)
	require.Equal(t, want, orphaned(""))
	require.Equal(t, want[1:], orphaned(want[0]))
	f.end(t, parked, webhook.DeliveryCanceled)
	require.Equal(t, []string{pending.ID}, orphaned(""))
}

func TestBacklog_CountsWhatWaits(t *testing.T) {
	f := newFixture(t)
	got := must.Get(f.Installation.Backlog(t.Context(), 0))(t)
	require.Empty(t, got)

	e := f.endpoint(t, "https://shop.example:8443/a", webhook.MerchantUpdated)
	late := f.create(t, f.newSession())
	f.create(t, f.newSession()) // has time left
	f.Exec(t, `UPDATE checkout_session SET expires_at = clock_timestamp() - interval '1 minute' WHERE id = $1`, late.ID)
	_, settled := f.pay(t, f.create(t, f.newSession()), checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	f.Exec(t, `UPDATE payout SET created_at = created_at - interval '1 hour', hold = 'float' WHERE id = $1`, settled.PayoutID)
	f.pay(t, f.create(t, f.newSession()), checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	f.deliveries(t, e)
	must.Get(f.Books.OpenFinding(t.Context(), books.Finding{Mode: checkout.ModeTest, Kind: books.FindingCostDiffers, Subject: "pi_1"}))(t)

	got = must.Get(f.Installation.Backlog(t.Context(), 0))(t)
	for i := range got {
		if got[i].Hold == "float" {
			require.Greater(t, got[i].Oldest, time.Hour)
		}
		got[i].Oldest = 0
	}
	of := func(kind, hold string) storage.Backlog {
		return storage.Backlog{Kind: kind, Mode: checkout.ModeTest, Hold: hold, Count: 1}
	}
	require.ElementsMatch(t, []storage.Backlog{
		of(storage.BacklogSessionOverdue, ""), of(storage.BacklogDeliveryScheduled, ""), of(storage.BacklogDeliveryOverdue, ""),
		of(storage.BacklogDeliveryParked, ""), of(storage.BacklogPayout, "float"), of(storage.BacklogPayout, ""),
		of(storage.BacklogFinding, "cost_differs"),
	}, got)
	got = must.Get(f.Installation.Backlog(t.Context(), time.Hour))(t)
	require.NotContains(t, got, of(storage.BacklogSessionOverdue, ""), "the margin counts")
}
