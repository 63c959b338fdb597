package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// refused is an attempt that the receiver did not accept.
func refused(run, number int) webhook.Attempt {
	return webhook.Attempt{Run: run, Number: number, Duration: time.Second, StatusCode: 500, ErrorKind: webhook.ErrorHTTP}
}

// withAddress creates a session with an address and a secret of its own.
func (f fixture) withAddress(t *testing.T, address string) (checkout.Session, string) {
	n := f.newSession()
	n.WebhookURL, n.Secret = &address, webhook.NewSecret()
	return f.create(t, n), n.Secret
}

// sessionURLDelivery is one to a session's own address, signed by e.
func (f fixture) sessionURLDelivery(t *testing.T, e webhook.Endpoint) checkout.Ref {
	n, address := f.newSession(), "https://shop.example/own"
	n.WebhookURL, n.SigningEndpoint = &address, &e.ID
	s := f.create(t, n)
	_, got := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	require.Len(t, got.Deliveries, 1)
	return s.Owner.Ref(got.Deliveries[0].ID)
}

func TestBeginAttempt_ASessionsOwnURLIsNotHeldByTheRegistrationThatSigns(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	ref := f.sessionURLDelivery(t, e)
	f.setStatus(t, e, webhook.EndpointDisabled)
	require.False(t, f.read(t, ref).Held)
	require.NoError(t, f.Webhooks.HurryDelivery(t.Context(), ref))
	out := f.begin(t, ref, "run-a", 1)
	require.Equal(t, webhook.StepBegin, out.Step)
	require.Equal(t, "https://shop.example/own", out.URL)

	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, refused(1, 1), time.Minute))
	require.NoError(t, f.Webhooks.DeleteEndpoint(t.Context(), e.Ref))
	require.False(t, f.read(t, ref).EndpointDeleted)
	out = f.begin(t, ref, "run-a", 2)
	require.Equal(t, webhook.DeliveryPending, out.Status, "nor ended by its deletion")
	require.NotEmpty(t, out.Digests)
}

func TestBeginAttempt_ADeletedRegistrationSignsNoSessionsOwnURLAnyMore(t *testing.T) {
	f := newFixture(t)
	leaked := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	disabled := f.endpoint(t, "https://shop.example/own", webhook.CheckoutCompleted)
	f.setStatus(t, disabled, webhook.EndpointDisabled)
	ref := f.sessionURLDelivery(t, leaked)
	signs := func(number int) [][]byte {
		out := f.begin(t, ref, "run-a", number)
		require.Equal(t, "https://shop.example/own", out.URL)
		require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, refused(1, number), time.Minute))
		return out.Digests
	}
	require.Equal(t, [][]byte{webhook.SecretDigest(leaked.Secret)}, signs(1))

	require.NoError(t, f.Webhooks.DeleteEndpoint(t.Context(), leaked.Ref))
	untold := signs(2)
	require.Len(t, untold, 1)
	require.NotEqual(t, webhook.SecretDigest(leaked.Secret), untold[0], "with nothing else to sign, a secret of the session does")
	require.NotEqual(t, webhook.SecretDigest(disabled.Secret), untold[0])
	require.Equal(t, untold, signs(3), "the same one")

	other := f.endpoint(t, "https://shop.example/b", webhook.CheckoutCompleted)
	require.Equal(t, [][]byte{webhook.SecretDigest(other.Secret)}, signs(4), "until there is a registration")
	require.Equal(t, other.ID, f.read(t, ref).EndpointID, "and the log says whose secret signs")
	f.endpoint(t, "https://shop.example/c", webhook.CheckoutCompleted)
	same := f.endpoint(t, "HTTPS://Shop.example:443/own?", webhook.CheckoutCompleted)
	f.Exec(t, `UPDATE webhook_endpoint SET created_at = created_at - interval '1 second' WHERE id = $1`, same.ID)
	f.endpoint(t, "https://shop.example/own", webhook.CheckoutCompleted)
	require.NoError(t, f.Webhooks.DeleteEndpoint(t.Context(), other.Ref))
	require.Equal(t, [][]byte{webhook.SecretDigest(same.Secret)}, signs(5), "the oldest one for that address, in any spelling")
	require.Equal(t, same.ID, f.read(t, ref).EndpointID)
}

func TestDeliveries_ToSessionsOwnURLsShareTheLaneOfTheirHost(t *testing.T) {
	f := newFixture(t)
	// As of a merchant without registrations: each session has an endpoint. A spelling made another lane.
	for _, address := range []string{"https://shop.example/own", "https://SHOP.example./own"} {
		s, _ := f.withAddress(t, address)
		_, got := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
		want := webhook.Dispatch{ID: got.Deliveries[0].ID, Host: "shop.example"}
		require.Equal(t, want, got.Deliveries[0])
		d := f.read(t, s.Owner.Ref(want.ID))
		require.Equal(t, want, d.Dispatch(), "nor does a replay name the endpoint")
		rows := must.Get(f.Installation.Unfinished(t.Context(), []string{want.ID}))(t)
		require.Empty(t, rows[0].EndpointID, "nor does Reconcile")
		require.Equal(t, "shop.example", rows[0].Host)
		require.Equal(t, address, d.URL, "shown and sent to as written")
	}
}

