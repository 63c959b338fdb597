package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/api/dashboard"
	"example.com/checkout/api/limit"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// site is a dashboard at http://localhost, where browsers offer passkeys, with one merchant.
type site struct {
	t        *testing.T
	store    *storage.Store
	database storagetest.Database
	merchant string // id
	url      string // of the dashboard
	other    string // URL of a second dashboard with the same database, at another port: another origin
}

func newSite(t *testing.T) *site {
	db := storagetest.New(t)
	s := &site{t: t, database: db, store: db.Open(t, 4)}
	s.url, s.other = s.serve(), s.serve()
	m := merchant.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard",
		FeeBasisPoints: merchant.DefaultFeeBasisPoints, PaymentAttempts: merchant.DefaultPaymentAttempts, OrderIDGuard: true,
	}
	require.NoError(t, s.store.Merchants.CreateMerchant(t.Context(), m, checkout.ModeTest, nil))
	s.merchant = m.ID
	return s
}

func (s *site) serve() string {
	server := httptest.NewUnstartedServer(nil)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(s.t, err)
	at := "http://localhost:" + port
	server.Config.Handler = dashboard.New(dashboard.Config{
		Store: dashboard.StoreOf(s.store), URL: at, CheckoutURL: "https://pay.example.com", RequireFactor: true, Mail: true,
		Limits: limit.Rates{Requests: storage.Rate{PerSecond: 20, Burst: 200}, Forms: storage.Rate{PerSecond: 1, Burst: 60}},
		Shares: limit.NewShares(6),
	})
	server.Start()
	s.t.Cleanup(server.Close)
	return at
}

func (s *site) newOwner(email string) merchant.Member {
	return e2e.AddMember(s.t, s.store, s.merchant, merchant.RoleOwner, email)
}

func query[T any](s *site, sql string, args ...any) T {
	return storagetest.Value[T](s.t, s.database, sql, args...)
}

// refusal returns the audit log's last word about a refused passkey.
func (s *site) refusal() string {
	return query[string](s, `
		SELECT coalesce((SELECT detail FROM audit_entry WHERE action = 'member.passkey_refused' ORDER BY id DESC LIMIT 1), '')`)
}

// newTab opens a tab with an authenticator that keeps passkeys and verifies its person.
func (s *site) newTab(browser context.Context) (*chrome.Tab, webauthn.AuthenticatorID) {
	b := chrome.NewTab(s.t, browser)
	chrome.Call(b, webauthn.Enable, webauthn.EnableParams{})
	made := chrome.Call(b, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
		Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		},
	})
	return b, made.AuthenticatorID
}

func (s *site) typeSignIn(b *chrome.Tab, email string) {
	b.Do(chromedp.Navigate(s.url+"/signin"), chrome.TypeInto("#email", email), chrome.TypeInto("#password", e2e.DashboardPassword),
		chrome.Click(`form[action="/signin"] button`))
}

// register adds a passkey on the page of the account, and returns the recovery codes.
func (s *site) register(b *chrome.Tab, name string) []string {
	// The page of the account has a form with a password too, which belongs to another form.
	const form = `form[action$="/account/passkeys/new"] `
	b.Do(chromedp.Navigate(s.url+"/account"), chrome.Click(form+"button"),
		chrome.TypeInto(form+"#password", e2e.DashboardPassword), chrome.Click(form+"button"),
		chrome.TypeInto("#name", name), chrome.Click("[data-passkey] button"), chrome.See("#codes"))
	return strings.Fields(b.Text("#codes"))
}

// In the page: the button that uses a passkey, and the form of the sign-in.
const (
	usePasskey = "[data-passkey] button"
	signInForm = `form[action="/signin"]`
)

