package ethereum

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/workflows/treasury"
)

// Send implements treasury.Chain. It sends the bytes to every node, and succeeds when one accepts them. Nodes refuse
// bytes that they have, or that are mined, in different words.
func (c *Chain) Send(ctx context.Context, v treasury.TransferVersion) error {
	var faults []error
	for _, n := range c.nodes {
		var hash string
		if err := n.Call(ctx, &hash, "eth_sendRawTransaction", hexutil.Bytes(v.Raw)); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) < len(c.nodes) {
		return nil
	}
	return fmt.Errorf("ethereum: send %s: %w", v.TxHash, errors.Join(faults...))
}
