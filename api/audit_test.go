package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
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
