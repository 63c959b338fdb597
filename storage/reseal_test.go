package storage_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// restart opens a store as a process that starts with these master keys.
func (f fixture) restart(t *testing.T, keys ...string) (fixture, error) {
	f.MasterKeys = strings.Join(keys, ",")
	var err error
	f.Store, err = f.TryOpen(t, 2)
	return f, err
}

// rotate gives a registration a second secret. The first one signs beside it.
func (f fixture) rotate(t *testing.T, e webhook.Endpoint) (digests [][]byte) {
	second := webhook.NewSecret()
	must.Get(f.Webhooks.RotateSecret(t.Context(), e.Ref, second, time.Hour))(t)
	return [][]byte{webhook.SecretDigest(second), webhook.SecretDigest(e.Secret)}
}

// TestReseal_NoDeliveryStopsWhileAKeyIsReplaced follows the documented steps with two processes. One
// starts again before the other in each step, and each signs what the other has sealed.
func TestReseal_NoDeliveryStopsWhileAKeyIsReplaced(t *testing.T) {
	f := newFixture(t)
	old, fresh := f.MasterKeys, pg.NewMasterKey("k2")
	registration := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	first := f.rotate(t, registration)

	signs := func(process fixture, e webhook.Endpoint, want [][]byte, step string) {
		_, ref := process.publishTest(t, e, webhook.PayoutSent)
		require.Equal(t, want, process.begin(t, ref, "run", 1).Digests, step)
	}
	one := must.Get(f.restart(t, old))(t)
	other := must.Get(f.restart(t, old))(t)
	for _, step := range [][]string{{old, fresh}, {fresh, old}} {
		for _, process := range []*fixture{&one, &other} {
			*process = must.Get(f.restart(t, step...))(t)
			for _, writer := range []fixture{one, other} {
				e := writer.endpoint(t, "https://shop.example/b", webhook.MerchantUpdated)
				digests := writer.rotate(t, e)
				for _, reader := range []fixture{one, other} {
					signs(reader, e, digests, "sealed now")
					signs(reader, registration, first, "sealed before")
				}
			}
		}
	}

	_, err := f.restart(t, fresh)
	require.ErrorIs(t, err, pg.ErrWrongMasterKey)
	require.ErrorContains(t, err, `key "k1" is missing`)
	require.NotContains(t, err.Error(), strings.TrimPrefix(old, "k1:"))

	stop := make(chan struct{})
	var deliveries sync.WaitGroup
	deliveries.Go(func() { // what is delivered while everything is sealed again
		for {
			select {
			case <-stop:
				return
			default:
				signs(other, registration, first, "during reseal")
			}
		}
	})
	done, err := one.Installation.Reseal(t.Context(), func(string, int) {})
	close(stop)
	deliveries.Wait()
	require.NoError(t, err)
	require.Equal(t, []string{"k1"}, done.Retired)
	require.Empty(t, done.Used)

	for _, process := range []*fixture{&one, &other} {
		*process, err = f.restart(t, fresh)
		require.NoError(t, err, "nothing needs the old key")
		signs(one, registration, first, "the old key is gone")
		signs(other, registration, first, "the old key is gone")
	}
}

func TestReseal_KnowsEverySealedValue(t *testing.T) {
	f := newFixture(t)
	owner := f.merchant.Owner(checkout.ModeTest)
	f.rotate(t, f.endpoint(t, "https://shop.example/a", webhook.PayoutSent))
	begun := storage.IdempotentRequest{Owner: owner, Route: "POST /v1/a", Key: "begun"}
	_, seed, err := f.Requests.ClaimRequest(t.Context(), begun, []byte("body"))
	require.NoError(t, err)
	require.NoError(t, f.Requests.ReleaseRequest(t.Context(), begun, false))
	answered := storage.IdempotentRequest{Owner: owner, Route: "POST /v1/a", Key: "answered"}
	_, _, err = f.Requests.ClaimRequest(t.Context(), answered, []byte("body"))
	require.NoError(t, err)
	answer := storage.KeptAnswer{Status: 201, Location: "/v1/a/1", Body: []byte(`{"a":1}`)}
	require.NoError(t, f.Requests.KeepAnswer(t.Context(), answered, answer))
	shown := people.Reveal{Browser: []byte("browser"), Form: "form", Owner: owner, Subject: "key_1", Secret: "sk_test_1"}
	f.Exec(t, `INSERT INTO member (id, merchant_id, email, role) VALUES ('usr_1', $1, 'ann@shop.example', 'owner')`, f.merchant.ID)
	f.Exec(t, `INSERT INTO member_session (hash, member_id) VALUES ($1, 'usr_1')`, shown.Browser)
	_, _, err = f.Store.Secrets.KeepReveal(t.Context(), shown)
	require.NoError(t, err)
	require.NoError(t, f.Store.Secrets.StartSecondFactor(t.Context(), f.merchant.ID, "usr_1", []byte("a factor")))
	require.EqualValues(t, 5, f.query(t, `SELECT count(*) FROM information_schema.columns
		WHERE table_schema = 'public' AND column_name LIKE '%master_key_id'`), "a new sealed value: add it to sealings")

	newer := f.newerKey(t)
	seen := map[string]int{}
	done := must.Get(newer.Installation.Reseal(t.Context(), func(what string, rows int) { seen[what] = rows }))(t)
	require.Equal(t, map[string]int{
		"webhook secrets": 1, "previous webhook secrets": 1, "idempotent answers": 2, "secrets to be shown once": 1, "second factors": 1,
	}, done.Values)
	require.Equal(t, done.Values, seen)
	require.Equal(t, []string{"k1"}, done.Retired)

	_, again, err := newer.Requests.ClaimRequest(t.Context(), begun, []byte("body"))
	require.NoError(t, err)
	require.Equal(t, seed, again)
	kept, _, err := newer.Requests.ClaimRequest(t.Context(), answered, []byte("body"))
	require.NoError(t, err)
	require.Equal(t, &answer, kept)
	require.Equal(t, shown.Secret, must.Get(newer.Store.Secrets.TakeReveal(t.Context(), shown))(t))
	factor := must.Get(newer.Store.Secrets.StartedSecondFactor(t.Context(), f.merchant.ID, "usr_1"))(t)
	require.Equal(t, "a factor", string(factor))

	done = must.Get(newer.Installation.Reseal(t.Context(), func(string, int) { t.Error("nothing is left") }))(t)
	require.Equal(t, []string{"k1"}, done.Retired, "a repeat says the same")
}

