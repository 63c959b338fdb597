package dashboard

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/limit"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func TestSignIn_OpensTheMerchantsPages(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, "Ann@Shop.example", merchant.RoleOwner)
	b := d.browser()
	b.get("/test/members?a=b").leads("/signin?next=%2Ftest%2Fmembers%3Fa%3Db")
	got := b.post("/signin", "email", " ann@shop.EXAMPLE ", "password", password, "next", "/test/members?a=b").is(303)
	got.leads("/test/members?a=b")
	cookie := got.header.Get("Set-Cookie")
	require.Contains(t, cookie, "HttpOnly")
	require.Contains(t, cookie, "SameSite=Lax")
	require.NotContains(t, cookie, "Max-Age", "it ends with the browser")
	b.open("/test/members").shows("Ann@Shop.example", "Test mode.")
	b.get("/live/members").hides("Test mode.")
	b.get("/").leads("/test/")
	b.get("/signin").leads("/") // who is signed in need not
}

func TestSignIn_OneAnswerForEverythingThatIsWrong(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	gone := d.newMember(d.merchant, "gone@shop.example", merchant.RoleViewer)
	d.exec(`UPDATE member SET removed_at = now() WHERE id = $1`, gone.ID)
	d.invite(d.merchant, "new@shop.example", merchant.RoleViewer)
	b := d.browser()
	want := ""
	for name, c := range map[string][2]string{
		"wrong password":          {"ann@shop.example", password + "!"},
		"other case":              {"ann@shop.example", strings.ToUpper(password)},
		"none":                    {"ann@shop.example", ""},
		"too long":                {"ann@shop.example", strings.Repeat("x", 300)},
		"unknown":                 {"nobody@shop.example", password},
		"removed":                 {"gone@shop.example", password},
		"invited":                 {"new@shop.example", password},
		"no address":              {"", password},
		"not an address":          {"' or 1=1 --", password},
		"what PostgreSQL refuses": {"a\x00b", password},
	} {
		got := b.signIn(c[0], c[1]).is(422, name)
		require.Empty(t, got.header.Get("Set-Cookie"), name)
		same := strings.ReplaceAll(got.text(), `value="`+strings.ReplaceAll(c[0], "\x00", "\uFFFD")+`"`, `value=""`)
		if want == "" {
			want = same
		}
		require.Equal(t, want, same, name)
	}
	require.Contains(t, want, "Wrong e-mail address or password")
	b.get("/test/").is(303)
}

func TestSignIn_GuessingIsSlow(t *testing.T) {
	d := newDesk(t)
	d.stopRefill()
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	b := d.browser()
	var answers []int
	for range 20 {
		answers = append(answers, b.signIn("ann@shop.example", "wrong").status)
	}
	require.Equal(t, 422, answers[0])
	require.Equal(t, 429, answers[8])
	last := b.signIn("ann@shop.example", password).is(429) // the right one too: else guessing could go on
	require.NotEmpty(t, last.header.Get("Retry-After"))
	b.signIn("bob@shop.example", "wrong").is(422) // another account is not hurt
	for range 60 {
		b.signIn(checkout.NewID("x")+"@shop.example", "wrong")
	}
	b.signIn("carl@shop.example", "wrong").is(429) // many accounts from one address
}

func TestSignIn_NextIsAPageOfOurs(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	for next, want := range map[string]string{
		"/live/sessions": "/live/sessions", "/test/account": "/test/account",
		"/m/" + d.merchant + "/test/": "/test/", "/live/sessions?q=%2F%5Ca//b#top": "/live/sessions?q=%2F%5Ca//b#top",
		"/test/../\\evil.example": "/", "/test/..//evil.example": "/", "/test/../\t/evil.example": "/", "/test/..": "/",
		"/test/.\n./\r/evil.example": "/", "/test/%2e%2e/%5Cevil.example": "/", "/test/..%2F%5Cevil.example": "/",
		"/test/#/../../\\evil.example": "/", "/test/;/../..//evil.example": "/", "/test//evil.example": "/", "/test/\\evil": "/",
		"/test/%zz/../../\\evil.example": "/", "/account/..\\\\evil.example": "/", "/m/mer_1/../../\\evil.example": "/",
		"https://evil.example/": "/", "//evil.example": "/", "/\\evil.example": "/", "javascript:alert(1)": "/", "/signout": "/", "": "/",
	} {
		d.exec(`DELETE FROM token_bucket`)
		d.browser().post("/signin", "email", "ann@shop.example", "password", password, "next", next).leads(want, next)
	}
}

func TestSignOut_HoldsOnTheServer(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	first, second := d.browser(), d.browser()
	kept := cookieOf(first.signIn("ann@shop.example", password))
	second.signIn("ann@shop.example", password)
	first.post("/signout").is(303)
	first.send("GET", "/test/", nil, "Cookie", kept).is(303) // the old cookie is worth nothing
	second.get("/test/").is(200)
	first.signIn("ann@shop.example", password)
	second.post("/test/account/signout").leads("/signin")
	first.get("/test/").is(303) // everywhere
	second.get("/test/").is(303)
	second.signIn("ann@shop.example", password)
	second.get("/test/audit").shows("member.signed_out")
}

