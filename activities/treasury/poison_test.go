package treasury_test

import (
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
)

// poison logs transfers of nothing from the treasury, without its key, to the payee or, without one, to many addresses.
func (f onAnvil) poison(t *testing.T, payee common.Address, logs int64) {
	t.Helper()
	poisoner := must.Get(f.anvil.Deploy(t.Context(), "Poisoner"))(t)
	const inOne = 1_000
	for ; logs > 0; logs -= inOne {
		require.NoError(t, f.anvil.Invoke(t.Context(), "Poisoner", poisoner, "poison",
			f.market.USDC, f.anvil.Accounts[1], payee, big.NewInt(min(logs, inOne))))
	}
}

// Everybody can make a token log such transfers. They cost no request more, and no operator is asked about them.
func TestSync_ATransferOfNothingFreezesNothing(t *testing.T) {
	f := newOnAnvil(t)
	node := must.Get(url.Parse(f.anvil.URL))(t)
	var requests atomic.Int64
	forward := httputil.NewSingleHostReverseProxy(node)
	counted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(counted.Close)
	f.open(t, counted.URL)
	round := func() int64 {
		f.mine(t, 3)
		before := requests.Load()
		require.Empty(t, f.sync(t).Frozen)
		return requests.Load() - before
	}
	round()
	without := round()

	require.NoError(t, f.anvil.Automine(t.Context(), true))
	f.poison(t, f.payee, 3)
	f.poison(t, common.Address{}, 2_000)
	require.NoError(t, f.anvil.Automine(t.Context(), false))
	require.Equal(t, without, round())
	waiting := f.payout(t, f.owner, 5_000, money.USDC)

	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), f.account(t).ID, "a drill"))
	first := uint64(0)
	got := must.Get(f.Recover(t.Context(), treasurer.RecoveryOrder{AccountID: f.account(t).ID, From: &first}))(t)
	require.Empty(t, got.Found)
	f.thaw(t)
	f.confirms(t, waiting)
	f.requireChain(t)
}
