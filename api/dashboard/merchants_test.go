package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// people returns a browser in which ann is signed in to both merchants of the desk; the second one is open.
func (d *desk) people() *browser {
	d.t.Helper()
	d.newMember(d.merchant, "ann@shop.example", checkout.RoleOwner)
	d.newMember(d.other, "Ann@shop.example", checkout.RoleViewer)
	b := d.browser()
	require.Equal(d.t, "/", b.signIn("ann@shop.example", password).to())
	require.Equal(d.t, "/", b.signInTo(d.other, "ann@shop.example").to())
	return b
}

func (b *browser) signInTo(merchant, email string) page {
	b.t.Helper()
	return b.form("/signin?other=1", "/signin").send("email", email, "password", password, "merchant", merchant)
}

func (d *desk) signedIn() int { return value[int](d, `SELECT count(*) FROM member_session`) }

// opened returns the merchant that is open, and how many others can be opened.
func (b *browser) opened() (merchant string, others int) {
	b.t.Helper()
	account := b.get("/account")
	require.Equal(b.t, 200, account.status)
	before, _, _ := strings.Cut(account.text(), "</a>\n  <nav class=\"modes\"")
	return before[strings.LastIndex(before, ">")+1:], strings.Count(account.body, `action="/account/merchants/`)
}

func TestMerchants_OnePersonSwitches(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.people()
	require.Equal(t, "/", b.get("/signin").to(), "signed in already")
	require.Contains(t, b.get("/signin?other=1").body, `value="Ann@shop.example"`)
	require.Contains(t, b.get("/test/").body, `href="/account#merchants"`)
	open, others := b.opened()
	require.Equal(t, "Other shop", open)
	require.Equal(t, 1, others)
	require.Equal(t, 403, b.post("/test/keys", "label", "x").status, "a viewer there")

	require.Equal(t, "/", b.form("/account", "/account/merchants/"+d.merchant).send().to())
	open, others = b.opened()
	require.Equal(t, "Shop", open)
	require.Equal(t, 1, others)
	require.Equal(t, 303, b.post("/test/keys", "label", "x", "access", "read").status, "an owner here")
	require.Equal(t, "/", b.form("/account", "/account/merchants/"+d.other).send().to())
	require.Equal(t, 2, d.signedIn())

	b.signInTo(d.merchant, "ann@shop.example")
	b.signInTo(d.merchant, "ann@shop.example")
	require.Equal(t, 2, d.signedIn(), "once for each merchant")
}

func TestMerchants_AFormOfAnotherMerchantDoesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.people()
	b.form("/account", "/account/merchants/"+d.merchant).send()
	shown := b.form("/test/members", "/test/members")
	ann := b.form("/test/settings", "/test/settings/brand").fields.Get("membership")
	b.form("/account", "/account/merchants/"+d.other).send()
	d.exec(`UPDATE member SET role = 'owner'`)
	got := shown.send("email", "eve@shop.example", "role", "viewer")
	require.Equal(t, 409, got.status)
	require.Contains(t, got.text(), "Another merchant was opened in this browser in the meantime.")
	require.Zero(t, value[int](d, `SELECT count(*) FROM member WHERE email = 'eve@shop.example'`))
	require.Equal(t, 409, b.upload(nil, "membership", ann, "color", "#123456", "before_color", "").status)
	require.Zero(t, value[int](d, `SELECT count(*) FROM merchant WHERE brand_color = '#123456'`))
	require.Equal(t, 303, b.form("/test/members", "/test/members").send("email", "eve@shop.example", "role", "viewer").status)
}

func TestMerchants_APartOfAnotherMerchantsPageLoadsTheWholePage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.people()
	ann := b.form("/account", "/account/password").fields.Get("membership")
	require.Contains(t, b.get("/test/keys").body, `hx-headers='{"Membership": "`+ann+`"}'`)
	got := b.send("GET", "/test/keys", nil, "HX-Request", "true", "Membership", ann)
	require.Equal(t, 200, got.status)
	require.Empty(t, got.header.Get("HX-Refresh"))
	b.form("/account", "/account/merchants/"+d.merchant).send()
	got = b.send("GET", "/test/keys", nil, "HX-Request", "true", "Membership", ann)
	require.Equal(t, 409, got.status)
	require.Equal(t, "true", got.header.Get("HX-Refresh"))
}

func TestMerchants_AForgottenPasswordEndsTheOthersOfTheBrowser(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.people()
	token, hash := checkout.NewToken()
	require.NoError(t, d.store.KeepReset(t.Context(), value[string](d, `SELECT id FROM member WHERE role = 'viewer'`), hash))
	require.Equal(t, "/signin?reset=1", b.form("/password/reset", "/password/reset").
		send("code", token, "password", "another one to know", "password_again", "another one to know").to())
	require.Zero(t, d.signedIn())
}

