package dashboard

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

func TestAudit_SaysWhatAPayoutAddressWasAndIs(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	form := owner.form("/test/settings", "/test/settings/payout")
	form.send("address_USDC", goodAddress, "address_BTC", oldBitcoin, "password", password).is(303)
	detail := value[string](d, `SELECT detail FROM audit_entry WHERE action = 'payout_address.changed'`)
	require.Contains(t, detail, "USDC: sandbox:shop → "+goodAddress)
	require.Contains(t, detail, "BTC: none → "+oldBitcoin)
	owner.get("/test/audit").shows(">127.0.0.1</td>")
}

func TestAudit_HasWhoJoinedAndSignedIn(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	owner.post("/test/members", "email", "bob@shop.example", "role", "developer", "password", password)
	bob := d.browser()
	bob.post(d.mailed("bob@shop.example"), "password", password, "password_again", password).is(303)
	bob.post("/signout")
	bob.signIn("bob@shop.example", "wrong")
	bob.signIn("bob@shop.example", password).is(303)
	require.Equal(t, "member.joined 127.0.0.1 as developer, member.sign_in_failed 127.0.0.1 a wrong password, member.signed_in 127.0.0.1 , member.signed_in 127.0.0.1 ",
		value[string](d, `SELECT string_agg(action || ' ' || address || ' ' || detail, ', ' ORDER BY action) FROM audit_entry WHERE actor = 'bob@shop.example'`))
}

// TestAudit_NotesFailedSignInsSparingly checks that strangers cannot fill the log, nor write into it what they type.
func TestAudit_NotesFailedSignInsSparingly(t *testing.T) {
	d := newDesk(t)
	ann := d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	d.newMember(d.other, "ann@shop.example", merchant.RoleOwner)
	failures := func() int {
		return value[int](d, `SELECT count(*) FROM audit_entry WHERE action = 'member.sign_in_failed'`)
	}
	b := d.browser()
	for range 5 {
		b.signIn("Ann@shop.example", "wrong").is(422)
		b.signIn("nobody@shop.example", "wrong").is(422)
	}
	require.Equal(t, 1, failures(), "of the account that would have been signed in to")
	require.Equal(t, d.merchant, value[string](d, `SELECT merchant_id FROM audit_entry WHERE action = 'member.sign_in_failed'`))
	require.NoError(t, d.store.People.LogFailedSignIn(t.Context(), ann.ID, "192.0.2.7"))
	require.Equal(t, 2, failures(), "another address is another entry")
	d.exec(`DELETE FROM audit_entry WHERE action = 'member.sign_in_failed'`)
	b.post("/signin", "email", "ann@shop.example", "password", "wrong", "merchant", d.other)
	require.Equal(t, d.other, value[string](d, `SELECT merchant_id FROM audit_entry WHERE action = 'member.sign_in_failed'`))
}

func TestAudit_IsExportedWholeAndWithoutFormulas(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	d.exec(`INSERT INTO audit_entry (id, merchant_id, mode, actor, action, subject, detail)
		SELECT 'aud_' || lpad(n::text, 26, '0'), $1, CASE n % 2 WHEN 0 THEN 'test' ELSE 'live' END, 'ann', 'a.b', 'x', '"quoted", ' || n
		FROM generate_series(1, 2400) n`, d.merchant)
	formulas := []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n=1", "＝1"}
	for _, formula := range formulas {
		d.exec(`INSERT INTO audit_entry (id, merchant_id, actor, action, subject, detail) VALUES ($2, $1, $3, 'a.c', $3, $3)`,
			d.merchant, checkout.NewID("aud"), formula)
	}
	d.exec(`INSERT INTO audit_entry (id, merchant_id, actor, action, subject, detail) VALUES ('aud_other', $1, 'eve', 'a.b', 'x', 'theirs')`, d.other)
	got := viewer.open("/test/audit.csv")
	require.Contains(t, got.header.Get("Content-Type"), "text/csv")
	require.Contains(t, got.header.Get("Content-Disposition"), `attachment; filename="audit-test-`)
	rows := must.Get(csv.NewReader(strings.NewReader(got.body)).ReadAll())(t)
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
	got.hides("theirs")
	viewer.get("/test/audit").shows(`href="/test/audit.csv"`)
}

// everything is all that the dashboard changes but the log itself.
func (d *desk) everything() string {
	var all []string
	for _, table := range []string{"merchant", "payout_address", "member", "api_key", "webhook_endpoint", "webhook_delivery", "webhook_replay", "event", "checkout_session", "member_session", "mail", "refund", "payout"} {
		all = append(all, value[string](d, `SELECT '`+table+` ' || coalesce(md5(string_agg(t::text, ';' ORDER BY t::text)), '') FROM `+table+` t`))
	}
	return strings.Join(all, "\n")
}
