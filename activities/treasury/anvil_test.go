package treasury_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/ethereum"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// onAnvil is a fixture on a real Ethereum node. Only mine adds blocks; a block is final under two more.
type onAnvil struct {
	fixture

	anvil  *chains.Anvil
	market chains.Market
	node   *ethereum.Chain
	owner  checkout.Owner // of a merchant with an address on the chain
	payee  common.Address
	key    int // of the treasury, of anvil's accounts
}

func newOnAnvil(t *testing.T) onAnvil {
	t.Helper()
	return newFixture(t).withAnvil(t)
}

func (base fixture) withAnvil(t *testing.T) onAnvil {
	t.Helper()
	f := onAnvil{fixture: base, anvil: chains.ForTest(t, chains.Options{}), key: 1}
	ctx := t.Context()
	f.market = must.Get(f.anvil.DeployMarket(ctx))(t)
	treasury := f.anvil.Accounts[f.key]
	f.payee = f.anvil.Accounts[2]
	require.NoError(t, f.anvil.Fund(ctx, "USDC", f.market.USDC, treasury, big.NewInt(1_000_000_000_000)))
	require.NoError(t, f.anvil.Automine(ctx, false))
	f.open(t, f.anvil.URL)
	f.StuckAfter = time.Hour
	f.owner = f.merchant(t, f.payee.Hex())
	return f
}

// open makes the treasury use the node at that address.
func (f *onAnvil) open(t *testing.T, rpcURL string) {
	t.Helper()
	signer := must.Get(ethereum.NewRemoteSigner(f.anvil.URL))(t)
	f.node = must.Get(ethereum.Open(t.Context(), ethereum.Options{
		RPCURLs: []string{rpcURL}, ChainID: f.anvil.ChainID, Treasury: f.anvil.Accounts[f.key].Hex(), Signer: signer,
		Tokens:     map[money.PayoutCurrency]string{money.USDC: f.market.USDC.Hex(), money.USDT: f.market.USDT.Hex()},
		MaxFeeGwei: 200, Confirmations: "finalized", MaxHeadAge: 24 * time.Hour,
	}))(t)
	f.Chains = map[string]treasury.Chain{"ethereum": f.node}
}

// booked lets the ledger know what the account has.
func (f onAnvil) booked(t *testing.T) {
	t.Helper()
	f.sync(t)
	f.mine(t, 3)
	f.sync(t)
	f.requireChain(t)
}

func (f onAnvil) mine(t *testing.T, blocks uint64) {
	t.Helper()
	require.NoError(t, f.anvil.Mine(t.Context(), blocks))
}

// confirms sends payouts and follows their transfers to the final block.
func (f onAnvil) confirms(t *testing.T, refs ...checkout.Ref) {
	t.Helper()
	for _, ref := range refs {
		f.send(t, ref)
	}
	f.mine(t, 3)
	require.Equal(t, len(refs), f.sync(t).Confirmed)
}

// sent sends a payout of 100 EUR, which waits in the node's pool. It returns its transfer too.
func (f onAnvil) sent(t *testing.T) (ref checkout.Ref, transferID string) {
	t.Helper()
	ref = f.payout(t, f.owner, 10_000, money.USDC)
	f.send(t, ref)
	return ref, f.transferOf(t, ref)
}

// received returns what the merchant has, in the smallest unit of USDC.
func (f onAnvil) received(t *testing.T) string {
	t.Helper()
	balance := must.Get(f.anvil.Read(t.Context(), "USDC", f.market.USDC, "balanceOf", f.payee))(t)
	units, ok := balance.(*big.Int)
	require.True(t, ok)
	return units.String()
}

// version returns a version of a transfer, the first being 1.
func (f onAnvil) version(t *testing.T, transferID string, number int) treasury.TransferVersion {
	t.Helper()
	live := must.Get(f.Store.Treasury.LiveTransfers(t.Context(), f.account(t).ID, 10))(t)
	for _, transfer := range live {
		if transfer.ID == transferID {
			return transfer.Versions[number-1]
		}
	}
	require.Fail(t, "there is no such live transfer")
	return treasury.TransferVersion{}
}
