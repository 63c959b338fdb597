package treasury_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/treasury"
	"example.com/checkout/workflows/checkout"
)

// poison lets somebody without a key write transfers of nothing out of the treasury, to the payee or, when
// that is zero, to many.
func (f onAnvil) poison(t *testing.T, payee common.Address, logs int64) {
	t.Helper()
	poisoner, err := f.anvil.Deploy(t.Context(), "Poisoner")
	require.NoError(t, err)
	const inOne = 1_000
	for ; logs > 0; logs -= inOne {
		require.NoError(t, f.anvil.Invoke(t.Context(), "Poisoner", poisoner, "poison",
			f.market.USDC, f.anvil.Accounts[1], payee, big.NewInt(min(logs, inOne))))
	}
}

// Everybody can make a token say that the treasury transferred nothing. Nobody waits because of it, and nobody
// is asked about it.
func TestSync_ATransferOfNothingFreezesNothing(t *testing.T) {
	t.Parallel()
	f := newOnAnvil(t)
	f.sync(t)
	require.NoError(t, f.anvil.Automine(t.Context(), true))
	f.poison(t, f.payee, 3)
	f.poison(t, common.Address{}, 1_000)
	require.NoError(t, f.anvil.Automine(t.Context(), false))
	f.mine(t, 3)
	require.Empty(t, f.sync(t).Frozen)
	waiting := f.payout(t, f.owner, 5_000, checkout.USDC)

	require.NoError(t, f.Store.Freeze(t.Context(), f.account(t).ID, "a drill"))
	first := uint64(0)
	got, err := f.Recover(t.Context(), treasury.RecoveryOrder{AccountID: f.account(t).ID, From: &first})
	require.NoError(t, err)
	require.Empty(t, got.Found)
	f.thaw(t)
	f.send(t, waiting)
	f.mine(t, 3)
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.requireChain(t)
}

// A round takes about as long with many transfers of nothing as without any.
func TestSync_TenThousandTransfersOfNothingSlowNothingDown(t *testing.T) {
	f := newOnAnvil(t)
	round := func() time.Duration {
		f.mine(t, 3)
		start := time.Now()
		require.Empty(t, f.sync(t).Frozen)
		return time.Since(start)
	}
	round()
	without := round()
	require.NoError(t, f.anvil.Automine(t.Context(), true))
	f.poison(t, common.Address{}, 10_000)
	require.NoError(t, f.anvil.Automine(t.Context(), false))
	with := round()
	t.Logf("a round with 0 foreign logs takes %v, one with 10,000 takes %v", without, with)
	require.Less(t, with, without+3*time.Second)
}
