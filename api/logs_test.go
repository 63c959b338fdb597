package api

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// noted are the actions of the audit log, by their names, with who did them.
func (f *front) noted() (all []string) {
	entries, err := f.store.AuditLog.AuditEntries(f.t.Context(), checkout.Owner{MerchantID: f.merchant.ID, Mode: checkout.ModeTest}, pg.Page{Limit: 100})
	require.NoError(f.t, err)
	for _, e := range entries {
		require.Regexp(f.t, "^API key “t” …"+f.key[len(f.key)-4:]+` \(key_[0-9a-z]{26}\)$`, e.Actor)
		require.Equal(f.t, "192.0.2.1", e.Address)
		all = append(all, e.Action)
	}
	return all
}

// changes are requests that change webhooks and deliveries, and what the audit
// log calls them; the last deletes the registration.
func (f *deliveryFront) changes() []struct{ method, path, body, action string } {
	at, delivery := "/v1/webhooks/"+f.endpoint, "/v1/deliveries/"+f.delivery
	return []struct{ method, path, body, action string }{
		{"POST", "/v1/webhooks", `{"url":"https://shop.example/s3cret","events":["*"]}`, "webhook.created"},
		{"PATCH", at, `{"url":"https://new.example/s3cret"}`, "webhook.changed"},
		{"POST", at + "/rotate_secret", "", "webhook.secret_rotated"},
		{"POST", at + "/test", "", "webhook.tested"},
		{"POST", delivery + "/retry_now", "", "delivery.retried"},
		{"POST", delivery + "/hold", "", "delivery.held"},
		{"POST", delivery + "/resume", "", "delivery.resumed"},
		{"POST", at + "/hold", "", "webhook.held"},
		{"POST", at + "/resume", "", "webhook.resumed"},
		{"POST", at + "/replay", `{"since":"2026-01-01T00:00:00Z"}`, "replay.started"},
		{"DELETE", at, "", "webhook.deleted"},
	}
}

func TestAudit_HasWhatAKeyDoes(t *testing.T) {
	f := newDeliveryFront(t)
	f.exec(`DELETE FROM audit_entry`)
	var want []string
	for _, c := range f.changes() {
		got := f.do(c.method, c.path, f.key, c.body)
		require.Less(t, got.status, 300, c.path+got.body)
		want = append(want, c.action)
	}
	require.ElementsMatch(t, want, f.noted())
	require.NotContains(t, f.value(`SELECT string_agg(detail, ' ') FROM audit_entry`), "s3cret", "a path may be a secret")
	require.Equal(t, "URL of: shop.example → new.example", f.value(`SELECT detail FROM audit_entry WHERE action = 'webhook.changed'`))
}

func TestAudit_AKeyChangesNothingWithoutItsEntry(t *testing.T) {
	f := newDeliveryFront(t)
	f.temporal.Start = func(client.StartWorkflowOptions) error { require.Fail(t, "a workflow was started"); return nil }
	f.temporal.Signal = func(string, string) error { require.Fail(t, "a workflow was told"); return nil }
	f.exec(`ALTER TABLE audit_entry ADD CONSTRAINT full_disk CHECK (false) NOT VALID`)
	everything := func() string {
		return f.value(`SELECT (SELECT string_agg(w::text, ';' ORDER BY id) FROM webhook_endpoint w) || (SELECT string_agg(d::text, ';' ORDER BY id) FROM webhook_delivery d)
			|| (SELECT count(*) FROM webhook_replay) || (SELECT count(*) FROM event)`)
	}
	before := everything()
	for _, c := range f.changes() {
		if c.action == "webhook.resumed" { // it is not on hold: nothing changes
			continue
		}
		require.Equal(t, 500, f.do(c.method, c.path, f.key, c.body).status, c.path)
		require.Equal(t, before, everything(), c.path)
	}
	f.end(webhook.DeliveryFailed)
	require.Equal(t, 500, f.steer("replay").status)
}

