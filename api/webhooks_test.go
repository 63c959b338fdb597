package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

func TestCreateEndpoint_AnswersTheRegistrationWithItsSecret(t *testing.T) {
	f := newFront(t)
	got := f.do("POST", "/v1/webhooks", f.key,
		`{"url":"https://shop.example/hook?a=1","events":["payout.sent","checkout.completed","payout.sent"],"description":"Shop, Zürich"}`)
	require.Equal(t, 201, got.status, got.body)
	id, secret := got.json["id"].(string), got.json["secret"].(string)
	require.True(t, checkout.IsID("wh", id))
	require.Equal(t, "/v1/webhooks/"+id, got.header.Get("Location"))
	require.Regexp(t, `^whsec_[0-9a-f]{64}$`, secret)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, got.json["created_at"])
	delete(got.json, "created_at")
	require.Equal(t, map[string]any{
		"id": id, "secret": secret, "url": "https://shop.example/hook?a=1", "events": []any{"payout.sent", "checkout.completed"},
		"description": "Shop, Zürich", "status": "enabled", "livemode": false, "previous_secret_expires_at": nil,
		"failing_since": nil, "max_in_flight": nil, "rate_limit": nil,
	}, got.json)
	require.NotContains(t, f.log.String(), secret)
	require.NotContains(t, f.log.String(), "shop.example")
}

func TestEndpoint_StarIsAnsweredAsAsked(t *testing.T) {
	f := newFront(t)
	key := f.merchant.liveKey
	got := f.answers(201, "POST", "/v1/webhooks", key, `{"url":"https://shop.example/hook","events":["*"]}`)
	require.Equal(t, []any{"*"}, got.json["events"])
	require.Equal(t, true, got.json["livemode"])
	require.Nil(t, got.json["description"])
	path := "/v1/webhooks/" + got.json["id"].(string)
	require.Equal(t, []any{"*"}, f.do("GET", path, key, "").json["events"])
	require.Contains(t, f.do("GET", "/v1/webhooks", key, "").body, `"events":["*"]`)

	// All names are another choice: a type that is added later is not among them.
	names := `["checkout.completed","checkout.failed","payout.sent","payout.failed","merchant.updated"]`
	require.Contains(t, f.do("PATCH", path, key, `{"events":`+names+`}`).body, `"events":`+names)
	require.Contains(t, f.do("PATCH", path, key, `{"events":["*"]}`).body, `"events":["*"]`)
}

func TestURLs_AreHTTPSOnlyInLiveMode(t *testing.T) {
	f := newFront(t)
	test, _ := f.newEndpoint(f.key)
	live, _ := f.newEndpoint(f.merchant.liveKey)
	const http = `"http://shop.example/"`
	for _, c := range []struct{ method, path, field, body string }{
		{"POST", "/v1/checkout", "redirect_url", with("redirect_url", http)},
		{"POST", "/v1/checkout", "cancel_url", with("cancel_url", http)},
		{"POST", "/v1/checkout", "webhook_url", with("webhook_url", http)},
		{"POST", "/v1/webhooks", "url", `{"url":` + http + `,"events":["*"]}`},
		{"PATCH", "/v1/webhooks/{id}", "url", `{"url":` + http + `}`},
	} {
		require.Less(t, f.do(c.method, strings.Replace(c.path, "{id}", test, 1), f.key, c.body).status, 300)
		got := f.answers(400, c.method, strings.Replace(c.path, "{id}", live, 1), f.merchant.liveKey, c.body)
		require.Equal(t, c.field+" must be https in live mode", got.json["message"])
	}
}

// A server gets no fragment, so a registration has none: what it shows is what is asked for.
func TestEndpoint_IsStoredWithoutAFragment(t *testing.T) {
	f := newFront(t)
	created := f.answers(201, "POST", "/v1/webhooks", f.key, `{"url":"HTTPS://Shop.example:443/Hook?a=%2f#top","events":["*"]}`)
	require.Equal(t, "HTTPS://Shop.example:443/Hook?a=%2f", created.json["url"], "else as it was sent")
	path := "/v1/webhooks/" + created.json["id"].(string)
	require.Equal(t, "https://shop.example/b?", f.do("PATCH", path, f.key, `{"url":"https://shop.example/b?#x?#y"}`).json["url"])
	require.Equal(t, "https://shop.example/b?", f.do("GET", path, f.key, "").json["url"])
}

