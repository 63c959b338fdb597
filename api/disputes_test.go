package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/books"
)

func TestDisputes_FollowTheCardNetwork(t *testing.T) {
	f := newFront(t)
	session, payout := f.paidSession()
	f.paidSession()
	f.disputes(session, books.RiskInquiry)
	list := f.answers(200, "GET", "/v1/disputes?session="+session, f.key, "")
	require.Len(t, list.ids(), 1)
	path := "/v1/disputes/" + list.ids()[0]
	require.Equal(t, "warning", f.do("GET", path, f.key, "").json["status"])
	require.NotContains(t, f.do("GET", "/v1/payouts/"+payout.ID, f.key, "").json, "deductions", "no money has moved")

	f.disputes(session, books.RiskOpen)
	got := f.answers(200, "GET", path, f.key, "").json
	for field, want := range map[string]any{
		"session_id": session, "transaction_id": f.transactionOf(session), "status": "needs_response", "reason": "fraudulent",
		"amount": 10.5, "currency": "USD", "fee": 15.0, "respond_by": "2100-01-02T03:04:05.000Z", "livemode": false, "closed_at": nil,
	} {
		require.Equal(t, want, got[field], field)
	}
	require.Equal(t, []string{got["id"].(string)}, f.do("GET", "/v1/disputes?status=needs_response", f.key, "").ids())
	require.Empty(t, f.do("GET", "/v1/disputes?status=lost", f.key, "").ids())
	require.Equal(t, []any{map[string]any{"type": "dispute", "source": got["id"], "amount": 10.39}},
		f.do("GET", "/v1/payouts/"+payout.ID, f.key, "").json["deductions"])

	f.disputes(session, books.RiskLost)
	lost := f.answers(200, "GET", path, f.key, "").json
	require.Equal(t, "lost", lost["status"])
	require.NotNil(t, lost["closed_at"])
	require.Nil(t, lost["respond_by"], "the bank wants nothing more")
	ended := f.do("GET", "/v1/payouts/"+payout.ID, f.key, "").json
	require.Equal(t, "disputed", ended["failure"].(map[string]any)["code"])
	require.Equal(t, 1, f.count("event WHERE type = 'dispute.opened'"))
	require.Equal(t, 1, f.count("event WHERE type = 'dispute.closed'"))
}
