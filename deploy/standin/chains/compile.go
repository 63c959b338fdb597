package chains

import (
	"bytes"
	"context"
	_ "embed" // for contracts.json
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"example.com/checkout/deploy/standin/build"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// A Contract is a compiled contract.
type Contract struct {
	ABI      json.RawMessage `json:"abi"`
	Creation hexutil.Bytes   `json:"creation"` // the code that a transaction deploys
	Runtime  hexutil.Bytes   `json:"runtime"`  // the code that is then at its address, without immutable values
}

//go:embed contracts.json
var compiledJSON []byte

// compiled are the contracts of deploy/standin/chains/contracts by name, as contracts.json has them.
func compiled(name string) (Contract, abi.ABI, error) {
	var all map[string]Contract
	if err := json.Unmarshal(compiledJSON, &all); err != nil {
		return Contract{}, abi.ABI{}, fmt.Errorf("contracts.json: %w", err)
	}
	c, ok := all[name]
	if !ok {
		return Contract{}, abi.ABI{}, fmt.Errorf("there is no contract %s in contracts.json", name)
	}
	parsed, err := abi.JSON(bytes.NewReader(c.ABI))
	if err != nil {
		return Contract{}, abi.ABI{}, fmt.Errorf("contract %s: %w", name, err)
	}
	return c, parsed, nil
}

// Compile compiles the Solidity sources of the repository and returns the contracts by name: those
// of deploy/standin/chains/contracts, and Probe of activities/ethereum. It returns ErrNotInstalled.
func Compile(ctx context.Context) (map[string]Contract, error) {
	if _, err := Install(ctx); err != nil {
		return nil, err
	}
	dir, err := build.Source("deploy/standin/chains", "contracts.json")
	if err != nil {
		return nil, err
	}
	sources, err := filepath.Glob(filepath.Join(dir, "contracts", "*.sol"))
	if err != nil {
		return nil, err
	}
	sources = append(sources, filepath.Join(dir, "..", "..", "..", "activities", "ethereum", "Probe.sol"))

	args := slices.Concat([]string{filepath.Join(dir, "npm", "compile.mjs")}, sources)
	node := exec.CommandContext(ctx, "node", args...) //nolint:gosec // G204: files of the source tree
	node.Stderr = os.Stderr
	output, err := node.Output()
	if err != nil {
		return nil, fmt.Errorf("compile the contracts: %w", err)
	}
	var all map[string]Contract
	err = json.Unmarshal(output, &all)
	return all, err
}
