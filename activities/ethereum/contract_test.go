package ethereum

import (
	"math/big"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// contract is what a node must be able to do. Nothing of it is signed or sent.
var contract = map[string]func(*testing.T, *Chain){
	"the node takes the state override of eth_call": func(t *testing.T, c *Chain) {
		for currency := range c.tokens {
			got := must.Get(c.probe(t.Context(), c.nodes[0], terms{TipWei: new(big.Int), CapWei: big.NewInt(100 * gwei)}, payload{c.tokens[currency], nil, decimalsCall}))(t)
			require.EqualValues(t, currency.Places(), got[0].number().Int64())
		}
		got := must.Get(c.probe(t.Context(), c.nodes[0], terms{TipWei: new(big.Int), CapWei: big.NewInt(100 * gwei)}, payload{control, big.NewInt(1), nil}))(t)
		require.True(t, got[0].moved(), "the override gives the account ether")
	},
	"addresses are checked": func(t *testing.T, c *Chain) {
		for currency, token := range c.tokens {
			why := must.Get(c.Check(t.Context(), currency, control.Hex()))(t)
			require.Empty(t, why)
			why = must.Get(c.Check(t.Context(), currency, token.Hex()))(t)
			require.Equal(t, checkout.PayoutInvalidAddress, why)
		}
		why := must.Get(c.Check(t.Context(), money.ETH, "sandbox:shop"))(t)
		require.Equal(t, checkout.PayoutInvalidAddress, why)
	},
	"the account's state is one of a block": func(t *testing.T, c *Chain) {
		now := must.Get(c.Snapshot(t.Context()))(t)
		require.Positive(t, now.Height)
		require.False(t, now.Used(treasury.NumberSlot(now.Next)))
		require.Len(t, now.Balances, len(c.tokens)+1)
	},
	"outflows are read up to the final block": func(t *testing.T, c *Chain) {
		now := must.Get(c.Snapshot(t.Context()))(t)
		require.LessOrEqual(t, must.Get(c.Outflows(t.Context(), now.Height-min(now.Height, 100), anyBlock))(t).Next, now.Height+1)
	},
}

// TestContract_Sepolia runs the same contract against a node of Sepolia, with the token at SEPOLIA_USDC.
func TestContract_Anvil(t *testing.T) {
	r := newRig(t, chains.Options{})
	r.mine(3)
	c := r.open()
	for name, part := range contract {
		t.Run(name, func(t *testing.T) { t.Parallel(); part(t, c) })
	}
}

func TestContract_Sepolia(t *testing.T) {
	t.Parallel()
	node := os.Getenv("SEPOLIA_RPC_URL")
	if node == "" {
		t.Skip("SEPOLIA_RPC_URL holds no address of a node")
	}
	tokens := map[money.PayoutCurrency]string{}
	if token := os.Getenv("SEPOLIA_USDC"); token != "" {
		tokens[money.USDC] = token
	}
	c := must.Get(Open(t.Context(), Options{
		RPCURLs: []string{node}, ChainID: 11155111, Treasury: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		Tokens: tokens, MaxFeeGwei: 200, Confirmations: "finalized",
	}))(t)
	for name, part := range contract {
		t.Run(name, func(t *testing.T) { t.Parallel(); part(t, c) })
	}
}
