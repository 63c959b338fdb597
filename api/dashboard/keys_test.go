package dashboard

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

var shownKey = regexp.MustCompile(`sk_(?:test|live)_[0-9a-f]{64}`)

func (d *desk) newKey(shop string, mode checkout.Mode, label string) (id string) {
	id = checkout.NewID(checkout.PrefixAPIKey)
	require.NoError(d.t, d.store.Merchants.CreateAPIKey(d.t.Context(), merchant.APIKey{Ref: checkout.Owner{MerchantID: shop, Mode: mode}.Ref(id), Label: label}, merchant.NewAPIKey(mode)))
	return id
}

// use makes a key look used that long ago.
func (d *desk) use(id string, ago time.Duration) {
	d.exec(`INSERT INTO token_bucket (owner, kind, rate, burst, tokens, allowed, at) VALUES ($1, 'read', 1, 1, 1, true, clock_timestamp() - $2::interval)
		ON CONFLICT (owner, kind) DO UPDATE SET at = excluded.at`, id, ago)
}

func TestCreateKey_IsShownOnceAndWorks(t *testing.T) {
	d, developer := newDeskAs(t, merchant.RoleDeveloper)
	developer.get("/test/keys").shows("There is no test key yet")
	for _, tc := range []struct {
		mode   string
		fields []string
		want   []string
		words  string
	}{
		{"test", []string{"label", " server ", "access", "full"}, []string{"full"}, "Do everything"},
		{"test", []string{"label", "reports", "access", "read"}, []string{"read"}, "Read everything"},
		{"live", []string{"label", "shop", "access", "some", "scope", "checkout:write", "scope", "payouts:read", "password", password}, []string{"checkout:write", "payouts:read"}, "Create, read and expire sessions; read payouts and the balance"},
	} {
		got := developer.follow(developer.post("/"+tc.mode+"/keys", tc.fields...)).is(200)
		keys := shownKey.FindAllString(got.body, -1)
		require.Len(t, keys, 1)
		require.True(t, strings.HasPrefix(keys[0], "sk_"+tc.mode+"_"))
		got.shows("shown only once")
		again := developer.get("/" + tc.mode + "/keys")
		again.hides(keys[0]).shows(tc.words, "It was not used yet.", "…"+keys[0][len(keys[0])-4:])

		hash, ok := merchant.HashAPIKey(keys[0])
		require.True(t, ok)
		require.Equal(t, tc.want, value[[]string](d, `SELECT scopes FROM api_key WHERE hash = $1 AND merchant_id = $2 AND mode = $3 AND label = $4`, hash, d.merchant, tc.mode, strings.TrimSpace(tc.fields[1])))
		developer.get("/" + tc.mode + "/audit").hides(keys[0]).shows("api_key.created")
	}
	developer.get("/test/keys").hides(">shop<") // a live key
}

func TestCreateKey_RefusesWhatIsWrong(t *testing.T) {
	d, developer := newDeskAs(t, merchant.RoleDeveloper)
	for name, fields := range map[string][]string{
		"no label":              {"label", " ", "access", "full"},
		"a long label":          {"label", strings.Repeat("é", 101), "access", "full"},
		"a control character":   {"label", "a\tb", "access", "full"},
		"an invisible one":      {"label", "a\u200bb", "access", "full"},
		"U+0000":                {"label", "a\x00b", "access", "full"},
		"not UTF-8":             {"label", "a\xff", "access", "full"},
		"no access":             {"label", "a"},
		"an unknown access":     {"label", "a", "access", "root"},
		"some of nothing":       {"label", "a", "access", "some"},
		"an unknown scope":      {"label", "a", "access", "some", "scope", "keys:write"},
		"full among the scopes": {"label", "a", "access", "some", "scope", "payouts:read", "scope", "full"},
		"several in one":        {"label", "a", "access", "some", "scope", "payouts:read,full"},
	} {
		got := developer.post("/test/keys", fields...).is(422, name).shows(`role="alert"`)
		require.NotRegexp(t, shownKey, got.body, name)
	}
	for _, access := range []string{"full", "read"} {
		got := developer.form("/test/keys", "/test/keys").send("label", "server", "access", access, "scope", "payouts:read")
		again := developer.formOf(got.is(422, access).shows("and individual scopes"), "/test/keys")
		require.Equal(t, []string{"some"}, again.fields["access"], "of the two what may do less")
		require.Equal(t, []string{"payouts:read"}, again.fields["scope"])
	}
	developer.post("/test/keys", "label", strings.Repeat("é", 100), "access", "full").is(303)
	require.Equal(t, int64(1), value[int64](d, `SELECT count(*) FROM api_key`))
	got := developer.post("/test/keys", "label", "kept", "access", "some", "scope", "nonsense").body
	require.Contains(t, got, `value="kept"`, "what was typed stays")
}

