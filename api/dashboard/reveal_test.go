package dashboard

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// reloaded sends a form and then reloads the resulting page, like a browser. If the form was
// answered with a page instead of a redirect, it sends the form again. It returns the first page.
func (f form) reloaded() received {
	f.b.t.Helper()
	got := f.send()
	if got.status != 303 {
		f.send()
		return got
	}
	first := f.b.follow(got)
	f.b.follow(got)
	return first
}

// signs returns the digests of the secrets that sign for the registration.
func (s sender) signs() (current, previous []byte) {
	keys, err := s.store.Webhooks.WebhookKeys(s.t.Context(), checkout.Owner{MerchantID: s.merchant, Mode: s.mode}, "")
	require.NoError(s.t, err)
	for _, k := range keys {
		if k.EndpointID == s.endpoint.ID {
			return k.Current, k.Previous
		}
	}
	require.Fail(s.t, "no secret signs")
	return nil, nil
}

func TestRotate_ASecondClickRotatesNoMore(t *testing.T) {
	s := plainSender(t)
	at := "/test/webhooks/" + s.endpoint.ID
	dev := s.as(merchant.RoleDeveloper)
	twice := dev.form(at, at+"/rotate")
	twice.send()
	shown := dev.follow(twice.send())
	current, previous := s.signs()
	require.Equal(t, webhook.SecretDigest(s.endpoint.Secret), previous)
	require.Equal(t, webhook.SecretDigest(secretIn.FindString(shown.body)), current)
	dev.get(twice.send().to()).leads(at + " secret_gone") // and after it was shown
	_, previous = s.signs()
	require.Equal(t, webhook.SecretDigest(s.endpoint.Secret), previous)
	require.Regexp(t, secretIn, dev.follow(dev.form(at, at+"/rotate").send("hours", "0")).body)
	_, previous = s.signs()
	require.Equal(t, current, previous, "another page's form rotates again")
}

func TestCreate_AReloadMakesNoSecond(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	require.Regexp(t, shownKey, owner.form("/live/keys", "/live/keys").with("label", "server", "password", password).reloaded().body)
	require.Equal(t, 1, value[int](d, `SELECT count(*) FROM api_key`))
	require.Regexp(t, secretIn, owner.form("/test/webhooks/new", "/test/webhooks").with("url", "https://shop.example/").reloaded().body)
	require.Equal(t, 1, value[int](d, `SELECT count(*) FROM webhook_endpoint`))
	invitations := func() int { return value[int](d, `SELECT count(*) FROM mail WHERE kind = 'invitation'`) }
	owner.form("/test/members", "/test/members").with("email", "bob@shop.example").reloaded()
	require.Equal(t, 1, invitations())
	id := value[string](d, `SELECT id FROM member WHERE email = 'bob@shop.example'`)
	d.exec(`UPDATE mail SET next_at = NULL`) // they were sent
	owner.form("/test/members", "/test/members/"+id+"/invitation").reloaded()
	require.Equal(t, 2, invitations())
}

func TestReveal_IsForOneBrowserAndOnce(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	here, there, other := d.browser(), d.browser(), d.as(merchant.RoleOwner)
	here.signIn("ann@shop.example", password)
	there.signIn("ann@shop.example", password)
	made := here.form("/test/keys", "/test/keys").send("label", "server")
	path := made.to()
	require.Regexp(t, `^/test/keys/key_[0-9a-z]{26}/secret$`, path)
	for _, b := range []*browser{there, other} {
		b.get(path).leads("/test/keys secret_gone") // another browser
	}
	here.get(strings.Replace(path, "/test/", "/live/", 1)).is(404) // the other mode

	process := httptest.NewServer(New(d.config)) // of the same service
	defer process.Close()
	shown := (&browser{t, process.URL, here.at, here.http}).get(path)
	key := shownKey.FindString(shown.body)
	require.NotEmpty(t, key)
	require.NotContains(t, fmt.Sprint(made.header, shown.header), key, "nor in an address or a cookie")
	require.Zero(t, value[int](d, `SELECT count(*) FROM reveal WHERE sealed IS NOT NULL`), "it is gone when it was shown")
	here.get(path).leads("/test/keys secret_gone")
	here.follow(here.get(path)).shows("A secret is shown only once.")
}

