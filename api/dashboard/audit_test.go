package dashboard

import (
	"encoding/csv"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestAudit_SaysWhatAPayoutAddressWasAndIs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	owner := d.as(checkout.RoleOwner)
	form := owner.form("/test/settings", "/test/settings/payout")
	require.Equal(t, 303, form.send("address_USDC", goodAddress, "address_BTC", oldBitcoin, "password", password).status)
	detail := value[string](d, `SELECT detail FROM audit_entry WHERE action = 'payout_address.changed'`)
	require.Contains(t, detail, "USDC: sandbox:shop → "+goodAddress)
	require.Contains(t, detail, "BTC: none → "+oldBitcoin)
	require.Contains(t, owner.get("/test/audit").text(), ">127.0.0.1</td>")
}

func TestAudit_HasWhoJoinedAndSignedIn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	owner := d.as(checkout.RoleOwner)
	owner.post("/test/members", "email", "bob@shop.example", "role", "developer", "password", password)
	bob := d.browser()
	require.Equal(t, 303, bob.post(d.mailed("bob@shop.example"), "password", password, "password_again", password).status)
	bob.post("/signout")
	bob.signIn("bob@shop.example", "wrong")
	require.Equal(t, 303, bob.signIn("bob@shop.example", password).status)
	require.Equal(t, "member.joined 127.0.0.1 as developer, member.sign_in_failed 127.0.0.1 a wrong password, member.signed_in 127.0.0.1 , member.signed_in 127.0.0.1 ",
		value[string](d, `SELECT string_agg(action || ' ' || address || ' ' || detail, ', ' ORDER BY action) FROM audit_entry WHERE actor = 'bob@shop.example'`))
}

// TestAudit_NotesFailedSignInsSparingly checks that strangers cannot fill the log, nor write into it what they type.
func TestAudit_NotesFailedSignInsSparingly(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ann := d.newMember(d.merchant, "ann@shop.example", checkout.RoleOwner)
	d.newMember(d.other, "ann@shop.example", checkout.RoleOwner)
	failures := func() int {
		return value[int](d, `SELECT count(*) FROM audit_entry WHERE action = 'member.sign_in_failed'`)
	}
	b := d.browser()
	for range 5 {
		require.Equal(t, 422, b.signIn("Ann@shop.example", "wrong").status)
		require.Equal(t, 422, b.signIn("nobody@shop.example", "wrong").status)
	}
	require.Equal(t, 1, failures(), "of the account that would have been signed in to")
	require.Equal(t, d.merchant, value[string](d, `SELECT merchant_id FROM audit_entry WHERE action = 'member.sign_in_failed'`))
	require.NoError(t, d.store.NoteFailedSignIn(t.Context(), ann.ID, "192.0.2.7"))
	require.Equal(t, 2, failures(), "another address is another entry")
	d.exec(`DELETE FROM audit_entry WHERE action = 'member.sign_in_failed'`)
	b.post("/signin", "email", "ann@shop.example", "password", "wrong", "merchant", d.other)
	require.Equal(t, d.other, value[string](d, `SELECT merchant_id FROM audit_entry WHERE action = 'member.sign_in_failed'`))
}

func TestAudit_IsExportedWholeAndWithoutFormulas(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	viewer := d.as(checkout.RoleViewer)
	d.exec(`INSERT INTO audit_entry (id, merchant_id, mode, actor, action, subject, detail)
		SELECT 'aud_' || lpad(n::text, 26, '0'), $1, CASE n % 2 WHEN 0 THEN 'test' ELSE 'live' END, 'ann', 'a.b', 'x', '"quoted", ' || n
		FROM generate_series(1, 2400) n`, d.merchant)
	formulas := []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n=1", "＝1"}
	for _, formula := range formulas {
		d.exec(`INSERT INTO audit_entry (id, merchant_id, actor, action, subject, detail) VALUES ($2, $1, $3, 'a.c', $3, $3)`,
			d.merchant, checkout.NewID("aud"), formula)
	}
	d.exec(`INSERT INTO audit_entry (id, merchant_id, actor, action, subject, detail) VALUES ('aud_other', $1, 'eve', 'a.b', 'x', 'theirs')`, d.other)
	got := viewer.get("/test/audit.csv")
	require.Equal(t, 200, got.status)
	require.Contains(t, got.header.Get("Content-Type"), "text/csv")
	require.Contains(t, got.header.Get("Content-Disposition"), `attachment; filename="audit-test-`)
	rows, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"id", "at", "mode", "who", "from", "action", "subject", "detail"}, rows[0])
	both := value[int](d, `SELECT count(*) FROM audit_entry WHERE merchant_id = $1 AND mode IS NULL`, d.merchant)
	require.Len(t, rows, 1+1200+both)
	require.Equal(t, `"quoted", 2`, rows[len(rows)-1][7])
	require.Equal(t, "a=1", asText("a=1"))
	require.Equal(t, string(webhook.PayoutSent), asText(string(webhook.PayoutSent)))
	seen := 0
	for _, row := range rows {
		require.NotEqual(t, "live", row[2])
		if row[5] == "a.c" {
			seen++
			for _, cell := range []string{row[3], row[6], row[7]} {
				require.True(t, strings.HasPrefix(cell, "'"), "%q", cell)
			}
		}
	}
	require.Equal(t, len(formulas), seen)
	require.NotContains(t, got.body, "theirs")
	require.True(t, strings.HasPrefix(d.browser().get("/test/audit.csv").to(), "/signin?next="))
	require.Contains(t, viewer.get("/test/audit").body, `href="/test/audit.csv"`)
}

