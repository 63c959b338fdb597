package storage_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// walk reads a list to its end in pages of size and returns the ids.
func walk(t *testing.T, size int, list func(pg.Page) []string) []string {
	t.Helper()
	var all []string
	for p := (pg.Page{Limit: size}); ; p.Before = all[len(all)-1] {
		got := list(p)
		require.LessOrEqual(t, len(got), size)
		require.LessOrEqual(t, len(all), 1000, "a list without an end: %v", got)
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
	}
}

// idsOf returns the ids of a list, or the text of its error, which is none.
func idsOf[T interface{ PublicID() string }](list []T, err error) (ids []string) {
	if err != nil {
		return []string{err.Error()}
	}
	for _, one := range list {
		ids = append(ids, one.PublicID())
	}
	return ids
}

func TestLists_PagesAreDisjointAndCompleteNewestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.merchant.Owner(checkout.ModeTest)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	var deliveries, events, replays []string
	endpoints := []string{e.ID}
	for range 25 {
		event, ref := f.publishTest(t, e, webhook.PayoutSent)
		deliveries, events = append(deliveries, ref.ID), append(events, event.ID)
		r, err := f.CreateReplay(t.Context(), newReplay(e))
		require.NoError(t, err)
		replays = append(replays, r.ID)
		r.Status = webhook.ReplayCompleted
		require.NoError(t, f.RecordReplay(t.Context(), r))
		endpoints = append(endpoints, f.endpoint(t, "https://shop.example/b", webhook.PayoutSent).ID)
	}
	for name, tc := range map[string]struct {
		want []string
		list func(pg.Page) []string
	}{
		"deliveries": {deliveries, func(p pg.Page) []string {
			return idsOf(f.Deliveries(t.Context(), owner, storage.DeliveryFilter{}, p))
		}},
		"events": {events, func(p pg.Page) []string {
			return idsOf(f.Events(t.Context(), owner, storage.EventFilter{}, p))
		}},
		"replays": {replays, func(p pg.Page) []string {
			return idsOf(f.Replays(t.Context(), owner, e.ID, p))
		}},
		"endpoints": {endpoints, func(p pg.Page) []string {
			return idsOf(f.Endpoints(t.Context(), owner, "", p))
		}},
	} {
		slices.Sort(tc.want)
		slices.Reverse(tc.want)
		for _, size := range []int{1, 10, 25, 100} {
			require.Equal(t, tc.want, walk(t, size, tc.list), "%s by %d", name, size)
		}
	}
}

