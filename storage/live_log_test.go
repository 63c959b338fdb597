package storage_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// liveLogPatience is how long a busy computer may take to announce a change.
const liveLogPatience = 30 * time.Second

// takeChange waits for a change. more is false when the subscription has ended.
func takeChange(t *testing.T, sub *storage.Subscription) (more bool) {
	t.Helper()
	select {
	case _, more = <-sub.Changes:
		return more
	case <-time.After(liveLogPatience):
		t.Fatal("nothing was told")
		return false
	}
}

// runLiveLog runs a live log with subscriptions and returns once it listens.
func runLiveLog(t *testing.T, log *storage.LiveLog, subs ...*storage.Subscription) (stop func()) {
	t.Helper()
	for _, sub := range subs {
		takeChange(t, sub) // the first value of the subscription
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { log.Run(ctx); close(ended) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	for _, sub := range subs {
		takeChange(t, sub) // the live log listens
	}
	return stop
}

func (f fixture) subscribe(t *testing.T, log *storage.LiveLog, merchantID string, mode checkout.Mode) *storage.Subscription {
	t.Helper()
	sub, err := log.Subscribe(t.Context(), checkout.Owner{MerchantID: merchantID, Mode: mode})
	require.NoError(t, err)
	t.Cleanup(sub.Close)
	return sub
}

// testDelivery makes a delivery to a new registration.
func (f fixture) testDelivery(t *testing.T) (webhook.Endpoint, webhook.Dispatch) {
	t.Helper()
	e, err := f.CreateEndpoint(t.Context(), webhook.Endpoint{
		Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: "https://shop.example/hook",
		Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	})
	require.NoError(t, err)
	_, ref, err := f.PublishTest(t.Context(), storage.TestEvent{
		Owner: f.merchant.Owner(checkout.ModeTest), EndpointID: e.ID, SubjectID: checkout.NewID(checkout.PrefixTest), Type: webhook.PayoutSent,
		Data: func(at time.Time) any {
			return webhook.PayoutSent.Sample(f.merchant, json.RawMessage("{}"), at)
		},
	})
	require.NoError(t, err)
	return e, ref
}

func TestLiveLog_TellsThoseWhomItConcernsAndWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	log := f.NewLiveLog()
	mine, again := f.subscribe(t, log, f.merchant.ID, checkout.ModeTest), f.subscribe(t, log, f.merchant.ID, checkout.ModeTest)
	live, other := f.subscribe(t, log, f.merchant.ID, checkout.ModeLive), f.subscribe(t, log, "mer_other", checkout.ModeTest)
	runLiveLog(t, log, mine, again, live, other)
	f.testDelivery(t)
	takeChange(t, mine)
	// again has not taken its first change; the other subscribers must not wait for it.
	f.Exec(t, `UPDATE delivery_watch SET told_at = '-infinity'`)
	f.testDelivery(t)
	takeChange(t, mine)
	takeChange(t, again)
	require.Empty(t, again.Changes, "two are told as one")
	require.Empty(t, live.Changes)
	require.Empty(t, other.Changes)
	again.Close()
	again.Close()
	f.Exec(t, `UPDATE delivery_watch SET told_at = '-infinity'`)
	f.testDelivery(t)
	takeChange(t, mine)
	require.Empty(t, again.Changes)
}

func TestLiveLog_ConnectsAgainAndThenLooksAtEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	log := f.NewLiveLog()
	sub := f.subscribe(t, log, f.merchant.ID, checkout.ModeTest)
	runLiveLog(t, log, sub)
	f.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE '%INSERT INTO delivery_watch%' AND pid <> pg_backend_pid()`)
	takeChange(t, sub) // changes during the interruption
	f.Exec(t, `UPDATE delivery_watch SET told_at = '-infinity'`)
	f.testDelivery(t)
	takeChange(t, sub)
}

func TestLiveLog_EndsEverySubscription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	log := f.NewLiveLog()
	sub := f.subscribe(t, log, f.merchant.ID, checkout.ModeTest)
	runLiveLog(t, log, sub)()
	require.False(t, takeChange(t, sub))
	sub.Close()
	require.False(t, takeChange(t, f.subscribe(t, log, f.merchant.ID, checkout.ModeTest)), "too late")

	idle, cancel := context.WithCancel(t.Context())
	cancel()
	f.NewLiveLog().Run(idle) // without a subscriber Run ends no subscription
}

// TestLiveLog_NothingIsToldUnlessSomebodyLooks: commits that notify take turns. Deliveries must not
// wait for them when nobody looks.
func TestLiveLog_NothingIsToldUnlessSomebodyLooks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn := f.Connect(t)
	_, err := conn.Exec(t.Context(), `LISTEN delivery`)
	require.NoError(t, err)
	told := func() (payloads []string) {
		t.Helper()
		f.testDelivery(t)
		f.Exec(t, `NOTIFY delivery, 'end'`)
		for {
			n, err := conn.WaitForNotification(t.Context())
			require.NoError(t, err)
			if n.Payload == "end" {
				return payloads
			}
			payloads = append(payloads, n.Payload)
		}
	}
	require.Empty(t, told(), "nobody looks")
	f.Exec(t, `INSERT INTO delivery_watch VALUES ($1, 'live', 'infinity', '-infinity')`, f.merchant.ID)
	require.Empty(t, told(), "somebody looks at the other mode")
	f.Exec(t, `INSERT INTO delivery_watch VALUES ($1, 'test', 'infinity', '-infinity')`, f.merchant.ID)
	require.Equal(t, []string{f.merchant.ID + " test"}, told())
	f.Exec(t, `UPDATE delivery_watch SET told_at = 'infinity'`)
	require.Empty(t, told(), "it was told a moment ago")
	f.Exec(t, `UPDATE delivery_watch SET told_at = '-infinity', until = now()`)
	require.Empty(t, told(), "nobody looks any more")
}

func TestEndpointHealth_CountsTheDeliveriesOfARegistration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e, ref := f.testDelivery(t)
	health := func() storage.EndpointHealth {
		t.Helper()
		all, err := f.EndpointHealth(t.Context(), f.merchant.Owner(checkout.ModeTest), time.Hour)
		require.NoError(t, err)
		return all[e.ID]
	}
	require.Equal(t, storage.EndpointHealth{EndpointID: e.ID, Total: 1, Pending: 1}, health())
	d := f.merchant.Owner(checkout.ModeTest).Ref(ref.ID)
	last := func() webhook.Attempt {
		t.Helper()
		all, err := f.LastAttempts(t.Context(), f.merchant.Owner(checkout.ModeTest), []string{ref.ID})
		require.NoError(t, err)
		return all[ref.ID]
	}
	require.Zero(t, last().Number)
	_, err := f.BeginAttempt(t.Context(), d, webhook.Turn{RunID: "r", Try: 1})
	require.NoError(t, err)
	require.False(t, last().Finished)
	require.NoError(t, f.FinishAttempt(t.Context(), d, webhook.Attempt{Run: 1, Number: 1, StatusCode: 500, ErrorKind: webhook.ErrorHTTP}, time.Hour))
	require.Equal(t, 500, last().StatusCode)
	require.Equal(t, storage.EndpointHealth{EndpointID: e.ID, Total: 1, Pending: 1, Retrying: 1}, health())
	pending, err := f.CountPending(t.Context(), f.merchant.Owner(checkout.ModeTest), e.ID)
	require.NoError(t, err)
	require.Equal(t, 1, pending)

	_, err = f.EndDelivery(t.Context(), d, "", webhook.DeliveryFailed)
	require.NoError(t, err)
	require.Equal(t, storage.EndpointHealth{EndpointID: e.ID, Total: 1, Failed: 1}, health())
	for _, whose := range []struct {
		merchant string
		mode     checkout.Mode
	}{{"mer_other", checkout.ModeTest}, {f.merchant.ID, checkout.ModeLive}} {
		all, err := f.EndpointHealth(t.Context(), checkout.Owner{MerchantID: whose.merchant, Mode: whose.mode}, time.Hour)
		require.NoError(t, err)
		require.Empty(t, all)
		attempts, err := f.LastAttempts(t.Context(), checkout.Owner{MerchantID: whose.merchant, Mode: whose.mode}, []string{ref.ID})
		require.NoError(t, err)
		require.Empty(t, attempts)
	}
}
