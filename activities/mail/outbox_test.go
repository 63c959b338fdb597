package mail

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/mailbox"
	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// office is an outbox with its own PostgreSQL and mail server, and one person.
type office struct {
	*testing.T
	Outbox
	storagetest.Database
	Store  *storage.Store
	box    *mailbox.Mailbox
	member merchant.Member
}

// newOffice returns the world of a test. The test runs beside others.
func newOffice(t *testing.T) *office {
	t.Parallel()
	o := &office{T: t, Database: storagetest.New(t)}
	store := o.Open(t, 4)
	o.Store = store
	o.box = must.Get(mailbox.Start("127.0.0.1:0"))(t)
	t.Cleanup(o.box.Close)
	server := must.Get(NewSMTP("smtp://"+o.box.Address, "checkout@service.example"))(t)
	o.Outbox = Outbox{People: store.People, Requests: store.Requests, Sessions: store.Sessions.SessionReader, Send: server.Send, DashboardURL: "https://dashboard.example"}
	m := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Café\r\nBcc: eve@evil.example", Plan: "standard",
		PaymentAttempts: merchant.DefaultPaymentAttempts}
	require.NoError(t, store.Merchants.CreateMerchant(t.Context(), m, checkout.ModeTest, nil))
	o.member = merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: m.ID, Email: "ann@shop.example", Role: merchant.RoleOwner}
	token := must.Get(store.People.Invite(t.Context(), o.member, "test"))(t)
	require.NoError(t, must.Err(store.People.AcceptInvitation(t.Context(), merchant.HashToken(token), "hash", "")))
	return o
}

// exec changes rows, such as the time of the next attempt.
func (o *office) exec(sql string, args ...any) {
	o.Exec(o, sql, args...)
}

// deliver sends what is due.
func (o *office) deliver() { require.NoError(o, o.giveUpAndSend(o.Context())) }

// ask requests a new password for a person.
func (o *office) ask(email string) {
	require.NoError(o, o.Store.People.AskForReset(o.Context(), email))
}

// code stores a code for a new password of the member.
func (o *office) code() []byte {
	_, hash := merchant.NewToken()
	require.NoError(o, o.Store.People.KeepReset(o.Context(), o.member.ID, hash))
	return hash
}

// uses chooses a new password with a code.
func (o *office) uses(code []byte) error {
	return o.Store.People.ResetPassword(o.Context(), code, "new", "192.0.2.1")
}

// count is the number of mails that a condition holds for.
func (o *office) count(where string) int {
	return storagetest.Value[int](o, o.Database, `SELECT count(*) FROM mail WHERE `+where)
}

const (
	open = `next_at IS NOT NULL`
	sent = `sent_at IS NOT NULL`
	now  = `UPDATE mail SET next_at = now() WHERE next_at IS NOT NULL`
)

func TestOutbox_SendsTheCodeOfANewPassword(t *testing.T) {
	o := newOffice(t)
	o.ask("ANN@shop.example")
	o.ask("ann@shop.example") // another one so soon is not sent
	o.ask("nobody@shop.example")
	require.Equal(t, 3, o.count(`true`), "each request costs the same")
	o.deliver()
	o.deliver()
	mails := o.box.Mails("")
	require.Len(t, mails, 1)
	require.Equal(t, "Choose a new password", mails[0].Subject)
	require.Equal(t, "ann@shop.example", mails[0].To)
	link := regexp.MustCompile(`https://dashboard\.example/password/reset#(\S+)`).FindStringSubmatch(mails[0].Text)
	require.Contains(t, mails[0].Text, "enter this code:\r\n"+link[1])
	require.NoError(t, o.uses(merchant.HashToken(link[1])))
	require.ErrorIs(t, o.uses(merchant.HashToken(link[1])), checkout.ErrNotFound)
	o.deliver()
	last := o.box.Mails("")[1]
	require.Equal(t, "Your account was changed", last.Subject)
	require.Contains(t, last.Text, "From the IP address: 192.0.2.1")
}

// A stranger may ask for a new password for any address. Earlier codes stay valid until one of them is used.
func TestOutbox_ACodeRunsOutAndEndsWithTheOthersOfItsPerson(t *testing.T) {
	o := newOffice(t)
	old := o.code()
	o.exec(`UPDATE password_reset SET expires_at = expires_at - interval '30 minutes'`)
	require.ErrorIs(t, o.uses(old), checkout.ErrNotFound)
	first, second, third := o.code(), o.code(), o.code()
	require.NoError(t, o.uses(second))
	for _, code := range [][]byte{first, second, third} {
		require.ErrorIs(t, o.uses(code), checkout.ErrNotFound)
	}
	last := o.code()
	o.exec(`UPDATE member SET removed_at = now()`)
	require.ErrorIs(t, o.uses(last), checkout.ErrNotFound)
	require.ErrorIs(t, o.Store.People.KeepReset(t.Context(), o.member.ID, last), checkout.ErrNotFound)
}

