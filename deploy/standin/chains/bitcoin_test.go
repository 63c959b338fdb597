package chains

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStartBitcoin_KeepsItsChain: a restart finds the blocks and the wallets again, and the pool only if it may.
func TestStartBitcoin_KeepsItsChain(t *testing.T) {
	t.Parallel()
	node := BitcoinForTest(t, BitcoinOptions{})
	_, err := node.Fund(t.Context(), Miner, "1.5", "2.5")
	require.NoError(t, err)

	var before, kept, forgotten []string
	var after string
	require.NoError(t, node.Call(t.Context(), "", &before, "getrawmempool"))
	require.Len(t, before, 1)
	require.NoError(t, node.Stop())
	require.NoError(t, node.Start(t.Context()))
	require.Eventually(t, func() bool { // it is read in the background
		return node.Call(t.Context(), "", &kept, "getrawmempool") == nil && slices.Equal(before, kept)
	}, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, node.Stop())
	require.NoError(t, node.ForgetPool())
	require.NoError(t, node.Start(t.Context()))
	require.NoError(t, node.Call(t.Context(), "", &forgotten, "getrawmempool"))
	require.Empty(t, forgotten)

	before, err = node.Mine(t.Context(), 3)
	require.NoError(t, err)
	require.NoError(t, node.Reorganize(t.Context(), 3))
	require.NoError(t, node.Call(t.Context(), "", &after, "getbestblockhash"))
	require.NotContains(t, before, after)
}
