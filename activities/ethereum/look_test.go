package ethereum

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// TestPayout_IsPaidOnce follows a payout of each currency from the plan to its final block.
func TestPayout_IsPaidOnce(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	for nonce, currency := range []money.PayoutCurrency{money.ETH, money.USDC, money.USDT} {
		v := r.signed(c, currency, "20", uint64(nonce))
		require.Equal(t, treasury.TransferSnapshot{State: treasury.TransferStateUnknown}, r.sees(c, treasury.TransferStateUnknown, v))
		require.NoError(t, c.Send(t.Context(), v))
		_ = c.Send(t.Context(), v) // the node refuses it the second time; that decides nothing
		r.sees(c, treasury.TransferStatePending, v)
		r.mine(1)
		require.Zero(t, r.sees(c, treasury.TransferStateMined, v).Depth)
		_ = c.Send(t.Context(), v) // mined: refused with other words
		r.mine(1)
		require.Equal(t, uint64(1), r.sees(c, treasury.TransferStateMined, v).Depth)
		r.mine(1)
		s := r.sees(c, treasury.TransferStateConfirmed, v)
		require.Equal(t, v.TxHash, s.TxHash)
		require.Equal(t, uint64(2), s.Depth)
		require.NotEmpty(t, s.BlockHash)
		require.NotZero(t, s.Height)
		require.Equal(t, v.Outputs[0].Amount, s.Received)
		require.Equal(t, v.Outputs[0].Amount.String(), r.has(currency, v.Outputs[0].Destination))
		require.Equal(t, 1, s.Cost.Sign())
		require.LessOrEqual(t, s.Cost.Cmp(v.MaxCost), 0)
	}
}

func TestLook_CountsConfirmationsWhenToldSo(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open(func(o *Options) { o.Confirmations = "5" })
	v := r.sent(c, money.USDC, "20", 0)
	r.mine(4)
	r.sees(c, treasury.TransferStateMined, v)
	r.mine(1) // the fifth, with its own
	require.Equal(t, uint64(4), r.sees(c, treasury.TransferStateConfirmed, v).Depth)
	one := r.open(func(o *Options) { o.Confirmations = "1" })
	next := r.sent(one, money.USDC, "20", 1)
	r.mine(1)
	r.sees(one, treasury.TransferStateConfirmed, next)
	far := r.open(func(o *Options) { o.Confirmations = "1000" })
	r.sees(far, treasury.TransferStateMined, v)
}

// Three blocks are removed, with the transfer in the first.
func TestLook_AfterAReorganizationTheSameBytesArePaidOnce(t *testing.T) {
	r := newRig(t, chains.Options{Epoch: 4}) // final is what is 8 blocks deep
	r.mine(10)
	c := r.open()
	v := r.sent(c, money.USDC, "20", 0)
	r.mine(3)
	before := r.sees(c, treasury.TransferStateMined, v)
	require.EqualValues(t, 2, before.Depth)
	require.NoError(t, r.anvil.Reorg(t.Context(), 3))
	r.sees(c, treasury.TransferStateUnknown, v)
	require.Equal(t, "0.000000", r.has(money.USDC, v.Outputs[0].Destination))

	require.NoError(t, c.Send(t.Context(), v))
	r.mine(9)
	require.NotEqual(t, before.BlockHash, r.sees(c, treasury.TransferStateConfirmed, v).BlockHash)
	require.Equal(t, v.Outputs[0].Amount.String(), r.has(money.USDC, v.Outputs[0].Destination))
}