// An address may be registered again, for example with another secret, and gets each event once for each registration.
func TestCreateEndpoint_TakesAnAddressAgainInAnySpelling(t *testing.T) {
	f := newFront(t)
	for _, address := range []string{"https://shop.example/hook", "https://shop.example/hook", "HTTPS://shop.example:443/hook"} {
		require.Equal(t, 201, f.do("POST", "/v1/webhooks", f.key, `{"url":"`+address+`","events":["*"]}`).status)
	}
}

func TestCreateEndpoint_AtMost50PerMode(t *testing.T) {
	f := newFront(t)
	body := `{"url":"https://shop.example/hook","events":["*"]}`
	for range 50 {
		require.Equal(t, 201, f.do("POST", "/v1/webhooks", f.key, body).status)
	}
	got := f.do("POST", "/v1/webhooks", f.key, body)
	require.Equal(t, "400 invalid_request", got.refused())
	require.Equal(t, 201, f.do("POST", "/v1/webhooks", f.merchant.liveKey, body).status)
	require.Equal(t, 51, f.count("webhook_endpoint"))
}

func TestChangeEndpoint_ChangesWhatIsSent(t *testing.T) {
	f := newFront(t)
	id, secret := f.newEndpoint(f.key)
	path := "/v1/webhooks/" + id
	want := f.do("GET", path, f.key, "").json
	change := func(body string) {
		got := f.answers(200, "PATCH", path, f.key, body)
		require.Equal(t, want, got.json, body)
		require.Equal(t, got.body, f.do("GET", path, f.key, "").body)
		require.NotContains(t, got.body, secret[6:])
		require.NotContains(t, got.json, "secret")
	}
	want["url"] = "https://shop.example/b"
	change(`{"url":"https://shop.example/b"}`)
	want["events"] = []any{"payout.sent", "merchant.updated"}
	change(`{"events":["payout.sent","merchant.updated","payout.sent"],"url":null}`)
	want["description"] = "Shop, Zürich"
	change(`{"description":"Shop, Zürich"}`)
	change(`{"description":null,"events":["payout.sent","merchant.updated"]}`)
	require.Zero(t, f.temporal.Triggers.Load())
	want["status"] = "disabled"
	change(`{"status":"disabled"}`)
	require.Zero(t, f.temporal.Triggers.Load(), "nothing waits for that")
	want["status"], want["description"] = "enabled", nil
	change(`{"status":"enabled","description":""}`)
	require.EqualValues(t, 1, f.temporal.Triggers.Load(), "what waited goes on")
	want["events"] = []any{"*"}
	change(`{"events":["*"]}`)
	require.EqualValues(t, 1, f.temporal.Triggers.Load())

	got := f.answers(400, "PATCH", path, f.key, `{"url":null,"events":null,"description":null,"status":null}`)
	require.Equal(t, "The body must have at least one of url, events, description, status, max_in_flight, rate_limit.", got.json["message"])
	require.NotContains(t, got.json, "param")
	require.Equal(t, 415, f.do("PATCH", path, f.key, "").status)
	require.Equal(t, want, f.do("GET", path, f.key, "").json)
}

func TestEndpoint_LimitsAreChangedAndTakenAway(t *testing.T) {
	f := newFront(t)
	got := f.answers(201, "POST", "/v1/webhooks", f.key, `{"url":"https://shop.example/hook","events":["*"],"max_in_flight":1,"rate_limit":1000}`)
	require.Contains(t, got.body, `"max_in_flight":1,"rate_limit":1000,`)
	path := "/v1/webhooks/" + got.json["id"].(string)
	for _, step := range []struct{ change, want string }{
		{`{"max_in_flight":1000}`, `"max_in_flight":1000,"rate_limit":1000,`},
		{`{"description":"Orders"}`, `"max_in_flight":1000,"rate_limit":1000,`},
		{`{"rate_limit":null}`, `"max_in_flight":1000,"rate_limit":null,`},
		{`{"max_in_flight":null,"rate_limit":25}`, `"max_in_flight":null,"rate_limit":25,`},
		{`{"max_in_flight":null}`, `"max_in_flight":null,"rate_limit":25,`},
	} {
		got := f.answers(200, "PATCH", path, f.key, step.change)
		require.Contains(t, got.body, step.want, step.change)
		require.Equal(t, got.body, f.do("GET", path, f.key, "").body)
		require.Contains(t, f.do("GET", "/v1/webhooks", f.key, "").body, step.want)
	}
	none := f.do("POST", "/v1/webhooks", f.key, `{"url":"https://shop.example/hook","events":["*"],"description":"","max_in_flight":null,"rate_limit":null}`)
	require.Contains(t, none.body, `"max_in_flight":null,"rate_limit":null,`)
	require.Nil(t, none.json["description"])
}

