package ethereum

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Payouts of each currency, an allowance that somebody used, and transactions that move nothing, among other traffic.
func TestOutflows_AreAllThatLeavesTheAccount(t *testing.T) {
	r := newRig(t, chains.Options{})
	p, c := r.openProxied()
	from := r.height() + 1
	var want []treasury.Outflow
	for nonce, currency := range []money.PayoutCurrency{money.USDC, money.ETH, money.USDT} {
		v := r.sent(c, currency, "20", uint64(nonce))
		r.mine(7)
		want = append(want, treasury.Outflow{TxHash: v.TxHash, Slot: treasury.NumberSlot(uint64(nonce)),
			Destination: v.Outputs[0].Destination, Amount: v.Outputs[0].Amount, Cost: r.sees(c, treasury.TransferStateConfirmed, v).Cost,
			Height: from + uint64(nonce)*7})
	}
	approve := encodeCall("approve(address,uint256)", r.anvil.Accounts[0], big.NewInt(5))
	require.NoError(t, r.anvil.Impersonate(t.Context(), r.key.account))
	hash := must.Get(r.anvil.Send(t.Context(), chains.Transaction{From: r.key.account, To: &r.market.USDC, Data: approve}))(t)
	r.mine(1)
	want = append(want, treasury.Outflow{TxHash: hash, Slot: treasury.NumberSlot(3), Destination: r.market.USDC.Hex(),
		Amount: money.MustCrypto("0", money.ETH), Height: from + 21})
	thief := common.HexToAddress("0x7417e50000000000000000000000000000000001")
	r.invoke("USDC", r.market.USDC, "transferFrom", r.key.account, thief, big.NewInt(5))
	r.mine(2)

	out := r.outflows(c, from)
	require.Len(t, out.All, 5)
	require.True(t, out.All[3].Cost.Known())
	want[3].Cost = out.All[3].Cost
	taken := out.All[4]
	require.Equal(t, want, out.All[:4])
	require.Equal(t, treasury.Outflow{TxHash: taken.TxHash, Destination: thief.Hex(), Amount: money.MustCrypto("0.000005", money.USDC),
		Height: from + 22}, taken)
	require.Equal(t, from+23, out.Next)
	read := p.count("eth_getBlockByNumber")

	next := r.outflows(c, out.Next)
	require.Equal(t, treasury.Outflows{Next: out.Next}, next, "nothing new is final")
	require.Less(t, read, 60)

	// A node that forgot the old states is read block by block.
	p.tell(pruned)
	again := r.outflows(c, from)
	require.Equal(t, out, again)
}

// Tokens let everybody transfer nothing from the account. One that the account itself sent is a use of its key.
func TestOutflows_ATransferOfNothingByAnybodyIsNone(t *testing.T) {
	r := newRig(t, chains.Options{})
	p, c := r.openProxied()
	to := common.HexToAddress(r.payee())
	for name, token := range map[string]common.Address{"USDC": r.market.USDC, "USDT": r.market.USDT} {
		r.invoke(name, token, "transferFrom", r.key.account, to, new(big.Int))
	}
	r.mine(2)
	require.Empty(t, r.outflows(c, 0).All)
	require.Zero(t, p.count("eth_getTransactionReceipt"), "they cost no request more")
	require.NoError(t, r.anvil.Impersonate(t.Context(), r.key.account))
	hash := must.Get(r.anvil.Send(t.Context(), chains.Transaction{From: r.key.account, To: &r.market.USDC,
		Data: encodeCall("transfer(address,uint256)", to, new(big.Int))}))(t)
	r.mine(3)
	out := r.outflows(c, 0)
	require.Len(t, out.All, 1)
	require.Equal(t, []any{hash, money.ETH, r.market.USDC.Hex(), "0.000000000000000000"},
		[]any{out.All[0].TxHash, out.All[0].Amount.Currency(), out.All[0].Destination, out.All[0].Amount.String()})
}

