package storage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

func (f fixture) past(t *testing.T, at time.Time, merchant string, mode checkout.Mode, status checkout.Status, currency money.Currency, amount money.Amount) {
	var ended *time.Time
	if status.Final() {
		ended = &at
	}
	id := checkout.SeededID(checkout.PrefixSession, append(idTimeOf(at), checkout.NewSeed()[6:]...))
	f.Exec(t, `INSERT INTO checkout_session (id, merchant_id, mode, amount, currency, payout_currency, status, metadata, max_attempts, created_at, expires_at, ended_at)
		VALUES ($1, $2, $3, $4, $5, 'USDC', $6, '{}', 3, $7, $8, $9)`, id, merchant, mode, amount, currency, status, at, at.Add(time.Hour), ended)
}

// idTimeOf is the time at the beginning of a seed.
func idTimeOf(at time.Time) []byte {
	ms := at.UnixMilli()
	return []byte{byte(ms >> 40), byte(ms >> 32), byte(ms >> 24), byte(ms >> 16), byte(ms >> 8), byte(ms)}
}

func TestSummary_CountsEachSessionInItsHourAndDay(t *testing.T) {
	f := newFixture(t)
	other := f.other(t, checkout.ModeTest)
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(9*time.Hour + 30*time.Minute) // today, whatever the hour is now
	const test = checkout.ModeTest
	f.past(t, now.Add(-10*time.Minute), f.merchant.ID, test, checkout.StatusCompleted, money.EUR, 1000)
	f.past(t, now.Add(-12*time.Minute), f.merchant.ID, test, checkout.StatusCompleted, money.EUR, 250)
	f.past(t, now.Add(-12*time.Minute), f.merchant.ID, test, checkout.StatusFailed, money.EUR, 7777)
	f.past(t, now.Add(-2*time.Hour), f.merchant.ID, test, checkout.StatusCompleted, money.USD, 300)
	f.past(t, now.Add(-23*time.Hour), f.merchant.ID, test, checkout.StatusExpired, money.USD, 8888) // yesterday
	f.past(t, now.Add(-24*time.Hour), f.merchant.ID, test, checkout.StatusFailed, money.USD, 9999)  // yesterday, and not in the last 24 hours
	f.past(t, now.Add(-29*24*time.Hour), f.merchant.ID, test, checkout.StatusCompleted, money.GBP, 1)
	f.past(t, now.Add(-30*24*time.Hour), f.merchant.ID, test, checkout.StatusCompleted, money.GBP, 2) // too old
	f.past(t, now.Add(-10*time.Minute), f.merchant.ID, checkout.ModeLive, checkout.StatusCompleted, money.EUR, 5)
	f.past(t, now.Add(-10*time.Minute), other.ID, test, checkout.StatusCompleted, money.EUR, 5)

	hours := must.Get(f.Sessions.Summary(t.Context(), f.merchant.Owner(test), storage.SpanHours, now))(t)
	require.Len(t, hours.Periods, 24)
	require.Equal(t, storage.Period{
		From:     now.Truncate(time.Hour),
		Sessions: map[checkout.Status]int{checkout.StatusCompleted: 2, checkout.StatusFailed: 1},
		Paid:     map[money.Currency]money.Amount{money.EUR: 1250},
	}, hours.Periods[23])
	require.Equal(t, map[checkout.Status]int{checkout.StatusCompleted: 1}, hours.Periods[21].Sessions)
	require.Equal(t, map[checkout.Status]int{checkout.StatusExpired: 1}, hours.Periods[0].Sessions)
	require.Empty(t, hours.Periods[0].Paid, "nobody paid what expired")
	require.Empty(t, hours.Periods[22].Sessions)

	days := must.Get(f.Sessions.Summary(t.Context(), f.merchant.Owner(test), storage.SpanDays, now))(t)
	require.Len(t, days.Periods, 30)
	require.Equal(t, days.Periods[29], days.Today)
	require.Equal(t, days.Today, hours.Today)
	require.True(t, days.Sessions)
	none := must.Get(f.Sessions.Summary(t.Context(), checkout.Owner{MerchantID: "mer_none", Mode: test}, storage.SpanDays, now))(t)
	require.False(t, none.Sessions)
	require.Equal(t, storage.Period{
		From:     now.Truncate(24 * time.Hour),
		Sessions: map[checkout.Status]int{checkout.StatusCompleted: 3, checkout.StatusFailed: 1},
		Paid:     map[money.Currency]money.Amount{money.EUR: 1250, money.USD: 300},
	}, days.Today)
	require.Equal(t, map[checkout.Status]int{checkout.StatusExpired: 1, checkout.StatusFailed: 1}, days.Periods[28].Sessions)
	require.Equal(t, map[money.Currency]money.Amount{money.GBP: 1}, days.Periods[0].Paid)
}

