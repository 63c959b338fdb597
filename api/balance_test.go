package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
)

func TestBalance_IsTheSumOfItsTransactions(t *testing.T) {
	f := newFront(t)
	require.Equal(t, `{"livemode":false,"balances":[]}`+"\n", f.do("GET", "/v1/balance", f.key, "").body)
	session, payout := f.paidSession()
	balance := func() string { return f.answers(200, "GET", "/v1/balance", f.key, "").body }
	require.Equal(t, `{"livemode":false,"balances":[{"currency":"USD","pending":10.39,"available":0.00,"reserved":0.00,"owed":0.00}]}`+"\n",
		balance())
	f.finishPayout(payout, 1, "")
	require.Equal(t, `{"livemode":false,"balances":[{"currency":"USD","pending":0.00,"available":0.00,"reserved":0.00,"owed":0.00}]}`+"\n",
		balance())
	refund := f.refund(session, `{"amount":4.5}`).json["id"].(string)
	require.Equal(t, `{"livemode":false,"balances":[{"currency":"USD","pending":0.00,"available":0.00,"reserved":0.00,"owed":4.46}]}`+"\n",
		balance())
	require.Equal(t, `{"livemode":true,"balances":[]}`+"\n", f.do("GET", "/v1/balance", f.merchant.liveKey, "").body)

	list := f.answers(200, "GET", "/v1/balance/transactions", f.key, "").json["data"].([]any)
	var got [][]any
	for _, entry := range list {
		e := entry.(map[string]any)
		require.Equal(t, []any{"USD", false}, []any{e["currency"], e["livemode"]})
		got = append(got, []any{e["type"], e["amount"], e["fee"], e["net"], e["source"]})
	}
	require.Equal(t, [][]any{
		{"refund", -4.5, -0.04, -4.46, refund},
		{"payout", -10.39, 0.0, -10.39, payout.ID},
		{"payment", 10.5, 0.11, 10.39, f.transactionOf(session)},
	}, got)

	id := func(i int) string { return list[i].(map[string]any)["id"].(string) }
	for query, want := range map[string][]string{
		"type=payment": {id(2)}, "type=dispute": {}, "currency=EUR": {}, "currency=USD&type=payout": {id(1)}, "source=" + refund: {id(0)},
		"source=" + payout.ID: {id(1)}, "source=" + f.transactionOf(session): {id(2)}, "limit=1&cursor=" + id(0): {id(1)},
	} {
		require.Equal(t, want, f.answers(200, "GET", "/v1/balance/transactions?"+query, f.key, "").ids(), query)
	}
	entry := storagetest.Value[int64](t, f.Database, `SELECT id FROM ledger_entry WHERE kind = 'charge'`)
	key := storagetest.Value[checkout.NumberKey](t, f.Database, `SELECT id_key FROM installation`)
	require.Len(t, key, 32)
	require.Equal(t, entry, key.Number(id(2)))
	require.NotEqual(t, entry, checkout.NumberKey(nil).Number(id(2)), "only the key finds the number, which counts all merchants' entries")
	wrong := f.do("GET", "/v1/balance/transactions?source="+session, f.key, "")
	require.Equal(t, "source must be an id that begins with txn_ or po_ or re_ or dp_", wrong.json["message"])
}