// Each case is a node with one wrong answer. Nodes also show receipts of blocks that are gone.
func TestLook_EveryPartOfAReceiptMustFitTheChain(t *testing.T) {
	r := newRig(t, chains.Options{})
	p, c := r.openProxied()
	paid := r.sent(c, money.USDC, "20", 0)
	r.mine(1)
	height := r.height()
	r.use(common.HexToAddress(r.payee()), 1) // another transaction has the nonce of dead
	dead := r.signed(c, money.USDC, "20", 1)
	r.mine(1)
	other := r.blockAt(height + 1)
	waiting := r.signed(c, money.USDC, "20", 2)
	r.mine(2)
	r.sees(c, treasury.TransferStateConfirmed, paid)
	r.sees(c, treasury.TransferStateDead, dead)
	r.sees(c, treasury.TransferStateUnknown, waiting)
	var truth json.RawMessage
	require.NoError(t, r.anvil.Call(t.Context(), &truth, "eth_getTransactionReceipt", paid.TxHash))
	receiptOf := func(v treasury.TransferVersion, b block) lie {
		fields := map[string]any{"transactionHash": v.TxHash, "blockNumber": b.Number, "blockHash": b.Hash}
		return onFirst("eth_getTransactionReceipt", v.TxHash, edited(truth, fields))
	}
	nonceAfter := func(b block, nonce any) lie {
		return func(method string, args []json.RawMessage, _ json.RawMessage) any {
			if method == "eth_getTransactionCount" && strings.Contains(string(args[1]), b.Hash.Hex()) {
				return nonce
			}
			return nil
		}
	}
	holds := func(v treasury.TransferVersion, b block) lie {
		return onFirst("eth_getBlockByNumber", hexutil.EncodeUint64(uint64(b.Number)), with(map[string]any{"transactions": []string{v.TxHash}}))
	}
	final := r.blockAt(r.height() - 2)
	require.Equal(t, other.Hash, final.Hash)

	p.tell(receiptOf(waiting, other)) // the nonce is free
	r.sees(c, treasury.TransferStateUnknown, waiting)
	p.tell(either(receiptOf(waiting, other), holds(waiting, other))) // and the block holds the transaction
	r.sees(c, treasury.TransferStateUnknown, waiting)
	p.tell(receiptOf(dead, other)) // the block is true, and the nonce after it, but it does not hold the transaction
	r.sees(c, treasury.TransferStateDead, dead)
	p.tell(receiptOf(paid, block{Number: other.Number - 1, Hash: common.HexToHash("0xf0")})) // the block is of a fork
	require.ErrorContains(t, r.lookError(c, paid), "it has no receipt")
	p.tell(receiptOf(paid, block{Number: other.Number + 100, Hash: other.Hash})) // the block is above the head
	require.ErrorContains(t, r.lookError(c, paid), "it has no receipt")

	p.tell(nonceAfter(final, "0x0")) // the final nonce is not above the transfer's
	r.sees(c, treasury.TransferStateMined, paid)
	p.tell(nonceAfter(final, "0x9")) // the final nonce is above that of the head
	require.ErrorContains(t, r.lookError(c, waiting), "contradicts itself")

	next := r.sent(c, money.USDC, "20", 2)
	p.tell(always(nil))
	r.mine(1)
	head := r.height()
	// The final nonce is above, but the transaction's block is not final.
	p.tell(either(nonceAfter(r.blockAt(head-2), "0x9"), nonceAfter(r.blockAt(head), "0x9")))
	r.sees(c, treasury.TransferStateMined, next)
}

func (r *rig) blockAt(height uint64) block {
	var b block
	require.NoError(r, r.anvil.Call(r.Context(), &b, "eth_getBlockByNumber", hexutil.Uint64(height), false))
	return b
}

// A payout that was paid is never called dead because a node lost its receipt.
func TestLook_ANodeWithoutTheReceiptProvesNothing(t *testing.T) {
	r := newRig(t, chains.Options{})
	p, c := r.openProxied()
	v := r.sent(c, money.USDC, "20", 0)
	r.mine(40)
	p.tell(func(method string, _ []json.RawMessage, _ json.RawMessage) any {
		if method == "eth_getTransactionReceipt" || method == "eth_getTransactionByHash" {
			return null
		}
		return nil
	})
	require.ErrorContains(t, r.lookError(c, v), "it has no receipt of "+v.TxHash)

	final := r.height() - 2
	p.tell(func(method string, args []json.RawMessage, _ json.RawMessage) any {
		switch {
		case method == "eth_getTransactionReceipt":
			return null
		case method == "eth_getTransactionCount" && args[1][0] == '"' && string(args[1]) != `"`+hexutil.EncodeUint64(final)+`"`:
			return errPruned // and it forgot the old states
		}
		return nil
	})
	require.ErrorContains(t, r.lookError(c, v), "the nonce is used up by an unknown transaction")
}

type nodeWords string

func (w nodeWords) Error() string { return string(w) }

const errPruned = nodeWords("missing trie node")

