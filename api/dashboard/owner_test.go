package dashboard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/merchant"
)

// TestOwners_AreMadeAndUnmadeWithThePassword checks that a change of owners needs the password. A
// stranger at an owner's browser does not know it. Such a stranger must not reach the payout
// addresses through a new owner.
func TestOwners_AreMadeAndUnmadeWithThePassword(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	second := d.newMember(d.merchant, "second@shop.example", merchant.RoleOwner)
	viewer := d.newMember(d.merchant, "viewer@shop.example", merchant.RoleViewer)
	d.invite(d.merchant, "third@shop.example", merchant.RoleOwner)
	third := value[string](d, `SELECT id FROM member WHERE email = 'third@shop.example'`)
	people := func() string {
		return value[string](d, `SELECT string_agg(email || role || (removed_at IS NULL) || coalesce(encode(invitation_hash, 'hex'), ''), ';' ORDER BY email) FROM member WHERE merchant_id = $1`, d.merchant)
	}
	for _, c := range []struct {
		name, path string
		fields     []string
	}{
		{"invite an owner", "/test/members", []string{"email", "new@shop.example", "role", "owner"}},
		{"invite a developer, who makes live keys", "/test/members", []string{"email", "dev@shop.example", "role", "developer"}},
		{"a new link for an invited owner", "/test/members/" + third + "/invitation", nil},
		{"promote to developer", "/test/members/" + viewer.ID + "/role", []string{"role", "developer"}},
		{"promote", "/test/members/" + viewer.ID + "/role", []string{"role", "owner"}},
		{"demote", "/test/members/" + second.ID + "/role", []string{"role", "viewer"}},
		{"promote again", "/test/members/" + second.ID + "/role", []string{"role", "owner"}},
		{"remove", "/test/members/" + second.ID + "/remove", nil},
	} {
		d.exec(`DELETE FROM token_bucket`)
		before := people()
		asked := owner.post(c.path, c.fields...)
		require.Equal(t, before, people(), c.name)
		require.Contains(t, owner.follow(asked).text(), "Your password", c.name)
		form := owner.formOf(asked, c.path)
		for _, wrong := range []string{"", "wrong"} {
			form.send("password", wrong).is(422, c.name)
		}
		require.Equal(t, before, people(), c.name)
		form.send("password", password).is(303, c.name)
		require.NotEqual(t, before, people(), c.name)
	}
	require.Equal(t, 16, value[int](d, `SELECT count(*) FROM audit_entry WHERE action = 'member.password_refused'`), "a wrong password is noted")
	for range 10 {
		owner.post("/test/members", "email", "eve@shop.example", "role", "owner", "password", "guess")
	}
	owner.post("/test/members", "email", "eve@shop.example", "role", "owner", "password", password).shows("Too many attempts")
	owner.post("/test/members", "email", "eye@shop.example", "role", "viewer").is(303) // a viewer needs none
	require.Equal(t, "second@shop.example: owner → viewer", value[string](d, `SELECT detail FROM audit_entry WHERE action = 'member.role_changed' AND detail LIKE '%→ viewer'`))
}

func TestInvitation_OfAnAddressTellsNothingOfOtherMerchants(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	d.newMember(d.other, "ceo@victim.example", merchant.RoleOwner)
	d.invite(d.other, "squatted@victim.example", merchant.RoleViewer)
	const other = "another one to know"
	for _, email := range []string{"ceo@victim.example", "squatted@victim.example", "nobody@victim.example"} {
		owner.post("/test/members", "email", email, "role", "viewer").leads("/test/members invitation_sent", email)
		d.browser().post(d.mailed(email), "password", other, "password_again", other).is(303, email)
	}

	d.exec(`DELETE FROM token_bucket`)
	first, second := d.browser(), d.browser()
	first.signIn("ceo@victim.example", password).is(303) // the first merchant's password signs in as before
	first.in(d.other).get("/test/members").shows("Other shop")
	second.post("/signin", "email", "ceo@victim.example", "password", other, "merchant", d.other).is(422)
	second.post("/signin", "email", "ceo@victim.example", "password", other, "merchant", d.merchant).is(303)
	second.get("/test/members").hides("Other shop")
}

func TestInvitation_ThatHasRunOutBlocksNobody(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	owner.post("/test/members", "email", "bob@shop.example", "role", "viewer").is(303)
	owner.post("/test/members", "email", "BOB@shop.example", "role", "viewer").is(422) // he is invited
	d.exec(`UPDATE member SET invitation_expires_at = now() - interval '1 second' WHERE email = 'bob@shop.example'`)
	owner.post("/test/members", "email", "bob@shop.example", "role", "developer", "password", password).leads("/test/members invitation_sent")
	require.Equal(t, 1, value[int](d, `SELECT count(*) FROM member WHERE email = 'bob@shop.example' AND removed_at IS NULL`))
}
