package bitcoin

import (
	"context"
	"encoding/hex"
	"fmt"

	"example.com/checkout/workflows/treasury"
)

// Send implements treasury.Chain. A node also refuses bytes that are mined, and a version that another one replaced.
// The fee was limited when it was signed, so the node has no limit.
func (c *Chain) Send(ctx context.Context, v treasury.TransferVersion) error {
	const anyRate = 0
	if err := c.node.Call(ctx, nil, "sendrawtransaction", hex.EncodeToString(v.Raw), anyRate); err != nil {
		return fmt.Errorf("bitcoin: send %s: %w", v.TxHash, err)
	}
	return nil
}
