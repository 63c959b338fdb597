package dashboard

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/mux"
	"github.com/stretchr/testify/require"

	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/runs/runstest"
)

const (
	password = "correct horse battery"
	share    = 6 // requests of an address at once
)

// desk is a dashboard with two merchants and its own PostgreSQL, so its test is parallel.
type desk struct {
	storagetest.Database
	t        *testing.T
	store    *storage.Store
	temporal *runstest.Temporal
	config   Config
	server   *httptest.Server
	merchant string // id
	other    string // id of another merchant
}

func newDesk(t *testing.T, change ...func(*Config)) *desk {
	t.Parallel()
	return newDeskAlone(t, change...)
}

// newDeskAs returns a desk, and the browser of a person of its merchant.
func newDeskAs(t *testing.T, role merchant.Role, change ...func(*Config)) (*desk, *browser) {
	d := newDesk(t, change...)
	b := d.as(role)
	return d, b
}

// newDeskAlone is newDesk for a test that is not parallel, or has several desks.
func newDeskAlone(t *testing.T, change ...func(*Config)) *desk {
	d := &desk{t: t, Database: storagetest.New(t), temporal: &runstest.Temporal{}}
	d.store = d.Open(t, 4)
	d.config = Config{
		Store: StoreOf(d.store), Runs: &runs.Client{Temporal: d.temporal}, URL: "http://dashboard.example",
		Mail: true, CheckoutURL: "https://pay.example.com", TemporalUI: "https://temporal.example", Namespace: "shop.a1b2c",
		CheckAddress: func(context.Context, checkout.Mode, string) error { return nil },
		Limits:       limit.Rates{Requests: storage.Rate{PerSecond: 20, Burst: 200}, Forms: storage.Rate{PerSecond: 1, Burst: 60}},
		Shares:       limit.NewShares(share),
	}
	for _, c := range change {
		c(&d.config)
	}
	d.server = httptest.NewServer(New(d.config))
	t.Cleanup(d.server.Close)
	d.merchant, d.other = d.newMerchant("Shop"), d.newMerchant("Other shop")
	return d
}

func (d *desk) newMerchant(name string) string {
	m := merchant.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), Name: name, Plan: "standard",
		FeeBasisPoints: merchant.DefaultFeeBasisPoints, PaymentAttempts: merchant.DefaultPaymentAttempts, OrderIDGuard: true,
	}
	require.NoError(d.t, d.store.Merchants.CreateMerchant(d.t.Context(), m, checkout.ModeTest, []merchant.PayoutAddress{
		{Currency: money.USDC, Network: "ethereum", Address: "sandbox:shop"},
	}))
	return m.ID
}

// browser is one person's browser. It keeps cookies and follows no redirect. Tests leave out the merchant in addresses:
// a browser adds it to what it asks for, and takes it off what it reads.
type browser struct {
	t    *testing.T
	base string
	at   string // begins the address of each page of the merchant
	http *http.Client
}