func (r *rig) height() uint64 {
	var height hexutil.Uint64
	require.NoError(r, r.anvil.Call(r.Context(), &height, "eth_blockNumber"))
	return uint64(height)
}

// The transfer is dead when the other transaction is final, not before. Standing and Outflows show it.
func TestLook_SomebodyElseUsedTheKey(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	v := r.signed(c, money.USDC, "20", 0)
	thief := common.HexToAddress("0x7417e50000000000000000000000000000000001")
	hash := r.use(thief, 1_000_000_000_000_000_000)
	standing := must.Get(c.Snapshot(t.Context()))(t)
	require.Equal(t, treasury.NumberSlot(0), standing.Using, "it waits in the pool, and is seen")
	require.False(t, standing.Used(treasury.NumberSlot(0)))
	r.mine(1)
	height := r.height()
	require.Error(t, c.Send(t.Context(), v))
	r.sees(c, treasury.TransferStateUnknown, v)
	r.mine(2)
	s := r.sees(c, treasury.TransferStateDead, v)
	require.Equal(t, height, s.Height)
	require.Empty(t, s.TxHash)
	require.False(t, s.Received.Known())

	standing = must.Get(c.Snapshot(t.Context()))(t)
	require.True(t, standing.Used(treasury.NumberSlot(0)))
	require.Empty(t, standing.Using)
	require.Equal(t, "1000000.000000", standing.Balances[money.USDC].String())
	require.Equal(t, "1000000.000000", standing.Balances[money.USDT].String())
	require.Equal(t, "98.99", standing.Balances[money.ETH].String()[:5])
	require.Equal(t, r.height(), standing.Height)
	out := r.outflows(c, 0)
	cost := money.MustCrypto("99", money.ETH).Sub(standing.Balances[money.ETH])
	require.Equal(t, []treasury.Outflow{{TxHash: hash, Slot: treasury.NumberSlot(0), Destination: thief.Hex(),
		Amount: money.MustCrypto("1.000000000000000000", money.ETH), Cost: cost, Height: height}}, out.All)
	require.Equal(t, height+1, out.Next)
}

// The token is paused after the signature.
func TestLook_ARevertedTransferIsFinalOnlyAtFinality(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	v := r.signed(c, money.USDC, "20", 0)
	r.invoke("USDC", r.market.USDC, "pause", true)
	require.NoError(t, c.Send(t.Context(), v))
	r.mine(1)
	r.sees(c, treasury.TransferStateMined, v)
	r.mine(2)
	s := r.sees(c, treasury.TransferStateReverted, v)
	require.Equal(t, v.TxHash, s.TxHash)
	require.False(t, s.Received.Known())
	require.NotEmpty(t, s.Cost)
}

// The token's fee is switched on after the signature, and a token that answers false moved nothing.
func TestLook_TheLogSaysWhatWasReceived(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	v := r.signed(c, money.USDT, "100", 0)
	r.invoke("USDT", r.market.USDT, "mint", common.HexToAddress("0xfee"), big.NewInt(1))
	r.invoke("USDT", r.market.USDT, "setParams", big.NewInt(100), big.NewInt(50_000000)) // 1 % to 0xfee
	require.NoError(t, c.Send(t.Context(), v))
	r.mine(3)
	s := r.sees(c, treasury.TransferStateConfirmed, v)
	require.Equal(t, r.has(money.USDT, v.Outputs[0].Destination), s.Received.String())
	require.NotEqual(t, v.Outputs[0].Amount, s.Received)

	liar := r.deploy("Liar")
	c.tokens[money.USDC] = liar
	v = must.Get(c.Sign(t.Context(), treasury.TransferPlan{Slot: treasury.NumberSlot(1), Terms: v.Terms,
		Outputs: []treasury.TransferOutput{{Destination: r.payee(), Amount: money.MustCrypto("5", money.USDC)}}}))(t)
	require.NoError(t, c.Send(t.Context(), v))
	r.mine(3)
	r.sees(c, treasury.TransferStateReverted, v)
}