func TestSummary_ASessionPastItsTimeHasExpired(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	f.past(t, now.Add(-2*time.Hour), f.merchant.ID, checkout.ModeTest, checkout.StatusPending, money.EUR, 1000) // expired; the workflow has not stored the end
	f.past(t, now.Add(-time.Minute), f.merchant.ID, checkout.ModeTest, checkout.StatusPending, money.EUR, 1000)
	got := must.Get(f.Sessions.Summary(t.Context(), f.merchant.Owner(checkout.ModeTest), storage.SpanHours, now))(t)
	statuses := map[checkout.Status]int{}
	for _, p := range got.Periods {
		for status, n := range p.Sessions {
			statuses[status] += n
		}
	}
	require.Equal(t, map[checkout.Status]int{checkout.StatusExpired: 1, checkout.StatusPending: 1}, statuses)
}

func TestSummary_CountsEachDeliveryAndPayoutOnce(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.EventTypes...)
	held := f.endpoint(t, "https://shop.example/b", webhook.EventTypes...)
	end := func(ref checkout.Ref, kind webhook.ErrorKind) {
		f.begin(t, ref, "run", 1)
		require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, webhook.Attempt{Run: 1, Number: 1, ErrorKind: kind}, time.Hour))
	}
	next := func(e webhook.Endpoint) checkout.Ref {
		_, ref := f.publishTest(t, e, webhook.PayoutSent)
		return ref
	}
	end(next(e), "")
	end(next(e), "")
	replayed := next(e)
	f.Exec(t, `UPDATE webhook_delivery SET run = 2, status = 'delivered', attempts = 1 WHERE id = $1`, replayed.ID)
	failed := next(e)
	end(failed, webhook.ErrorHTTP)
	f.end(t, failed, webhook.DeliveryFailed)
	waiting := next(e)
	end(waiting, webhook.ErrorTimeout) // the attempt failed and another follows
	f.begin(t, next(e), "run", 1)      // an attempt is under way
	next(e)
	f.end(t, next(e), webhook.DeliveryCanceled)
	require.NoError(t, f.Webhooks.HoldDelivery(t.Context(), next(e)))
	next(held)
	f.Exec(t, `UPDATE webhook_endpoint SET status = 'disabled' WHERE id = $1`, held.ID)
	old := next(e)
	f.Exec(t, `UPDATE webhook_delivery SET created_at = created_at - interval '25 hours' WHERE id = $1`, old.ID)

	for _, failure := range []checkout.PayoutFailure{"", "", checkout.PayoutNetworkError} {
		s := f.create(t, f.newSession())
		_, settled := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
		must.Get(f.Payouts.FinishPayout(t.Context(), s.Owner.Ref(settled.PayoutID), 1, failure))(t)
	}
	f.pay(t, f.create(t, f.newSession()), checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	f.Exec(t, `DELETE FROM webhook_delivery WHERE event_id IN (SELECT id FROM event WHERE session_id IS NOT NULL)`) // only those above

	got := must.Get(f.Sessions.Summary(t.Context(), f.merchant.Owner(checkout.ModeTest), storage.SpanHours, time.Now()))(t)
	require.True(t, got.Deliveries.Waiting.Equal(must.Get(f.Webhooks.Delivery(t.Context(), waiting))(t).CreatedAt), "the oldest that waits for a retry")
	got.Deliveries.Waiting = nil
	require.Equal(t, storage.DeliveryHealth{Delivered: 3, Failed: 1, Pending: 2, Retrying: 1, Held: 2, Canceled: 1, First: 4, FirstArrived: 2}, got.Deliveries)
	require.Equal(t, storage.PayoutHealth{Sent: 2, Pending: 1, Failed: 1}, got.Payouts)
	live := must.Get(f.Sessions.Summary(t.Context(), f.merchant.Owner(checkout.ModeLive), storage.SpanHours, time.Now()))(t)
	require.Zero(t, live.Deliveries)
	require.Zero(t, live.Payouts)
}

