package storage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// TestNoDeadlock_OfAChangeAndAnEntryOfTheSameMerchant: each transaction locks the row that it changes, then inserts an
// entry into the audit log. The entry refers to the merchant. So the lock on the merchant must allow such references.
func TestNoDeadlock_OfAChangeAndAnEntryOfTheSameMerchant(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.EventTypes...)
	member := merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: f.merchant.ID, Email: "ann@shop.example", Role: merchant.RoleViewer}
	require.NoError(t, f.People.InviteMember(t.Context(), member, f.note()))
	for name, c := range map[string]struct {
		holds, wants string // SQL of one transaction
		other        func() error
	}{
		"a role is changed while its owner signs in": {
			`UPDATE member SET signed_in_at = now() WHERE id = '` + member.ID + `'`,
			`SELECT FROM merchant WHERE id = '` + f.merchant.ID + `' FOR KEY SHARE`,
			func() error {
				return f.People.SetRole(context.Background(), f.merchant.ID, member.ID, merchant.RoleDeveloper, f.note())
			},
		},
		"a secret is rotated while settings change": {
			`SELECT FROM merchant WHERE id = '` + f.merchant.ID + `' FOR UPDATE`,
			`SELECT FROM webhook_endpoint WHERE id = '` + e.ID + `' FOR KEY SHARE`,
			func() error {
				_, err := f.Webhooks.RotateSecret(context.Background(), e.Ref, webhook.NewSecret(), time.Hour, f.note())
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			afterLock(t, f, c.holds, c.wants, func() (any, error) { return nil, c.other() })
		})
	}
}

