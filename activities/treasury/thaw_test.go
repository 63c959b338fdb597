package treasury_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
)

// The block at which the account was opened is the last one then, so it becomes final later. Its rounds only read.
func TestThaw_AYoungAccountWaitsUntilItsFirstBlockIsFinal(t *testing.T) {
	f := newFixture(t)
	f.chain.mine(1)
	f.sync(t)
	o := treasurer.ThawOrder{AccountID: f.account(t).ID}
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), o.AccountID, "a drill"))
	var early storage.NotFinalError
	require.ErrorAs(t, f.Thaw(t.Context(), o), &early)
	require.EqualError(t, early, "the ledger knows block 1, which is not final yet; the last final block is 0")
	require.Zero(t, early.Left, "nothing shows how fast the chain is")

	f.chain.mine(2)
	f.Exec(t, `UPDATE treasury_account SET created_at = now() - interval '24 seconds'`)
	require.ErrorAs(t, f.Thaw(t.Context(), o), &early)
	require.InDelta(t, 12, early.Left.Seconds(), 2, "two blocks in 24 s, and one block is missing")
	require.NotNil(t, f.account(t).FrozenAt)
	f.chain.mine(1)
	f.thaw(t)
}

// A chain that went back is not waited for: a person must find out why.
func TestThaw_RefusesAChainThatIsBehindTheLedger(t *testing.T) {
	for name, c := range map[string]struct {
		opened, mined, undone int
		want                  string
	}{
		"what was final is not": {1, 9, 5, "block 7 was final when the balances were compared, and the last final block is 5"},
		"it lost its blocks":    {9, 0, 4, "the ledger knows block 9, and the last block is 5"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			for _, blocks := range []int{c.opened, c.mined} {
				f.chain.mine(blocks)
				f.sync(t)
			}
			o := treasurer.ThawOrder{AccountID: f.account(t).ID}
			require.NoError(t, f.Store.Treasury.Freeze(t.Context(), o.AccountID, "a drill"))
			f.chain.undo(c.undone)
			require.EqualError(t, f.Thaw(t.Context(), o), "thaw: the chain is behind the ledger: "+c.want)
			require.ErrorIs(t, f.Thaw(t.Context(), o), storage.ErrBehind)
		})
	}
}
