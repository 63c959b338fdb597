package dashboard

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/storage/account"
	"example.com/checkout/workflows/checkout"
)

// TestDashboard_AStrangerGetsAnInvitationAndNothingElse invites a stranger's address, and pays test sessions in its name
// with a description that would speak for us.
func TestDashboard_AStrangerGetsAnInvitationAndNothingElse(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	store, owner := e2e.OpenStore(t, m.Stack), newMember(m, checkout.RoleOwner)
	stranger, on := m.ID+"@stranger.example", true
	require.NoError(t, store.SetBrand(t.Context(), m.ID, account.BrandChange{Receipts: &on}))
	pay := func(email string) {
		t.Helper()
		id := m.Create(`{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "description": "Your account is locked: https://evil.example/unlock"}`)
		e2e.PostForm(t, m.Stack.PageURL()+"/"+id, url.Values{
			"card_number": {e2e.CardSucceeds}, "exp": {"12/40"}, "cvc": {"123"}, "email": {email},
		})
		m.AwaitStatus(id, checkout.StatusCompleted, 10*time.Second)
	}
	invited := checkout.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: m.ID, Email: stranger, Role: checkout.RoleViewer}
	require.NoError(t, store.InviteMember(t.Context(), invited, checkout.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: m.ID, Actor: owner, Action: "member.invited", Subject: invited.ID,
	}))
	e2e.Await(t, "the invitation", 20*time.Second, func() bool { return len(m.Stack.Mailbox.Mails(stranger)) == 1 })

	for range 3 {
		pay(stranger)
	}
	pay(owner)

	e2e.Await(t, "the owner's receipt", 20*time.Second, func() bool { return len(m.Stack.Mailbox.Mails(owner)) == 1 })
	require.Contains(t, m.Stack.Mailbox.Mails(owner)[0].Text, "https: //evil. example/unlock")
	require.Len(t, m.Stack.Mailbox.Mails(stranger), 1)
}
