package chains

import (
	"encoding/json"
	"flag"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/need"
)

// TestTokens_MoveNothingForAnybody: as on the main network, a transfer of nothing needs no allowance, so
// everybody can make a token say that an account paid somebody.
func TestTokens_MoveNothingForAnybody(t *testing.T) {
	t.Parallel()
	anvil := ForTest(t, Options{})
	market, err := anvil.DeployMarket(t.Context())
	require.NoError(t, err)
	spender, holder, payee := anvil.Accounts[0], anvil.Accounts[1], common.HexToAddress("0xbeef0")
	for name, token := range map[string]common.Address{"USDC": market.USDC, "USDT": market.USDT} {
		invoke := func(method string, args ...any) error { return anvil.Invoke(t.Context(), name, token, method, args...) }
		require.NoError(t, anvil.Fund(t.Context(), name, token, holder, big.NewInt(10)))
		require.NoError(t, invoke("transferFrom", holder, payee, new(big.Int)))
		require.Error(t, invoke("transferFrom", holder, payee, big.NewInt(1)), "%s: without an allowance", name)

		require.NoError(t, anvil.InvokeFrom(t.Context(), holder, name, token, "approve", spender, big.NewInt(3)))
		require.NoError(t, invoke("transferFrom", holder, payee, big.NewInt(2)))
		require.Error(t, invoke("transferFrom", holder, payee, big.NewInt(2)), "%s: above the allowance", name)
		left, err := anvil.Read(t.Context(), name, token, "allowance", holder, spender)
		require.NoError(t, err)
		require.Equal(t, big.NewInt(1), left)
	}
}

var write = flag.Bool("compile", false, "write contracts.json and probe.hex anew")

// TestCompile_GivesTheCommittedCode: the bytecode in the repository is that of the sources beside it.
// After a change of a source: go test ./deploy/standin/chains -run Compile -compile.
func TestCompile_GivesTheCommittedCode(t *testing.T) {
	t.Parallel()
	need.Program(t, "apt-get install nodejs", "node")
	probeFile := filepath.Join("..", "..", "..", "activities", "ethereum", "probe.hex")
	got, err := Compile(t.Context())
	SkipWithout(t, err)
	require.Contains(t, got, "Probe")
	probe := got["Probe"].Runtime.String() + "\n"
	delete(got, "Probe")
	contracts, err := json.MarshalIndent(got, "", " ")
	require.NoError(t, err)
	contracts = append(contracts, '\n')

	if *write {
		require.NoError(t, os.WriteFile("contracts.json", contracts, 0o600))
		require.NoError(t, os.WriteFile(probeFile, []byte(probe), 0o600))
		return
	}
	committed, err := os.ReadFile("contracts.json")
	require.NoError(t, err)
	require.Equal(t, string(committed), string(contracts), "compile again: go test ./deploy/standin/chains -run Compile -compile")
	committed, err = os.ReadFile(probeFile)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(committed)), strings.TrimSpace(probe))
}
