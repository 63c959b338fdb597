package api

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

const idempotent = "Idempotency-Key"

// repeatable are the POSTs with an effect, and the tables that count the effect.
var repeatable = map[string]struct {
	path, body string // {id} is an existing registration, {paid} a paid session
	status     int
	effect     string // table that gets one row for each request
	starts     int    // number of started workflows
}{
	"session": {
		"/v1/checkout", `{"amount":10.5,"currency":"USD","payout_currency":"USDC","webhook_url":"https://shop.example/own",` +
			"\"metadata\":{ \"order_id\": \"A-1\", \"n\": 1.50, \"s\":\"<&>\u2028ü\\u00e9\" }}", 201, "checkout_session", 1,
	},
	"session of a registration": {
		"/v1/checkout", `{"amount":1,"currency":"USD","payout_currency":"USDC","webhook_url":"https://shop.example/?{id}"}`, 201, "checkout_session", 1,
	},
	"registration": {
		"/v1/webhooks", `{"url":"https://shop.example/hook","events":["*"],"description":"<b>"}`, 201, "webhook_endpoint", 0,
	},
	"rotation": {
		"/v1/webhooks/{id}/rotate_secret", ``, 200, "webhook_endpoint WHERE previous_sealed_digest IS NOT NULL", 0,
	},
	"test event":  {"/v1/webhooks/{id}/test", `{"metadata":{"a":"b"}}`, 202, "event", 1},
	"bulk replay": {"/v1/webhooks/{id}/replay", `{"since":"2026-01-01T00:00:00Z"}`, 202, "webhook_replay", 1},
	"evidence":    {"/v1/disputes/{dp}/evidence", `{"texts":{"customer_name":"Ann"}}`, 202, "dispute_evidence", 1},
	"refund":      {"/v1/checkout/{paid}/refund", `{"amount":1}`, 201, "refund", 1},
}

// prepare makes what a repeatable request needs. It returns the request's path and body, and the
// registration's id and secret.
func (f *front) prepare(name string) (path, body, id, secret string) {
	c := repeatable[name]
	if strings.Contains(c.path, "{paid}") {
		paid, _ := f.newPayout(f.merchant, checkout.ModeTest)
		return strings.ReplaceAll(c.path, "{paid}", paid), c.body, "", ""
	}
	if strings.Contains(c.path, "{dp}") {
		paid, _ := f.newPayout(f.merchant, checkout.ModeTest)
		_, dispute := f.newMoneyBack(paid)
		return strings.ReplaceAll(c.path, "{dp}", dispute), c.body, "", ""
	}
	if !strings.Contains(c.path+c.body, "{id}") {
		return c.path, c.body, "", ""
	}
	id, secret = f.newEndpoint(f.key)
	return strings.ReplaceAll(c.path, "{id}", id), strings.ReplaceAll(c.body, "{id}", id), id, secret
}

// forAnotherMerchant returns the front for a merchant that has nothing yet.
func (f *front) forAnotherMerchant(t *testing.T) *front {
	other := *f
	other.t, other.merchant = t, f.newMerchant(true)
	other.key = other.merchant.testKey
	return &other
}

// started returns the ids of the workflows that are started from now on.
func (f *front) started() *[]string {
	var ids []string
	f.temporal.Start = func(o client.StartWorkflowOptions) error {
		ids = append(ids, o.ID)
		return nil
	}
	return &ids
}

// createsWithKey creates a session with the Idempotency-Key k.
func (f *front) createsWithKey() answer {
	return f.do("POST", "/v1/checkout", f.key, validSession, idempotent, "k")
}

// createInBackground is createsWithKey for an answer that may wait.
func (f *front) createInBackground(answers chan<- answer) {
	go func() {
		var got answer
		defer func() { answers <- got }() // also when a check of the answer ends this goroutine
		got = f.createsWithKey()
	}()
}

// hangingCreate begins createsWithKey. Its workflow does not start before goOn is closed; others do.
func (f *front) hangingCreate() (answers chan answer, goOn chan struct{}) {
	answers, goOn = make(chan answer, 30), make(chan struct{})
	reached := make(chan struct{})
	var starts atomic.Int32
	f.temporal.Start = func(client.StartWorkflowOptions) error {
		if starts.Add(1) == 1 {
			close(reached)
			<-goOn
		}
		return nil
	}
	f.createInBackground(answers)
	<-reached
	return answers, goOn
}