func (d *desk) browser() *browser {
	jar := must.Get(cookiejar.New(nil))(d.t)
	return &browser{d.t, d.server.URL, "/m/" + d.merchant, &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type received struct {
	t      *testing.T
	of     string // see is
	status int
	header http.Header
	body   string
}

// inPath is the merchant in an address, which may be a part of another one.
var inPath = regexp.MustCompile(`(^|=)(?:/m/|%2Fm%2F)mer_[0-9a-z]+`)

func withoutMerchant(address string) string { return inPath.ReplaceAllString(address, "$1") }

// to is where an answer leads, and the key of what is said there.
func (p received) to() string {
	to := withoutMerchant(p.header.Get("Location"))
	for _, line := range p.header.Values("Set-Cookie") {
		if cookie, err := http.ParseSetCookie(line); err == nil && cookie.Name == "notice" && cookie.Value != "" {
			to += " " + cookie.Value
		}
	}
	return to
}

// follow goes where an answer leads, as browsers do.
func (b *browser) follow(p received) received {
	require.Equal(b.t, 303, p.status, p.body)
	return b.get(p.header.Get("Location"))
}

// text is the page as people read it, more or less.
func (p received) text() string { return html.UnescapeString(p.body) }

// is checks the status; of says which answer a failed check is about.
func (p received) is(status int, of ...any) received {
	p.of = fmt.Sprintln(of...)
	require.Equal(p.t, status, p.status, p.of+p.text())
	return p
}

func (p received) leads(to string, of ...any) received {
	require.Equal(p.t, to, p.to(), fmt.Sprintln(of...)+p.text())
	return p
}

func (p received) shows(texts ...string) received {
	for _, text := range texts {
		require.Contains(p.t, p.text(), text, p.of)
	}
	return p
}

func (p received) hides(texts ...string) received {
	for _, text := range texts {
		require.NotContains(p.t, p.text(), text, p.of)
	}
	return p
}

func (b *browser) get(path string) received { return b.send("GET", path, nil) }

func (b *browser) open(path string) received {
	got := b.get(path)
	require.Equal(b.t, 200, got.status, "%s: %s", path, got.body)
	return got
}

// post sends a form as the pages do; fields are names and values by turns.
func (b *browser) post(path string, fields ...string) received {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return b.send("POST", path, form)
}

func (b *browser) send(method, path string, form url.Values, header ...string) received {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := must.Get(http.NewRequestWithContext(b.t.Context(), method, b.address(path), body))(b.t)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return b.do(r)
}

func (b *browser) address(path string) string {
	if strings.HasPrefix(path, "/test/") || strings.HasPrefix(path, "/live/") {
		path = b.at + path
	}
	return b.base + path
}

// do sends a request; no answer may be a failure or lack the policy.
func (b *browser) do(r *http.Request) received {
	answer := must.Get(b.http.Do(r))(b.t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(b.t)
	require.Less(b.t, answer.StatusCode, 500, "%s %s", r.Method, r.URL.Path)
	require.Contains(b.t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(b.t, string(text), "<no value>")
	return received{b.t, "", answer.StatusCode, answer.Header, strings.ReplaceAll(string(text), b.at+"/", "/")}
}

func (d *desk) newMember(shop, email string, role merchant.Role) merchant.Member {
	return d.newMemberWith(shop, email, role, password)
}

func (d *desk) newMemberWith(shop, email string, role merchant.Role, password string) merchant.Member {
	return must.Get(login.Accept(d.t.Context(), d.store.People, d.invite(shop, email, role), password, ""))(d.t)
}

// invite makes a merchant invite an address, which does not join.
func (d *desk) invite(shop, email string, role merchant.Role) (token string) {
	m := merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: shop, Email: email, Role: role}
	return must.Get(d.store.People.Invite(d.t.Context(), m, "test"))(d.t)
}

// resetCode returns the code of a mail for a forgotten password.
func (d *desk) resetCode(memberID string) string {
	token, hash := merchant.NewToken()
	require.NoError(d.t, d.store.People.KeepReset(d.t.Context(), memberID, hash))
	return token
}

// ref names an object of the merchant in test mode.
func (d *desk) ref(id string) checkout.Ref {
	return checkout.Owner{MerchantID: d.merchant, Mode: checkout.ModeTest}.Ref(id)
}

// mailed returns the path of the link that the newest mail to an invited person gets when it is written.
func (d *desk) mailed(email string) string {
	id := value[string](d, `DELETE FROM mail l USING member m WHERE m.id = l.member_id AND m.email = $1
		AND l.kind = 'invitation' AND m.removed_at IS NULL RETURNING m.id`, email)
	token, hash := merchant.NewToken()
	require.NoError(d.t, d.store.People.KeepInvitation(d.t.Context(), id, hash))
	return "/invitation/" + token
}

// as returns a browser signed in as a new member of the merchant.
func (d *desk) as(role merchant.Role) *browser {
	_, b := d.person(string(role)+"."+checkout.NewID("x")+"@shop.example", role)
	return b
}

// person is a new member of the merchant, and a browser in which they are signed in.
func (d *desk) person(email string, role merchant.Role) (merchant.Member, *browser) {
	m, b := d.newMember(d.merchant, email, role), d.browser()
	require.Equal(d.t, "/", b.signIn(email, password).to())
	return m, b
}

func (b *browser) signIn(email, password string) received {
	return b.post("/signin", "email", email, "password", password)
}

func (d *desk) exec(sql string, args ...any) {
	d.Exec(d.t, sql, args...)
}

func value[T any](d *desk, sql string, args ...any) T {
	return storagetest.Value[T](d.t, d.Database, sql, args...)
}

// noStore is for a server whose routes are never asked.
var noStore = Store{Webhooks: &storage.WebhookSecretReader{}}

// route is one of the dashboard's.
type route struct{ method, path string }

// routesOf are all routes of a method but those of before, with ids that nothing has.
func routesOf(t *testing.T, method string) (all []route) {
	s := newServer(Config{Store: noStore, URL: "http://dashboard.example", Mail: true})
	require.NoError(t, s.router.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := r.GetPathTemplate()
		if err != nil {
			return err
		}
		methods, err := r.GetMethods()
		if slices.Contains(methods, method) && !strings.Contains(path, "{page:") {
			path = strings.TrimPrefix(path, page.MerchantRoute)
			path = strings.NewReplacer("{mode:test|live}", "test", "{id}", "x", "{token}", "x", "{file}", "x").Replace(path)
			require.NotContains(t, path, "{")
			all = append(all, route{method, path})
		}
		return err
	}))
	require.NotEmpty(t, all)
	return all
}