// A foreign token logs a payment by the account, and a payee that gets ether calls a token in the account's name.
func TestOutflows_LogsThatOthersWriteAreNone(t *testing.T) {
	r := newRig(t, chains.Options{})
	c, poisoner, payee := r.open(), r.deploy("Poisoner"), r.deploy("Payee", uint8(0))
	r.invoke("Poisoner", poisoner, "pretend", r.key.account, common.HexToAddress(r.payee()), big.NewInt(20_000_000))
	r.invoke("Payee", payee, "set", uint8(4), r.market.USDC)
	hash := r.use(payee, 7)
	r.mine(3)
	out := r.outflows(c, 0)
	require.Len(t, out.All, 1)
	require.Equal(t, []any{hash, payee.Hex(), "0.000000000000000007"},
		[]any{out.All[0].TxHash, out.All[0].Destination, out.All[0].Amount.String()})
}

// Providers limit the number of logs in an answer, and everybody can write many.
func TestOutflows_AskForFewerBlocksWhenTheNodeRefusesTheirLogs(t *testing.T) {
	r := newRig(t, chains.Options{})
	p, c := r.openProxied()
	v := r.sent(c, money.USDC, "20", 0)
	poisoner := r.deploy("Poisoner")
	for range 3 {
		for _, token := range []common.Address{r.market.USDC, r.market.USDT} {
			r.invoke("Poisoner", poisoner, "poison", token, r.key.account, common.Address{}, big.NewInt(60))
		}
	}
	r.mine(2)
	final := r.height() - 2
	p.tell(on("eth_getLogs", edit(func(truth json.RawMessage) any {
		var logs []json.RawMessage
		if json.Unmarshal(truth, &logs) == nil && len(logs) > 100 {
			return nodeWords("query returned more than 100 results")
		}
		return nil
	})))
	var all []treasury.Outflow
	for from := uint64(0); from <= final; {
		out := r.outflows(c, from)
		require.Greater(t, out.Next, from)
		all, from = append(all, out.All...), out.Next
	}
	require.Len(t, all, 1)
	require.Equal(t, v.TxHash, all[0].TxHash)

	p.tell(on("eth_getLogs", nodeWords("out of order")))
	require.ErrorContains(t, must.Err(c.Outflows(t.Context(), 0, anyBlock)), "eth_getLogs", "not even one block")
}

// After a long absence, ranges that a node answers are read one after the other.
func TestOutflows_ComeInParts(t *testing.T) {
	r := newRig(t, chains.Options{})
	p, c := r.openProxied()
	from := r.height() + 1
	r.mine(700)
	r.sent(c, money.USDC, "20", 0)
	r.mine(3)

	first := r.outflows(c, from)
	require.Equal(t, treasury.Outflows{Next: from + 500}, first)
	second := r.outflows(c, first.Next)
	require.Equal(t, from+701, second.Next)
	require.Len(t, second.All, 1)

	p.tell(pruned)
	slow := r.outflows(c, from)
	require.Equal(t, treasury.Outflows{Next: from + 100}, slow, "every block is read, so they are fewer")
}

// An authorization (EIP-7702) uses a nonce without a transaction of the account: the transfer with that nonce is dead.
func TestOutflows_ShowAnotherUseOfTheKey(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	v := r.signed(c, money.USDC, "20", 0)
	authorization := must.Get(types.SignSetCode(r.key.key, types.SetCodeAuthorization{
		ChainID: *uint256.NewInt(r.anvil.ChainID), Address: r.market.USDC, Nonce: 0}))(t)
	other := must.Get(crypto.GenerateKey())(t)
	sender := crypto.PubkeyToAddress(other.PublicKey)
	require.NoError(t, r.anvil.SetBalance(t.Context(), sender, big.NewInt(1e18)))
	tx, err := types.SignNewTx(other, types.LatestSignerForChainID(new(big.Int).SetUint64(r.anvil.ChainID)), &types.SetCodeTx{
		ChainID: uint256.NewInt(r.anvil.ChainID), GasTipCap: uint256.NewInt(gwei), GasFeeCap: uint256.NewInt(50 * gwei),
		Gas: 200_000, To: sender, AuthList: []types.SetCodeAuthorization{authorization}})
	require.NoError(t, err)
	raw := must.Get(tx.MarshalBinary())(t)
	require.NoError(t, r.anvil.Call(t.Context(), nil, "eth_sendRawTransaction", hexutil.Bytes(raw)))
	r.mine(1)
	height := r.height()
	r.mine(2)

	out := r.outflows(c, 0)
	require.Equal(t, []treasury.Outflow{{Slot: treasury.NumberSlot(0), Amount: money.MustCrypto("0", money.ETH), Height: height}}, out.All)
	r.sees(c, treasury.TransferStateDead, v)
}

