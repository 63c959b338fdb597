package ethereum

import (
	"context"
	_ "embed" // for probe.hex
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
)

// probeHex is the code of Probe.sol. A test of deploy/standin/chains compiles it again.
//
//go:embed probe.hex
var probeHex string

// probeABI is the interface of Probe.sol.
var probeABI = func() abi.ABI {
	parsed, err := abi.JSON(strings.NewReader(`[{"type": "function", "name": "run",
		"inputs": [{"name": "calls", "type": "tuple[]", "components": [
			{"name": "to", "type": "address"}, {"name": "value", "type": "uint256"}, {"name": "data", "type": "bytes"}]}],
		"outputs": [{"name": "results", "type": "tuple[]", "components": [
			{"name": "ok", "type": "bool"}, {"name": "data", "type": "bytes"}]}]}]`))
	if err != nil {
		panic(err) // the text above is wrong
	}
	return parsed
}()

// A probed is the answer of one call of a probe.
type probed struct {
	ok   bool // the call was not reverted
	data []byte
}

// yes reports whether the method exists and answered true.
func (p probed) yes() bool { return p.number().Sign() > 0 }

// number returns the number that the call answered; 0 when it answered none.
func (p probed) number() *big.Int {
	if !p.ok || len(p.data) != wordSize {
		return new(big.Int)
	}
	return new(big.Int).SetBytes(p.data)
}

// moved reports whether a call that moves money did so. A token's transfer answers true, or nothing.
func (p probed) moved() bool { return p.ok && (len(p.data) == 0 || p.yes()) }

// probe simulates calls of the treasury's account one after the other, and returns the answer of each. An answer
// includes whether the call was reverted, so an error is always the node's. Gas has the price of the terms, and the
// account has enough ether for it.
//
// The node runs Probe.sol in place of the account's code, of which there is none, so the contracts see the treasury as
// their caller.
func (c *Chain) probe(ctx context.Context, n *jsonrpc.Node, t terms, calls ...payload) ([]probed, error) {
	type call struct {
		To    common.Address
		Value *big.Int
		Data  []byte
	}
	packed := make([]call, len(calls))
	for i, p := range calls {
		packed[i] = call{p.to, p.value, p.data}
		if p.value == nil {
			packed[i].Value = new(big.Int)
		}
	}
	data, err := probeABI.Pack("run", packed)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}

	account := map[string]any{
		"code": strings.TrimSpace(probeHex), "balance": (*hexutil.Big)(new(big.Int).Lsh(big.NewInt(1), 100))}
	t.Gas = 0 // the probe needs more than the transfer
	var answer hexutil.Bytes
	if err := n.Call(ctx, &answer, "eth_call", c.priced(payload{c.treasury, nil, data}, t), "latest",
		map[common.Address]any{c.treasury: account}); err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	var results []struct {
		Ok   bool
		Data []byte
	}
	if err := probeABI.UnpackIntoInterface(&results, "run", answer); err != nil || len(results) != len(calls) {
		return nil, fmt.Errorf("probe: %s answers something else: %w", n.Name, err)
	}
	all := make([]probed, len(results))
	for i, r := range results {
		all[i] = probed{r.Ok, r.Data}
	}
	return all, nil
}
