package dashboard

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func withoutMail(c *Config) { c.Mail = false }

func TestReset_OneAnswerForEveryAddress(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleViewer)
	d.newMember(d.other, "ann@shop.example", merchant.RoleViewer)
	d.invite(d.merchant, "new@shop.example", merchant.RoleViewer)
	b := d.browser()
	b.get("/signin").shows(`href="/password/forgot"`)
	for _, email := range []string{"ann@shop.example", "nobody@shop.example", "new@shop.example", "", "x", "a\x00b@shop.example"} {
		d.exec(`DELETE FROM token_bucket`)
		b.form("/password/forgot", "/password/forgot").send("email", email).leads("/password/reset?asked=1", email)
	}
	b.get("/password/reset?asked=1").shows("If that address has an account")
	require.Equal(t, 2, value[int](d, `SELECT count(*) FROM mail WHERE next_at IS NOT NULL`), "one for each merchant")
}

func TestReset_GivesANewPasswordOnce(t *testing.T) {
	d := newDesk(t)
	m, signedIn := d.person("ann@shop.example", merchant.RoleViewer)
	token := d.resetCode(m.ID)
	const other = "another one to know"
	form := d.browser().form("/password/reset", "/password/reset")
	form.send("code", token, "password", "short", "password_again", "short").is(422)
	form.send("code", token, "password", other, "password_again", password).is(422)
	form.send("code", token+"x", "password", other, "password_again", other).is(422)
	signedIn.get("/test/account").is(200)
	form.send("code", token, "password", other, "password_again", other).leads("/signin?reset=1")
	signedIn.get("/test/account").is(303) // every browser is signed out
	form.send("code", token, "password", password, "password_again", password).is(422)
	signedIn.signIn(m.Email, password).is(422)
	signedIn.signIn(m.Email, other).is(303)
	signedIn.get("/test/audit").shows("member.password_reset")
}

func TestReset_AsksForTheSecondFactorAfterwards(t *testing.T) {
	d := newDesk(t)
	m, b := d.person("ann@shop.example", merchant.RoleViewer)
	b.enrol()
	token := d.resetCode(m.ID)
	const other = "another one to know"
	b.form("/password/reset", "/password/reset").send("code", token, "password", other, "password_again", other).is(303)
	require.Contains(t, b.signIn(m.Email, other).to(), "/signin/code")
}

func TestReset_IsNotThereWithoutAMailServer(t *testing.T) {
	d := newDesk(t, withoutMail)
	b := d.browser()
	b.get("/signin").hides("/password/forgot")
	for _, path := range []string{"/password/forgot", "/password/reset"} {
		b.get(path).is(404)
		b.post(path, "email", "ann@shop.example").is(404)
	}
	require.Zero(t, value[int](d, `SELECT count(*) FROM mail`))
}

func TestMail_TellsOwnersAndThePersonWhatChanged(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	viewer := d.newMember(d.merchant, "viewer@shop.example", merchant.RoleViewer)
	d.newMember(d.other, "other@shop.example", merchant.RoleOwner)
	mails := func() string {
		return value[string](d, `WITH taken AS (DELETE FROM mail l USING member m WHERE m.id = l.member_id
			RETURNING l.kind || ' ' || m.role || ' ' || (m.merchant_id = $1)) SELECT coalesce(string_agg("?column?", ', ' ORDER BY "?column?"), '') FROM taken`, d.merchant)
	}
	mails() // of those who are here already
	d.invite(d.merchant, "second@shop.example", merchant.RoleOwner)
	second := "/test/members/" + value[string](d, `SELECT id FROM member WHERE email = 'second@shop.example'`)
	require.Equal(t, "owners_changed owner true", mails())
	for _, c := range []struct{ path, fields, mails string }{
		{"/test/members", "email=dev@shop.example&role=developer", "invitation developer true"},
		{"/test/members", "email=third@shop.example&role=owner", "invitation owner true, owners_changed owner true"},
		{second + "/invitation", "", "invitation owner true, owners_changed owner true"}, // another link
		{"/test/members/" + viewer.ID + "/role", "role=owner", "owners_changed owner true, owners_changed owner true"},
		{"/test/members/" + viewer.ID + "/remove", "", "owners_changed owner true, owners_changed owner true"},
		{"/live/keys", "label=server&access=full", "live_key owner true"},
		{"/test/keys", "label=server&access=full", ""},
		{"/test/account/password", "new_password=" + other + "&new_password_again=" + other, "account_changed owner true"},
	} {
		form := must.Get(url.ParseQuery(c.fields))(t)
		form.Set("password", password)
		owner.send("POST", c.path, form).is(303, c.path)
		require.Equal(t, c.mails, mails(), c.path)
	}
}

// TestReset_ASignInThatBeganBeforeEndsToo checks that a browser that gave the former password a moment ago
// gets no session after the reset has ended all of them.
func TestReset_ASignInThatBeganBeforeEndsToo(t *testing.T) {
	d := newDesk(t)
	m := d.newMember(d.merchant, "ann@shop.example", merchant.RoleViewer)
	former := must.Get(d.store.People.MemberPassword(t.Context(), m.MerchantID, m.ID))(t)
	_, code := merchant.NewToken()
	require.NoError(t, d.store.People.KeepReset(t.Context(), m.ID, code))
	require.NoError(t, d.store.People.ResetPassword(t.Context(), code, "hash", ""))
	_, browser := merchant.NewToken()
	require.ErrorIs(t, d.store.People.SignIn(t.Context(), m, former, browser), checkout.ErrNotFound)
	require.NoError(t, d.store.People.SignIn(t.Context(), m, "hash", browser))
	require.NoError(t, d.store.People.RemoveMember(t.Context(), m.MerchantID, m.ID, merchant.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: m.MerchantID,
	}))
	_, browser = merchant.NewToken()
	require.ErrorIs(t, d.store.People.SignIn(t.Context(), m, "hash", browser), checkout.ErrNotFound)
}