func TestOutbox_TriesAgainWhenTheServerIsAwayOrRefusesForNow(t *testing.T) {
	o := newOffice(t)
	o.ask(o.member.Email)
	o.box.Refuse(451)
	o.deliver()
	o.deliver()
	require.Equal(t, 1, o.count(open+` AND attempts = 1`), "it waits")
	o.exec(now)
	send := o.Send
	o.Send = func(context.Context, Message) error { return errors.New("away") }
	o.deliver()
	require.Equal(t, 1, o.count(open+` AND attempts = 2 AND next_at > now() + interval '30 seconds'`))
	o.Send = send
	o.box.Refuse(0)
	o.exec(now)
	o.deliver()
	require.Len(t, o.box.Mails(""), 1)
	require.Equal(t, 1, o.count(sent))
	require.Zero(t, o.count(open))
}

func TestOutbox_GivesUpWhatIsRefusedForGoodOrOldOrForNobody(t *testing.T) {
	o := newOffice(t)
	ask := func() {
		o.exec(`DELETE FROM mail`)
		o.ask(o.member.Email)
	}
	ask()
	o.box.Refuse(550)
	o.deliver()
	require.Equal(t, 1, o.count(`next_at IS NULL AND sent_at IS NULL AND attempts = 1`))
	o.box.Refuse(0)
	ask()
	o.exec(`UPDATE mail SET created_at = now() - interval '25 hours'`)
	o.deliver()
	require.Zero(t, o.count(open))
	ask()
	o.exec(`UPDATE member SET removed_at = now()`)
	o.deliver()
	require.Zero(t, o.count(open))
	require.Empty(t, o.box.Mails(""))
	o.exec(`UPDATE mail SET created_at = now() - interval '8 days'`)
	require.Equal(t, 1, must.Get(o.Store.Installation.DeleteOld(t.Context(), storage.OldMails, 7*24*time.Hour, 10))(t))
}

// paid is a completed session. No workflow and no card: its rows are written as they would be.
func (o *office) paid(email string) string {
	s := storagetest.Session(o, o.Store, checkout.Owner{MerchantID: o.member.MerchantID, Mode: checkout.ModeTest})
	txn := storagetest.Begin(o, o.Store, s.Ref, storage.NewPayment{CustomerEmail: &email, Language: "sv"}, "")
	storagetest.Finish(o, o.Store, s.Ref, txn, storagetest.Succeeded)
	return s.ID
}

func TestOutbox_SendsReceipts(t *testing.T) {
	o := newOffice(t)
	on := true
	require.NoError(t, o.Store.People.SetBrand(t.Context(), o.member.MerchantID, people.BrandChange{Receipts: &on}))
	o.Receipt = func(s checkout.Session, b people.Brand, language string) (subject, text string) {
		return "Receipt in " + language, s.ID + " " + b.MerchantID + " " + s.Transaction().ID
	}
	id := o.paid("Ann@shop.example")
	o.deliver()
	o.deliver()
	mails := o.box.Mails("")
	require.Len(t, mails, 1)
	require.Equal(t, []string{"Ann@shop.example", "Receipt in sv"}, []string{mails[0].To, mails[0].Subject})
	require.Contains(t, mails[0].Text, id+" "+o.member.MerchantID)

	erased, deleted := o.paid("ann@shop.example"), o.paid("ann@shop.example")
	o.exec(`UPDATE transaction SET customer_email = NULL WHERE session_id = $1`, erased)
	o.exec(`UPDATE mail SET session_id = 'cs_gone' WHERE session_id = $1`, deleted)
	o.deliver()
	require.Len(t, o.box.Mails(""), 1, "nobody has the address any more")
	require.Zero(t, o.count(open))
}

// TestOutbox_ACrashLosesNoMail checks that a mail that a process took before it died is sent by another.
func TestOutbox_ACrashLosesNoMail(t *testing.T) {
	o := newOffice(t)
	o.ask(o.member.Email)
	require.Len(t, must.Get(o.Store.People.DueMails(t.Context(), 10))(t), 1)
	o.deliver()
	require.Empty(t, o.box.Mails(""), "another process has it")
	o.exec(`UPDATE mail SET next_at = next_at - $1::interval`, 2*time.Minute)
	o.deliver()
	require.Len(t, o.box.Mails(""), 1)
}