func TestSummary_NamesTheRegistrationsThatFail(t *testing.T) {
	f := newFixture(t)
	owner := f.merchant.Owner(checkout.ModeTest)
	failing := func() []storage.FailingEndpoint {
		return must.Get(f.Sessions.Summary(t.Context(), owner, storage.SpanHours, time.Now()))(t).Failing
	}
	attempt := func(ref checkout.Ref, number int, kind webhook.ErrorKind) time.Time {
		f.begin(t, ref, "run", number)
		require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, webhook.Attempt{Run: 1, Number: number, ErrorKind: kind}, time.Hour))
		d := must.Get(f.Webhooks.Delivery(t.Context(), ref))(t)
		return d.Attempts[number-1].StartedAt
	}
	bad, good := f.endpoint(t, "https://orders.example/a", webhook.EventTypes...), f.endpoint(t, "https://shop.example/b", webhook.EventTypes...)
	_, before := f.publishTest(t, bad, webhook.PayoutSent)
	attempt(before, 1, webhook.ErrorHTTP)
	attempt(before, 2, "")
	_, refused := f.publishTest(t, good, webhook.PayoutSent)
	for n := range 3 {
		attempt(refused, n+1, webhook.ErrorHTTP)
	}
	_, fine := f.publishTest(t, good, webhook.PayoutSent) // another event arrives
	attempt(fine, 1, "")

	_, one := f.publishTest(t, bad, webhook.PayoutSent)
	_, two := f.publishTest(t, bad, webhook.PayoutSent)
	since := attempt(one, 1, webhook.ErrorTimeout)
	attempt(two, 1, webhook.ErrorTimeout)
	require.Empty(t, failing(), "two may be chance")
	attempt(one, 2, webhook.ErrorConnect)
	f.end(t, two, webhook.DeliveryFailed)
	d := must.Get(f.Webhooks.Delivery(t.Context(), one))(t)
	want := storage.FailingEndpoint{ID: bad.ID, URL: bad.URL, Since: since, Oldest: d.CreatedAt, Missed: 1}
	require.Equal(t, []storage.FailingEndpoint{want}, failing())
	f.Exec(t, `UPDATE webhook_endpoint SET status = 'disabled' WHERE id = $1`, bad.ID)
	want.Held = true
	require.Equal(t, []storage.FailingEndpoint{want}, failing())
	f.Exec(t, `UPDATE webhook_delivery SET next_attempt_at = now() - interval '2 minutes' WHERE id = $1`, one.ID)
	f.Exec(t, `UPDATE webhook_endpoint SET status = 'enabled' WHERE id = $1`, bad.ID)
	require.Equal(t, 1, must.Get(f.Sessions.Summary(t.Context(), owner, storage.SpanHours, time.Now()))(t).Deliveries.Overdue)
	require.Empty(t, must.Get(f.Sessions.Summary(t.Context(), f.merchant.Owner(checkout.ModeLive), storage.SpanHours, time.Now()))(t).Failing)
	attempt(one, 3, "")
	require.Empty(t, failing(), "it works again")
}