// afterLock returns the result of call, which waits for a lock of another transaction: that runs hold before the call,
// and then once the call waits. Then it commits.
func afterLock[T any](t *testing.T, f fixture, hold, then string, call func() (T, error)) T {
	conn := f.Connect(t)
	must.Get(conn.Exec(t.Context(), `BEGIN; `+hold))(t)
	done := make(chan func(testing.TB) T, 1)
	go func() { done <- must.Get(call()) }()
	waiter := f.Connect(t)
	require.Eventually(t, func() bool {
		var waits bool
		err := waiter.QueryRow(t.Context(), `SELECT EXISTS (
			SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
		return err == nil && waits
	}, 20*time.Second, 5*time.Millisecond)
	must.Get(conn.Exec(t.Context(), then+`; COMMIT`))(t)
	return (<-done)(t)
}

// TestSignIn_AFirstSecondFactorEndsThoseWithoutIt: also a sign-in that began before it, and whose password is being
// compared meanwhile.
func TestSignIn_AFirstSecondFactorEndsThoseWithoutIt(t *testing.T) {
	f := newFixture(t)
	adds := map[string]func(merchant.Member, []byte, merchant.AuditEntry) error{
		"passkey": func(m merchant.Member, keep []byte, by merchant.AuditEntry) error {
			_, err := f.People.AddPasskey(context.WithoutCancel(t.Context()), people.NewPasskey{
				Passkey: merchant.Passkey{ID: checkout.NewID(checkout.PrefixPasskey), Name: "key", Credential: []byte("{}")}, MerchantID: m.MerchantID,
				MemberID: m.ID, CredentialID: []byte(m.ID), Keep: keep,
			}, by)
			return err
		},
		"app": func(m merchant.Member, keep []byte, by merchant.AuditEntry) error {
			if err := f.Store.Secrets.StartSecondFactor(context.WithoutCancel(t.Context()), m.MerchantID, m.ID, []byte("secret")); err != nil {
				return err
			}
			right := func([]byte, int64) (int64, bool) { return 1, true }
			return f.Store.Secrets.ConfirmSecondFactor(context.WithoutCancel(t.Context()), m.MerchantID, m.ID, right, nil, keep, by)
		},
	}
	for name, add := range adds {
		t.Run(name, func(t *testing.T) {
			m := merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: f.merchant.ID, Email: name + "@shop.example", Role: merchant.RoleOwner}
			require.NoError(t, f.People.InviteMember(t.Context(), m, f.note()))
			f.Exec(t, `UPDATE member SET password_hash = 'hash', joined_at = now() WHERE id = $1`, m.ID)
			_, keep := merchant.NewToken()
			require.NoError(t, f.People.SignIn(t.Context(), m, "hash", keep))

			// Another sign-in is about to commit when the factor comes.
			_, other := merchant.NewToken()
			signsIn := fmt.Sprintf(`UPDATE member SET signed_in_at = now() WHERE id = '%[1]s';
				INSERT INTO member_session (hash, member_id) VALUES ('\x%[2]x', '%[1]s')`, m.ID, other)
			afterLock(t, f, signsIn, "", func() (any, error) { return nil, add(m, keep, f.note()) })
			require.Equal(t, keep, storagetest.Value[[]byte](t, f.Database, `SELECT hash FROM member_session WHERE member_id = $1`, m.ID))

			// One that read the member before, and one that has shown the factor.
			require.ErrorIs(t, f.People.SignIn(t.Context(), m, "hash", other), checkout.ErrNotFound)
			require.NoError(t, f.People.SignIn(t.Context(), must.Get(f.People.Member(t.Context(), m.MerchantID, m.ID))(t), "hash", other))
		})
	}
}

// TestMembersByEmail_WhoJoinedComesInThatOrder: a merchant that only invited a stranger is not among the accounts.
func TestMembersByEmail_WhoJoinedComesInThatOrder(t *testing.T) {
	f := newFixture(t)
	joins := func(shop, email string, accepts bool) {
		m := merchant.Member{ID: "usr_" + shop, MerchantID: shop, Email: email, Role: merchant.RoleOwner}
		token := must.Get(f.People.Invite(t.Context(), m, "operator"))(t)
		if accepts {
			must.Get(f.People.AcceptInvitation(t.Context(), merchant.HashToken(token), "password at "+shop, "192.0.2.1"))(t)
		}
	}
	for _, id := range []string{"mer_squatter", "mer_second"} {
		require.NoError(t, f.Merchants.CreateMerchant(t.Context(), merchant.Merchant{ID: id, Name: "S", Plan: "standard", PaymentAttempts: 3}, checkout.ModeTest, nil))
	}
	joins("mer_squatter", "ceo@victim.example", false)
	joins(f.merchant.ID, "CEO@victim.example", true)
	joins("mer_second", "ceo@victim.example", true)

	members, err := f.People.MembersByEmail(t.Context(), "ceo@VICTIM.example")

	require.NoError(t, err)
	require.Len(t, members, 2)
	require.Equal(t, []string{"password at " + f.merchant.ID, "password at mer_second"}, []string{members[0].Hash, members[1].Hash})
}

// TestInvite_TheOperatorReplacesAnOpenInvitation: without a mail server the operator alone can make another link.
func TestInvite_TheOperatorReplacesAnOpenInvitation(t *testing.T) {
	f := newFixture(t)
	invite := func() ([]byte, error) {
		token, err := f.People.Invite(t.Context(), merchant.Member{ID: checkout.NewID("usr"), MerchantID: f.merchant.ID, Email: "ann@shop.example", Role: merchant.RoleOwner}, "operator")
		return merchant.HashToken(token), err
	}
	first := must.Get(invite())(t)
	second := must.Get(invite())(t)
	_, err := f.People.AcceptInvitation(t.Context(), first, "hash", "")
	require.ErrorIs(t, err, checkout.ErrNotFound)
	must.Get(f.People.AcceptInvitation(t.Context(), second, "hash", ""))(t)
	require.ErrorIs(t, must.Err(invite()), merchant.ErrEmailInUse, "a person who has joined is no invitation")
}

func (f fixture) person(email string) merchant.Member {
	return merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: f.merchant.ID, Email: email, Role: merchant.RoleOwner}
}

func TestInviteMember_WhoIsBoundedAndWhoCounts(t *testing.T) {
	f := newFixture(t)
	f.invitesMany(t, merchant.MaxOpenInvitations)
	f.Exec(t, `UPDATE member SET invitation_hash = sha256(id::bytea), invitation_expires_at = now() - interval '1 second'`)
	require.ErrorIs(t, f.People.InviteMember(t.Context(), f.person("one@shop.example"), f.note()), merchant.ErrTooManyInvitations)
	require.NoError(t, f.People.InviteMember(t.Context(), f.person("n7@shop.example"), f.note()), "it takes the place of an expired one")
	must.Get(f.People.Invite(t.Context(), f.person("two@shop.example"), "operator"))(t)
	f.Exec(t, `UPDATE member SET password_hash = 'hash', joined_at = now(), invitation_hash = NULL, invitation_expires_at = NULL
		WHERE email LIKE 'n1%'`)
	require.NoError(t, f.People.InviteMember(t.Context(), f.person("one@shop.example"), f.note()), "who has joined is not invited")
}

func (f fixture) invitesMany(t *testing.T, n int) {
	f.Exec(t, `INSERT INTO member (id, merchant_id, email, role) SELECT 'usr_' || n, $1, 'n' || n || '@shop.example', 'viewer'
		FROM generate_series(1, $2::int) n`, f.merchant.ID, n)
}

func TestRenewInvitation_AddsNoSecondWaitingMail(t *testing.T) {
	f := newFixture(t)
	m := f.person("bob@shop.example")
	require.NoError(t, f.People.InviteMember(t.Context(), m, f.note()))
	_, hash := merchant.NewToken()
	require.NoError(t, f.People.KeepInvitation(t.Context(), m.ID, hash))
	renew := func(mails, entries int) {
		require.NoError(t, f.People.RenewInvitation(t.Context(), m, f.note()))
		require.EqualValues(t, mails, f.query(t, `SELECT count(*) FROM mail WHERE kind = 'invitation'`))
		require.EqualValues(t, entries, f.query(t, `SELECT count(*) FROM audit_entry`))
	}
	renew(1, 1)
	renew(1, 1)
	_, _, err := f.People.Invitation(t.Context(), hash)
	require.NoError(t, err, "the mail with this link may be on its way")
	f.Exec(t, `UPDATE mail SET next_at = NULL, sent_at = now()`)
	renew(2, 2)
	renew(2, 2)
	_, _, err = f.People.Invitation(t.Context(), hash)
	require.ErrorIs(t, err, checkout.ErrNotFound, "the former link ends")

	require.NoError(t, f.People.KeepInvitation(t.Context(), m.ID, hash))
	must.Get(f.People.AcceptInvitation(t.Context(), hash, "hash", ""))(t)
	require.ErrorIs(t, f.People.RenewInvitation(t.Context(), m, f.note()), checkout.ErrNotFound, "who has joined")
	require.ErrorIs(t, f.People.RenewInvitation(t.Context(), f.person("x@shop.example"), f.note()), checkout.ErrNotFound)
}
