package dashboard

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// people returns a browser in which ann is signed in to both merchants of the desk.
func (d *desk) people() *browser {
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	d.newMember(d.other, "Ann@shop.example", merchant.RoleViewer)
	b := d.browser()
	require.Equal(d.t, "/", b.signIn("ann@shop.example", password).to())
	require.Equal(d.t, "/", b.signInTo(d.other, "ann@shop.example").to())
	return b
}

func (b *browser) signInTo(merchant, email string) received {
	return b.form("/signin?other=1", "/signin").send("email", email, "password", password, "merchant", merchant)
}

// in returns the same browser in a tab with another merchant.
func (b *browser) in(merchant string) *browser {
	tab := *b
	tab.at = "/m/" + merchant
	return &tab
}

func (d *desk) signedIn() int { return value[int](d, `SELECT count(*) FROM member_session`) }

// merchants returns the merchants to which the person of a tab is signed in: the tab's own comes first.
func (b *browser) merchants() (names []string) {
	account := b.open("/test/account")
	_, list, _ := strings.Cut(account.text(), `<section id="merchants">`)
	list, _, _ = strings.Cut(list, "</section>")
	for _, item := range regexp.MustCompile(`<li>(?:<a [^>]*>)?([^<]+?)(?:</a>)? <small>`).FindAllStringSubmatch(list, -1) {
		names = append(names, item[1])
	}
	return names
}

// TestMerchants_TabsHaveTheirs: two tabs of a browser act for two merchants at once, and neither changes the other.
func TestMerchants_TabsHaveTheirs(t *testing.T) {
	d := newDesk(t)
	b := d.people()
	shop, other := b.in(d.merchant), b.in(d.other)
	require.Equal(t, []string{"Shop", "Other shop"}, shop.merchants())
	require.Equal(t, []string{"Other shop", "Shop"}, other.merchants())
	shop.get("/test/").shows(`href="/test/account#merchants"`)

	for range 2 {
		other.post("/test/keys", "label", "x", "access", "read").is(403) // a viewer there
		shop.post("/test/keys", "label", "x", "access", "read").is(303)  // an owner here
	}
	require.Equal(t, d.merchant, value[string](d, `SELECT string_agg(DISTINCT merchant_id, ',') FROM api_key`))

	b.signInTo(d.merchant, "ann@shop.example")
	b.signInTo(d.merchant, "ann@shop.example")
	require.Equal(t, 2, d.signedIn(), "once for each merchant")
	other.get("/test/").is(200)
}

// TestMerchants_EveryLinkNamesTheMerchant: a link or a form without it would lead to the merchant of another tab.
func TestMerchants_EveryLinkNamesTheMerchant(t *testing.T) {
	d, b := newDeskAs(t, merchant.RoleOwner)
	bare := regexp.MustCompile(`(?:href|action|hx-get)="/(?:test|live|account)[^"]*"`)
	for _, r := range routesOf(t, "GET") {
		b.at = "/m/" + d.merchant
		address := b.address(r.path)
		b.at = "-" // reads the page as it is
		got := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
		if page := b.do(got); page.status == 200 {
			require.Empty(t, bare.FindAllString(page.body, -1), r.path)
		}
	}
}

// TestMerchants_AddressesOfBefore name no merchant: they lead to the one whose page was shown last.
func TestMerchants_AddressesOfBefore(t *testing.T) {
	d := newDesk(t)
	b := d.people()
	leads := func(path string) string {
		got := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+path, nil))(t)
		return b.do(got).header.Get("Location")
	}
	for _, merchant := range []string{d.other, d.merchant} {
		b.in(merchant).get("/test/")
		at := "/m/" + merchant
		require.Equal(t, at+"/test/", leads("/"))
		require.Equal(t, at+"/live/sessions/cs_1?a=b", leads("/live/sessions/cs_1?a=b"))
		require.Equal(t, at+"/test/account", leads("/account"))
		require.Equal(t, at+"/test/account/second_factor", leads("/account/second_factor"))
	}
	for _, path := range []string{
		"/test//evil.example", "/test/..%2f..%2f..%2f..%2f%5cevil.example", "/test/..%2f..%2f..%2f..%2f%09%2fevil.example",
		"/test/../../../../%5cevil.example", "/test/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%5cevil.example", "/account/..%2f%5cevil.example",
		"/test/%252e%252e%252f%255cevil.example", "/live/;/..%2f..%2f..%2f..%2f..%2f%5cevil.example", "/test/%0d%0aevil.example",
		"/test/%23/..%2f..%2f..%2f..%2f..%2f%5cevil.example",
	} {
		require.Empty(t, leads(path), path)
	}
	b.in(d.other).get("/m/mer_x/test/").is(404)
	require.Equal(t, "/m/"+d.merchant+"/test/", leads("/"), "a refusal is no page of a merchant")

	nobody := d.browser()
	nobody.get("/live/sessions").leads("/signin?next=%2Flive%2Fsessions")
}

