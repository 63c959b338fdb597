package storage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// The row of a registration for all events names no type, so a type that is added later reaches it too.
func TestCreateEndpoint_StarReachesTypesToCome(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.AllEvents)
	require.Equal(t, []webhook.EventType{"*"}, must.Get(f.Webhooks.Endpoint(t.Context(), e.Ref))(t).Events)
	require.EqualValues(t, 1, f.query(t, `SELECT cardinality(events) FROM webhook_endpoint`))

	f.failedPayout(t)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE e.type = 'payout.failed' AND d.endpoint_id = $1`, e.ID))
}

func TestChangeEndpoint_ANewURLHoldsForTheAttemptsToCome(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	_, ref := f.publishTest(t, e, webhook.PayoutSent)
	_, ended := f.publishTest(t, e, webhook.PayoutSent)
	require.Equal(t, "https://shop.example/a", f.begin(t, ref, "run-a", 1).URL)
	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, refused(1, 1), time.Minute))
	f.begin(t, ended, "run-b", 1)
	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ended, webhook.Attempt{Run: 1, Number: 1, StatusCode: 200}, 0))
	own := f.sessionURLDelivery(t, e)

	address := "https://shop.example/b"
	must.Get(f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{URL: &address}))(t)
	require.Equal(t, address, f.read(t, ref).URL)
	require.Equal(t, address, f.begin(t, ref, "run-a", 2).URL)
	require.Equal(t, "https://shop.example/a", f.read(t, ended).URL, "what was delivered was delivered there")
	require.Equal(t, "https://shop.example/own", f.begin(t, own, "run-c", 1).URL)
}

func TestBeginAttempt_HasTheLimitsOfItsRegistration(t *testing.T) {
	f := newFixture(t)
	e, err := f.Webhooks.CreateEndpoint(t.Context(), webhook.Endpoint{
		Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: "https://shop.example/a",
		Events: []webhook.EventType{webhook.AllEvents}, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
		MaxInFlight: new(20), RateLimit: new(500),
	})
	require.NoError(t, err)
	plain := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	limits := func(ref checkout.Ref, number int) [2]int {
		out := f.begin(t, ref, "run-"+ref.ID, number)
		require.Equal(t, webhook.StepBegin, out.Step)
		require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, refused(1, number), time.Minute))
		return [2]int{out.MaxInFlight, out.RateLimit}
	}
	change := func(c storage.EndpointChange) { must.Get(f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, c))(t) }

	_, ref := f.publishTest(t, e, webhook.PayoutSent)
	require.Equal(t, [2]int{20, 500}, limits(ref, 1), "the first attempt")
	require.Equal(t, [2]int{20, 500}, limits(ref, 2), "a retry")
	report := must.Get(f.Webhooks.ReportAttempt(t.Context(), ref, webhook.Turn{RunID: "run-" + ref.ID, Try: 1}))(t)
	require.Equal(t, [2]int{20, 500}, [2]int{report.MaxInFlight, report.RateLimit}, "a report")
	change(storage.EndpointChange{MaxInFlight: new(1000), URL: new("https://shop.example/b")})
	require.Equal(t, [2]int{1000, 500}, limits(ref, 3), "a change holds from the next attempt on, and changes nothing else")
	change(storage.EndpointChange{MaxInFlight: new(0)})
	require.Equal(t, [2]int{0, 500}, limits(ref, 4))

	_, ref = f.publishTest(t, plain, webhook.PayoutSent)
	require.Equal(t, [2]int{0, 0}, limits(ref, 1), "the limits of another registration for the same address")
	own := f.sessionURLDelivery(t, e)
	require.Equal(t, [2]int{0, 0}, limits(own, 1), "a session's own address has those of nobody")
	require.Equal(t, [2]int{0, 0}, limits(own, 2))

	for _, limit := range []int{-1, 1001} {
		_, err := f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{RateLimit: &limit})
		require.ErrorContains(t, err, "webhook_endpoint_rate_limit_check")
		_, err = f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{MaxInFlight: &limit})
		require.ErrorContains(t, err, "webhook_endpoint_max_in_flight_check")
	}
}

func TestEndpoint_IsNotFoundForOthers(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	gone := f.endpoint(t, "https://shop.example/gone", webhook.CheckoutCompleted)
	require.NoError(t, f.Webhooks.DeleteEndpoint(t.Context(), gone.Ref))
	f.withAddress(t, "https://shop.example/own")
	sessions, _ := f.query(t, `SELECT id FROM webhook_endpoint WHERE session_id IS NOT NULL`).(string)
	require.NotEmpty(t, sessions)

	for name, ref := range map[string]checkout.Ref{
		"another merchant":   f.strangers()[1].Ref(e.ID),
		"other mode":         f.strangers()[0].Ref(e.ID),
		"unknown":            e.Owner.Ref(checkout.NewID(checkout.PrefixEndpoint)),
		"deleted":            gone.Ref,
		"a session's secret": e.Owner.Ref(sessions),
	} {
		_, err := f.Webhooks.Endpoint(t.Context(), ref)
		require.ErrorIs(t, err, checkout.ErrNotFound, name)
		disabled := webhook.EndpointDisabled
		require.ErrorIs(t, must.Err(f.Webhooks.ChangeEndpoint(t.Context(), ref, storage.EndpointChange{Status: &disabled})), checkout.ErrNotFound, name)
		require.ErrorIs(t, f.Webhooks.DeleteEndpoint(t.Context(), ref), checkout.ErrNotFound, name)
		_, err = f.Webhooks.RotateSecret(t.Context(), ref, webhook.NewSecret(), time.Hour)
		require.ErrorIs(t, err, checkout.ErrNotFound, name)
		_, _, err = f.Webhooks.PublishTest(t.Context(), storage.TestEvent{
			Owner: ref.Owner, EndpointID: ref.ID, SubjectID: checkout.NewID("test"), Type: webhook.PayoutSent, Data: func(time.Time) any { return 1 },
		})
		require.ErrorIs(t, err, checkout.ErrNotFound, name)
		require.ErrorIs(t, must.Err(f.Webhooks.PreviewReplay(t.Context(), webhook.Replay{Ref: checkout.Ref{Owner: ref.Owner}, EndpointID: ref.ID, Filter: webhook.DeliveryFailed})), checkout.ErrNotFound, name)
	}
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM event`), "a refused test event leaves nothing")
	event, _ := f.publishTest(t, e, webhook.PayoutSent)
	f.Exec(t, `UPDATE event SET mode = 'live'`)
	_, _, err := f.Webhooks.PublishTest(t.Context(), storage.TestEvent{Owner: e.Owner, EndpointID: e.ID, SubjectID: event.SubjectID, Type: webhook.PayoutSent, Data: func(time.Time) any { return 1 }})
	require.False(t, err == nil || errors.Is(err, checkout.ErrNotFound), "the registration exists: %v", err)
	got := must.Get(f.Webhooks.Endpoints(t.Context(), e.Owner, "", pg.Page{Limit: 10}))(t)
	require.Len(t, got, 1)
	require.Equal(t, e.ID, got[0].ID)
}