// crash makes the process die after a request's effect and before its answer is kept, so that the
// claim stays. Call over to end that.
func (f *front) crash() (over func()) {
	f.exec(`
		CREATE FUNCTION crash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TRIGGER crash BEFORE UPDATE OR DELETE ON idempotent_request FOR EACH ROW EXECUTE FUNCTION crash()`)
	return func() { f.exec(`DROP FUNCTION crash CASCADE`) }
}

func (f *front) claimsRunOut() {
	f.exec(`UPDATE idempotent_request SET locked_until = clock_timestamp() - interval '1 millisecond' WHERE locked_until IS NOT NULL`)
}

func TestIdempotency_ARepeatGetsTheFirstAnswerByteForByte(t *testing.T) {
	all := newFront(t)
	for name, c := range repeatable {
		t.Run(name, func(t *testing.T) {
			f := all.forAnotherMerchant(t)
			path, body, _, _ := f.prepare(name)
			starts, before, key := f.started(), f.count(c.effect), f.key
			first := f.do("POST", path, key, body, idempotent, "k 1")
			require.Equal(t, c.status, first.status, first.body)
			require.Empty(t, first.header.Get("Idempotent-Replayed"))
			for _, process := range []*front{f, f.second()} {
				again := process.do("POST", path, key, body, idempotent, "k 1")
				require.Equal(t, first.status, again.status)
				require.Equal(t, first.body, again.body)
				require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
				require.Equal(t, first.header.Values("Location"), again.header.Values("Location"))
			}
			require.Equal(t, before+1, f.count(c.effect))
			require.Len(t, *starts, c.starts)

			conflict := f.do("POST", path, key, body+" ", idempotent, "k 1")
			require.Equal(t, "409 idempotency_conflict", conflict.refused(), "white space makes another body")
			require.Empty(t, conflict.header.Get("Retry-After"))
			require.Empty(t, conflict.header.Get("Idempotent-Replayed"))
			require.Equal(t, first.body, f.do("POST", path, key, body, idempotent, "k 1").body, "a conflict changes nothing")
		})
	}
}

func TestIdempotency_AProcessWithoutTheNewMasterKeyIsUnavailable(t *testing.T) {
	f := newFront(t)
	path, body, _, _ := f.prepare("registration")
	newer := *f
	newer.MasterKeys = pg.NewMasterKey("k2") + "," + f.MasterKeys
	require.Equal(t, 201, newer.second().do("POST", path, f.key, body, idempotent, "k").status)
	again := f.do("POST", path, f.key, body, idempotent, "k")
	require.Equal(t, "503 unavailable", again.refused(), again.body)
	require.Equal(t, "1", again.header.Get("Retry-After"))
	require.NotContains(t, again.body, `"k2`) // a request id may contain k2
	require.Contains(t, f.log.String(), "wrong master key", "the chain is in the log")
}

func TestIdempotency_KeepsNothingThatCanBeRead(t *testing.T) {
	t.Parallel()
	for name := range repeatable {
		t.Run(name, func(t *testing.T) {
			f := newFront(t)
			path, body, _, _ := f.prepare(name)
			over := f.crash()
			first := f.do("POST", path, f.key, body, idempotent, "k")
			hidden := []string{"shop.example", "status", "created_at"}
			for _, member := range []string{"id", "secret", "webhook_secret", "event", "delivery"} {
				switch value := first.json[member].(type) {
				case string:
					hidden = append(hidden, value, value[strings.Index(value, "_")+1:])
				case map[string]any:
					hidden = append(hidden, value["id"].(string))
				}
			}
			f.exec(`CREATE VIEW dump AS SELECT seed || coalesce(answer, '') || fingerprint AS bytes, i::text AS line FROM idempotent_request i`)
			check := func() {
				require.Equal(t, 1, f.count("dump"))
				for _, text := range hidden {
					if !strings.Contains(path, text) { // the route is not hidden
						require.Zero(t, f.count(`dump WHERE position(convert_to('`+text+`', 'UTF8') in bytes) > 0 OR strpos(line, '`+text+`') > 0`), text)
					}
				}
			}
			check()
			over()
			f.claimsRunOut()
			require.Less(t, f.do("POST", path, f.key, body, idempotent, "k").status, 300)
			require.Equal(t, 1, f.count("idempotent_request WHERE status IS NOT NULL AND seed = ''"))
			check()
		})
	}
}

