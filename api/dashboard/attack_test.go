package dashboard

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

const (
	ceo   = "ceo@victim.example"
	other = "another one to know"
)

// squat makes the other merchant invite the address of the desk's owner, who does not join.
func (d *desk) squat() {
	_, err := d.store.People.Invite(d.t.Context(), merchant.Member{
		ID: checkout.NewID("usr"), MerchantID: d.other, Email: ceo, Role: merchant.RoleViewer,
	}, "operator")
	require.NoError(d.t, err)
}

// TestAttack_AnAddressIsNotSquatted: another merchant invites an address first. Its true owner signs in to her own
// merchant without its id, and her failures, with her IP address, are in no log of the squatter.
func TestAttack_AnAddressIsNotSquatted(t *testing.T) {
	d := newDesk(t)
	d.squat()
	d.newMember(d.merchant, ceo, merchant.RoleOwner)
	b := d.browser()

	b.signIn(ceo, "a slip of the finger").is(422)
	b.signIn(ceo, password).is(303)

	b.get("/test/members").shows("owner")
	require.Equal(t, d.merchant, value[string](d, `SELECT string_agg(merchant_id, ',') FROM audit_entry WHERE action = 'member.sign_in_failed'`))
	require.Equal(t, "owner", value[string](d, `SELECT m.role FROM member_session s JOIN member m ON m.id = s.member_id`))
}

// TestAttack_ASquatterDoesNotSeeWhereAStrangerSignsIn: only the squatter knows the address.
func TestAttack_ASquatterDoesNotSeeWhereAStrangerSignsIn(t *testing.T) {
	d := newDesk(t)
	d.squat()

	d.browser().signIn(ceo, "wrong").is(422)
	d.browser().post("/signin", "email", ceo, "password", "wrong", "merchant", d.other).is(422)

	require.Zero(t, value[int](d, `SELECT count(*) FROM audit_entry WHERE action = 'member.sign_in_failed'`))
}

// TestSignIn_TriesEachAccountOfTheAddress has a password at each of three merchants. Hashes of before have salts of their
// own: such an account needs its merchant's id once.
func TestSignIn_TriesEachAccountOfTheAddress(t *testing.T) {
	d := newDesk(t)
	third := d.newMerchant("Third shop")
	passwords := map[string]string{d.merchant: password, d.other: other, third: "the third one to know"}
	for shop, password := range passwords {
		d.newMemberWith(shop, ceo, merchant.RoleViewer, password)
	}
	signsIn := func(merchant string) {
		d.exec(`DELETE FROM token_bucket; DELETE FROM member_session`)
		d.browser().signIn(ceo, passwords[merchant]).leads("/", merchant)
		require.Equal(t, merchant, value[string](d, `SELECT m.merchant_id FROM member_session s JOIN member m ON m.id = s.member_id`))
	}
	for merchant := range passwords {
		signsIn(merchant)
	}

	old, err := argon2id.CreateHash(passwords[third], &argon2id.Params{Memory: 8 << 10, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	require.NoError(t, err)
	d.exec(`UPDATE member SET password_hash = $2 WHERE merchant_id = $1`, third, old)
	d.exec(`UPDATE member SET joined_at = now() + interval '1 day' WHERE merchant_id = $1`, third) // not the first
	d.browser().post("/signin", "email", ceo, "password", passwords[third], "merchant", third).is(303)
	signsIn(third)
}

// TestAttack_GuessingLocksNoOneOut: guesses from the address of the person. A browser that knows the account still has
// its tries, and so has one that chose a new password with the code of a mail.
func TestAttack_GuessingLocksNoOneOut(t *testing.T) {
	d := newDesk(t)
	d.stopRefill()
	m := d.newMember(d.merchant, ceo, merchant.RoleOwner)
	h := New(d.config)
	const home = "192.0.2.1:80"
	known := d.signsIn(h, home, ceo, password).Result().Cookies()
	for range 8 {
		d.signsIn(h, home, ceo, "wrong")
	}
	require.Equal(t, http.StatusTooManyRequests, d.signsIn(h, home, ceo, password).Code)
	require.Equal(t, http.StatusSeeOther, d.signsIn(h, home, ceo, password, known...).Code, "the known one")

	chosen := url.Values{"code": {"x"}, "password": {other}, "password_again": {other}}
	token := d.resetCode(m.ID)
	for range 10 {
		d.from(h, home, "/password/reset", chosen)
	}
	chosen.Set("code", token)
	reset := d.from(h, home, "/password/reset", chosen)
	require.Equal(t, http.StatusSeeOther, reset.Code, "a right code needs no try")
	require.Equal(t, http.StatusSeeOther, d.signsIn(h, home, ceo, other, reset.Result().Cookies()...).Code)
	require.Equal(t, http.StatusTooManyRequests, d.signsIn(h, home, ceo, other, known...).Code, "known by the former password")
}

// TestAttack_GuessingStopsNoStepUp: a stranger behind the same address guesses the password while its owner confirms
// something.
func TestAttack_GuessingStopsNoStepUp(t *testing.T) {
	d := newDesk(t)
	d.stopRefill()
	_, owner := d.person(ceo, merchant.RoleOwner)
	for range 20 {
		d.browser().signIn(ceo, "wrong")
	}
	owner.post("/live/keys", "label", "a", "access", "full", "password", password).is(303)
}