func TestRotateSecret_BothSignWhileItLasts(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	first := webhook.SecretDigest(e.Secret)
	digests := func() [][]byte {
		_, ref := f.publishTest(t, e, webhook.PayoutSent)
		return f.begin(t, ref, "run-"+ref.ID, 1).Digests
	}
	require.Equal(t, [][]byte{first}, digests())

	rotated := must.Get(f.Webhooks.RotateSecret(t.Context(), e.Ref, webhook.NewSecret(), 24*time.Hour))(t)
	second := webhook.SecretDigest(rotated.Secret)
	require.NotEqual(t, first, second)
	require.InDelta(t, 24, time.Until(*rotated.RotatingUntil).Hours(), 0.1)
	require.Equal(t, [][]byte{second, first}, digests())

	again := must.Get(f.Webhooks.RotateSecret(t.Context(), e.Ref, webhook.NewSecret(), time.Hour))(t)
	third := webhook.SecretDigest(again.Secret)
	require.Equal(t, [][]byte{third, second}, digests(), "the one before the previous stops at once")

	f.Exec(t, `UPDATE webhook_endpoint SET previous_expires_at = clock_timestamp() - interval '1 second'`)
	require.Equal(t, [][]byte{third}, digests())
	read := must.Get(f.Webhooks.Endpoint(t.Context(), e.Ref))(t)
	require.Nil(t, read.RotatingUntil)
	require.Empty(t, read.Secret)

	now := must.Get(f.Webhooks.RotateSecret(t.Context(), e.Ref, webhook.NewSecret(), 0))(t)
	require.Nil(t, now.RotatingUntil)
	require.Equal(t, [][]byte{webhook.SecretDigest(now.Secret)}, digests(), "without an overlap")
}

