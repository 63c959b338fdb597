package storage_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// TestNoDeadlock_OfAChangeAndAnEntryOfTheSameMerchant: each transaction locks the row that it
// changes, then inserts an entry into the audit log. The entry refers to the merchant. So the lock
// on the merchant must allow such references.
func TestNoDeadlock_OfAChangeAndAnEntryOfTheSameMerchant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.EventTypes...)
	member := checkout.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: f.merchant.ID, Email: "ann@shop.example", Role: checkout.RoleViewer}
	entry := func() checkout.AuditEntry {
		return checkout.AuditEntry{ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: f.merchant.ID, Actor: "ann", Action: "x.y", Subject: "s"}
	}
	require.NoError(t, f.InviteMember(t.Context(), member, []byte("hash"), time.Now().Add(time.Hour), entry()))
	for name, c := range map[string]struct {
		holds, wants string // SQL of one transaction; $1 is the merchant, $2 the member or registration
		id           string
		other        func(ctx context.Context) error
	}{
		"a role is changed while its owner signs in": {
			holds: `UPDATE member SET signed_in_at = now() WHERE id = $2 AND merchant_id = $1`,
			wants: `SELECT FROM merchant WHERE id = $1 AND $2 <> '' FOR KEY SHARE`, id: member.ID,
			other: func(ctx context.Context) error {
				return f.SetRole(ctx, f.merchant.ID, member.ID, checkout.RoleDeveloper, entry())
			},
		},
		"a secret is rotated while settings change": {
			holds: `SELECT FROM merchant WHERE id = $1 AND $2 <> '' FOR UPDATE`,
			wants: `SELECT FROM webhook_endpoint WHERE merchant_id = $1 AND id = $2 FOR KEY SHARE`, id: e.ID,
			other: func(ctx context.Context) error {
				_, err := f.RotateSecret(ctx, e.Ref, webhook.NewSecret(), time.Hour, entry())
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), f.url)
			require.NoError(t, err)
			defer func() { _ = conn.Close(context.Background()) }()
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), c.holds, f.merchant.ID, c.id)
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() { done <- c.other(context.WithoutCancel(t.Context())) }()
			f.waitForLock(t)
			_, err = tx.Exec(t.Context(), c.wants, f.merchant.ID, c.id)
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			require.NoError(t, <-done)
		})
	}
}

// waitForLock returns when a transaction waits for a lock.
func (f fixture) waitForLock(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	require.Eventually(t, func() bool {
		var waits bool
		err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
		return err == nil && waits
	}, 20*time.Second, 5*time.Millisecond)
}

// TestMemberByEmail_TheFirstMerchantThatKnewTheAddressIsMeant: a person has an account and then
// accepts an older invitation of another merchant. The sign-in still finds the own account.
func TestMemberByEmail_TheFirstMerchantThatKnewTheAddressIsMeant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	squatter := checkout.NewID(checkout.PrefixMerchant)
	require.NoError(t, f.CreateMerchant(t.Context(), checkout.Merchant{ID: squatter, Name: "S", Plan: "standard", PaymentAttempts: 3}, checkout.ModeTest, nil))
	invite := func(merchant, email, hash string) {
		m := checkout.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: merchant, Email: email, Role: checkout.RoleOwner}
		require.NoError(t, f.InviteMember(t.Context(), m, []byte(hash), time.Now().Add(time.Hour),
			checkout.AuditEntry{ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: merchant, Actor: "x", Action: "member.invited", Subject: m.ID}))
	}
	invite(squatter, "CEO@victim.example", "first")
	invite(f.merchant.ID, "ceo@victim.example", "second")
	for _, hash := range []string{"second", "first"} {
		_, err := f.AcceptInvitation(t.Context(), []byte(hash), "password of "+hash, "192.0.2.1")
		require.NoError(t, err)
	}
	for merchant, want := range map[string]string{"": "password of second", f.merchant.ID: "password of second", squatter: "password of first"} {
		_, hash, err := f.MemberByEmail(t.Context(), "ceo@VICTIM.example", merchant)
		require.NoError(t, err)
		require.Equal(t, want, hash)
	}
	_, _, err := f.MemberByEmail(t.Context(), "ceo@victim.example", checkout.NewID(checkout.PrefixMerchant))
	require.ErrorIs(t, err, checkout.ErrNotFound)
}