func TestIdempotency_AProcessThatDiesBeforeItsAnswerIsKeptDoesNothingTwice(t *testing.T) {
	all := newFront(t)
	for name, c := range repeatable {
		t.Run(name, func(t *testing.T) {
			f := all.forAnotherMerchant(t)
			path, body, id, secret := f.prepare(name)
			starts, before, key := f.started(), f.count(c.effect), f.key
			over := f.crash()
			lost := f.do("POST", path, key, body, idempotent, "k")
			require.Equal(t, c.status, lost.status, lost.body)
			over()

			busy := f.do("POST", path, key, body, idempotent, "k")
			require.Equal(t, "409 idempotency_conflict", busy.refused(), "nobody knows yet that it died")
			require.Equal(t, "1", busy.header.Get("Retry-After"))
			other := f.answers(409, "POST", path, key, body+" ", idempotent, "k")
			require.Empty(t, other.header.Get("Retry-After"))

			f.claimsRunOut()
			if name == "registration" { // at the limit too
				for range 49 {
					f.newEndpoint(key)
				}
				before += 49
			}
			process := f.second()
			got := process.do("POST", path, key, body, idempotent, "k")
			require.Equal(t, c.status, got.status, got.body)
			require.Empty(t, got.header.Get("Idempotent-Replayed"), "the first answer that is kept")
			require.Equal(t, lost.body, got.body)
			require.Equal(t, lost.header.Get("Location"), got.header.Get("Location"))
			require.Equal(t, got.body, f.do("POST", path, key, body, idempotent, "k").body)
			require.Equal(t, before+1, f.count(c.effect))
			require.Len(t, slices.Compact(*starts), c.starts, "however often, with the same id")
			if name == "rotation" {
				keys, err := f.store.Webhooks.WebhookKeys(t.Context(), checkout.Owner{MerchantID: f.merchant.ID, Mode: checkout.ModeTest}, "")
				require.NoError(t, err)
				require.Len(t, keys, 1)
				require.Equal(t, id, keys[0].EndpointID)
				require.Equal(t, webhook.SecretDigest(got.json["secret"].(string)), keys[0].Current)
				require.Equal(t, webhook.SecretDigest(secret), keys[0].Previous, "the one before goes on signing")
			}
		})
	}
}

// TestIdempotency_WhatChangedSinceTheCrash repeats requests after a change. The repeat must find
// the first effect, although a new request would now act differently.
func TestIdempotency_WhatChangedSinceTheCrash(t *testing.T) {
	t.Parallel()
	// lost sends a request, loses its answer and then calls change.
	lost := func(t *testing.T, name string, change func(f *front, id string)) (f *front, first, again answer) {
		f = newFront(t)
		path, body, id, _ := f.prepare(name)
		over := f.crash()
		first = f.do("POST", path, f.key, body, idempotent, "k")
		over()
		f.claimsRunOut()
		if id == "" {
			id, _ = first.json["id"].(string)
		}
		change(f, id)
		again = f.do("POST", path, f.key, body, idempotent, "k")
		return f, first, again
	}
	t.Run("a registration came: the session's own secret still signs", func(t *testing.T) {
		_, first, again := lost(t, "session", func(f *front, _ string) { f.newEndpoint(f.key) })
		require.Contains(t, first.json, "webhook_secret")
		require.Equal(t, first.body, again.body)
	})
	t.Run("the registration went: no secret that never signs", func(t *testing.T) {
		_, first, again := lost(t, "session of a registration", func(f *front, id string) {
			require.Equal(t, 200, f.do("DELETE", "/v1/webhooks/"+id, f.key, "").status)
		})
		require.NotContains(t, first.json, "webhook_secret")
		require.Equal(t, first.body, again.body)
	})
	t.Run("the session expired: one that has ended", func(t *testing.T) {
		f, first, again := lost(t, "session", func(f *front, id string) {
			require.NoError(t, f.endsExpired(f.merchant, checkout.ModeTest)(id))
		})
		require.Equal(t, 201, again.status)
		require.Equal(t, first.json["id"], again.json["id"])
		require.Equal(t, "expired", again.json["status"])
		require.Equal(t, 1, f.count("checkout_session"))
	})
	t.Run("the registration was deleted: it is not there", func(t *testing.T) {
		f, first, again := lost(t, "registration", func(f *front, id string) {
			require.Equal(t, 200, f.do("DELETE", "/v1/webhooks/"+id, f.key, "").status)
		})
		require.Equal(t, 201, first.status)
		require.Equal(t, 404, again.status, again.body)
		require.Equal(t, 1, f.count("webhook_endpoint"))
	})
	t.Run("the registration gets other events: the same test event", func(t *testing.T) {
		f, first, again := lost(t, "test event", func(f *front, id string) {
			require.Equal(t, 200, f.do("PATCH", "/v1/webhooks/"+id, f.key, `{"events":["payout.sent"]}`).status)
		})
		require.Equal(t, first.body, again.body)
		require.Equal(t, 1, f.count("event"))
	})
	t.Run("the bulk replay has ended: it is not started again", func(t *testing.T) {
		f, first, again := lost(t, "bulk replay", func(f *front, _ string) {
			f.exec(`UPDATE webhook_replay SET status = 'completed', finished_at = now()`)
		})
		require.Equal(t, 202, again.status)
		require.Equal(t, first.json["id"], again.json["id"])
		require.Equal(t, "completed", again.json["status"])
		require.Equal(t, 1, f.count("webhook_replay"))
	})
}

