package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestCreateEndpoint_AnswersTheRegistrationWithItsSecret(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	got := f.do("POST", "/v1/webhooks", f.merchant.testKey,
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
	}, got.json)
	require.NotContains(t, f.log.String(), secret)
	require.NotContains(t, f.log.String(), "shop.example")
}

func TestCreateEndpoint_StarIsEveryEventType(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	got := f.do("POST", "/v1/webhooks", f.merchant.liveKey, `{"url":"https://shop.example/hook","events":["*"]}`)
	require.Equal(t, 201, got.status)
	require.Equal(t, []any{"checkout.completed", "checkout.failed", "payout.sent", "payout.failed", "merchant.updated"}, got.json["events"])
	require.Equal(t, true, got.json["livemode"])
	require.Nil(t, got.json["description"])
}

func TestCreateEndpoint_RefusesInvalidFields(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	for _, tc := range []struct {
		body   string
		params []string
	}{
		{`{}`, []string{"url", "events"}},
		{`{"url":null,"events":null}`, []string{"url", "events"}},
		{`{"url":1,"events":"*"}`, []string{"url", "events"}},
		{`{"url":"shop.example","events":[]}`, []string{"url", "events"}},
		{`{"url":"https://10.0.0.1:8443/","events":["*"]}`, []string{"url"}},
		{`{"url":"https://a:b@shop.example/","events":["*"]}`, []string{"url"}},
		{`{"url":"https://shop.example/` + strings.Repeat("a", 2048) + `","events":["*"]}`, []string{"url"}},
		{`{"url":"https://shop.example/","events":["checkout.complete"]}`, []string{"events[0]"}},
		{`{"url":"https://shop.example/","events":["*"],"event":["*"]}`, []string{"event"}},
		{`{"url":"https://shop.example/","events":["*"],"secret":"whsec_x","id":"wh_x","status":"disabled","livemode":true,"merchant_id":"m"}`,
			[]string{"secret", "id", "status", "livemode", "merchant_id"}},
		{`{"url":"https://shop.example/","events":["*"],"description":"` + strings.Repeat("é", 256) + `"}`, []string{"description"}},
		{`{"url":"https://shop.example/","events":["*"],"description":"a\r\nb"}`, []string{"description"}},
		{`{"url":"https://shop.example/","events":["*"],"description":"a\u0000b"}`, []string{"description"}},
		{`{"url":"https://shop.example/","events":["*"],"description":1}`, []string{"description"}},
	} {
		got := f.do("POST", "/v1/webhooks", f.merchant.testKey, tc.body)
		require.Equal(t, 400, got.status, tc.body)
		require.Equal(t, "invalid_request", got.json["error"])
		require.Equal(t, tc.params, got.params(), tc.body)
		require.Equal(t, tc.params[0], got.json["param"])
	}
	require.Zero(t, f.count("webhook_endpoint"))
	body := `{"url":"https://shop.example/","events":["*"],"description":"` + strings.Repeat("é", 255) + `"}`
	require.Equal(t, 201, f.do("POST", "/v1/webhooks", f.merchant.testKey, body).status)
}

func TestCreateEndpoint_LiveModeIsHTTPSOnly(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	body := `{"url":"http://shop.example/hook","events":["*"]}`
	require.Equal(t, 201, f.do("POST", "/v1/webhooks", f.merchant.testKey, body).status)
	got := f.do("POST", "/v1/webhooks", f.merchant.liveKey, body)
	require.Equal(t, 400, got.status)
	require.Equal(t, "url must be https in live mode", got.json["message"])
}

func TestCreateEndpoint_AtMost50PerMode(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	body := `{"url":"https://shop.example/hook","events":["*"]}`
	for range 50 {
		require.Equal(t, 201, f.do("POST", "/v1/webhooks", f.merchant.testKey, body).status)
	}
	got := f.do("POST", "/v1/webhooks", f.merchant.testKey, body)
	require.Equal(t, 400, got.status)
	require.Equal(t, "invalid_request", got.json["error"])
	require.Equal(t, 201, f.do("POST", "/v1/webhooks", f.merchant.liveKey, body).status)
	require.Equal(t, 51, f.count("webhook_endpoint"))
}

func TestCreateEndpoint_NeverStoresTheSecret(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	got := f.do("POST", "/v1/webhooks", f.merchant.testKey, `{"url":"https://shop.example/hook","events":["*"]}`)
	secret := got.json["secret"].(string)
	f.exec(`CREATE VIEW dump AS SELECT w::text AS line FROM webhook_endpoint w UNION ALL SELECT k::text FROM api_key k`)
	for _, hidden := range []string{secret, secret[6:], f.merchant.testKey, f.merchant.liveKey} {
		require.Zero(t, f.count(`dump WHERE strpos(line, '`+hidden+`') > 0`))
	}
	require.Equal(t, 3, f.count("dump"))
}
