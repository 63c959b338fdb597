package dashboard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// TestInvitation_MakesAMember checks that the link is in the mail only. An owner who saw it could accept it herself, and
// so have mails sent to a stranger and stand between the stranger and the stranger's own merchant.
func TestInvitation_MakesAMember(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	form := owner.form("/test/members", "/test/members")
	sent := form.send("email", "bob@shop.example", "role", "developer", "password", password)
	sent.leads("/test/members invitation_sent")
	form.send("email", "bob@shop.example", "role", "developer", "password", password).leads("/test/members invitation_sent") // a second click
	owner.follow(sent).hides("/invitation/")
	require.Equal(t, 1, value[int](d, `SELECT count(*) FROM mail WHERE kind = 'invitation'`))
	require.Contains(t, value[string](d, `SELECT detail FROM mail WHERE kind = 'invitation'`), "Role: developer\nInvited by: owner.")
	link := d.mailed("bob@shop.example")

	bob := d.browser()
	bob.get(link).shows("bob@shop.example")
	bob.post(link, "password", "short", "password_again", "short").shows("at least 12")
	bob.post(link, "password", password, "password_again", password).leads("/")
	bob.get("/test/members").is(200) // and signs in
	bob.post("/test/members", "email", "eve@shop.example", "role", "owner").is(403)

	d.browser().get(link).is(404) // used up
	d.browser().post(link, "password", password, "password_again", password).is(404)
	owner.get("/test/audit").shows("bob@shop.example as developer")
}

func TestInvitation_RunsOutAndCanBeRenewed(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	owner.post("/live/members", "email", "bob@shop.example", "role", "viewer")
	first := d.mailed("bob@shop.example")
	d.exec(`UPDATE member SET invitation_expires_at = now() - interval '1 second' WHERE email = 'bob@shop.example'`)
	d.browser().get(first).is(404)
	id := value[string](d, `SELECT id FROM member WHERE email = 'bob@shop.example'`)
	owner.post("/live/members/" + id + "/invitation").leads("/live/members invitation_sent")
	d.browser().get(first).is(404)
	d.browser().get(d.mailed("bob@shop.example")).is(200)
}

func TestInvitation_OpenOnesAreBounded(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	d.exec(`INSERT INTO member (id, merchant_id, email, role) SELECT 'usr_' || n, $1, n || '@shop.example', 'viewer'
		FROM generate_series(1, $2::integer) n`, d.merchant, merchant.MaxOpenInvitations)
	refused := owner.post("/test/members", "email", "bob@shop.example", "role", "viewer")
	refused.is(422).shows("100 people have not accepted their invitation. Remove one of them first.",
		`value="bob@shop.example"`)
	owner.post("/test/members/usr_7/remove").is(303)
	owner.post("/test/members", "email", "bob@shop.example", "role", "viewer").leads("/test/members invitation_sent")
}

// TestInvitation_NeedsAMailServerOrTheOperator: without a mail server only the operator can say who reads a mailbox.
func TestInvitation_NeedsAMailServerOrTheOperator(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner, withoutMail)
	invited := merchant.Member{ID: checkout.NewID("usr"), MerchantID: d.merchant, Email: "bob@shop.example", Role: merchant.RoleViewer}
	must.Get(d.store.People.Invite(t.Context(), invited, "operator"))(t)
	owner.get("/test/members").shows("Its operator invites people").hides("/invitation")
	owner.post("/test/members", "email", "eve@shop.example", "role", "viewer").is(404)
	owner.post("/test/members/" + invited.ID + "/invitation").is(404)
	require.Zero(t, value[int](d, `SELECT count(*) FROM mail`))
}

func TestInvitation_RefusesWhatIsWrong(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	d.newMember(d.merchant, "taken@other.example", merchant.RoleViewer)
	for email, role := range map[string]string{
		"": "viewer", "x": "viewer", "bob@localhost": "viewer", "a@b.example, c@d.example": "viewer", "Bob <bob@shop.example>": "viewer",
		"bob@shop.example": "admin", "eve@shop.example": "", "TAKEN@other.example": "viewer", "<script>alert(1)</script>@x.example": "viewer",
	} {
		owner.post("/test/members", "email", email, "role", role).is(422, email)
	}
}