// A state that is final at one node only is not final.
func TestLook_TwoNodesMustAgree(t *testing.T) {
	r := newRig(t, chains.Options{})
	p := proxyTo(t, r.anvil.URL)
	c := r.open(func(o *Options) { o.RPCURLs = []string{r.anvil.URL, p.URL} })
	v := r.sent(c, money.USDC, "20", 0)
	require.NotZero(t, p.count("eth_sendRawTransaction"), "both get it")
	r.mine(1)
	height := r.height()
	r.mine(2)
	r.sees(c, treasury.TransferStateConfirmed, v)

	var old json.RawMessage
	require.NoError(t, r.anvil.Call(t.Context(), &old, "eth_getBlockByNumber", hexutil.Uint64(height-1), false))
	p.tell(onFirst("eth_getBlockByNumber", "finalized", old)) // its final block is older
	r.sees(c, treasury.TransferStateMined, v)

	p.tell(on("eth_getTransactionReceipt", with(map[string]any{"status": "0x0", "logs": []any{}}))) // it says reverted
	require.ErrorIs(t, r.lookError(c, v), ErrWitnessesDisagree)

	p.tell(always(nodeWords("out of order")))
	require.ErrorContains(t, r.lookError(c, v), "node 2")
	got, err := c.Check(t.Context(), money.USDC, r.payee())
	require.NoError(t, err, "one node is enough to look at an address")
	require.Empty(t, got)
}

func TestCombineSnapshots(t *testing.T) {
	t.Parallel()
	sight := func(state treasury.TransferState, depth uint64) treasury.TransferSnapshot {
		return treasury.TransferSnapshot{State: state, Depth: depth}
	}
	for _, test := range []struct{ a, b, want treasury.TransferSnapshot }{
		{sight("unknown", 0), sight("pending", 0), sight("pending", 0)},
		{sight("unknown", 0), sight("mined", 3), sight("mined", 3)},
		{sight("mined", 3), sight("mined", 2), sight("mined", 2)},
		{sight("confirmed", 3), sight("mined", 2), sight("mined", 2)},
		{sight("confirmed", 3), sight("unknown", 0), sight("unknown", 0)},
		{sight("dead", 3), sight("pending", 0), sight("pending", 0)},
		{sight("dead", 3), sight("dead", 2), sight("dead", 2)},
		{sight("confirmed", 3), sight("dead", 3), treasury.TransferSnapshot{}},
	} {
		for _, got := range []func() (treasury.TransferSnapshot, error){
			func() (treasury.TransferSnapshot, error) { return combineSnapshots(test.a, test.b) },
			func() (treasury.TransferSnapshot, error) { return combineSnapshots(test.b, test.a) },
		} {
			s, err := got()
			require.Equal(t, test.want, s)
			require.Equal(t, test.want.State == "", err != nil)
		}
	}
}

func TestLook_NeedsAVersion(t *testing.T) {
	t.Parallel()
	c := offline(t, func(k *Keystore) Signer { return k })
	require.ErrorContains(t, must.Err(c.Look(t.Context(), nil)), "there is no version to look for")
}

// Providers refuse a method with an HTTP status, too. A round goes on without a pool, but not after a passing refusal.
func TestSnapshot_OfANodeThatShowsNoPool(t *testing.T) {
	p, c := newRig(t, chains.Options{}).openProxied()
	answerPool := func(status httpStatus) {
		p.tell(func(method string, _ []json.RawMessage, _ json.RawMessage) any {
			if strings.HasPrefix(method, "txpool_") {
				return status
			}
			return nil
		})
	}
	for _, unserved := range []httpStatus{400, 403, 404, 405, 501} {
		answerPool(unserved)
		require.NoError(t, must.Err(c.Snapshot(t.Context())), "HTTP %d", unserved)
	}
	for _, passing := range []httpStatus{429, 500, 503} {
		answerPool(passing)
		require.ErrorIs(t, must.Err(c.Snapshot(t.Context())), jsonrpc.ErrNotReady, "HTTP %d", passing)
	}
}

// After the restore of an old backup it may be a payment that PostgreSQL lacks.
func TestSnapshot_ATransactionBehindAGapIsSeen(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	r.sent(c, money.USDC, "20", 1)
	now := must.Get(c.Snapshot(t.Context()))(t)
	require.Equal(t, append(treasury.NumberSlot(0), treasury.NumberSlot(1)...), now.Using)
	require.EqualValues(t, 2, now.Next)
}