func TestIdempotency_TheSameKeyOfAnotherRouteMerchantOrModeIsItsOwn(t *testing.T) {
	f := newFront(t)
	other := f.newMerchant(true)
	a, _ := f.newEndpoint(f.key)
	b, _ := f.newEndpoint(f.key)
	seen := map[string]bool{}
	for _, request := range [][3]string{
		{"/v1/checkout", f.key, validSession},
		{"/v1/checkout", f.merchant.liveKey, validSession},
		{"/v1/checkout", other.testKey, validSession},
		{"/v1/checkout", other.liveKey, with("amount", "7")},
		{"/v1/webhooks", f.key, `{"url":"https://shop.example/hook","events":["*"]}`},
		{"/v1/webhooks/" + a + "/test", f.key, ""},
		{"/v1/webhooks/" + b + "/test", f.key, ""},
		{"/v1/webhooks/" + b + "/rotate_secret", f.key, ""},
	} {
		got := f.do("POST", request[0], request[1], request[2], idempotent, "k")
		require.Less(t, got.status, 300, got.body)
		require.Empty(t, got.header.Get("Idempotent-Replayed"), request)
		require.False(t, seen[got.body])
		seen[got.body] = true
	}
	require.Equal(t, 8, f.count("idempotent_request"))

	key, _ := f.newKey(f.merchant, checkout.ModeTest, merchant.ScopeFull)
	shared := f.do("POST", "/v1/checkout", key, validSession, idempotent, "k")
	require.Equal(t, "true", shared.header.Get("Idempotent-Replayed"), "another key of the same merchant and mode is the same caller")
	require.Equal(t, 4, f.count("checkout_session"))

	for range 2 { // reads and changes ignore the header
		require.Equal(t, 200, f.do("GET", "/v1/checkout", key, "", idempotent, "").status)
		require.Equal(t, 200, f.do("PATCH", "/v1/webhooks/"+a, key, `{"status":"enabled"}`, idempotent, "\x00").status)
	}
	require.Equal(t, 8, f.count("idempotent_request"))
}

func TestIdempotency_RefusedRequestsAreNotKept(t *testing.T) {
	f := newFront(t)
	order := with("metadata", `{"order_id":"A"}`)
	holder := f.do("POST", "/v1/checkout", f.key, order).json["id"].(string)
	for _, c := range []struct {
		path, body string
		status     int
		header     []string
	}{
		{"/v1/checkout", `{}`, 400, nil},
		{"/v1/checkout", `{`, 400, nil},
		{"/v1/checkout", ``, 415, nil},
		{"/v1/checkout", with("livemode", "true"), 403, nil},
		{"/v1/checkout", order, 409, nil},
		{"/v1/checkout", validSession + strings.Repeat(" ", 64<<10), 413, nil},
		{"/v1/checkout", validSession, 415, []string{"Content-Type", "text/plain"}},
		{"/v1/webhooks/" + checkout.NewID("wh") + "/test", "", 404, nil},
	} {
		for range 2 {
			got := f.do("POST", c.path, f.key, c.body, append(c.header, idempotent, "k")...)
			require.Equal(t, c.status, got.status, got.body)
			require.Empty(t, got.header.Get("Idempotent-Replayed"))
			require.Zero(t, f.count("idempotent_request"))
		}
	}
	require.NoError(t, f.endsExpired(f.merchant, checkout.ModeTest)(holder))
	require.Equal(t, 201, f.do("POST", "/v1/checkout", f.key, order, idempotent, "k").status, "the f.key comes with a body that is right")
}