func TestReseal_SeveralAtOnceInPages(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	for range 30 {
		_, _, err := f.Requests.ClaimRequest(t.Context(), storage.IdempotentRequest{
			Owner: e.Owner, Route: "POST /v1/a", Key: checkout.NewID("test"),
		}, []byte("body"))
		require.NoError(t, err)
	}
	f.Exec(t, `INSERT INTO webhook_endpoint (id, merchant_id, mode, url, events, status, master_key_id, sealed_digest, created_at)
		SELECT $1 || n, merchant_id, mode, url, events, status, master_key_id, '', created_at
		FROM webhook_endpoint, generate_series(1, 1200) n`, checkout.NewID(checkout.PrefixEndpoint))
	newer := f.newerKey(t)
	var (
		group   sync.WaitGroup
		rows    = make(chan int, 3)
		retired = make(chan string, 3)
	)
	for range 3 {
		group.Go(func() {
			done, err := newer.Installation.Reseal(t.Context(), func(string, int) {})
			if err != nil {
				t.Error(err)
				return
			}
			rows <- done.Values["webhook secrets"]
			for _, id := range done.Retired {
				retired <- id
			}
		})
	}
	group.Wait()
	close(rows)
	total := 0
	for n := range rows {
		total += n
	}
	require.Equal(t, 1201, total, "each row is sealed again once")
	require.Equal(t, "k1", <-retired, "the last one retires the key")
}

// TestReseal_WhatOthersChangeKeepsItsKey: Reseal leaves out a locked row, so the row's key must stay.
func TestReseal_WhatOthersChangeKeepsItsKey(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t, "https://shop.example/a", webhook.PayoutSent)
	newer := f.newerKey(t)
	conn := f.Connect(t)
	tx := must.Get(conn.Begin(t.Context()))(t)
	must.Get(tx.Exec(t.Context(), `SELECT FROM webhook_endpoint FOR UPDATE`))(t)
	done := must.Get(newer.Installation.Reseal(t.Context(), func(string, int) {}))(t)
	require.Equal(t, []string{"k1"}, done.Used)
	require.Empty(t, done.Retired)

	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, []string{"k1"}, must.Get(newer.Installation.Reseal(t.Context(), func(string, int) {}))(t).Retired)
}

func TestReseal_AKeyThatStillSealsIsNotRetired(t *testing.T) {
	f := newFixture(t)
	fresh := pg.NewMasterKey("k2")
	newer := must.Get(f.restart(t, fresh, f.MasterKeys))(t)
	require.Equal(t, []string{"k1"}, must.Get(newer.Installation.Reseal(t.Context(), func(string, int) {}))(t).Retired)

	// A process that was forgotten still has the old key first.
	e := f.endpoint(t, "https://shop.example/a", webhook.PayoutSent)
	_, err := f.restart(t, fresh)
	require.ErrorIs(t, err, pg.ErrWrongMasterKey)
	require.ErrorContains(t, err, `key "k1" is missing, and has sealed something since`)
	_, ref := newer.publishTest(t, e, webhook.PayoutSent)
	require.Equal(t, [][]byte{webhook.SecretDigest(e.Secret)}, newer.begin(t, ref, "run", 1).Digests)

	// It starts again, and may seal at any time.
	must.Get(newer.Installation.Reseal(t.Context(), func(string, int) {}))(t)
	must.Get(f.restart(t, f.MasterKeys, fresh))(t)
	_, err = f.restart(t, fresh)
	require.ErrorContains(t, err, `key "k1" is missing, and no reseal has retired it`)

	_, err = f.restart(t, fresh, pg.NewMasterKey("k1"))
	require.ErrorContains(t, err, `key "k1" is another key`)
}
