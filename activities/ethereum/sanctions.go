package ethereum

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// errNoOracle: the answer is not that of isSanctioned.
var errNoOracle = errors.New("the sanctions oracle gives no answer")

// Sanctioned implements treasury.Chain. It reads the oracle at the latest block of a node that is ready. Check refuses
// a malformed destination.
func (c *Chain) Sanctioned(ctx context.Context, destination string) (_ bool, err error) {
	defer checkout.Wrap(&err, "ethereum: sanctions")
	to, err := address.Ethereum(destination)
	if c.oracle == nil || err != nil {
		return false, nil // Check refuses a malformed destination
	}
	n, _, err := c.healthy(ctx)
	if err != nil {
		return false, err
	}
	yes, err := c.askOracle(ctx, n, to)
	if err != nil && !errors.Is(err, jsonrpc.ErrNotReady) {
		err = fmt.Errorf("%w: %w", treasury.ErrNotTransferable, err)
	}
	return yes, err
}

// askOracle returns errNoOracle when the contract gives no answer, and jsonrpc.ErrNotReady.
func (c *Chain) askOracle(ctx context.Context, n *jsonrpc.Node, to common.Address) (bool, error) {
	var answer hexutil.Bytes
	call := message{To: c.oracle, Data: encodeCall("isSanctioned(address)", to)}
	err := n.Call(ctx, &answer, "eth_call", call, "latest")
	if errors.Is(err, jsonrpc.ErrNotReady) {
		return false, err
	}
	answered := new(big.Int).SetBytes(answer)
	if err != nil || len(answer) != wordSize || answered.BitLen() > 1 { // neither false nor true
		return false, fmt.Errorf("%s: %w", n.Name, errNoOracle)
	}
	return answered.Sign() > 0, nil
}

// checkOracle checks that a node has the oracle. Otherwise every payout would wait.
func (c *Chain) checkOracle(ctx context.Context, n *jsonrpc.Node) error {
	if c.oracle == nil {
		return nil
	}
	_, err := c.askOracle(ctx, n, c.treasury)
	return err
}