func TestSessions_Search(t *testing.T) {
	f := newFixture(t)
	email, typed := "Ann@Example.com", "bob@example.com"
	n := f.newSession()
	n.CustomerEmail, n.Metadata = &email, []byte(`{"order_id":"order 7"}`)
	s := f.create(t, n)
	txn := storagetest.Begin(t, f.Store, s.Ref, storage.NewPayment{CustomerEmail: &typed, Method: checkout.PaymentMethod{Last4: "4242"}}, "")
	f.record(t, s, txn, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	settled := must.Get(f.Sessions.FinishPayment(t.Context(), s.Ref, txn))(t)
	m := f.newSession()
	m.Amount, m.Metadata = 1999, []byte(`{"color":"red"}`)
	paid := f.create(t, m)
	other := f.other(t, checkout.ModeTest)

	search := func(merchant string, mode checkout.Mode, filter storage.SessionFilter) (ids []string) {
		got := must.Get(f.Sessions.Sessions(t.Context(), checkout.Owner{MerchantID: merchant, Mode: mode}, filter, pg.Page{Limit: 10}))(t)
		for _, s := range got {
			ids = append(ids, s.ID)
		}
		return ids
	}
	for _, text := range []string{s.ID, "ann@example.com", "ANN@EXAMPLE.COM", "bob@example.com", "order 7", "ord", "ANN@e", "bob", "4242", txn, settled.PayoutID} {
		require.Equal(t, []string{s.ID}, search(f.merchant.ID, checkout.ModeTest, storage.SessionFilter{Search: text}), text)
		require.Empty(t, search(f.merchant.ID, checkout.ModeLive, storage.SessionFilter{Search: text}), text)
		require.Empty(t, search(other.ID, checkout.ModeTest, storage.SessionFilter{Search: text}), text)
	}
	for _, text := range []string{"an", "or", "rder", "%", "ann%", "ord_r", "424", "42424", s.ID[:len(s.ID)-1], "ann@example.com "} {
		require.Empty(t, search(f.merchant.ID, checkout.ModeTest, storage.SessionFilter{Search: text}), text)
	}
	for text, want := range map[string][]string{
		"19.99": {paid.ID}, "EUR 19.99": {paid.ID}, "19.99 eur": {paid.ID}, "color:red": {paid.ID}, "color: red": {paid.ID},
		"USD 19.99": nil, "19.98": nil, "19": nil, "color:re": nil, ":red": nil,
	} {
		require.Equal(t, want, search(f.merchant.ID, checkout.ModeTest, storage.SessionFilter{Search: text}), text)
		require.Empty(t, search(other.ID, checkout.ModeTest, storage.SessionFilter{Search: text}), text)
	}
	filter := storage.SessionFilter{Search: s.ID, Status: checkout.StatusCompleted, Currency: money.EUR, OrderID: "order 7"}
	require.Equal(t, []string{s.ID}, search(f.merchant.ID, checkout.ModeTest, filter), "all of them hold")
	require.Empty(t, search(f.merchant.ID, checkout.ModeTest, storage.SessionFilter{Search: s.ID, Currency: money.USD}))

	old := checkout.FirstID(checkout.PrefixSession, time.Now().AddDate(-1, 0, 0))
	copies := `INSERT INTO checkout_session SELECT (jsonb_populate_record(r, jsonb_build_object('id', %s, 'amount', 100000 + i))).*
		FROM checkout_session r, generate_series(1, $2) i WHERE r.id = $1`
	f.Exec(t, fmt.Sprintf(copies, "'"+old+"'"), paid.ID, 1)
	require.Equal(t, []string{old}, search(f.merchant.ID, checkout.ModeTest, storage.SessionFilter{Search: "EUR 1000.01"}))
	f.Exec(t, fmt.Sprintf(copies, "r.id || i"), paid.ID, 50_000)
	require.NotContains(t, search(f.merchant.ID, checkout.ModeTest, storage.SessionFilter{Search: "EUR 1000.01"}), old, "a search ends")
}

func TestSessionHistory_IsTheWholeTreeAndOnlyForItsOwner(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t, "https://shop.example/a", webhook.EventTypes...)
	f.endpoint(t, "https://shop.example/b", webhook.EventTypes...)
	s := f.create(t, f.newSession())
	f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined})
	inFlight := f.beginPayment(t, s)

	got := must.Get(f.Sessions.SessionHistory(t.Context(), s.Ref))(t)
	require.Equal(t, inFlight, got.InFlight.ID)
	require.Len(t, got.Events, 1)
	require.Equal(t, webhook.CheckoutFailed, got.Events[0].Type)
	require.Len(t, got.Events[0].Deliveries, 2)
	ref := s.Owner.Ref(got.Events[0].Deliveries[1].ID)
	for n := range 3 {
		f.begin(t, ref, "run", n+1)
		require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, webhook.Attempt{Run: 1, Number: n + 1, StatusCode: 500, ErrorKind: webhook.ErrorHTTP}, time.Hour))
	}
	got = must.Get(f.Sessions.SessionHistory(t.Context(), s.Ref))(t)
	require.Empty(t, got.Events[0].Deliveries[0].Attempts)
	attempts := got.Events[0].Deliveries[1].Attempts
	require.Len(t, attempts, 3)
	require.Equal(t, 1, attempts[0].Number)
	require.Equal(t, 500, attempts[2].StatusCode)

	for _, of := range []checkout.Ref{checkout.Owner{MerchantID: s.MerchantID, Mode: checkout.ModeLive}.Ref(s.ID), checkout.Owner{MerchantID: "mer_other", Mode: s.Mode}.Ref(s.ID)} {
		got := must.Get(f.Sessions.SessionHistory(t.Context(), of))(t)
		require.Nil(t, got.InFlight)
		require.Empty(t, got.Events)
	}
}
