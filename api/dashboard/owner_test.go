package dashboard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/merchant"
)

// graveForm is a form that decides about money: it makes or unmakes owners, developers and live keys, or changes payout
// addresses.
type graveForm struct {
	name, path string
	fields     []string
}

func (d *desk) graveForms() []graveForm {
	second := "/test/members/" + d.newMember(d.merchant, "second@shop.example", merchant.RoleOwner).ID
	viewer := "/test/members/" + d.newMember(d.merchant, "viewer@shop.example", merchant.RoleViewer).ID
	d.invite(d.merchant, "third@shop.example", merchant.RoleOwner)
	third := "/test/members/" + value[string](d, `SELECT id FROM member WHERE email = 'third@shop.example'`)
	return []graveForm{
		{"invite an owner", "/test/members", []string{"email", "new@shop.example", "role", "owner"}},
		{"invite a developer", "/test/members", []string{"email", "dev@shop.example", "role", "developer"}},
		{"a new link for an invited owner", third + "/invitation", nil},
		{"promote to developer", viewer + "/role", []string{"role", "developer"}},
		{"promote", viewer + "/role", []string{"role", "owner"}},
		{"demote", second + "/role", []string{"role", "viewer"}},
		{"promote again", second + "/role", []string{"role", "owner"}},
		{"remove", second + "/remove", nil},
		{"live key", "/live/keys", []string{"label", "server", "access", "full", "once", "form"}},
		{"live payout address", "/live/settings/payout", []string{"address_ETH", goodAddress}},
		{"test payout address", "/test/settings/payout", []string{"address_ETH", goodAddress}},
	}
}

// TestGraveForms_NeedTheWholeProof checks that a stranger at an owner's browser changes nothing that decides about
// money, and that the page that asks for the proof is one of its own: a browser that goes back to it sends no form
// again, and a link from someone else cannot fill in the form.
func TestGraveForms_NeedTheWholeProof(t *testing.T) {
	t.Parallel()
	for _, factor := range []bool{false, true} {
		d := newDeskAlone(t, func(c *Config) { c.RequireFactor = factor })
		owner, other, forms := d.as(merchant.RoleOwner), d.as(merchant.RoleOwner), d.graveForms()
		right := func() []string { return []string{"password", password} }
		wrong := [][]string{{"password", ""}, {"password", "wrong"}}
		if factor {
			before := d.everything()
			for _, f := range forms {
				if f.name == "promote again" || f.name == "test payout address" {
					continue // there is nothing to promote yet, and test mode needs no second factor
				}
				got := owner.follow(owner.post(f.path, append(f.fields, right()...)...))
				got.is(200, f.name).shows("Set up a second factor first")
			}
			require.Equal(t, before, d.everything())
			phone, _ := owner.enrol()
			right = func() []string { return []string{"password", password, "code", phone.code(0)} }
			wrong = [][]string{{"password", password}, {"password", password, "code", "000000"},
				{"password", "wrong", "code", phone.code(0)}}
		}
		d.exec(`UPDATE member_session SET seen_at = clock_timestamp() + interval '1 hour'`) // a use writes it once a minute
		entries := func() int { return value[int](d, `SELECT count(*) FROM audit_entry WHERE action NOT LIKE '%refused'`) }
		for _, f := range forms {
			d.exec(`DELETE FROM token_bucket; UPDATE second_factor SET last_step = 0`)
			before, noted := d.everything(), entries()
			asked := owner.post(f.path, f.fields...).is(303, f.name)
			for range 2 {
				owner.follow(asked).is(200, f.name).shows("Your password")
			}
			other.follow(asked).is(303, f.name, "a form of another browser")
			form := owner.formOf(asked, f.path)
			for _, proof := range wrong {
				form.send(proof...).is(422, f.name, proof)
			}
			require.Equal(t, before, d.everything(), f.name)
			require.Equal(t, noted, entries(), f.name)
			form.send(right()...).is(303, f.name)
			require.NotEqual(t, before, d.everything(), f.name)
			require.Equal(t, noted+1, entries(), f.name)
		}
		require.Equal(t, map[bool]int{false: 22, true: 11}[factor], value[int](d,
			`SELECT count(*) FROM audit_entry WHERE action = 'member.password_refused'`), "a wrong password is noted")
		owner.post("/test/keys", "label", "a", "access", "full").is(303)                   // needs none
		owner.post("/test/members", "email", "eye@shop.example", "role", "viewer").is(303) // nor does a viewer
	}
}

func TestConfirm_GuessingIsSlow(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	d.stopRefill()
	invite := []string{"email", "eve@shop.example", "role", "owner", "password"}
	for range 10 {
		owner.post("/test/members", append(invite, "guess")...)
	}
	owner.post("/test/members", append(invite, password)...).shows("Too many attempts")
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