// TestPasskey_FromAddingToRemoving adds a passkey, signs in and confirms a dangerous action with it, and removes it.
func TestPasskey_FromAddingToRemoving(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := s.newOwner("ann@shop.example")
	b, authenticator := s.newTab(chrome.StartBrowser(t))
	s.typeSignIn(b, ann.Email)
	b.Do(chrome.See(".sections"))
	invite := func(email string) {
		b.Do(chromedp.Navigate(s.url+"/test/members"), chrome.TypeInto("#email", email),
			chromedp.SetValue(chromedp.CSS(`form[action$="/test/members"] select[name=role]`), "owner"),
			chrome.Click(`form[action$="/test/members"] button`), chrome.See("main .warning"))
	}
	invite("bob@shop.example")
	require.Contains(t, b.Text("main"), "You have none yet")
	b.Axe("a second factor is needed")

	require.Len(t, s.register(b, "Laptop"), 10)
	b.Do(chrome.Click("main a[role=button]"), chrome.See(`form[action$="/account/passkeys/new"]`))
	require.Contains(t, b.Text("main"), "10 recovery codes are left")
	b.Axe("the account with a passkey")
	held := chrome.Call(b, webauthn.GetCredentials, webauthn.GetCredentialsParams{AuthenticatorID: authenticator})
	require.Len(t, held.Credentials, 1)
	require.True(t, held.Credentials[0].IsResidentCredential)
	require.NotContains(t, string(held.Credentials[0].UserHandle), "ann")
	require.Len(t, held.Credentials[0].UserHandle, 64)

	// The account's page has a passkey's button too: await the form.
	b.Do(chrome.Click(".who button"), chrome.See(signInForm), chrome.See(usePasskey))
	b.Axe("signing in")
	b.Do(chrome.Click(usePasskey), chrome.See(".sections"))
	require.Contains(t, query[string](s, `SELECT detail FROM audit_entry WHERE action = 'member.signed_in' ORDER BY id DESC LIMIT 1`),
		"with a passkey")

	b.Do(chrome.Click(".who button"), chrome.See("#password"))
	s.typeSignIn(b, ann.Email)
	b.Do(chrome.See("#code"))
	b.Axe("the second step")
	b.Do(chrome.Click(usePasskey), chrome.See(".sections"))

	invite("bob@shop.example")
	b.Axe("a passkey or the password")
	b.Do(chrome.Click(usePasskey), chrome.See(".notice"))
	require.Equal(t, 1, query[int](s, `SELECT count(*) FROM mail WHERE kind = 'invitation'`), "the passkey is enough")
	id := query[string](s, `SELECT id FROM passkey`)
	b.Do(chromedp.Navigate(s.url+"/account"), chrome.Empty("#name-"+id), chrome.TypeInto("#name-"+id, "Old laptop"),
		chrome.Click(`form[action$="/account/passkeys/`+id+`"] .secondary`), chrome.See(".notice"))
	require.Equal(t, "Old laptop", b.Value("#name-"+id))
	b.Do(chrome.Click(`form[action$="/account/passkeys/`+id+`"] .danger`), chrome.See(`form[action$="/account/passkeys/`+id+`/remove"] #code`))
	require.Contains(t, b.Text("main"), "your recovery codes stop working")
	b.Do(chrome.Click(usePasskey), chrome.See(".notice"))
	require.Equal(t, 0, query[int](s, `SELECT (SELECT count(*) FROM passkey) + (SELECT count(*) FROM recovery_code)`))
	require.Equal(t, []string{"member.passkey_added", "member.passkey_renamed", "member.passkey_removed"},
		query[[]string](s, `SELECT array_agg(action ORDER BY id) FROM audit_entry WHERE action LIKE 'member.passkey%'`))

	b.Do(chrome.Click(".who button"), chrome.See(signInForm), chrome.Click(usePasskey), chrome.See("main > .fault"))
	require.Len(t, b.TakeFaults(), 1, "the browser notes the status 422")
}

// visitor is a program that signs in like a browser. It keeps cookies by name.
type visitor struct {
	t       *testing.T
	url     string
	cookies map[string]string
}

// must posts a form, requires the answer's status and returns its text. Only a redirect may sign in.
func (v *visitor) must(status int, path string, fields ...string) string {
	form, cookies, before := url.Values{}, "", v.cookies["member"]
	for pair := range slices.Chunk(fields, 2) {
		form.Set(pair[0], pair[1])
	}
	for name, value := range v.cookies {
		cookies += name + "=" + value + "; "
	}
	got := e2e.Ask(v.t, http.MethodPost, v.url+path, form.Encode(),
		"Content-Type", "application/x-www-form-urlencoded", "Cookie", cookies)
	for _, c := range (&http.Response{Header: got.Header}).Cookies() {
		v.cookies[c.Name] = c.Value
	}
	require.Equal(v.t, status, got.Status, string(got.Body))
	if status != http.StatusSeeOther {
		require.Equal(v.t, before, v.cookies["member"])
	}
	return string(got.Body)
}

