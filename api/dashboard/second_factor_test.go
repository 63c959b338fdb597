package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/hotp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// app makes the codes of one secret.
type app struct {
	t      *testing.T
	secret string // base32
}

// code returns the code of the present time step and of those after it. A step that is about to end would make the code
// of the step before it too old.
func (a app) code(after int64) string {
	if left := 30 - time.Now().Unix()%30; after < 0 && left <= 3 {
		time.Sleep(time.Duration(left) * time.Second)
	}
	code, err := hotp.GenerateCode(a.secret, uint64(time.Now().Unix()/30+after))
	require.NoError(a.t, err)
	return code
}

var (
	factorKeyShown   = regexp.MustCompile(`<code id="secret">([A-Z2-7 ]+)</code>`)
	factorCodesShown = regexp.MustCompile(`(?s)<pre id="codes" class="codes">(.*?)</pre>`)
)

// enrol turns a second factor on in a signed-in browser. It returns the app and the recovery codes.
func (b *browser) enrol() (app, []string) {
	asked := b.post("/test/account/second_factor")
	shown := b.formOf(asked, "/test/account/second_factor").send("password", password)
	require.Contains(b.t, shown.body, `src="data:image/png;base64,`)
	phone := app{b.t, strings.ReplaceAll(factorKeyShown.FindStringSubmatch(shown.body)[1], " ", "")}
	confirmed := b.formOf(shown, "/test/account/second_factor/code").send("code", phone.code(-1))
	require.Equal(b.t, 405, b.send("HEAD", confirmed.to(), nil).status, "nobody would see the codes")
	codes := b.follow(confirmed)
	return phone, strings.Fields(factorCodesShown.FindStringSubmatch(codes.body)[1])
}

// forgetUse makes every code good again, as after some minutes.
func (d *desk) forgetUse() { d.exec(`UPDATE second_factor SET last_step = 0`) }

func TestSecondFactor_SigningInNeedsACode(t *testing.T) {
	d := newDesk(t)
	m, first := d.person("ann@shop.example", merchant.RoleOwner)
	other := d.browser()
	other.signIn(m.Email, password)
	phone, recovery := first.enrol()
	require.Len(t, recovery, 10)
	first.get("/test/account").is(200)
	other.get("/test/account").is(303) // others are signed out
	require.Contains(t, first.get("/test/account/recovery_codes").to(), "/test/account", "they are shown once")

	b := d.browser()
	got := b.post("/signin", "email", m.Email, "password", password, "next", "/test/members")
	got.leads("/signin/code?next=%2Ftest%2Fmembers")
	b.get("/test/").is(303) // not signed in yet
	form := b.form(got.to(), "/signin/code")
	d.exec(`DELETE FROM token_bucket`)
	for _, wrong := range []string{"", "000000", "12345", "0000-0000-0000-0000", phone.code(5), phone.code(-5)} {
		form.send("code", wrong).is(422, wrong)
	}
	b.get("/test/").is(303)
	d.exec(`DELETE FROM token_bucket`)
	code := phone.code(0)
	form.send("code", " "+code[:3]+" "+code[3:]).leads("/test/members")
	b.get("/test/members").is(200)
	d.exec(`DELETE FROM token_bucket`)
	b.get("/test/members").shows("with a second factor")

	again := d.browser()
	again.signIn(m.Email, password)
	again.post("/signin/code", "code", code).is(422)           // a code is good for one use
	again.post("/signin/code", "code", phone.code(-1)).is(422) // nor is an older one
	again.post("/signin/code", "code", strings.ToUpper(recovery[0])).is(303)
	again.post("/signout")
	again.signIn(m.Email, password)
	again.post("/signin/code", "code", recovery[0]).is(422)
	first.get("/test/account").shows("9 recovery codes are left")

	other.signIn(m.Email, password)
	lock := d.Connect(t)
	must.Get(lock.Exec(t.Context(), `BEGIN; SELECT FROM recovery_code FOR UPDATE`))(t)
	var both sync.WaitGroup
	statuses := make([]int, 2)
	for i, b := range []*browser{again, other} {
		both.Go(func() {
			if got, err := b.http.PostForm(b.address("/signin/code"), url.Values{"code": {recovery[1]}}); err == nil {
				got.Body.Close()
				statuses[i] = got.StatusCode
			}
		})
	}
	require.Eventually(t, func() bool {
		return value[int](d, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) == 2
	}, 10*time.Second, 10*time.Millisecond)
	must.Get(lock.Exec(t.Context(), `COMMIT`))(t)
	both.Wait()
	require.ElementsMatch(t, []int{303, 422}, statuses, "a code sent twice at the same time")
	first.get("/test/account").shows("8 recovery codes are left")
	log := first.get("/test/audit").text()
	for _, action := range []string{"member.second_factor_on", "member.code_refused", "member.recovery_code_used", "off → on"} {
		require.Contains(t, log, action)
	}
}