func (f *front) value(sql string, args ...any) string {
	return storagetest.Value[string](f.t, f.Database, sql, args...)
}

func TestRequestLog_HasEveryRequestWithAKeyAndNothingSecret(t *testing.T) {
	var requests *RequestLog
	f := newFront(t, func(c *Config) {
		requests = NewRequestLog(c.Store.Requests, c.Log)
		c.Requests = requests
	})
	f.do("GET", "/v1/merchant", "", "")               // no key, no row
	f.do("GET", "/v1/merchant", "sk_test_canary", "") // no merchant has this key: no row
	f.do("GET", "/v1/checkout/canary?canary=1", f.key, "", "X-Request-Id", "chosen-1")
	f.do("POST", "/v1/checkout", f.key, `{"canary": 1}`)
	f.do("GET", "/v1/merchant", f.merchant.liveKey, "")
	requests.Flush(t.Context())
	body := with("metadata", `{"order_id": "order-1"}`) // its fields have a random order
	created := f.do("POST", "/v1/checkout", f.key, body, "Idempotency-Key", "k")
	session := created.json["id"].(string)
	f.do("POST", "/v1/checkout", f.key, body, "Idempotency-Key", "k") // repeated
	f.do("POST", "/v1/checkout", f.key, body)                         // taken
	f.do("GET", "/v1/checkout/"+session, f.key, "")
	f.do("POST", "/v1/checkout/"+session+"/expire", f.key, "")
	f.do("GET", "/v1/checkout/"+session, f.merchant.liveKey, "") // a 404
	requests.Flush(t.Context())
	list := func(mode checkout.Mode) (rows []merchant.APIRequest) {
		rows, err := f.store.Requests.Requests(t.Context(), f.merchant.Owner(mode), storage.RequestFilter{}, pg.Page{Limit: 10})
		require.NoError(t, err)
		return rows
	}
	live := list(checkout.ModeLive)
	require.Len(t, live, 2)
	require.Empty(t, live[0].SessionID, "of another mode")
	got := list(checkout.ModeTest)
	require.Len(t, got, 7)
	for _, r := range got[:5] {
		require.Equal(t, session, r.SessionID, "%s %s: %d", r.Method, r.Route, r.Status)
	}
	for _, r := range got[5:] {
		require.Empty(t, r.SessionID)
		require.Equal(t, f.merchant.testKeyID, r.KeyID)
		if r.Method == http.MethodGet {
			require.Equal(t, "/v1/checkout/{id}", r.Route)
			require.Equal(t, "chosen-1", r.RequestID)
			require.Equal(t, 404, r.Status)
			require.Equal(t, codeNotFound, r.Error)
		} else {
			require.Equal(t, 400, r.Status)
			require.Equal(t, codeInvalidRequest, r.Error)
			require.True(t, checkout.IsID(checkout.PrefixRequest, r.RequestID))
		}
	}
}

func TestRequestLog_DropsWhatItCannotHold(t *testing.T) {
	f := newFront(t)
	requests := NewRequestLog(f.store.Requests, slog.New(slog.DiscardHandler))
	row := func() merchant.APIRequest {
		ex := &exchange{requestID: "r", caller: storage.Caller{Key: merchant.APIKey{Ref: f.merchant.Owner(checkout.ModeTest).Ref("key_1")}}}
		return ex.logged("GET", "/v1/merchant", 200, "", time.Now())
	}
	for range requestBuffer + 5 {
		requests.add(t.Context(), row())
	}
	requests.Flush(t.Context())
	require.Equal(t, requestBuffer, f.count("api_request"))

	f.exec(`ALTER TABLE api_request RENAME TO gone`)
	requests.add(t.Context(), row())
	requests.Flush(t.Context())
	f.exec(`ALTER TABLE gone RENAME TO api_request`)
	requests.add(t.Context(), row())
	requests.Flush(t.Context())
	require.Equal(t, requestBuffer+1, f.count("api_request"), "a batch that failed holds up none")
}