func TestOutbox_SeveralProcessesSendEachMailOnce(t *testing.T) {
	o := newOffice(t)
	o.exec(`INSERT INTO mail (member_id, kind, next_at) SELECT $1, 'live_key', now() FROM generate_series(1, 20)`, o.member.ID)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for range 3 {
				if err := o.giveUpAndSend(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Len(t, o.box.Mails(""), 20)
}

func TestText_EveryKindHasOneAndNothingGetsIntoTheHeader(t *testing.T) {
	o := newOffice(t)
	for kind, page := range map[merchant.MailKind]string{
		merchant.MailPasswordReset: "/password/reset", merchant.MailAccountChanged: "/live/account",
		merchant.MailOwnersChanged: "/live/members", merchant.MailLiveKey: "/live/keys", merchant.MailAddressAsked: "/live/settings",
		merchant.MailAddressStopped: "/live/settings", merchant.MailAddressChanged: "/live/settings",
		merchant.MailDisputeOpened:   "/",
		merchant.MailEndpointFailing: "/", merchant.MailEndpointHeld: "/", // as queued before mails had a page
	} {
		o.exec(`INSERT INTO mail (member_id, kind, detail, next_at) VALUES ($1, $2, 'USDC: 0xa → 0xb', now())`, o.member.ID, kind)
		o.deliver()
		mails := o.box.Mails("")
		last := mails[len(mails)-1]
		require.NotEmpty(t, last.Subject, kind)
		require.Equal(t, o.member.Email, last.To)
		if kind != merchant.MailPasswordReset {
			page = "/m/" + o.member.MerchantID + page + "\r\n"
		}
		require.Contains(t, last.Text, o.DashboardURL+page, kind)
		require.Contains(t, last.Text, "Café Bcc: eve@evil. example (", kind)
		require.NotZero(t, allowances[kind].merchant.Burst, kind)
		require.Equal(t, kind != merchant.MailPasswordReset, strings.Contains(last.Text, "USDC: 0xa → 0xb"), kind)
	}
	require.Empty(t, o.box.Mails("eve@evil.example"))
}

func TestSMTP_RefusesWrongAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "http://a", "smtp://", "smtp://host/path", "smtp://host:0", "smtps://user:secret@host:99999", "smtp://a b:secret@c"} {
		_, err := NewSMTP(address, "a@b.example")
		require.Error(t, err, address)
		require.NotContains(t, err.Error(), "secret")
	}
	for _, address := range []string{"smtps://user:secret@mail.example", "smtp://user:s%40@mail.example:2525", "smtp://127.0.0.1:25"} {
		require.NoError(t, must.Err(NewSMTP(address, "a@b.example")), address)
	}
	require.Error(t, must.Err(NewSMTP("smtp://host", "nobody")))
}

// TestSMTP_InsistsOnTLS checks that no mail goes to another computer in the clear.
func TestSMTP_InsistsOnTLS(t *testing.T) {
	o := newOffice(t)
	_, port, _ := strings.Cut(o.box.Address, ":")
	s := must.Get(NewSMTP("smtp://mail.example:"+port, "a@b.example"))(t)
	s.host = "127.0.0.1" // as if the name led here
	require.Error(t, s.Send(t.Context(), Message{To: "ann@shop.example"}))
	require.Empty(t, o.box.Mails(""))
}

func TestOutbox_AnEndInTheMiddleSendsNothingTwice(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(o *office, stop func()){
		"of the connection, after the server took the mail": func(o *office, _ func()) { o.box.HangUp() },
		"of the process, while the server takes the mail": func(o *office, stop func()) {
			send := o.Send
			o.Send = func(ctx context.Context, m Message) error {
				stop()
				return send(ctx, m)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.ask(o.member.Email)
			ctx, stop := context.WithCancel(t.Context())
			end(o, stop)
			require.NoError(t, o.giveUpAndSend(ctx))
			require.Equal(t, 1, o.count(sent))
			require.Len(t, o.box.Mails(""), 1)
		})
	}
}

// TestSMTP_SendsNoPasswordInTheClear talks to a server on this computer that has no TLS and wants a password.
func TestSMTP_SendsNoPasswordInTheClear(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	heard := make(chan string, 1)
	go func() {
		said := ""
		defer func() { heard <- said }()
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(3 * time.Second)) // the client may leave the connection open
		_, _ = fmt.Fprint(conn, "220 here\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			said += lines.Text() + "\n"
			answer := "535 no\r\n"
			if strings.HasPrefix(lines.Text(), "EHLO") {
				answer = "250-here\r\n250 AUTH PLAIN LOGIN\r\n"
			}
			_, _ = fmt.Fprint(conn, answer)
		}
	}()
	s := must.Get(NewSMTP("smtp://user:our-password@"+listener.Addr().String(), "a@b.example"))(t)
	err := s.Send(t.Context(), Message{To: "ann@shop.example"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "our-password")
	said := <-heard
	require.Contains(t, said, "EHLO")
	require.NotContains(t, said, "AUTH")
	require.NotContains(t, said, base64.StdEncoding.EncodeToString([]byte("our-password")))
}