// everything is all that the dashboard changes but the log itself.
func (d *desk) everything() string {
	d.t.Helper()
	var all []string
	for _, table := range []string{"merchant", "payout_address", "member", "api_key", "webhook_endpoint", "webhook_delivery", "webhook_replay", "event", "checkout_session", "member_session", "mail"} {
		all = append(all, value[string](d, `SELECT '`+table+` ' || coalesce(md5(string_agg(t::text, ';' ORDER BY t::text)), '') FROM `+table+` t`))
	}
	return strings.Join(all, "\n")
}

// TestAudit_NothingChangesWithoutItsEntry makes the log unwritable. Then no action changes anything
// or informs a workflow.
func TestAudit_NothingChangesWithoutItsEntry(t *testing.T) {
	t.Parallel()
	s := plainSender(t)
	told := errors.New("a workflow was told")
	s.temporal.Start = func(client.StartWorkflowOptions) error { require.NoError(t, told); return nil }
	s.temporal.Signal = func(string, string) error { require.NoError(t, told); return nil }
	s.temporal.Update = func(client.UpdateWorkflowOptions) error { require.NoError(t, told); return nil }
	s.attempt("run", 1, 500, "")
	ended := newSender(s.desk, s.merchant, s.mode, "https://ended.example/", "", `{}`)
	_, err := s.store.EndDelivery(t.Context(), ended.ref, "", webhook.DeliveryFailed)
	require.NoError(t, err)
	session := s.newSession(s.merchant, checkout.ModeTest)
	bob := s.newMember(s.merchant, "bob@shop.example", checkout.RoleViewer)
	token, err := s.store.Invite(t.Context(), checkout.Member{ID: checkout.NewID("usr"), MerchantID: s.merchant, Email: "carl@shop.example", Role: checkout.RoleViewer}, "test")
	require.NoError(t, err)
	guarded := s.as(checkout.RoleViewer)
	phone, recovery := guarded.enrol()
	s.forgetUse()
	s.exec(`INSERT INTO payout_address (merchant_id, mode, currency, network, address, next_network, next_address, next_at, next_by)
		VALUES ($1, 'live', 'USDC', 'ethereum', '0xa', 'ethereum', '0xb', now() + interval '1 day', 'x')`, s.merchant)
	owner, at, delivery := s.as(checkout.RoleOwner), "/test/webhooks/"+s.endpoint.ID, "/test/deliveries/"+s.ref.ID
	key := s.newKey(s.merchant, s.mode, "x")
	s.exec(`UPDATE webhook_replay SET status = 'completed', finished_at = now() WHERE id = $1`, ended.replay.ID) // one at a time
	s.exec(`ALTER TABLE audit_entry ADD CONSTRAINT full_disk CHECK (false) NOT VALID`)
	before := s.everything()
	for path, fields := range map[string][]string{
		"/test/settings":                           {"name", "New", "before_name", "Shop", "payment_attempts", "3", "before_payment_attempts", "3"},
		"/test/settings/brand":                     {"color", "#123456"},
		"/test/settings/payout":                    {"address_USDC", goodAddress, "before_address_USDC", "sandbox:shop", "password", password},
		"/test/members":                            {"email", "eve@shop.example", "role", "viewer"},
		"/test/members/" + bob.ID + "/role":        {"role", "developer", "password", password},
		"/test/members/" + bob.ID + "/remove":      nil,
		"/test/sessions/" + session.ID + "/expire": nil,
		"/test/keys":                               {"label", "server", "access", "read"},
		"/test/keys/" + key + "/revoke":            nil,
		"/test/webhooks":                           {"url", "https://shop.example/", "events", "payout.sent"},
		at:                                         {"url", "https://new.example/", "before_url", s.endpoint.URL, "events", "payout.sent", "before_events", "payout.sent"},
		at + "/hold":                               nil,
		at + "/test":                               nil,
		at + "/rotate":                             nil,
		"/test/webhooks/" + ended.endpoint.ID + "/replay": {"since", "2020-01-01T00:00", "status", "failed", "rate", "5"},
		at + "/delete":       nil,
		delivery + "/retry":  nil,
		delivery + "/hold":   nil,
		delivery + "/resume": nil,
		"/test/deliveries/" + ended.ref.ID + "/replay": nil,
		"/test/replays/" + s.replay.ID + "/cancel":     nil,
		"/test/account/password":                       {"password", password, "new_password", "a much better one", "new_password_again", "a much better one"},
		"/test/account/signout":                        nil,
		"/live/settings/payout/stop":                   {"currency", "USDC", "address", "0xb"},
		"/live/settings/payout":                        {"address_ETH", goodAddress, "password", password},
		"/live/keys":                                   {"label", "server", "access", "full", "password", password},
		"/invitation/" + token:                         {"password", password, "password_again", password},
	} {
		form := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			form.Add(fields[i], fields[i+1])
		}
		answer, err := owner.http.PostForm(owner.address(path), form)
		require.NoError(t, err, path)
		answer.Body.Close()
		require.Equal(t, 500, answer.StatusCode, path)
		require.Equal(t, before, s.everything(), path)
	}
	for _, code := range []string{phone.code(0), recovery[0]} {
		answer, err := guarded.http.PostForm(guarded.address("/test/account/second_factor/remove"), url.Values{"password": {password}, "code": {code}})
		require.NoError(t, err)
		answer.Body.Close()
		require.Equal(t, 500, answer.StatusCode)
		require.Equal(t, len(recovery)+1, value[int](s.desk, `SELECT (SELECT count(*) FROM second_factor) + (SELECT count(*) FROM recovery_code)`))
	}
}