func TestBeginAttempt_ASecretThatTheSessionWasCreatedWithGoesOnSigning(t *testing.T) {
	f := newFixture(t)
	s, secret := f.withAddress(t, "https://shop.example/own")
	_, got := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	f.endpoint(t, "https://shop.example/own", webhook.CheckoutCompleted)
	out := f.begin(t, s.Owner.Ref(got.Deliveries[0].ID), "run-a", 1)
	require.Equal(t, [][]byte{webhook.SecretDigest(secret)}, out.Digests)
}

func TestBeginAttempt_WhatANewerMasterKeySealedIsNoAttempt(t *testing.T) {
	f := newFixture(t)
	newer := f.newerKey(t)
	e := newer.endpoint(t, "https://shop.example/a", webhook.PayoutSent)
	_, ref := newer.publishTest(t, e, webhook.PayoutSent)
	for _, runID := range []string{"run-a", "run-a", "run-b"} {
		_, err := f.Webhooks.BeginAttempt(t.Context(), ref, webhook.Turn{RunID: runID, Try: 1})
		require.ErrorIs(t, err, pg.ErrWrongMasterKey)
		require.True(t, pg.Unavailable(err), "another process has the key")
		d := f.read(t, ref)
		require.Empty(t, d.Attempts)
		require.Zero(t, d.Run)
	}
	out := newer.begin(t, ref, "run-a", 1)
	require.Equal(t, [][]byte{webhook.SecretDigest(e.Secret)}, out.Digests)
	require.Len(t, f.read(t, ref).Attempts, 1)
}

func TestBeginAttempt_AReplayOfWhatANewerMasterKeySealedIsNotBegun(t *testing.T) {
	f := newFixture(t)
	newer := f.newerKey(t)
	e := newer.endpoint(t, "https://shop.example/a", webhook.PayoutSent)
	_, ref := newer.publishTest(t, e, webhook.PayoutSent)
	newer.begin(t, ref, "run-a", 1)
	must.Get(newer.Webhooks.EndDelivery(t.Context(), ref, "run-a", webhook.DeliveryFailed))(t)
	require.ErrorIs(t, must.Err(f.Webhooks.BeginAttempt(t.Context(), ref, webhook.Turn{RunID: "run-b", Try: 1})), pg.ErrWrongMasterKey)
	require.Equal(t, 1, newer.begin(t, ref, "run-b", 1).Number)
	require.Equal(t, 2, f.read(t, ref).Run)
}

func TestFinishAttempt_SaysWhenTheNextFollows(t *testing.T) {
	f := newFixture(t)
	ref := f.delivery(t)
	f.begin(t, ref, "run-a", 1)
	require.Nil(t, f.read(t, ref).NextAttemptAt, "an attempt is under way")
	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, refused(1, 1), 30*time.Second))
	d := f.read(t, ref)
	require.InDelta(t, 31, d.NextAttemptAt.Sub(d.Attempts[0].StartedAt).Seconds(), 0.01)

	f.begin(t, ref, "run-a", 2)
	require.Equal(t, *d.NextAttemptAt, *f.read(t, ref).Attempts[1].ScheduledAt)
	f.Exec(t, `UPDATE webhook_delivery SET sending_until = clock_timestamp()`)
	d = f.read(t, ref)
	require.InDelta(t, (15*time.Second + 184800*time.Millisecond).Seconds(), d.NextAttemptAt.Sub(d.Attempts[1].StartedAt).Seconds(), 0.01,
		"its worker died: 15 s, and then the policy's own 30 s * 6.16")
}

// TestNoDeadlock_OfAnAttemptThatEndsAndBeginsAgain calls what a worker that was believed dead calls, and the worker
// after it. When two transactions deadlock, both hang for a second. Then PostgreSQL ends one of them with an error.
func TestNoDeadlock_OfAnAttemptThatEndsAndBeginsAgain(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	for n := range 200 {
		_, d := f.publishTest(t, e, webhook.MerchantUpdated)
		f.begin(t, d, "run-a", 1)
		var workers errgroup.Group
		workers.Go(func() error { return f.Webhooks.FinishAttempt(t.Context(), d, refused(1, 1), time.Hour) })
		workers.Go(func() error { return must.Err(comes("run-a", 1)(scene{fixture: f, ref: d})) })
		require.NoError(t, workers.Wait(), "round %d", n)
	}
}

func (f fixture) delivery(t *testing.T) checkout.Ref {
	f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	s := f.create(t, f.newSession())
	_, got := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	return s.Owner.Ref(got.Deliveries[0].ID)
}

func TestChangeEndpoint_NotesWhen(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM webhook_endpoint WHERE changed_at IS NOT NULL`))
	must.Get(f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{Events: []webhook.EventType{webhook.PayoutSent}}))(t)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM webhook_endpoint WHERE changed_at > created_at`))
}
