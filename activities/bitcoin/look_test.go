package bitcoin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/treasury"
)

// TestTransfer_FromThePlanToItsConfirmation: each state in turn, the payee's money, and the account's balances.
func TestTransfer_FromThePlanToItsConfirmation(t *testing.T) {
	r := newRig(t, "1", "2")
	c := r.open()
	require.Equal(t, [2]string{"3.00000000", "3.00000000"}, r.has(c))

	v := r.signed(c, "0.5")
	r.sees(c, treasury.TransferStateUnknown, v)
	require.Equal(t, v, r.sign(c, v.TransferPlan), "the same plan gives the same bytes")
	for range 2 {
		require.NoError(t, c.Send(t.Context(), v))
	}
	require.Equal(t, []string{v.TxHash}, r.pool())
	r.sees(c, treasury.TransferStatePending, v)
	require.Equal(t, [2]string{"3.00000000", "3.00000000"}, r.has(c), "nothing is mined")
	s := must.Get(c.Snapshot(t.Context()))(t)
	require.Equal(t, v.Slot, s.Using)
	require.False(t, s.Used(v.Slot))

	left := btc("3").Sub(v.Outputs[0].Amount).Sub(v.MaxCost).String()
	for depth := range uint64(5) {
		r.mine(1)
		_ = c.Send(t.Context(), v) // what the node says decides nothing
		require.Empty(t, r.pool())
		seen := r.sees(c, treasury.TransferStateMined, v)
		require.Equal(t, depth, seen.Depth)
		require.Equal(t, [2]string{left, "3.00000000"}, r.has(c))
	}
	r.mine(1)
	seen := r.sees(c, treasury.TransferStateConfirmed, v)
	require.Equal(t, v.Outputs[0].Amount, seen.Received)
	require.Equal(t, v.MaxCost, seen.Cost)
	require.Equal(t, [2]string{left, left}, r.has(c))
	require.Equal(t, v.Outputs[0].Amount.String(), r.received(v.Outputs[0].Destination))
	s = must.Get(c.Snapshot(t.Context()))(t)
	require.Empty(t, s.Using)
	require.True(t, s.Used(v.Slot))
}

// A coin of depth 5 may still disappear, with all that spends it.
func TestPlan_SpendsFinalCoinsOnly(t *testing.T) {
	r := newRig(t)
	c := r.open()
	r.fund("1")
	for range 5 {
		r.mine(1)
		require.ErrorIs(t, r.planError(c, r.requests("0.1")), treasury.ErrFloatTooLow)
	}
	r.mine(1)
	r.planned(c, "0.1")
}

// A third party can change the id of a transaction that spends such a coin.
func TestPlan_LeavesOldKindsOfCoinsAlone(t *testing.T) {
	r := newRig(t)
	c := r.open()
	r.mine(120) // rewards that can be spent
	for _, kind := range []string{"legacy", "p2sh-segwit"} {
		var address string
		r.call(wallet, &address, "getnewaddress", "", kind)
		require.NoError(t, must.Err(r.node.Pay(t.Context(), chains.Miner, map[string]string{address: "1"})))
	}
	r.mine(6)
	require.ErrorIs(t, r.planError(c, r.requests("0.1")), treasury.ErrFloatTooLow)
	require.Equal(t, [2]string{"2.00000000", "2.00000000"}, r.has(c), "they are the account's all the same")
}

// The other transfers have taken them, although no node has these transfers yet.
func TestPlan_LeavesTakenCoinsAlone(t *testing.T) {
	r := newRig(t, "1", "1")
	c := r.open()
	first := r.planned(c, "0.1")
	second := must.Get(c.Plan(t.Context(), r.requests("0.1"), first.Slot))(t)
	require.False(t, first.Slot.Shares(second.Slot))
	require.ErrorIs(t, must.Err(c.Plan(t.Context(), r.requests("0.1"), append(first.Slot, second.Slot...))), treasury.ErrFloatTooLow)
}