func TestRevokeKey_AndWhoMay(t *testing.T) {
	d := newDesk(t)
	id := d.newKey(d.merchant, checkout.ModeTest, "server")
	viewer, developer := d.as(merchant.RoleViewer), d.as(merchant.RoleDeveloper)
	path := "/test/keys/" + id + "/revoke"
	viewer.get("/test/keys").shows("server").hides("Revoke…", "Create a test key")

	for range 2 {
		got := developer.post(path).is(303)
		developer.follow(got).shows("The key is revoked.")
	}
	developer.get("/test/keys").shows(`<span class="status revoked">`)
	require.Equal(t, "“server”, ends in "+value[string](d, `SELECT last4 FROM api_key WHERE id = $1`, id),
		value[string](d, `SELECT string_agg(detail, ';') FROM audit_entry WHERE action = 'api_key.revoked' AND subject = $1`, id), "which key it was, once")
}

func TestKeys_LiveOnesAreForDevelopers(t *testing.T) {
	d := newDesk(t)
	d.newKey(d.merchant, checkout.ModeLive, "secret label")
	d.newKey(d.other, checkout.ModeLive, "foreign label")
	got := d.as(merchant.RoleViewer).get("/live/keys").text()
	require.Contains(t, got, "Live keys are shown to developers and owners.")
	require.NotContains(t, got, "secret label")
	for _, role := range []merchant.Role{merchant.RoleDeveloper, merchant.RoleOwner} {
		d.as(role).get("/live/keys").shows("secret label").hides("foreign label").shows("Live keys charge real cards.",
			"live-keys")
	}
}

func TestKeys_TheRotationCanBeSeen(t *testing.T) {
	d, developer := newDeskAs(t, merchant.RoleDeveloper)
	now := func() string {
		found := regexp.MustCompile(`(?s)<li class="now">(.*?)</li>`).FindStringSubmatch(developer.get("/test/keys").text())
		if found == nil {
			return ""
		}
		return found[1]
	}
	old := d.newKey(d.merchant, checkout.ModeTest, "server")
	d.newKey(d.merchant, checkout.ModeTest, "something else")
	d.use(old, 2*time.Minute)
	require.Empty(t, now(), "one key of a label is no rotation")
	replace := regexp.MustCompile(`href="([^"]+label=server[^"]*)#create"`).FindStringSubmatch(developer.get("/test/keys").text())[1]
	developer.get(replace).shows(`value="server"`)
	developer.get("/test/keys").shows(`hx-trigger="every 5s"`) // without a reload

	next := d.newKey(d.merchant, checkout.ModeTest, "server")
	require.Contains(t, now(), "Deploy it")
	d.use(next, 0)
	require.Contains(t, now(), "used <b>just now</b>")
	require.Contains(t, now(), "used <b>2 minutes ago</b>")
	d.use(old, 20*time.Minute)
	require.Contains(t, now(), "Revoke the old one")
	developer.get("/test/keys").shows("used <b>20 minutes ago</b>")
	developer.post("/test/keys/" + old + "/revoke").is(303)
	require.Empty(t, now(), "and it is done")
}

func TestShowAgo(t *testing.T) {
	t.Parallel()
	now := time.Now()
	require.Equal(t, "never", showAgo(nil, now))
	for ago, want := range map[time.Duration]string{
		-time.Second: "just now", 59 * time.Second: "just now", time.Minute: "1 minute ago", 3*time.Minute + time.Second: "3 minutes ago",
		time.Hour: "1 hour ago", 47 * time.Hour: "1 day ago", 48 * time.Hour: "2 days ago",
	} {
		at := now.Add(-ago)
		require.Equal(t, want, showAgo(&at, now))
	}
}