func TestDeliveries_Filters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	b := f.endpoint(t, "https://shop.example/b", webhook.PayoutSent)
	event, pending := f.publishTest(t, a, webhook.PayoutSent)
	_, failed := f.publishTest(t, b, webhook.PayoutSent)
	_, canceled := f.publishTest(t, b, webhook.PayoutSent)
	_, delivered := f.publishTest(t, b, webhook.PayoutSent)
	_, err := f.EndDelivery(t.Context(), failed, "", webhook.DeliveryFailed)
	require.NoError(t, err)
	_, err = f.EndDelivery(t.Context(), canceled, "", webhook.DeliveryCanceled)
	require.NoError(t, err)
	f.begin(t, delivered, "run", 1)
	require.NoError(t, f.FinishAttempt(t.Context(), delivered, webhook.Attempt{Run: 1, Number: 1, StatusCode: 200}, 0))
	s := f.create(t, f.newSession())
	_, settled := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	require.Len(t, settled.Deliveries, 1)
	paid := settled.Deliveries[0].ID

	list := func(filter storage.DeliveryFilter, p pg.Page) []string {
		p.Limit = 10
		got, err := f.Deliveries(t.Context(), f.merchant.Owner(checkout.ModeTest), filter, p)
		require.NoError(t, err)
		ids := []string{}
		for _, d := range got {
			require.Nil(t, d.Attempts)
			ids = append(ids, d.ID)
		}
		slices.Sort(ids)
		return ids
	}
	sorted := func(ids ...string) []string {
		slices.Sort(ids)
		return ids
	}
	none := pg.Page{}
	all := sorted(pending.ID, failed.ID, canceled.ID, delivered.ID, paid)
	require.Equal(t, all, list(storage.DeliveryFilter{}, none))
	require.Equal(t, sorted(pending.ID, paid), list(storage.DeliveryFilter{Status: webhook.DeliveryPending}, none))
	require.Equal(t, []string{failed.ID}, list(storage.DeliveryFilter{Status: webhook.DeliveryFailed}, none))
	require.Equal(t, []string{canceled.ID}, list(storage.DeliveryFilter{Status: webhook.DeliveryCanceled}, none))
	require.Equal(t, []string{delivered.ID}, list(storage.DeliveryFilter{Status: webhook.DeliveryDelivered}, none))
	require.Equal(t, sorted(pending.ID, paid), list(storage.DeliveryFilter{EndpointID: a.ID}, none))
	require.Equal(t, []string{pending.ID}, list(storage.DeliveryFilter{EventID: event.ID}, none))
	require.Equal(t, []string{paid}, list(storage.DeliveryFilter{SessionID: s.ID}, none))
	require.Equal(t, []string{failed.ID}, list(storage.DeliveryFilter{Status: webhook.DeliveryFailed, EndpointID: b.ID}, none))
	require.Empty(t, list(storage.DeliveryFilter{Status: webhook.DeliveryFailed, EndpointID: a.ID}, none))

	at := f.read(t, failed).CreatedAt
	f.Exec(t, `UPDATE webhook_delivery SET created_at = $1 WHERE id <> $2`, at.Add(-time.Second), failed.ID)
	require.Equal(t, []string{failed.ID}, list(storage.DeliveryFilter{}, pg.Page{Since: at}), "since is in it")
	require.Empty(t, list(storage.DeliveryFilter{}, pg.Page{Since: at.Add(time.Millisecond)}))
	require.Len(t, list(storage.DeliveryFilter{}, pg.Page{Until: at}), 4, "until is not")
	require.Len(t, list(storage.DeliveryFilter{}, pg.Page{Until: at.Add(time.Millisecond)}), 5)
	require.Empty(t, list(storage.DeliveryFilter{}, pg.Page{Until: time.Unix(0, 0)}))
	require.Len(t, list(storage.DeliveryFilter{}, pg.Page{Since: time.Unix(0, 0), Until: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}), 5)

	for _, foreign := range []struct {
		merchant string
		mode     checkout.Mode
	}{{f.merchant.ID, checkout.ModeLive}, {checkout.NewID(checkout.PrefixMerchant), checkout.ModeTest}} {
		got, err := f.Deliveries(t.Context(), checkout.Owner{MerchantID: foreign.merchant, Mode: foreign.mode}, storage.DeliveryFilter{EndpointID: a.ID}, pg.Page{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, got)
		events, err := f.Events(t.Context(), checkout.Owner{MerchantID: foreign.merchant, Mode: foreign.mode}, storage.EventFilter{SessionID: s.ID}, pg.Page{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, events)
	}
}

func TestEvents_Filters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	sent, _ := f.publishTest(t, a, webhook.PayoutSent)
	s := f.create(t, f.newSession())
	f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	list := func(filter storage.EventFilter) []webhook.Event {
		got, err := f.Events(t.Context(), f.merchant.Owner(checkout.ModeTest), filter, pg.Page{Limit: 10})
		require.NoError(t, err)
		return got
	}
	require.Len(t, list(storage.EventFilter{}), 2)
	require.Equal(t, []webhook.Event{sent}, list(storage.EventFilter{Type: webhook.PayoutSent}))
	require.Empty(t, list(storage.EventFilter{Type: webhook.PayoutFailed}))
	bySession := list(storage.EventFilter{SessionID: s.ID})
	require.Len(t, bySession, 1)
	require.Equal(t, webhook.CheckoutCompleted, bySession[0].Type)

	read, err := f.Event(t.Context(), f.merchant.Owner(checkout.ModeTest).Ref(sent.ID))
	require.NoError(t, err)
	require.Equal(t, sent, read)
	_, err = f.Event(t.Context(), f.merchant.Owner(checkout.ModeLive).Ref(sent.ID))
	require.ErrorIs(t, err, checkout.ErrNotFound)
	_, err = f.Event(t.Context(), checkout.Owner{MerchantID: checkout.NewID(checkout.PrefixMerchant), Mode: checkout.ModeTest}.Ref(sent.ID))
	require.ErrorIs(t, err, checkout.ErrNotFound)
}