func TestReveal_HeadLeavesTheSecret(t *testing.T) {
	s := plainSender(t)
	owner, at := s.as(merchant.RoleOwner), "/test/webhooks/"+s.endpoint.ID
	for path, secret := range map[string]*regexp.Regexp{
		owner.form("/test/keys", "/test/keys").send("label", "server").to(): shownKey,
		owner.form(at, at+"/rotate").send().to():                            secretIn,
	} {
		require.Equal(t, 405, owner.send("HEAD", path, nil).status, path)
		require.Regexp(t, secret, owner.open(path).body, path)
	}
}

func TestReveal_IsSealedAndForgotten(t *testing.T) {
	d, b := newDeskAs(t, merchant.RoleDeveloper)
	path := b.form("/test/keys", "/test/keys").send("label", "server").to()
	require.Zero(t, value[int](d, `SELECT count(*) FROM reveal WHERE encode(sealed, 'escape') LIKE '%sk_test_%'`))
	d.exec(`UPDATE reveal SET created_at = now() - interval '6 minutes'`)
	b.get(path).leads("/test/keys secret_gone")
	require.NoError(t, d.store.Secrets.ForgetReveals(t.Context()))
	require.Zero(t, value[int](d, `SELECT count(*) FROM reveal WHERE sealed IS NOT NULL`))

	b.form("/test/keys", "/test/keys").send("label", "another")
	require.Equal(t, 1, value[int](d, `SELECT count(*) FROM reveal WHERE sealed IS NOT NULL`))
	b.post("/signout").is(303)
	require.Zero(t, value[int](d, `SELECT count(*) FROM reveal`))
}

func TestReveal_ShowsNoSecretThatDoesNotSign(t *testing.T) {
	s := plainSender(t)
	at := "/test/webhooks/" + s.endpoint.ID
	dev := s.as(merchant.RoleDeveloper)
	made := dev.form(at, at+"/rotate").send()
	_, err := s.store.Webhooks.RotateSecret(t.Context(), s.endpoint.Ref, webhook.NewSecret(), 0) // by the API, meanwhile
	require.NoError(t, err)
	dev.get(made.to()).leads(at + " secret_gone")
}

func TestReveal_OfWhatCouldNotBeMadeIsDropped(t *testing.T) {
	d, dev := newDeskAs(t, merchant.RoleDeveloper)
	add := dev.form("/test/webhooks/new", "/test/webhooks")
	for i := range webhook.MaxEndpoints {
		d.newEndpoint(fmt.Sprintf("https://shop.example/%d", i))
	}
	add.send("url", "https://shop.example/").is(422)
	require.Zero(t, value[int](d, `SELECT count(*) FROM reveal`))
	d.exec(`UPDATE webhook_endpoint SET deleted_at = now()`)
	require.Regexp(t, secretIn, dev.follow(add.send("url", "https://shop.example/")).body, "the same form, once there is room")
}

func TestNotice_IsSaidOnce(t *testing.T) {
	s, dev := newSenderAs(t, merchant.RoleDeveloper)
	at := "/test/webhooks/" + s.endpoint.ID
	held := dev.post(at + "/hold")
	dev.send("GET", at, nil, "HX-Request", "true").hides("Its events wait, and no attempt") // a part of a page is not the page
	dev.follow(held).shows("The webhook is on hold. Its events wait")
	dev.follow(held).hides("The webhook is on hold. Its events wait") // not after a reload
	dev.get(at + "?notice=webhook_deleted").hides("was deleted")
}