// The transfer is unknown then, and the same bytes are sent again.
func TestLook_ARestartWithoutThePool(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	v := r.sent(c, "0.5")
	require.NoError(t, r.node.Stop())
	require.ErrorIs(t, must.Err(c.Look(t.Context(), []treasury.TransferVersion{v})), jsonrpc.ErrNotReady)
	require.NoError(t, r.node.ForgetPool())
	require.NoError(t, r.node.Start(t.Context()))
	require.Empty(t, r.pool())

	r.sees(c, treasury.TransferStateUnknown, v)
	require.Equal(t, [2]string{"1.00000000", "1.00000000"}, r.has(c), "the wallet counts the coin as spent, and it is not")
	require.NoError(t, c.Send(t.Context(), v))
	r.sees(c, treasury.TransferStatePending, v)
	r.mine(6)
	r.sees(c, treasury.TransferStateConfirmed, v)
}

// The transfer waits in the pool again, and its coin is final still.
func TestLook_AReorganizationOfThreeBlocks(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	v := r.sent(c, "0.5")
	r.mine(3)
	require.EqualValues(t, 2, r.sees(c, treasury.TransferStateMined, v).Depth)
	require.NoError(t, r.node.Reorganize(t.Context(), 3))
	r.sees(c, treasury.TransferStatePending, v)
	require.Equal(t, [2]string{"1.00000000", "1.00000000"}, r.has(c))
	r.mine(6)
	r.sees(c, treasury.TransferStateConfirmed, v)
	require.Equal(t, v.Outputs[0].Amount.String(), r.received(v.Outputs[0].Destination))
}

// The transfer is dead once that is final, and not one block earlier.
func TestLook_AnotherWalletSpendsOurCoin(t *testing.T) {
	r := newRig(t, "1")
	c := r.open()
	v := r.signed(c, "0.5")
	var keys struct {
		Descriptors []map[string]any `json:"descriptors"`
	}
	r.call(wallet, &keys, "listdescriptors", true)
	r.makeWallet("thief", false)
	r.call("thief", nil, "importdescriptors", keys.Descriptors)

	payee := r.payee("bech32")
	txid := must.Get(r.node.Pay(t.Context(), "thief", map[string]string{payee: "0.9"}))(t)
	require.Equal(t, v.Slot, must.Get(c.Snapshot(t.Context()))(t).Using, "a coin that no transfer may be known to use")
	for range 5 {
		r.mine(1)
		r.sees(c, treasury.TransferStateUnknown, v)
	}
	r.mine(1)
	seen := r.sees(c, treasury.TransferStateDead, v)
	require.EqualValues(t, 5, seen.Depth)
	out := r.outflows(c)
	require.Len(t, out.All, 1)
	require.Equal(t, txid, out.All[0].TxHash)
	require.Equal(t, payee, out.All[0].Destination)
	require.Equal(t, "0.90000000", out.All[0].Amount.String())
	require.Equal(t, v.Slot, out.All[0].Slot)
	require.ErrorIs(t, must.Err(c.VersionOf(t.Context(), out.All)), treasury.ErrNotSigned)
}

// A reorganization below the final block removes a coin that a transfer spends: it is dead once that is final.
func TestLook_AnotherTransactionReplacesTheParent(t *testing.T) {
	r := newRig(t)
	parent := r.fund("1")
	r.mine(6)
	c := r.open()
	v := r.signed(c, "0.5")
	var made struct {
		Decoded struct {
			Vin []map[string]any `json:"vin"`
		} `json:"decoded"`
	}
	r.call(chains.Miner, &made, "gettransaction", parent, true, true)
	coin := map[string]any{"txid": made.Decoded.Vin[0]["txid"], "vout": made.Decoded.Vin[0]["vout"]}
	require.NoError(t, r.node.Reorganize(t.Context(), 7))
	var unsigned string
	r.call("", &unsigned, "createrawtransaction", []any{coin}, map[string]string{r.payee("bech32"): "24"})
	var other struct{ Hex string }
	r.call(chains.Miner, &other, "signrawtransactionwithwallet", unsigned)
	r.call("", nil, "generateblock", r.payee("bech32"), []string{other.Hex})

	for range 5 {
		require.ErrorIs(t, must.Err(c.Look(t.Context(), []treasury.TransferVersion{v})), jsonrpc.ErrNotReady)
		r.mine(1)
	}
	seen := r.sees(c, treasury.TransferStateDead, v)
	require.EqualValues(t, 5, seen.Depth)
	require.NotEmpty(t, seen.BlockHash)
	require.Equal(t, [2]string{"0.00000000", "0.00000000"}, r.has(c))
	require.True(t, must.Get(c.Snapshot(t.Context()))(t).Used(v.Slot))
}