// challenge asks for a challenge and returns the options for the browser.
func (v *visitor) challenge(purpose string) (options map[string]any) {
	text := v.must(http.StatusOK, "/passkey/challenge", "for", purpose)
	require.NoError(v.t, json.Unmarshal([]byte(text), &options))
	return options
}

func sign(b *chrome.Tab, options map[string]any) string {
	text := must.Get(json.Marshal(options))(b.T)
	return chrome.Eval[string](b, fmt.Sprintf(`navigator.credentials.get({
		publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(%s)}).then((a) => JSON.stringify(a.toJSON()))`, text),
		chromedp.EvalAwaitPromise)
}

// TestPasskey_RefusesWhatIsWrong gives answers that are right in all but one thing.
func TestPasskey_RefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	browser := chrome.StartBrowser(t)
	ann, bob := s.newOwner("ann@shop.example"), s.newOwner("bob@shop.example")
	b, authenticator := s.newTab(browser)
	s.typeSignIn(b, ann.Email)
	b.Do(chrome.See(".sections"))
	s.register(b, "Laptop")
	another, _ := s.newTab(browser)
	s.typeSignIn(another, bob.Email)
	another.Do(chrome.See(".sections"))
	s.register(another, "Phone")
	newVisitor := func() *visitor { return &visitor{t, s.url, map[string]string{}} }

	// The whole way is right, and the answer is good once.
	v := newVisitor()
	answer := sign(b, v.challenge("sign_in"))
	bound := v.cookies["passkey"]
	newVisitor().must(422, "/signin/passkey", "passkey", answer) // the answer of another browser's challenge
	v.must(303, "/signin/passkey", "passkey", answer)
	require.NotEmpty(t, v.cookies["member"])
	again := newVisitor()
	again.cookies["passkey"] = bound
	again.must(422, "/signin/passkey", "passkey", answer) // a replayed answer

	// Another origin with the same name of the relying party.
	elsewhere := &visitor{t, s.other, map[string]string{}}
	answer = sign(b, elsewhere.challenge("sign_in"))
	elsewhere.must(422, "/signin/passkey", "passkey", answer)
	require.Contains(t, s.refusal(), "verification_error")

	// A device that did not verify its person.
	unverified := newVisitor()
	options := unverified.challenge("sign_in")
	options["userVerification"] = "discouraged"
	chrome.Call(b, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: authenticator})
	answer = sign(b, options)
	chrome.Call(b, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: authenticator, IsUserVerified: true})
	const refusals = `SELECT count(*) FROM audit_entry WHERE action = 'member.passkey_refused'`
	before := query[int](s, refusals)
	unverified.must(422, "/signin/passkey", "passkey", answer)
	require.Equal(t, before+1, query[int](s, refusals))

	// Ann's passkey in Bob's second step.
	half := newVisitor()
	half.must(303, "/signin", "email", bob.Email, "password", e2e.DashboardPassword)
	require.Empty(t, half.cookies["member"])
	options = half.challenge("second_step")
	delete(options, "allowCredentials")
	answer = sign(b, options)
	half.must(422, "/signin/code", "passkey", answer)
	require.Contains(t, s.refusal(), "not a passkey of this person")

	// An answer for the second step is none for signing in, and the other way round.
	half.must(422, "/signin/passkey", "passkey", sign(another, half.challenge("second_step")))
	half.must(422, "/signin/code", "passkey", sign(another, half.challenge("sign_in")))
	newVisitor().must(401, "/passkey/challenge", "for", "step_up")                          // a stranger confirms nothing
	half.must(303, "/signin/code", "passkey", sign(another, half.challenge("second_step"))) // the right one

	// A challenge that has run out.
	late := newVisitor()
	answer = sign(b, late.challenge("sign_in"))
	query[int](s, `WITH late AS (UPDATE passkey_challenge SET expires_at = now() RETURNING 1) SELECT count(*) FROM late`)
	late.must(422, "/signin/passkey", "passkey", answer)

	// A count of uses that goes back: somebody has a copy of the passkey.
	query[int](s, `WITH ahead AS (UPDATE passkey SET credential = convert_to(jsonb_set(convert_from(credential, 'UTF8')::jsonb,
		'{authenticator,signCount}', '100000')::text, 'UTF8') RETURNING 1) SELECT count(*) FROM ahead`)
	copied := newVisitor()
	copied.must(422, "/signin/passkey", "passkey", sign(b, copied.challenge("sign_in")))
	require.Contains(t, s.refusal(), "may have been copied")
	b.TakeFaults()
	another.TakeFaults()
}