// The nonce is used, and the ether is there but for the fee.
func TestOutflows_ARevertedTransactionMovedNothing(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	refuser := r.deploy("Payee", uint8(1))
	terms := must.Get(decodeTerms(r.signed(c, money.ETH, "1", 0).Terms))(t)
	terms.Estimate, terms.Gas = 100_000, 100_000
	encoded := must.Get(terms.encode())(t)
	v := must.Get(c.Sign(t.Context(), treasury.TransferPlan{Slot: treasury.NumberSlot(0), Terms: encoded,
		Outputs: []treasury.TransferOutput{{Destination: refuser.Hex(), Amount: money.MustCrypto("1", money.ETH)}}}))(t)
	require.NoError(t, c.Send(t.Context(), v))
	r.mine(3)
	seen := r.sees(c, treasury.TransferStateReverted, v)
	out := r.outflows(c, 0)
	require.Equal(t, []treasury.Outflow{{TxHash: v.TxHash, Slot: v.Slot, Destination: refuser.Hex(),
		Amount: money.MustCrypto("0", money.ETH), Cost: seen.Cost, Height: seen.Height}}, out.All)
	require.False(t, out.All[0].Moved())
}

// A recovery reads the transaction as it was signed. Its budget is lost.
func TestVersionOf_WhatTheAccountSigned(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	signed := []treasury.TransferVersion{r.sent(c, money.ETH, "20", 0), r.sent(c, money.USDC, "20", 1)}
	r.use(common.HexToAddress(r.payee()), 7)
	r.mine(3)
	out := r.outflows(c, 0).All
	for i, v := range signed {
		got := must.Get(c.VersionOf(t.Context(), out[i:i+1]))(t)
		require.Equal(t, []any{v.Raw, v.TxHash, v.Slot, v.MaxCost}, []any{got.Raw, got.TxHash, got.Slot, got.MaxCost})
		require.Equal(t, []treasury.TransferOutput{{Destination: v.Outputs[0].Destination, Amount: v.Outputs[0].Amount,
			Fee: v.MaxCost}}, got.Outputs, "the fee was not more")
		was, is := must.Get(decodeTerms(v.Terms))(t), must.Get(decodeTerms(got.Terms))(t)
		was.BudgetWei, was.Budget = cost(was.Estimate, was.CapWei), is.Budget
		require.Equal(t, was, is)
	}
	require.ErrorIs(t, must.Err(c.VersionOf(t.Context(), out[:2])), treasury.ErrNotSigned)
	require.ErrorIs(t, must.Err(c.VersionOf(t.Context(), out[2:])), treasury.ErrNotSigned, "another key signed it")
}

func TestCallContract_ReadsAPriceFeed(t *testing.T) {
	r := newRig(t, chains.Options{})
	p := proxyTo(t, r.anvil.URL)
	c := r.open(func(o *Options) { o.RPCURLs = []string{p.URL, r.anvil.URL} })
	p.tell(always(nodeWords("out of order")))
	answer, err := c.CallContract(t.Context(), r.market.Feeds["ETH / USD"].Hex(), selector("latestRoundData()"))
	require.NoError(t, err, "the second node answers")
	require.Len(t, answer, 5*wordSize)
	require.Equal(t, big.NewInt(3200_00000000), new(big.Int).SetBytes(answer[wordSize:2*wordSize]))
	require.ErrorContains(t, must.Err(c.CallContract(t.Context(), "ETH / USD", nil)), "the contract's address must be 0x")
	require.Error(t, must.Err(c.CallContract(t.Context(), r.market.USDC.Hex(), selector("latestRoundData()"))))
}
