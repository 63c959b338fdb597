package chains

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/need"
)

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