// invite invites a stranger. The inviter has a name that no mail of ours must repeat as a link.
func (o *office) invite(merchantID, email string) merchant.Member {
	m := merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: merchantID, Email: email, Role: merchant.RoleViewer}
	require.NoError(o, o.Store.People.InviteMember(o.Context(), m, merchant.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: merchantID, Actor: "https://evil.example/pay \u202e", Address: "192.0.2.1",
	}))
	return m
}

func TestOutbox_TheLinkOfAnInvitationIsInItsMailOnly(t *testing.T) {
	o := newOffice(t)
	bob := o.invite(o.member.MerchantID, "bob@shop.example")

	o.deliver()

	mails := o.box.Mails("bob@shop.example")
	require.Len(t, mails, 1)
	require.Equal(t, "You are invited to a merchant's dashboard", mails[0].Subject, "a merchant's words are not in the subject")
	links := regexp.MustCompile(`\S+://\S+`).FindAllString(mails[0].Text, -1)
	require.Len(t, links, 1, "and no link of theirs in the text")
	require.Contains(t, mails[0].Text, "Invited by: https: //evil. example/pay\r\n")
	require.NotContains(t, mails[0].Text, "192.0.2.1")
	token, ours := strings.CutPrefix(links[0], "https://dashboard.example/invitation/")
	require.True(t, ours)
	joined := must.Get(o.Store.People.AcceptInvitation(t.Context(), merchant.HashToken(token), "hash", ""))(t)
	require.Equal(t, bob.ID, joined.ID)

	require.ErrorIs(t, o.Store.People.KeepInvitation(t.Context(), bob.ID, []byte("x")), checkout.ErrNotFound, "who has joined gets no other link")
}

// TestAttack_FloodsAreHeldBack sends as many mails as a stranger can cause. What is too many waits or is dropped.
func TestAttack_FloodsAreHeldBack(t *testing.T) {
	o := newOffice(t)
	victim := "victim@home.example"
	for i := range 9 {
		m := o.invite(o.member.MerchantID, []string{victim, "Victim+1@home.example"}[i/8])
		o.deliver()
		o.exec(`UPDATE member SET removed_at = now() WHERE id = $1`, m.ID)
	}
	require.Len(t, o.box.Mails(victim), 3, "invitations of one merchant")
	require.Equal(t, 6, o.count(open+` AND attempts = 0 AND next_at > now() + interval '1 hour'`), "the others wait")
	other := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Other", Plan: "standard", PaymentAttempts: 3}
	require.NoError(t, o.Store.Merchants.CreateMerchant(t.Context(), other, checkout.ModeTest, nil))
	o.invite(other.ID, victim)
	o.deliver()
	require.Len(t, o.box.Mails(victim), 4, "they keep no other merchant from inviting")
	again := func() {
		o.exec(`UPDATE member SET removed_at = now() WHERE merchant_id = $1`, other.ID)
		o.invite(other.ID, victim)
		o.deliver()
	}
	o.exec(`UPDATE token_bucket SET tokens = 0, at = now() WHERE kind = 'mail_person_invitation'`)
	again()
	require.Len(t, o.box.Mails(victim), 4, "a person gets ten a day of all merchants")
	o.exec(`DELETE FROM token_bucket WHERE kind = 'mail_person_invitation'`)
	again()
	again()
	require.Len(t, o.box.Mails(victim), 6, "an invitation that was held back does not count for its merchant")

	o.exec(`DELETE FROM mail`)
	o.exec(`INSERT INTO mail (member_id, kind, next_at) SELECT $1, 'password_reset', now() FROM generate_series(1, 10)`, o.member.ID)
	o.deliver()
	require.Len(t, o.box.Mails(o.member.Email), 3, "codes for a new password")
	require.Equal(t, 7, o.count(open+` AND next_at < now() + interval '31 minutes'`),
		"the next one comes when the first runs out, so its person has a code at any time")

	o.exec(`DELETE FROM mail`)
	on := true
	require.NoError(t, o.Store.People.SetBrand(t.Context(), o.member.MerchantID, people.BrandChange{Receipts: &on}))
	o.Receipt = func(checkout.Session, people.Brand, string) (subject, text string) { return "Receipt", "x" }
	for range 12 {
		o.paid(o.member.Email)
	}
	o.deliver()
	require.Len(t, o.box.Mails(o.member.Email), 3+10, "receipts of test mode")
	require.Zero(t, o.count(open), "the others are dropped")
}

// However often a stranger requests a new password for a person, at most one mail waits.
func TestReset_AStrangerWhoKeepsAskingBlocksNoOne(t *testing.T) {
	o := newOffice(t)
	for range 10 {
		o.ask(o.member.Email)
		o.exec(`UPDATE mail SET created_at = created_at - interval '2 minutes'`)
		o.deliver()
	}
	require.Len(t, o.box.Mails(o.member.Email), 3)
	require.Equal(t, 1, o.count(open))
}