func TestWebhookKeys_AreForgottenAWeekAfterTheirEnd(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	must.Get(f.Webhooks.RotateSecret(t.Context(), e.Ref, webhook.NewSecret(), time.Hour))(t)
	for age, known := range map[string]bool{"-1 hour": true, "6 days": true, "8 days": false} {
		f.Exec(t, `UPDATE webhook_endpoint SET previous_expires_at = clock_timestamp() - $1::interval`, age)
		keys := must.Get(f.Webhooks.WebhookKeys(t.Context(), e.Owner, ""))(t)
		require.Len(t, keys, 1)
		require.Equal(t, known, keys[0].Previous != nil, age)
		require.NotNil(t, keys[0].Current)
	}
}

func TestWebhookKeys_AreThoseThatMayHaveSigned(t *testing.T) {
	f := newFixture(t)
	a := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	gone := f.endpoint(t, "https://shop.example/gone", webhook.CheckoutCompleted)
	event, _ := f.publishTest(t, gone, webhook.PayoutSent)
	require.NoError(t, f.Webhooks.DeleteEndpoint(t.Context(), gone.Ref))
	s, secret := f.withAddress(t, "https://shop.example/own")
	f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	paid, _ := f.query(t, `SELECT id FROM event WHERE session_id = $1`, s.ID).(string)
	rotated := must.Get(f.Webhooks.RotateSecret(t.Context(), a.Ref, webhook.NewSecret(), 0))(t)

	keys := func(merchantID string, mode checkout.Mode, eventID string) []storage.WebhookKeys {
		return must.Get(f.Webhooks.WebhookKeys(t.Context(), checkout.Owner{MerchantID: merchantID, Mode: mode}, eventID))(t)
	}
	got := keys(a.MerchantID, a.Mode, "")
	require.Len(t, got, 1)
	require.Equal(t, a.ID, got[0].EndpointID)
	require.Equal(t, webhook.SecretDigest(rotated.Secret), got[0].Current)
	require.Equal(t, webhook.SecretDigest(a.Secret), got[0].Previous, "also after its time: to say that it is over")
	require.False(t, got[0].Until.After(time.Now().Add(time.Minute)))

	got = keys(a.MerchantID, a.Mode, event.ID)
	require.Len(t, got, 2)
	require.Equal(t, gone.ID, got[1].EndpointID)
	require.True(t, got[1].Deleted)
	require.Equal(t, webhook.SecretDigest(gone.Secret), got[1].Current)

	got = keys(a.MerchantID, a.Mode, paid)
	require.Len(t, got, 2)
	require.Equal(t, s.ID, got[1].SessionID)
	require.Equal(t, webhook.SecretDigest(secret), got[1].Current)

	require.Empty(t, keys(a.MerchantID, checkout.ModeLive, paid))
	require.Empty(t, keys(checkout.NewID(checkout.PrefixMerchant), a.Mode, paid), "nobody else's event opens a key")
}

func TestEndpointHealth_CountsTheDeliveriesOfARegistration(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/hook", webhook.PayoutSent)
	_, d := f.publishTest(t, e, webhook.PayoutSent)
	health := func() storage.EndpointHealth {
		return must.Get(f.Webhooks.EndpointHealth(t.Context(), f.merchant.Owner(checkout.ModeTest), time.Hour))(t)[e.ID]
	}
	require.Equal(t, storage.EndpointHealth{EndpointID: e.ID, Total: 1, Pending: 1}, health())
	last := func() webhook.Attempt {
		return must.Get(f.Webhooks.LastAttempts(t.Context(), f.merchant.Owner(checkout.ModeTest), []string{d.ID}))(t)[d.ID]
	}
	require.Zero(t, last().Number)
	must.Get(f.Webhooks.BeginAttempt(t.Context(), d, webhook.Turn{RunID: "r", Try: 1}))(t)
	require.False(t, last().Finished)
	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), d, webhook.Attempt{Run: 1, Number: 1, StatusCode: 500, ErrorKind: webhook.ErrorHTTP}, time.Hour))
	require.Equal(t, 500, last().StatusCode)
	require.Equal(t, storage.EndpointHealth{EndpointID: e.ID, Total: 1, Pending: 1, Retrying: 1}, health())
	require.Equal(t, 1, must.Get(f.Webhooks.CountPending(t.Context(), f.merchant.Owner(checkout.ModeTest), e.ID))(t))

	f.end(t, d, webhook.DeliveryFailed)
	require.Equal(t, storage.EndpointHealth{EndpointID: e.ID, Total: 1, Failed: 1}, health())
	for _, other := range f.strangers() {
		require.Empty(t, must.Get(f.Webhooks.EndpointHealth(t.Context(), other, time.Hour))(t))
		require.Empty(t, must.Get(f.Webhooks.LastAttempts(t.Context(), other, []string{d.ID}))(t))
	}
}