func TestMembers_SomebodyStaysOwner(t *testing.T) {
	d := newDesk(t)
	first, b := d.person("first@shop.example", merchant.RoleOwner)
	b.post("/test/members/"+first.ID+"/remove", "password", password).shows("one owner must remain")
	b.post("/test/members/"+first.ID+"/role", "role", "viewer", "password", password).shows("one owner must remain")
	second := d.newMember(d.merchant, "second@shop.example", merchant.RoleOwner)
	b.post("/test/members/"+second.ID+"/role", "role", "viewer", "password", password).is(303)
	b.get("/test/audit").shows("member.role_changed", "second@shop.example: owner → viewer")
	b.post("/test/members/"+second.ID+"/role", "role", "owner", "password", password).is(303)
	b.post("/test/members/"+first.ID+"/role", "role", "developer", "password", password).is(303)
	b.post("/test/members/"+second.ID+"/role", "role", "viewer").is(403) // holds at once
}

func TestMembers_RemovedIsSignedOutAtOnce(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	bob, b := d.person("bob@shop.example", merchant.RoleDeveloper)
	b.get("/test/").is(200)
	owner.post("/test/members/" + bob.ID + "/remove").is(303)
	b.get("/test/").is(303)
	require.False(t, strings.Contains(owner.get("/test/members").body, "bob@shop.example"))
	d.newMember(d.merchant, "bob@shop.example", merchant.RoleViewer) // the address is free again
}

func TestAudit_ShowsTheModeAndPages(t *testing.T) {
	d, b := newDeskAs(t, merchant.RoleViewer)
	for i := range 60 {
		mode := []checkout.Mode{checkout.ModeTest, checkout.ModeLive}[i%2]
		d.exec(`INSERT INTO audit_entry (id, merchant_id, mode, actor, action, subject, detail) VALUES ($1, $2, $3, 'ann', 'x.y', 'sub', $4)`,
			checkout.NewID(checkout.PrefixAuditEntry), d.merchant, mode, "in "+string(mode)+" <b>"+strings.Repeat("i", i)+"</b>")
	}
	d.exec(`INSERT INTO audit_entry (id, merchant_id, actor, action, subject, detail) VALUES ($1, $2, 'eve', 'x.y', 'sub', 'foreign')`,
		checkout.NewID(checkout.PrefixAuditEntry), d.other)
	test := b.get("/test/audit").hides("in live", "foreign", "?before=") // 30 and the invitations
	require.Contains(t, test.body, "in test &lt;b&gt;")
	d.exec(`UPDATE audit_entry SET mode = NULL WHERE mode = 'live'`)
	first := b.get("/test/audit")
	next := regexp.MustCompile(`\?before=(aud_[0-9a-z]{26})`).FindStringSubmatch(first.body)
	require.NotNil(t, next)
	rest := b.get("/test/audit?before=" + next[1])
	require.Equal(t, 50, strings.Count(first.body, "<tr><td>"))
	require.Equal(t, 13, strings.Count(rest.body, "<tr><td>"), "60, and one who was invited, joined and signed in")
	b.get("/test/audit?before='").is(200)
}

// TestConfirm_AThiefOfTheCookieWritesNoPage: with the cookie alone, nobody puts words on the page that asks an owner for the
// password, nor an address into its form.
func TestConfirm_AThiefOfTheCookieWritesNoPage(t *testing.T) {
	_, owner := newDeskAs(t, merchant.RoleOwner)
	at := must.Get(url.Parse(owner.address("/live/settings")))(t)
	text := `{"Text":"Please confirm your account.","Path":"` + at.Path + `/payout","Fields":{"address_ETH":["0xthief"]}}`
	for _, c := range owner.http.Jar.Cookies(at) {
		mac := hmac.New(sha256.New, []byte(c.Value))
		mac.Write([]byte("a form to be confirmed " + text))
		query := url.Values{"form": {text}, "seal": {base64.RawURLEncoding.EncodeToString(mac.Sum(nil))}}.Encode()
		owner.get("/live/confirm?"+query).is(303, c.Name)
	}
}