// TestPosts_AreNotedAndEndInARedirect tries every POST route, at first while the audit log cannot be written: then no action
// changes anything or informs a workflow. Later each is answered with a redirect, because a reload of a page would repeat
// the action.
func TestPosts_AreNotedAndEndInARedirect(t *testing.T) {
	s := plainSender(t)
	owner, guarded := s.as(merchant.RoleOwner), s.as(merchant.RoleViewer)
	phone, recovery := guarded.enrol()
	s.forgetUse()
	bob := s.newMember(s.merchant, "bob@shop.example", merchant.RoleViewer)
	invite := func(email string) (token string) {
		token, err := s.store.People.Invite(t.Context(), merchant.Member{ID: checkout.NewID("usr"), MerchantID: s.merchant, Email: email, Role: merchant.RoleViewer}, "test")
		require.NoError(t, err)
		return token
	}
	token, dora := invite("carl@shop.example"), invite("dora@shop.example")
	carl := value[string](s.desk, `SELECT id FROM member WHERE email = 'carl@shop.example'`)
	pending := s.newSession(s.merchant, checkout.ModeTest)
	session := s.newSession(s.merchant, checkout.ModeTest, func(s *checkout.Session) { s.Metadata = []byte(`{}`) })
	s.exec(`UPDATE checkout_session SET expires_at = now() - interval '1 second' WHERE id = $1`, session.ID)
	paid, _ := s.paid(s.merchant, s.mode)
	_, evidence := s.contested(s.mode)
	s.attempt("run", 1, 500, "")
	key, at, delivery := s.newKey(s.merchant, s.mode, "x"), "/test/webhooks/"+s.endpoint.ID, "/test/deliveries/"+s.ref.ID
	other := newSender(s.desk, s.merchant, s.mode, "https://other.example/", "", `{}`)
	other.end(webhook.DeliveryFailed)
	s.exec(`UPDATE webhook_replay SET status = 'completed', finished_at = now() WHERE id = $1`, other.replay.ID) // one at a time
	s.exec(`INSERT INTO payout_address (merchant_id, mode, currency, network, address, next_network, next_address, next_at, next_by)
		VALUES ($1, 'live', 'USDC', 'ethereum', '0xa', 'ethereum', '0xb', now() + interval '1 day', 'x')`, s.merchant)
	posts := []struct {
		route, path string
		fields      []string
	}{
		{"/test/settings", "/test/settings", []string{"name", "New", "before_name", "Shop", "payment_attempts", "3", "before_payment_attempts", "3"}},
		{"/test/settings/brand", "/test/settings/brand", []string{"color", "#123456"}},
		{"/test/settings/payout", "/test/settings/payout", []string{"address_USDC", goodAddress, "before_address_USDC", "sandbox:shop", "password", password}},
		{"/test/settings/payout/stop", "/live/settings/payout/stop", []string{"currency", "USDC", "address", "0xb"}},
		{"", "/live/settings/payout", []string{"address_ETH", goodAddress, "password", password}},
		{"/test/members", "/test/members", []string{"email", "eve@shop.example", "role", "viewer"}},
		{"/test/members/x/invitation", "/test/members/" + carl + "/invitation", nil},
		{"/test/members/x/role", "/test/members/" + bob.ID + "/role", []string{"role", "developer", "password", password}},
		{"/test/members/x/remove", "/test/members/" + bob.ID + "/remove", nil},
		{"/test/sessions/x/expire", "/test/sessions/" + session.ID + "/expire", nil},
		{"/test/sessions/x/refund", "/test/sessions/" + paid.ID + "/refund", []string{"once", hex.EncodeToString(checkout.NewSeed()), "amount", "5.00", "reason", "duplicate"}},
		{"/test/disputes/x/evidence", evidence, []string{"once", hex.EncodeToString(checkout.NewSeed()), "customer_name", "Ann", "sure", "on"}},
		{"/test/keys", "/test/keys", []string{"label", "server", "access", "read"}},
		{"", "/live/keys", []string{"label", "server", "access", "full", "password", password}},
		{"/test/keys/x/revoke", "/test/keys/" + key + "/revoke", nil},
		{"/test/webhooks", "/test/webhooks", []string{"url", "https://shop.example/", "events", "payout.sent"}},
		{"/test/webhooks/x", at, []string{"url", "https://new.example/", "before_url", s.endpoint.URL, "events", "checkout.failed", "before_events", "checkout.failed"}},
		{"/test/webhooks/x/hold", at + "/hold", nil},
		{"/test/webhooks/x/resume", at + "/resume", nil},
		{"/test/webhooks/x/test", at + "/test", nil},
		{"/test/webhooks/x/rotate", at + "/rotate", nil},
		{"/test/webhooks/x/replay", "/test/webhooks/" + other.endpoint.ID + "/replay", []string{"since", "2020-01-01T00:00", "status", "failed", "rate", "5"}},
		{"/test/replays/x/cancel", "/test/replays/" + s.replay.ID + "/cancel", nil},
		{"/test/deliveries/x/replay", "/test/deliveries/" + other.ref.ID + "/replay", nil},
		{"/test/deliveries/x/retry", delivery + "/retry", nil},
		{"/test/deliveries/x/hold", delivery + "/hold", nil},
		{"/test/deliveries/x/resume", delivery + "/resume", nil},
		{"/test/webhooks/x/delete", at + "/delete", nil},
		{"/test/account/password", "/test/account/password", []string{"password", password, "new_password", "a much better one", "new_password_again", "a much better one"}},
		{"/test/account/signout", "/test/account/signout", nil},
		{"/invitation/x", "/invitation/" + dora, []string{"password", password, "password_again", password}},
	}
	s.exec(`ALTER TABLE audit_entry ADD CONSTRAINT full_disk CHECK (false) NOT VALID`)
	informed := errors.New("a workflow was informed")
	s.temporal.Start = func(client.StartWorkflowOptions) error { require.NoError(t, informed); return nil }
	s.temporal.Signal = func(string, string) error { require.NoError(t, informed); return nil }
	s.temporal.Update = func(client.UpdateWorkflowOptions) error { require.NoError(t, informed); return nil }
	fails := func(b *browser, path string, fields ...string) {
		form := url.Values{}
		for pair := range slices.Chunk(fields, 2) {
			form.Add(pair[0], pair[1])
		}
		answer, err := b.http.PostForm(b.address(path), form)
		require.NoError(t, err, path)
		answer.Body.Close()
		require.Equal(t, 500, answer.StatusCode, path)
	}
	before := s.everything()
	fails(owner, "/test/sessions/"+pending.ID+"/expire")
	for _, p := range posts {
		if p.route != "/test/sessions/x/expire" && p.route != "/test/webhooks/x/resume" { // they change nothing yet
			fails(owner, p.path, p.fields...)
			require.Equal(t, before, s.everything(), p.path)
		}
	}
	for _, code := range []string{phone.code(0), recovery[0]} {
		fails(guarded, "/test/account/second_factor/remove", "password", password, "code", code)
		require.Equal(t, len(recovery)+1, value[int](s.desk, `SELECT (SELECT count(*) FROM second_factor) + (SELECT count(*) FROM recovery_code)`))
	}

	s.exec(`ALTER TABLE audit_entry DROP CONSTRAINT full_disk; DELETE FROM token_bucket`)
	s.temporal.Start, s.temporal.Signal, s.temporal.Update = nil, nil, nil
	s.temporal.Cancel = func(string) error { return nil }
	seen := map[string]bool{"/signin/code": true, "/test/sessions/x/retry_payout": true, "/test/payouts/x/retry": true} // by TestRetryPayout… and others
	for _, p := range posts {
		owner.post(p.path, p.fields...).is(303, p.path)
		seen[p.route] = true
	}
	owner.post("/invitation/"+token, "password", password, "password_again", password).is(404) // renewed above
	// TestSecondFactor…, TestPasskey…, TestSignIn… and TestReset… try what is left.
	var elsewhere []string
	for _, r := range routesOf(t, "POST") {
		if !seen[r.path] {
			elsewhere = append(elsewhere, r.path)
		}
	}
	require.ElementsMatch(t, slices.Concat(factorRoutes, []string{
		"/signin", "/signout", "/password/forgot", "/password/reset", "/signin/passkey", "/passkey/challenge", "/test/passkey/challenge",
	}), elsewhere)
}