func TestHoldEndpoint_AndResumeAreChangesOfStatus(t *testing.T) {
	f := newFront(t)
	id, _ := f.newEndpoint(f.key)
	_, delivery := f.newDelivery(f.key, id)
	for range 2 {
		got := f.answers(200, "POST", "/v1/webhooks/"+id+"/hold", f.key, "")
		require.Equal(t, "disabled", got.json["status"])
		require.Equal(t, got.body, f.do("GET", "/v1/webhooks/"+id, f.key, "").body)
	}
	held := f.do("GET", "/v1/deliveries/"+delivery, f.key, "")
	require.Equal(t, true, held.json["held"])
	require.Nil(t, held.json["next_attempt_at"])
	require.Zero(t, f.temporal.Triggers.Load())
	for range 2 {
		got := f.answers(200, "POST", "/v1/webhooks/"+id+"/resume", f.key, "{}")
		require.Equal(t, "enabled", got.json["status"])
	}
	require.EqualValues(t, 2, f.temporal.Triggers.Load())
	require.Equal(t, false, f.do("GET", "/v1/deliveries/"+delivery, f.key, "").json["held"])
}

func TestDeleteEndpoint_IsGoneAtOnce(t *testing.T) {
	f := newFront(t)
	id, _ := f.newEndpoint(f.key)
	_, delivery := f.newDelivery(f.key, id)
	got := f.answers(200, "DELETE", "/v1/webhooks/"+id, f.key, "")
	require.Equal(t, `{"id":"`+id+`","deleted":true}`+"\n", got.body)
	require.EqualValues(t, 1, f.temporal.Triggers.Load(), "its pending deliveries are canceled")
	require.Empty(t, f.do("GET", "/v1/webhooks", f.key, "").ids())
	require.Equal(t, 200, f.do("GET", "/v1/deliveries/"+delivery, f.key, "").status, "the log stays")
	require.Equal(t, []string{delivery}, f.do("GET", "/v1/deliveries?webhook="+id, f.key, "").ids())
}

func TestReconcile_IsAHelpThatNobodyWaitsFor(t *testing.T) {
	f := newFront(t, func(c *Config) { c.Runs = &runs.Client{Temporal: unreachableTemporal(t)} })
	id, _ := f.newEndpoint(f.key)
	began := time.Now()
	require.Equal(t, 200, f.do("POST", "/v1/webhooks/"+id+"/resume", f.key, "").status)
	require.Equal(t, 200, f.do("DELETE", "/v1/webhooks/"+id, f.key, "").status)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Equal(t, 2, strings.Count(f.log.String(), "left to Reconcile"))
}

func TestRotateSecret_ShowsTheNewSecretOnce(t *testing.T) {
	f := newFront(t)
	id, first := f.newEndpoint(f.key)
	path := "/v1/webhooks/" + id
	want := f.do("GET", path, f.key, "").json
	for body, hours := range map[string]float64{"": 24, "{}": 24, `{"overlap_hours":null}`: 24, `{"overlap_hours":1}`: 1, `{"overlap_hours":72}`: 72} {
		got := f.answers(200, "POST", path+"/rotate_secret", f.key, body)
		secret := got.json["secret"].(string)
		require.Regexp(t, `^whsec_[0-9a-f]{64}$`, secret)
		require.NotEqual(t, first, secret)
		until := timeIn(t, got.json["previous_secret_expires_at"])
		require.InDelta(t, hours, time.Until(until).Hours(), 0.1, body)
		read := f.do("GET", path, f.key, "")
		require.Equal(t, got.json["previous_secret_expires_at"], read.json["previous_secret_expires_at"])
		require.NotContains(t, read.body, secret)
		require.NotContains(t, f.log.String(), secret)
		first = secret
	}
	got := f.do("POST", path+"/rotate_secret", f.key, `{"overlap_hours":0}`)
	delete(got.json, "secret")
	require.Equal(t, want, got.json, "without an overlap nothing else changes")
}
