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

	"example.com/checkout/deploy/chains"
	"example.com/checkout/workflows/checkout"
)

// TestOutflows_AreAllThatLeavesTheAccount: payouts of each currency, what somebody took with an allowance,
// and transactions that move nothing, in blocks between which much else happens.
func TestOutflows_AreAllThatLeavesTheAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, chains.Options{})
	p := proxyTo(t, r.anvil.URL)
	c := r.open(func(o *Options) { o.RPCURLs = []string{p.URL} })
	from := r.height() + 1
	var want []checkout.Outflow
	for nonce, currency := range []checkout.PayoutCurrency{checkout.USDC, checkout.ETH, checkout.USDT} {
		v := r.signed(c, currency, "20", uint64(nonce))
		require.NoError(t, c.Send(t.Context(), v))
		r.mine(7)
		want = append(want, checkout.Outflow{TxHash: v.TxHash, Nonce: uint64(nonce), Currency: currency,
			Destination: v.Destination, Amount: v.Amount, Height: from + uint64(nonce)*7})
	}
	approve := encodeCall("approve(address,uint256)", r.anvil.Accounts[0], big.NewInt(5))
	require.NoError(t, r.anvil.Impersonate(t.Context(), r.key.account))
	hash, err := r.anvil.Send(t.Context(), chains.Transaction{From: r.key.account, To: &r.market.USDC, Data: approve})
	require.NoError(t, err)
	r.mine(1)
	want = append(want, checkout.Outflow{TxHash: hash, Nonce: 3, Currency: checkout.ETH, Destination: r.market.USDC.Hex(),
		Amount: "0.000000000000000000", Height: from + 21})
	thief := common.HexToAddress("0x7417e50000000000000000000000000000000001")
	r.invoke("USDC", r.market.USDC, "transferFrom", r.key.account, thief, big.NewInt(5))
	r.mine(2)

	out, err := c.Outflows(t.Context(), from)
	require.NoError(t, err)
	require.Len(t, out.All, 5)
	taken := out.All[4]
	require.Equal(t, want, out.All[:4])
	require.Equal(t, checkout.Outflow{TxHash: taken.TxHash, Currency: checkout.USDC, Destination: thief.Hex(), Amount: "0.000005",
		Height: from + 22}, taken)
	require.Equal(t, from+23, out.Next)
	read := p.count("eth_getBlockByNumber")

	next, err := c.Outflows(t.Context(), out.Next)
	require.NoError(t, err)
	require.Equal(t, checkout.Outflows{Next: out.Next}, next, "nothing new is final")
	require.Less(t, read, 60)

	// A node that forgot the old states is read block by block.
	p.tell(func(method string, args []json.RawMessage, _ json.RawMessage) any {
		if method == "eth_getTransactionCount" && args[1][0] == '"' {
			return errPruned
		}
		return nil
	})
	again, err := c.Outflows(t.Context(), from)
	require.NoError(t, err)
	require.Equal(t, out, again)
}

// TestOutflows_ComeInParts: a long absence is caught up with in ranges that a node answers.
func TestOutflows_ComeInParts(t *testing.T) {
	t.Parallel()
	r := newRig(t, chains.Options{})
	p := proxyTo(t, r.anvil.URL)
	c := r.open(func(o *Options) { o.RPCURLs = []string{p.URL} })
	from := r.height() + 1
	r.mine(700)
	v := r.signed(c, checkout.USDC, "20", 0)
	require.NoError(t, c.Send(t.Context(), v))
	r.mine(3)

	first, err := c.Outflows(t.Context(), from)
	require.NoError(t, err)
	require.Equal(t, checkout.Outflows{Next: from + 500}, first)
	second, err := c.Outflows(t.Context(), first.Next)
	require.NoError(t, err)
	require.Equal(t, from+701, second.Next)
	require.Len(t, second.All, 1)

	p.tell(func(method string, args []json.RawMessage, _ json.RawMessage) any {
		if method == "eth_getTransactionCount" && args[1][0] == '"' {
			return errPruned
		}
		return nil
	})
	slow, err := c.Outflows(t.Context(), from)
	require.NoError(t, err)
	require.Equal(t, checkout.Outflows{Next: from + 100}, slow, "every block is read, so they are fewer")
}