// TestIdempotency_AnEndlessPathIsNotFound: PostgreSQL takes no text of thousands of letters into an index.
func TestIdempotency_AnEndlessPathIsNotFound(t *testing.T) {
	f := newFront(t)
	endless := ""
	for range 200 {
		endless += checkout.NewID("cs")
	}
	want := f.answers(404, "POST", "/v1/checkout/"+endless+"/expire", f.key, "")
	for _, path := range []string{"/v1/checkout/" + endless + "/expire", "/v1/checkout/" + strings.Repeat("%41", 2000) + "/expire"} {
		got := f.answers(404, "POST", path, f.key, "", idempotent, "k")
		require.Equal(t, want.json["error"], got.json["error"])
	}
	require.Zero(t, f.count("idempotent_request"))
	for _, route := range f.routes() {
		require.Less(t, len(strings.ReplaceAll(route, "{id}", checkout.NewID("test"))), maxPath)
	}
}

func TestIdempotency_ARequestInProgressIsAConflict(t *testing.T) {
	f := newFront(t)
	answers, goOn := f.hangingCreate()
	for _, process := range []*front{f, f.second()} {
		got := process.createsWithKey()
		require.Equal(t, "409 idempotency_conflict", got.refused())
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}
	close(goOn)
	require.Equal(t, 201, (<-answers).status)
	require.Equal(t, 201, f.createsWithKey().status)
	require.Equal(t, 1, f.count("checkout_session"))
}

// TestIdempotency_ARepeatWaitsForTheFirstAnswer also in another process, which works on one write of the merchant at a
// time: other writes go on there meanwhile.
func TestIdempotency_ARepeatWaitsForTheFirstAnswer(t *testing.T) {
	f := newFront(t, thirdOfTheConnections, func(c *Config) { c.IdempotencyWait = time.Minute })
	other := f.second()
	other.config.Shares = limit.NewShares(1)
	other.handler = New(other.config)
	other.answers(201, "POST", "/v1/checkout", f.key, validSession) // this process knows the key

	answers, goOn := f.hangingCreate()
	other.createInBackground(answers)
	time.Sleep(300 * time.Millisecond) // so that the repeat usually waits before the next one comes
	got := other.do("POST", "/v1/checkout", f.key, validSession)
	close(goOn)
	require.Equal(t, 201, got.status, got.body)
	first, second := <-answers, <-answers
	require.Equal(t, []int{201, 201}, []int{first.status, second.status}, first.body+second.body)
	require.Equal(t, first.body, second.body)
	require.Equal(t, 3, f.count("checkout_session"))
}

// TestIdempotency_FewRepeatsWait: the repeat after the twentieth that waits is refused, and the others get their answer.
func TestIdempotency_FewRepeatsWait(t *testing.T) {
	f := newFront(t, func(c *Config) { c.IdempotencyWait = time.Minute })
	answers, goOn := f.hangingCreate()
	for range 21 {
		f.createInBackground(answers)
	}
	require.Equal(t, 409, (<-answers).status)
	close(goOn)
	for range 21 {
		require.Equal(t, 201, (<-answers).status)
	}
	require.Equal(t, 1, f.count("checkout_session"))
}

// TestIdempotency_AWaitEndsWithItsClient: nobody waits for an answer that nobody reads.
func TestIdempotency_AWaitEndsWithItsClient(t *testing.T) {
	f := newFront(t, func(c *Config) { c.IdempotencyWait = time.Hour })
	answers, goOn := f.hangingCreate()
	ctx, gone := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer gone()
	r := newRequest(t, "POST", "/v1/checkout", validSession).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer "+f.key)
	r.Header.Set(idempotent, "k")
	f.handler.ServeHTTP(httptest.NewRecorder(), r)
	close(goOn)
	require.Equal(t, 201, (<-answers).status)
}

