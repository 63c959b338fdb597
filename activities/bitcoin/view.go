package bitcoin

import (
	"context"
	"fmt"
	"time"

	"example.com/checkout/activities/jsonrpc"
)

// A view is a node's state of the chain at one moment.
type view struct {
	head  uint64 // the height of the last block
	hash  string // of it
	final uint64 // the height of the last block that never goes away, by Options.Confirmations
}

// height returns the height of a block with as many confirmations, in the view.
func (v view) height(confirmations int64) uint64 {
	return v.head + 1 - min(v.head+1, uint64(max(confirmations, 0)))
}

// oldestVersion is the oldest version of Bitcoin Core whose RPC is used here: 28.
const oldestVersion = 280_000

// view returns the node's state of the chain. It returns an error when the node is on another chain, and
// jsonrpc.ErrNotReady when the node or its wallet is syncing or behind.
func (c *Chain) view(ctx context.Context) (view, error) {
	var (
		chain struct {
			Name    string `json:"chain"`
			Blocks  uint64 `json:"blocks"`
			Headers uint64 `json:"headers"`
			Best    string `json:"bestblockhash"`
			Time    int64  `json:"time"`
			Syncing bool   `json:"initialblockdownload"`
		}
		server struct {
			Version int `json:"version"`
		}
		genesis string
		wallet  walletInfo
	)
	questions := []jsonrpc.Question{
		jsonrpc.Ask(&server, "getnetworkinfo"), jsonrpc.Ask(&chain, "getblockchaininfo"),
		jsonrpc.Ask(&genesis, "getblockhash", 0),
	}
	if c.wallet != "" {
		questions = append(questions, jsonrpc.Ask(&wallet, "getwalletinfo"))
	}
	if err := c.node.Ask(ctx, questions...); err != nil {
		return view{}, err
	}

	notReady := func(why string, args ...any) (view, error) {
		return view{}, fmt.Errorf("%s: %w: %s", c.node.Name, jsonrpc.ErrNotReady, fmt.Sprintf(why, args...))
	}
	switch {
	case server.Version < oldestVersion:
		return view{}, fmt.Errorf("%s: its version is %d, below %d", c.node.Name, server.Version, oldestVersion)
	case chain.Name != c.network.name || genesis != c.network.genesis:
		return view{}, fmt.Errorf("%s: its network is %s, not %s", c.node.Name, chain.Name, c.network.name)
	case chain.Syncing || chain.Headers > chain.Blocks+1:
		return notReady("it has %d of %d blocks", chain.Blocks, chain.Headers)
	case c.wallet == "": // a node that only prices transfers
	case wallet.Scanning != nil && wallet.Scanning != false:
		return notReady("the wallet is being scanned")
	case wallet.Processed == nil || wallet.Processed.Hash != chain.Best:
		return notReady("the wallet is behind the chain")
	}
	if age := time.Since(time.Unix(chain.Time, 0)); c.maxHeadAge > 0 && age > c.maxHeadAge {
		return notReady("its last block is %v old", age.Round(time.Second))
	}
	v := view{head: chain.Blocks, hash: chain.Best}
	v.final = v.height(int64(c.confirmations)) //nolint:gosec // G115: some blocks
	return v, nil
}