// TestMerchants_EveryFormNamesTheMember: a form that is written in another way would lack the field.
func TestMerchants_EveryFormNamesTheMember(t *testing.T) {
	t.Parallel()
	entries, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, e := range entries {
		text, err := templateFiles.ReadFile("templates/" + e.Name())
		require.NoError(t, err)
		require.Equal(t, strings.Count(string(text), "<form")-strings.Count(string(text), `<form method="get"`),
			len(postForm.FindAll(text, -1)), e.Name())
	}
}

func TestMerchants_AnotherPersonInTheBrowserGetsNone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.people()
	d.newMember(d.merchant, "bob@shop.example", checkout.RoleViewer)
	require.Equal(t, "/", b.signIn("bob@shop.example", password).to())
	_, others := b.opened()
	require.Zero(t, others)
	require.Equal(t, 1, d.signedIn(), "ann is signed out")
}

func TestMerchants_ATokenOfAnotherPersonOpensNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newMember(d.other, "bob@shop.example", checkout.RoleViewer)
	_, stranger, _ := strings.Cut(cookieOf(d.browser().signIn("bob@shop.example", password)), "=")
	b := d.as(checkout.RoleOwner)
	at, err := url.Parse(b.base)
	require.NoError(t, err)
	for _, planted := range []string{stranger, "x." + stranger, strings.Repeat(stranger+".", 200)} {
		cookies := append(b.http.Jar.Cookies(at), &http.Cookie{Name: "others", Value: planted})
		b.http.Jar.SetCookies(at, cookies)
		open, others := b.opened()
		require.Equal(t, "Shop", open)
		require.Zero(t, others)
		require.Equal(t, "/signin?other=1&merchant="+d.other, b.post("/account/merchants/"+d.other).to())
	}
}

func TestMerchants_EachAsksForItsOwnSecondFactor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	guarded := d.people()
	phone, _ := guarded.enrol()
	d.forgetUse()
	b := d.browser()
	require.Equal(t, "/", b.signIn("ann@shop.example", password).to())
	half := b.signInTo(d.other, "ann@shop.example")
	require.Equal(t, "/signin/code?next=%2F", half.to())
	open, others := b.opened()
	require.Equal(t, "Shop", open)
	require.Zero(t, others, "the password alone opens nothing")
	require.Equal(t, "/signin?other=1&merchant="+d.other, b.post("/account/merchants/"+d.other).to())
	require.Equal(t, "/", b.form("/signin/code", "/signin/code").send("code", phone.code(0)).to())
	open, others = b.opened()
	require.Equal(t, "Other shop", open)
	require.Equal(t, 1, others)
}

func TestMerchants_SigningOutEndsAll(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/signout", "/account/signout"} {
		d := newDesk(t)
		b := d.people()
		require.Equal(t, "/signin", b.post(path).to())
		require.Zero(t, d.signedIn(), path)
		require.Equal(t, 303, b.get("/account").status)
	}
}

func TestMerchants_RemovedOrIdleIsNotOffered(t *testing.T) {
	t.Parallel()
	for _, end := range []string{
		`UPDATE member SET removed_at = now() WHERE merchant_id = $1`,
		`UPDATE member_session SET seen_at = now() - interval '121 minutes'
			WHERE member_id = (SELECT id FROM member WHERE merchant_id = $1)`,
		`UPDATE member_session SET created_at = now() - interval '25 hours'
			WHERE member_id = (SELECT id FROM member WHERE merchant_id = $1)`,
	} {
		d := newDesk(t)
		b := d.people()
		d.exec(end, d.merchant)
		_, others := b.opened()
		require.Zero(t, others)
		require.Equal(t, "/signin?other=1&merchant="+d.merchant, b.post("/account/merchants/"+d.merchant).to())
	}
}

func TestMerchants_AnInvitationIsAddedToTheOthers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", checkout.RoleOwner)
	b := d.browser()
	b.signIn("ann@shop.example", password)
	m := checkout.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: d.other, Email: "ann@shop.example", Role: checkout.RoleViewer}
	token, err := d.store.Invite(t.Context(), m, "test")
	require.NoError(t, err)
	require.Equal(t, "/", b.post("/invitation/"+token, "password", "another long one", "password_again", "another long one").to())
	open, others := b.opened()
	require.Equal(t, "Other shop", open)
	require.Equal(t, 1, others)
}