// halfToken is the cookie of a browser that gave the password with a hash. It is good until a time.
func halfToken(m merchant.Member, passwordHash string, until int64) string {
	text := fmt.Sprintf("%s.%s.%d", m.MerchantID, m.ID, until)
	mac := hmac.New(sha256.New, []byte(passwordHash))
	mac.Write([]byte("a browser that gave the password " + text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func TestSecondFactor_TheHalfSignInIsWorthNothingAlone(t *testing.T) {
	d := newDesk(t)
	m, b := d.person("ann@shop.example", merchant.RoleOwner)
	phone, _ := b.enrol()
	d.forgetUse()
	d.browser().get("/signin/code").leads("/signin")
	d.browser().post("/signin/code", "code", phone.code(0)).leads("/signin") // a code without the password
	hash := value[string](d, `SELECT password_hash FROM member WHERE id = $1`, m.ID)
	soon := time.Now().Add(time.Minute).Unix()
	for name, cookie := range map[string]string{
		"of a guessed hash":  halfToken(m, "guess", soon),
		"that has run out":   halfToken(m, hash, time.Now().Add(-time.Minute).Unix()),
		"of somebody else":   strings.Replace(halfToken(m, hash, soon), m.ID, checkout.NewID(checkout.PrefixMember), 1),
		"with another end":   halfToken(m, hash, soon) + "x",
		"of nothing":         "...",
		"of another account": strings.Replace(halfToken(m, hash, soon), d.merchant, d.other, 1),
	} {
		got := d.browser().send("POST", "/signin/code", map[string][]string{"code": {phone.code(0)}}, "Cookie", "half="+cookie)
		got.leads("/signin", name)
	}
	require.Equal(t, 303, d.browser().send("POST", "/signin/code", map[string][]string{"code": {phone.code(0)}},
		"Cookie", "half="+halfToken(m, hash, soon)).status)
}

func TestSecondFactor_GuessingIsSlow(t *testing.T) {
	d := newDesk(t)
	d.stopRefill()
	_, b := d.person("ann@shop.example", merchant.RoleOwner)
	phone, _ := b.enrol()
	d.forgetUse()
	d.exec(`DELETE FROM token_bucket WHERE kind = 'second_factor'`)
	form := b.formOf(b.post("/live/keys", "label", "a", "access", "full"), "/live/keys")
	for range 8 {
		d.exec(`DELETE FROM token_bucket WHERE kind <> 'second_factor'`)
		form.send("password", password, "code", "000000").shows("wrong")
	}
	d.exec(`DELETE FROM token_bucket WHERE kind <> 'second_factor'`)
	form.send("password", password, "code", phone.code(0)).shows("Too many attempts")
	require.Zero(t, value[int](d, `SELECT count(*) FROM api_key WHERE merchant_id = $1`, d.merchant))
}

func TestSecondFactor_IsStoredSealedAndHashed(t *testing.T) {
	d := newDesk(t)
	phone, recovery := d.as(merchant.RoleViewer).enrol()
	raw := must.Get(base32.StdEncoding.DecodeString(phone.secret))(t)
	require.Zero(t, value[int](d, `SELECT count(*) FROM second_factor WHERE position($1 IN sealed) > 0 OR position($2 IN sealed) > 0`,
		raw, []byte(phone.secret)))
	require.Zero(t, value[int](d, `SELECT count(*) FROM recovery_code WHERE hash = $1`, []byte(recovery[0])))
}

func TestSecondFactor_OnAndOffNeedThePassword(t *testing.T) {
	d, b := newDeskAs(t, merchant.RoleViewer)
	b.get("/test/account/second_factor").leads("/test/account") // nothing was started
	asked := b.post("/test/account/second_factor")
	b.formOf(asked, "/test/account/second_factor").send("password", "wrong").is(422)
	b.get("/test/account/second_factor").leads("/test/account")
	shown := b.formOf(asked, "/test/account/second_factor").send("password", password)
	b.get("/test/account/second_factor").leads("/test/account") // a stolen session cannot see what was started
	key := factorKeyShown.FindStringSubmatch(shown.body)[1]
	wrong := b.formOf(shown, "/test/account/second_factor/code").send("code", "000000").is(422)
	wrong.hides(key, "data:image/png") // nor with a wrong code
	require.Zero(t, value[int](d, `SELECT count(*) FROM reveal`))
	b.get("/test/account").hides("recovery codes are left")

	phone, _ := b.enrol()
	b.post("/test/account/second_factor").leads("/test/account") // it cannot be replaced
	b.get("/test/account/second_factor").leads("/test/account")  // nor be seen again
	d.forgetUse()
	off := b.formOf(b.post("/test/account/second_factor/remove"), "/test/account/second_factor/remove")
	off.send("password", password).is(422)
	off.send("password", "wrong", "code", phone.code(0)).is(422)
	off.send("password", password, "code", phone.code(0)).leads("/test/account second_factor_off")
	require.Zero(t, value[int](d, `SELECT (SELECT count(*) FROM second_factor) + (SELECT count(*) FROM recovery_code)`))
	require.Equal(t, 303, b.form("/test/account", "/test/account/password").send("password", password,
		"new_password", password+"2", "new_password_again", password+"2").status)
}

// TestSecondFactor_ACodeIsCheckedOneAtATime checks a code while another check of it is under way.
func TestSecondFactor_ACodeIsCheckedOneAtATime(t *testing.T) {
	d := newDesk(t)
	m, b := d.person("ann@shop.example", merchant.RoleOwner)
	b.enrol()
	step := time.Now().Unix() / 30
	check := func(_ []byte, after int64) (int64, bool) { return step, step > after }
	second := false
	first := must.Get(d.store.Secrets.UseCode(t.Context(), d.merchant, m.ID, func(secret []byte, after int64) (int64, bool) {
		patience, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second, _ = d.store.Secrets.UseCode(patience, d.merchant, m.ID, check) // it waits for the first, and gives up
		return check(secret, after)
	}))(t)
	require.True(t, first)
	require.False(t, second)
	again := must.Get(d.store.Secrets.UseCode(t.Context(), d.merchant, m.ID, check))(t)
	require.False(t, again)
}

// TestSecondFactor_WhoKnowsThePasswordLocksNobodyOut uses up the tries of an account's codes from a strange
// browser. The person's own browser still has its tries.
func TestSecondFactor_WhoKnowsThePasswordLocksNobodyOut(t *testing.T) {
	d := newDesk(t)
	d.stopRefill()
	m, own := d.person("ann@shop.example", merchant.RoleOwner)
	phone, _ := own.enrol()
	d.forgetUse()
	d.exec(`DELETE FROM token_bucket`)
	thief := d.browser()
	thief.signIn(m.Email, password)
	for range 8 {
		d.exec(`DELETE FROM token_bucket WHERE kind <> 'second_factor'`)
		thief.post("/signin/code", "code", "000000").is(422)
	}
	d.exec(`DELETE FROM token_bucket WHERE kind <> 'second_factor'`)
	thief.post("/signin/code", "code", phone.code(0)).shows("Too many attempts")
	d.exec(`DELETE FROM token_bucket WHERE kind <> 'second_factor'`)
	own.post("/live/keys", "label", "a", "access", "full", "password", password, "code", phone.code(0)).is(303)
	own.post("/signout")
	own.signIn(m.Email, password)
	own.post("/signin/code", "code", phone.code(1)).is(303)
}

// TestSecondFactor_GoesWithThePerson checks that nothing secret of a removed person stays.
func TestSecondFactor_GoesWithThePerson(t *testing.T) {
	d := newDesk(t)
	m, b := d.person("ann@shop.example", merchant.RoleViewer)
	b.enrol()
	_, hash := merchant.NewToken()
	require.NoError(t, d.store.People.KeepReset(t.Context(), m.ID, hash))
	d.as(merchant.RoleOwner).post("/test/members/" + m.ID + "/remove").is(303)
	require.Zero(t, value[int](d, `SELECT (SELECT count(*) FROM second_factor) + (SELECT count(*) FROM recovery_code)
		+ (SELECT count(*) FROM password_reset)`))
}

// TestSecondFactor_TwoTabsShowNoCodesOfEachOther confirms in two tabs. Between storing its codes and learning that it came
// second, a tab has codes that are no good.
func TestSecondFactor_TwoTabsShowNoCodesOfEachOther(t *testing.T) {
	d, b := newDeskAs(t, merchant.RoleOwner)
	shown := b.formOf(b.post("/test/account/second_factor"), "/test/account/second_factor").send("password", password)
	phone := app{t, strings.ReplaceAll(factorKeyShown.FindStringSubmatch(shown.body)[1], " ", "")}
	first := b.formOf(shown, "/test/account/second_factor/code").send("code", phone.code(-1))
	d.exec(`
		INSERT INTO reveal (session_hash, form, merchant_id, mode, subject, master_key_id, sealed)
		SELECT session_hash, 'of the second tab', merchant_id, mode, split_part(subject, '-', 1) || '-0000000000000000', master_key_id, sealed
		FROM reveal`)
	codes := strings.Fields(factorCodesShown.FindStringSubmatch(b.follow(first).body)[1])
	require.Equal(t, 10, value[int](d, `SELECT count(*) FROM recovery_code`))
	require.Equal(t, 1, value[int](d, `SELECT count(*) FROM recovery_code WHERE hash = $1`, merchant.HashToken(strings.ReplaceAll(codes[0], "-", ""))))
}

func TestPasskey_IsNotOfferedAtAnIPAddress(t *testing.T) {
	d, b := newDeskAs(t, merchant.RoleOwner, func(c *Config) { c.URL = "http://127.0.0.1:8083" })
	b.get("/test/account").hides("Add a passkey")
	d.browser().get("/signin").hides("data-passkey")
	b.post("/passkey/challenge", "for", "sign_in").is(404)
	b.post("/test/account/passkeys/new", "password", password).is(404)
	b.post("/test/account/passkeys", "passkey", "{}").is(404)
}

// mux takes the first route that fits, and "new" is not the id of a passkey.
func TestPasskey_NewIsNotAnID(t *testing.T) {
	_, b := newDeskAs(t, merchant.RoleViewer)
	asked := b.post("/test/account/passkeys/new").is(303)
	b.formOf(asked, "/test/account/passkeys/new").send("password", password).is(200).shows("Add a passkey")
}
