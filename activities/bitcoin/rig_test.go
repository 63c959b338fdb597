package bitcoin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/btcsuite/btcd/wire"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// A rig is a real node with a wallet of a treasury, and a market of fees.
type rig struct {
	*testing.T

	node    *chains.Bitcoin
	market  *chains.FeeMarket // Set gives the price of 1,000 vB, in bitcoins
	options Options
}

const wallet = "treasury"

// newRig starts a node with a treasury that has final coins of these amounts.
func newRig(t *testing.T, coins ...string) *rig {
	t.Parallel()
	r := &rig{T: t, node: chains.BitcoinForTest(t, chains.BitcoinOptions{})}
	r.makeWallet(wallet, false)
	r.market = chains.NewFeeMarket(r.node.URL)
	t.Cleanup(r.market.Close)
	r.options = Options{
		Network: "regtest", RPCURL: r.market.URL(), RPCPassword: r.node.Password, Wallet: wallet, Signs: true, BatchInterval: time.Minute,
	}
	if len(coins) > 0 {
		r.fund(coins...)
	}
	r.mine(6)
	return r
}

func (r *rig) makeWallet(name string, withoutKeys bool) {
	r.call("", nil, "createwallet", name, withoutKeys, withoutKeys, "", false, true, true)
}

func (r *rig) call(wallet string, result any, method string, args ...any) {
	require.NoError(r, r.node.Call(r.Context(), wallet, result, method, args...))
}

func (r *rig) fund(coins ...string) string {
	return must.Get(r.node.Fund(r.Context(), wallet, coins...))(r)
}

func (r *rig) mine(blocks int) {
	require.NoError(r, must.Err(r.node.Mine(r.Context(), blocks)))
}

// mineNothing adds blocks without a transaction.
func (r *rig) mineNothing(blocks int) {
	for range blocks {
		r.call("", nil, "generateblock", r.payee("bech32"), []string{})
	}
}

func (r *rig) open(change ...func(*Options)) *Chain {
	o := r.options
	for _, c := range change {
		c(&o)
	}
	return must.Get(Open(r.Context(), o))(r)
}

// payee returns an address of another wallet that nobody has used.
func (r *rig) payee(kind string) (address string) {
	r.call(chains.Miner, &address, "getnewaddress", "", kind)
	return address
}

// requests asks for a payout of each gross amount.
func (r *rig) requests(gross ...string) []treasury.TransferRequest {
	all := make([]treasury.TransferRequest, len(gross))
	for i, amount := range gross {
		all[i] = treasury.TransferRequest{
			PayoutID: fmt.Sprintf("po_%03d", i+1), Destination: r.payee("bech32"),
			Gross: btc(amount), FeeRate: money.MustRate("1"), Burnt: money.NewCrypto(new(big.Int), money.BTC),
		}
	}
	return all
}

func btc(decimal string) money.Crypto { return money.MustCrypto(decimal, money.BTC) }

func (r *rig) planned(c *Chain, gross ...string) treasury.TransferPlan {
	return must.Get(c.Plan(r.Context(), r.requests(gross...), nil))(r)
}

func (r *rig) sign(c *Chain, plan treasury.TransferPlan) treasury.TransferVersion {
	return must.Get(c.Sign(r.Context(), plan))(r)
}

func (r *rig) signed(c *Chain, gross ...string) treasury.TransferVersion {
	return r.sign(c, r.planned(c, gross...))
}

func (r *rig) bumped(c *Chain, last treasury.TransferVersion) treasury.TransferVersion {
	v := r.sign(c, must.Get(c.Bump(r.Context(), last))(r))
	require.NoError(r, c.Send(r.Context(), v))
	return v
}

func (r *rig) canceled(c *Chain, last treasury.TransferVersion) treasury.TransferVersion {
	v := r.sign(c, must.Get(c.Cancel(r.Context(), last))(r))
	require.NoError(r, c.Send(r.Context(), v))
	return v
}

func (r *rig) planError(c *Chain, requests []treasury.TransferRequest) error {
	return must.Err(c.Plan(r.Context(), requests, nil))
}

func (r *rig) outflows(c *Chain) treasury.Outflows {
	return must.Get(c.Outflows(r.Context(), 0, 1_000))(r)
}

func (r *rig) sees(c *Chain, want treasury.TransferState, versions ...treasury.TransferVersion) treasury.TransferSnapshot {
	got := must.Get(c.Look(r.Context(), versions))(r)
	require.Equal(r, want, got.State)
	return got
}

// received returns what an address of another wallet has in blocks, as a decimal.
func (r *rig) received(address string) string {
	var got json.Number
	r.call(chains.Miner, &got, "getreceivedbyaddress", address, 1)
	return got.String()
}

// terms returns the terms of a plan.
func (r *rig) terms(plan treasury.TransferPlan) terms {
	return must.Get(decodeTerms(plan.Terms))(r)
}

// has returns the balances of the account, of the last block and of the last final one, as decimals.
func (r *rig) has(c *Chain) [2]string {
	s := must.Get(c.Snapshot(r.Context()))(r)
	return [2]string{s.Balances[money.BTC].String(), s.FinalBalances[money.BTC].String()}
}

// pool returns the transactions that wait.
func (r *rig) pool() (all []string) {
	r.call("", &all, "getrawmempool")
	slices.Sort(all)
	return all
}

func bytesOf(t *testing.T, tx *wire.MsgTx) []byte {
	var raw bytes.Buffer
	require.NoError(t, tx.Serialize(&raw))
	return raw.Bytes()
}
