package chains

import (
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"
)

// TestStartAnvil_KeepsItsChainInAFile: the local stack finds its tokens and balances again.
func TestStartAnvil_KeepsItsChainInAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "chain.json")
	first := ForTest(t, Options{ChainID: 4711, StateFile: file})
	market, err := first.DeployMarket(t.Context())
	require.NoError(t, err)
	require.Len(t, market.Feeds, 8)
	holder := common.HexToAddress("0xbeef")
	require.NoError(t, first.Fund(t.Context(), "USDT", market.USDT, holder, big.NewInt(7)))
	require.NoError(t, first.Stop())
	_, err = os.Stat(file)
	require.NoError(t, err)

	process := first.PID()
	require.NoError(t, first.Start(t.Context()), "in place, at the same address")
	require.NotEqual(t, process, first.PID())
	require.NoError(t, first.Fund(t.Context(), "USDT", market.USDT, holder, big.NewInt(7)))
	require.ErrorContains(t, first.Reorg(t.Context(), 5), "blocks since its start, too few to replace 5")
	require.NoError(t, first.Stop())

	second := ForTest(t, Options{ChainID: 4711, StateFile: file})
	again, err := second.DeployMarket(t.Context())
	require.NoError(t, err)
	require.Equal(t, market, again)
	balance, err := second.Read(t.Context(), "USDT", market.USDT, "balanceOf", holder)
	require.NoError(t, err)
	require.Equal(t, big.NewInt(14), balance)
	require.NoError(t, second.Fund(t.Context(), "USDC", market.USDC, holder, big.NewInt(8)), "it goes on")
}

// TestStartAnvil_RefusesAPortThatIsTaken: an answer of another program is not that of a new chain.
func TestStartAnvil_RefusesAPortThatIsTaken(t *testing.T) {
	t.Parallel()
	first := ForTest(t, Options{})
	var port int
	_, err := fmt.Sscanf(first.URL, "http://127.0.0.1:%d", &port)
	require.NoError(t, err)
	_, err = StartAnvil(t.Context(), Options{Port: port, ChainID: 5})
	require.ErrorContains(t, err, "anvil")
}

func TestReorg_KeepsTheBlocksOfBeforeTheStart(t *testing.T) {
	t.Parallel()
	o := Options{StateFile: filepath.Join(t.TempDir(), "chain.json"), NoMining: true}
	a := ForTest(t, o)
	require.NoError(t, a.Mine(t.Context(), 3))
	require.NoError(t, a.Stop())
	a = ForTest(t, o)

	require.ErrorContains(t, a.Reorg(t.Context(), 1), "the node has 0 blocks since its start, too few to replace 1")
	require.NoError(t, a.Mine(t.Context(), 2))
	require.NoError(t, a.Reorg(t.Context(), 1))
}

func TestReorg_KeepsTheTime(t *testing.T) {
	t.Parallel()
	a := ForTest(t, Options{NoMining: true})
	for range 4 {
		require.NoError(t, a.Mine(t.Context(), 1))
		time.Sleep(time.Second)
	}
	require.NoError(t, a.Reorg(t.Context(), 3))
	before := time.Now()
	require.NoError(t, a.Mine(t.Context(), 1))
	var last struct{ Timestamp hexutil.Uint64 }
	require.NoError(t, a.Call(t.Context(), &last, "eth_getBlockByNumber", "latest", false))
	const rounded = 2 * time.Second
	require.WithinRange(t, time.Unix(int64(last.Timestamp), 0), before.Add(-rounded), time.Now().Add(rounded))
}