// unlimited lets a test ask for every page.
var unlimited = storage.Rate{PerSecond: 1e6, Burst: 1e6}

// TestIsolation_AStrangersMerchantIsNotFound takes every route of the merchant of another person, as any role, by its
// address, and by a form or a stolen cookie besides. The answer is that to an unknown merchant, and nothing happens.
func TestIsolation_AStrangersMerchantIsNotFound(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Limits = limit.Rates{Requests: unlimited, Forms: unlimited} })
	d.newMember(d.other, "bob@shop.example", merchant.RoleOwner)
	people := map[merchant.Role]*browser{}
	for _, role := range merchant.Roles {
		people[role] = d.as(role)
	}
	before := d.everything()
	for role, b := range people {
		for _, r := range append(routesOf(t, "GET"), routesOf(t, "POST")...) {
			if !strings.HasPrefix(r.path, "/test/") {
				continue
			}
			var told []string
			for _, merchant := range []string{d.other, checkout.NewID(checkout.PrefixMerchant)} {
				got := b.in(merchant).send(r.method, r.path, url.Values{"merchant": {d.other}, "password": {password}})
				got.is(404, r.method, r.path, role).hides("Other shop")
				told = append(told, got.body)
			}
			require.Equal(t, told[0], told[1], "%s %s", r.method, r.path)
		}
	}
	require.Equal(t, before, d.everything())
}

// TestIsolation_IDsOfOtherMerchantsAndModes takes every route with an id: the answer is that to an unknown id, and nothing
// happens.
func TestIsolation_IDsOfOtherMerchantsAndModes(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Limits = limit.Rates{Requests: unlimited, Forms: unlimited} })
	d.temporal.Update = func(client.UpdateWorkflowOptions) error { t.Error("Temporal was asked"); return nil }
	theirs := newSender(d, d.other, checkout.ModeTest, "https://theirs.example/", "", `{}`)
	live := newSender(d, d.merchant, checkout.ModeLive, "https://live.example/", "", `{}`)
	things := map[string][]string{
		"/test/webhooks": {theirs.endpoint.ID, live.endpoint.ID}, "/test/deliveries": {theirs.ref.ID, live.ref.ID},
		"/test/replays": {theirs.replay.ID, live.replay.ID}, "/test/members": {d.newMember(d.other, "eve@other.example", merchant.RoleOwner).ID},
		"/test/keys": {d.newKey(d.other, checkout.ModeTest, "foreign label"), d.newKey(d.merchant, checkout.ModeLive, "x"), "key_x"},
		"/test/sessions": {
			d.newSession(d.other, checkout.ModeTest).ID, d.newSession(d.merchant, checkout.ModeLive).ID, "cs_x", checkout.NewID(checkout.PrefixPayout),
		},
	}
	owner := d.as(merchant.RoleOwner)
	form := url.Values{"url": {"https://shop.example/"}, "events": {"payout.sent"}, "since": {"2020-01-01T00:00"}, "status": {"failed"}, "rate": {"1"}, "role": {"viewer"}}
	d.exec(`UPDATE member_session SET seen_at = clock_timestamp() + interval '1 hour'`) // a use writes it once a minute
	before, checked := d.everything(), 0
	for _, r := range append(routesOf(t, "GET"), routesOf(t, "POST")...) {
		prefix, rest, _ := strings.Cut(r.path, "/x")
		for _, id := range things[prefix] {
			told := func(id string) string {
				got := owner.send(r.method, prefix+"/"+id+rest, form).is(404, r.method, r.path, id)
				return strings.ReplaceAll(got.body, id, "ID")
			}
			kind, _, _ := strings.Cut(id, "_")
			require.Equal(t, told(checkout.NewID(kind)), told(id), "%s %s", r.method, r.path)
			checked++
		}
	}
	require.GreaterOrEqual(t, checked, 61)
	for _, path := range []string{
		"/test/members", "/test/keys", "/test/sessions", "/test/webhooks", "/test/deliveries", "/test/deliveries?webhook=" + theirs.endpoint.ID,
		"/test/deliveries?event=" + live.event.ID,
	} {
		got := owner.get(path).body
		require.NotRegexp(t, `(theirs|live|eve@other)\.example|foreign label`, got, path)
		for prefix, ids := range things {
			for _, id := range ids {
				require.False(t, prefix != "/test/webhooks" && strings.Contains(got, id), "%s on %s", id, path)
			}
		}
	}
	require.Equal(t, before, d.everything())
}