func TestIdempotency_HundredAtOnceInTwoProcessesMakeOneSession(t *testing.T) {
	f := newFront(t)
	answers, created := make(chan answer, 100), map[string]bool{}
	other := f.second()
	for range cap(answers) / 2 {
		f.createInBackground(answers)
		other.createInBackground(answers)
	}
	for range cap(answers) {
		got := <-answers
		require.Contains(t, []int{201, 409}, got.status, got.body)
		if got.status == 201 {
			created[got.body] = true
		}
	}
	require.Len(t, created, 1)
	require.Equal(t, 1, f.count("checkout_session"))
	require.Equal(t, 1, f.count("idempotent_request"))
}

func TestIdempotency_AfterADayItIsANewRequest(t *testing.T) {
	f := newFront(t)
	create := func(body string) answer { return f.do("POST", "/v1/checkout", f.key, body, idempotent, "k") }
	first := create(validSession)
	f.exec(`UPDATE idempotent_request SET created_at = now() - interval '23 hours 59 minutes'`)
	require.Equal(t, first.body, create(validSession).body)
	f.exec(`UPDATE idempotent_request SET created_at = now() - interval '24 hours 1 second'`)
	second := create(validSession)
	require.Equal(t, 201, second.status)
	require.Empty(t, second.header.Get("Idempotent-Replayed"))
	require.NotEqual(t, first.json["id"], second.json["id"])
	require.Equal(t, second.body, create(validSession).body)
	f.exec(`UPDATE idempotent_request SET created_at = now() - interval '24 hours 1 second'`)
	require.Equal(t, 201, create(with("amount", "7")).status, "whatever its body")
	require.Equal(t, 3, f.count("checkout_session"))
	forget := func(want int) {
		n, err := f.store.Installation.DeleteOld(t.Context(), storage.OldAnswers, storage.KeepAnswers, 10)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	forget(0)
	require.Equal(t, 1, f.count("idempotent_request"))
	f.exec(`UPDATE idempotent_request SET created_at = now() - interval '24 hours 1 second'`)
	forget(1)
	require.Zero(t, f.count("idempotent_request"))
}

func TestIdempotency_AnUnknownOutcomeMayBeRepeatedAtOnce(t *testing.T) {
	f := newFront(t)
	ids := []string{}
	failure := serviceerror.NewUnavailable("gone")
	f.temporal.Start = func(o client.StartWorkflowOptions) error {
		ids = append(ids, o.ID)
		return failure
	}
	create := func(body string) answer {
		return f.do("POST", "/v1/checkout", f.key, body, idempotent, "k")
	}
	for range 3 {
		require.Equal(t, 503, create(validSession).status)
	}
	require.Equal(t, "idempotency_conflict", create(with("amount", "7")).json["error"], "it may have happened, so the body stays")
	require.Zero(t, f.count("checkout_session"))
	failure = nil
	got := create(validSession)
	require.Equal(t, 201, got.status, got.body)
	require.Equal(t, got.body, create(validSession).body)
	require.Equal(t, []string{got.json["id"].(string)}, slices.Compact(ids), "always the same workflow")
	require.Len(t, ids, 4)
	require.Equal(t, 1, f.count("checkout_session"))
}

func TestIdempotency_AClientThatGoesAndAPanicLeaveNoClaim(t *testing.T) {
	f := newFront(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.temporal.Start = func(client.StartWorkflowOptions) error {
		cancel()
		return context.Canceled
	}
	r := newRequest(t, "POST", "/v1/checkout", validSession).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer "+f.key)
	r.Header.Set(idempotent, "k")
	require.Equal(t, 503, f.send(r).status)
	f.temporal.Start = func(client.StartWorkflowOptions) error { panic("x") }
	require.Equal(t, 500, f.createsWithKey().status)
	f.temporal.Start = nil
	require.Equal(t, 201, f.createsWithKey().status)
	require.Equal(t, 1, f.count("checkout_session"))
}

func (f *front) newKey(m shop, mode checkout.Mode, scopes ...string) (key, id string) {
	key, id = merchant.NewAPIKey(mode), checkout.NewID(checkout.PrefixAPIKey)
	require.NoError(f.t, f.store.Merchants.CreateAPIKey(f.t.Context(),
		merchant.APIKey{Ref: checkout.Owner{MerchantID: m.ID, Mode: mode}.Ref(id), Label: "t", Scopes: scopes}, key))
	return key, id
}