// TestOutflows_ShowAnotherUseOfTheKey: somebody with the key signs an authorization, which uses a nonce up
// without a transaction of the account (EIP-7702). The transfer with that nonce is dead.
func TestOutflows_ShowAnotherUseOfTheKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, chains.Options{})
	c := r.open()
	v := r.signed(c, checkout.USDC, "20", 0)
	authorization, err := types.SignSetCode(r.key.key, types.SetCodeAuthorization{
		ChainID: *uint256.NewInt(r.anvil.ChainID), Address: r.market.USDC, Nonce: 0})
	require.NoError(t, err)
	other, err := crypto.GenerateKey()
	require.NoError(t, err)
	sender := crypto.PubkeyToAddress(other.PublicKey)
	require.NoError(t, r.anvil.SetBalance(t.Context(), sender, big.NewInt(1e18)))
	tx, err := types.SignNewTx(other, types.LatestSignerForChainID(new(big.Int).SetUint64(r.anvil.ChainID)), &types.SetCodeTx{
		ChainID: uint256.NewInt(r.anvil.ChainID), GasTipCap: uint256.NewInt(gwei), GasFeeCap: uint256.NewInt(50 * gwei),
		Gas: 200_000, To: sender, AuthList: []types.SetCodeAuthorization{authorization}})
	require.NoError(t, err)
	raw, err := tx.MarshalBinary()
	require.NoError(t, err)
	require.NoError(t, r.anvil.Call(t.Context(), nil, "eth_sendRawTransaction", hexutil.Bytes(raw)))
	r.mine(1)
	height := r.height()
	r.mine(2)

	out, err := c.Outflows(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, []checkout.Outflow{{Nonce: 0, Currency: checkout.ETH, Amount: "0.000000000000000000", Height: height}}, out.All)
	r.sees(c, checkout.SightingDead, v)
}

// TestOutflows_ARevertedTransactionIsNone: the nonce is used up, the ether is there.
func TestOutflows_ARevertedTransactionIsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t, chains.Options{})
	c := r.open()
	refuser := r.deploy("Refuser")
	terms, err := decodeTerms(r.signed(c, checkout.ETH, "1", 0).Terms)
	require.NoError(t, err)
	terms.Estimate, terms.Gas = 100_000, 100_000
	encoded, err := terms.encode()
	require.NoError(t, err)
	v, err := c.Sign(t.Context(), checkout.TransferPlan{Currency: checkout.ETH, Destination: refuser.Hex(), Amount: "1", Terms: encoded}, 0)
	require.NoError(t, err)
	require.NoError(t, c.Send(t.Context(), v))
	r.mine(3)
	r.sees(c, checkout.SightingReverted, v)
	out, err := c.Outflows(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, out.All)
}

func TestCallContract_ReadsAPriceFeed(t *testing.T) {
	t.Parallel()
	r := newRig(t, chains.Options{})
	p := proxyTo(t, r.anvil.URL)
	c := r.open(func(o *Options) { o.RPCURLs = []string{p.URL, r.anvil.URL} })
	p.tell(func(string, []json.RawMessage, json.RawMessage) any { return nodeWords("out of order") })
	answer, err := c.CallContract(t.Context(), r.market.Feeds["ETH / USD"].Hex(), selector("latestRoundData()"))
	require.NoError(t, err, "the second node answers")
	require.Len(t, answer, 5*wordSize)
	require.Equal(t, big.NewInt(3200_00000000), new(big.Int).SetBytes(answer[wordSize:2*wordSize]))
	_, err = c.CallContract(t.Context(), "ETH / USD", nil)
	require.ErrorContains(t, err, "the contract's address must be 0x")
	_, err = c.CallContract(t.Context(), r.market.USDC.Hex(), selector("latestRoundData()"))
	require.Error(t, err)
}