// TestIsolation_SignInAsksForTheMerchantOfAnAddress whose person is signed in elsewhere, and comes back to the page.
func TestIsolation_SignInAsksForTheMerchantOfAnAddress(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, ceo, merchant.RoleOwner)
	d.newMemberWith(d.other, ceo, merchant.RoleViewer, other)
	b := d.browser()
	b.signIn(ceo, password)
	page := "/m/" + d.other + "/live/payouts"

	asked := b.get(page)
	require.Equal(t, "/signin?next="+url.QueryEscape(page), asked.header.Get("Location"))
	form := b.form(asked.header.Get("Location"), "/signin")
	require.Equal(t, d.other, form.fields.Get("merchant"))
	form.send("password", password).is(422) // the password of the other merchant
	require.Equal(t, page, form.send("password", other).header.Get("Location"))
	b.get(page).is(200)
	b.get("/test/settings").is(200) // signed in to both

	stranger := d.browser()
	require.Equal(t, page, stranger.post("/signin", "email", ceo, "password", other, "next", page).header.Get("Location"),
		"the address says which account is meant")
}

// TestIsolation_AProofIsOfOneMerchant: a confirmation that was asked for at one merchant confirms nothing at another.
func TestIsolation_AProofIsOfOneMerchant(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, ceo, merchant.RoleOwner)
	d.newMemberWith(d.other, ceo, merchant.RoleOwner, other)
	b := d.browser()
	b.signIn(ceo, password)
	b.form("/signin?other=1", "/signin").send("email", ceo, "password", other, "merchant", d.other).is(303)
	asked := b.post("/live/keys", "label", "a", "access", "full")
	_, query, _ := strings.Cut(asked.header.Get("Location"), "?")

	b.follow(asked).is(200)
	b.in(d.other).get("/live/confirm?" + query).is(303) // sealed for the other one
	require.Contains(t, b.in(d.other).post("/live/keys", "label", "a", "access", "full", "password", password).text(),
		"The password is wrong.")
	require.Zero(t, value[int](d, `SELECT count(*) FROM api_key`))
	b.in(d.other).post("/live/keys", "label", "a", "access", "full", "password", other).is(303)
	require.Equal(t, d.other, value[string](d, `SELECT merchant_id FROM api_key`))
}

func TestMerchants_AForgottenPasswordEndsTheOthersOfTheBrowser(t *testing.T) {
	d := newDesk(t)
	b := d.people()
	token := d.resetCode(value[string](d, `SELECT id FROM member WHERE role = 'viewer'`))
	require.Equal(t, "/signin?reset=1", b.form("/password/reset", "/password/reset").
		send("code", token, "password", "another one to know", "password_again", "another one to know").to())
	require.Zero(t, d.signedIn())
}

func TestMerchants_AnotherPersonInTheBrowserGetsNone(t *testing.T) {
	d := newDesk(t)
	b := d.people()
	d.newMember(d.merchant, "bob@shop.example", merchant.RoleViewer)
	b.signIn("bob@shop.example", password).leads("/")
	require.Equal(t, []string{"Shop"}, b.merchants())
	require.Equal(t, 1, d.signedIn(), "ann is signed out")
}

func TestMerchants_ATokenOfAnotherPersonOpensNothing(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.other, "bob@shop.example", merchant.RoleViewer)
	_, stranger, _ := strings.Cut(cookieOf(d.browser().signIn("bob@shop.example", password)), "=")
	b := d.as(merchant.RoleOwner)
	at := must.Get(url.Parse(b.base))(t)
	for _, planted := range []string{stranger, "x." + stranger, strings.Repeat(stranger+".", 200)} {
		cookies := append(b.http.Jar.Cookies(at), &http.Cookie{Name: "others", Value: planted})
		b.http.Jar.SetCookies(at, cookies)
		require.Equal(t, []string{"Shop"}, b.merchants())
	}
}

func TestMerchants_EachAsksForItsOwnSecondFactor(t *testing.T) {
	d := newDesk(t)
	guarded := d.people().in(d.other)
	phone, _ := guarded.enrol()
	d.forgetUse()
	b := d.browser()
	b.signIn("ann@shop.example", password).leads("/")
	b.signInTo(d.other, "ann@shop.example").leads("/signin/code?next=%2F")
	require.Equal(t, []string{"Shop"}, b.merchants(), "the password alone opens nothing")
	b.in(d.other).get("/test/").is(303)
	b.form("/signin/code", "/signin/code").send("code", phone.code(0)).leads("/")
	require.Equal(t, []string{"Other shop", "Shop"}, b.in(d.other).merchants())
}

func TestMerchants_SigningOutEndsAll(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/signout", "/test/account/signout"} {
		d := newDeskAlone(t)
		b := d.people()
		b.post(path).leads("/signin")
		require.Zero(t, d.signedIn(), path)
		b.get("/test/account").is(303)
	}
}

func TestMerchants_AnInvitationIsAddedToTheOthers(t *testing.T) {
	d := newDesk(t)
	_, b := d.person("ann@shop.example", merchant.RoleOwner)
	m := merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: d.other, Email: "ann@shop.example", Role: merchant.RoleViewer}
	token := must.Get(d.store.People.Invite(t.Context(), m, "test"))(t)
	b.post("/invitation/"+token, "password", "another long one", "password_again", "another long one").leads("/")
	require.Equal(t, []string{"Other shop", "Shop"}, b.in(d.other).merchants())
}