func cookieOf(p received) string {
	name, _, _ := strings.Cut(p.header.Get("Set-Cookie"), ";")
	return name
}

func TestSessions_EndWhenIdleAndAfterADay(t *testing.T) {
	d, b := newDeskAs(t, merchant.RoleViewer)
	b.get("/test/").is(200)
	d.exec(`UPDATE member_session SET seen_at = now() - interval '119 minutes'`)
	b.get("/test/").is(200)
	d.exec(`UPDATE member_session SET seen_at = now() - interval '61 minutes', created_at = now() - interval '23 hours'`)
	b.get("/test/").is(200) // a request keeps it
	d.exec(`UPDATE member_session SET seen_at = now() - interval '121 minutes'`)
	b.get("/test/").is(303) // idle
	c := d.as(merchant.RoleViewer)
	d.exec(`UPDATE member_session SET created_at = now() - interval '25 hours'`)
	c.get("/test/").is(303)
}

func TestSessions_AreNotInTheDatabase(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	got := d.browser().signIn("ann@shop.example", password)
	_, token, _ := strings.Cut(cookieOf(got), "=")
	require.Len(t, token, 43)
	require.Zero(t, value[int](d, `SELECT count(*) FROM member_session WHERE encode(hash, 'escape') LIKE '%' || $1 || '%'`, token))
	require.Contains(t, value[string](d, `SELECT password_hash FROM member WHERE email = 'ann@shop.example'`), "$argon2id$")
}

func TestPassword_ChangeSignsOthersOut(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleViewer)
	here, there := d.browser(), d.browser()
	here.signIn("ann@shop.example", password)
	there.signIn("ann@shop.example", password)
	change := func(present, next, again string) received {
		d.exec(`DELETE FROM token_bucket`)
		return here.post("/test/account/password", "password", present, "new_password", next, "new_password_again", again)
	}
	const better = "a much better one"
	change("wrong", better, better).shows("The password is wrong")
	change(password, "short", "short").shows("at least 12")
	change(password, better, better+"!").shows("not the same")
	change(password, strings.Repeat("x", 257), strings.Repeat("x", 257)).shows("at most 256")
	change(password, better, better).is(303)
	here.get("/test/account").is(200) // this browser stays
	there.get("/test/account").is(303)
	there.signIn("ann@shop.example", password).is(422)
	there.signIn("ann@shop.example", better).is(303)
	require.Equal(t, 1, value[int](d, `SELECT count(*) FROM audit_entry WHERE action = 'member.password_changed'`))
}

func TestCookie_OverHTTPSIsForTheHostOnly(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.URL = "https://dashboard.example" })
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	got := d.browser().signIn("ann@shop.example", password)
	require.Regexp(t, `^__Host-member=.*Secure`, got.header.Get("Set-Cookie"))
	require.Contains(t, got.header.Get("Strict-Transport-Security"), "max-age=")
}

// openRoutes need nobody who is signed in.
var openRoutes = map[string]bool{
	"/static/x": true, "/signin": true, "/signout": true, "/invitation/x": true, "/password/forgot": true,
	"/password/reset": true, "/signin/passkey": true, "/passkey/challenge": true, "/test/passkey/challenge": true,
}

// factorRoutes change the second factor of the person who is signed in.
var factorRoutes = []string{
	"/test/account/second_factor", "/test/account/second_factor/code", "/test/account/second_factor/remove",
	"/test/account/passkeys", "/test/account/passkeys/new", "/test/account/passkeys/x", "/test/account/passkeys/x/remove",
}

// TestRoutes_RefuseWhoMayNot takes every route there is. Nobody sees or changes anything before signing in, a viewer
// changes nothing but the own account, and a form of another origin changes nothing at all.
func TestRoutes_RefuseWhoMayNot(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Limits = limit.Rates{Requests: unlimited, Forms: unlimited} })
	nobody, viewer, owner := d.browser(), d.as(merchant.RoleViewer), d.as(merchant.RoleOwner)
	own := slices.Concat(factorRoutes, []string{"/signin/code", "/test/account/password", "/test/account/signout"})
	for _, r := range append(routesOf(t, "GET"), routesOf(t, "POST")...) {
		if !openRoutes[r.path] {
			got := nobody.send(r.method, r.path, url.Values{}).is(303, r.path)
			require.True(t, strings.HasPrefix(got.to(), "/signin"), r.path)
		}
		if r.method != "POST" {
			continue
		}
		if !openRoutes[r.path] && !slices.Contains(own, r.path) {
			viewer.post(r.path).is(403, r.path)
		}
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
			{"Origin", "https://evil.example"}, {"Origin", "null"},
		} {
			owner.send("POST", r.path, url.Values{}, header...).is(403, r.path, header)
		}
	}
	owner.get("/test/").is(200) // still signed in
}
