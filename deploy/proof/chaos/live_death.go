package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/money"
)

// killWorkersAt kills both workers when one of them has reached a point in sending a payout. reach waits for it
// and reports whether it was reached.
func killWorkersAt(reach func(*chaos, context.Context) bool) injection {
	return func(ctx context.Context, c *chaos, _ *part, _ *rand.Rand) bool {
		var workers []*part
		for _, p := range c.rig.parts {
			if p.kind == "worker" && p.TryLock() {
				defer p.Unlock()
				workers = append(workers, p)
			}
		}
		if len(workers) < 2 {
			return false // another fault has one of them
		}
		waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
		reached := reach(c, waiting)
		cancel()
		for _, p := range workers {
			p.kill()
		}
		for _, name := range []string{"worker-signer", "worker-ethereum"} {
			c.rig.link(name).set(linkPasses)
		}
		for _, p := range workers {
			c.rig.startAgain(ctx, p)
		}
		return reached
	}
}

// awaitSigning waits until a worker waits for the signer, with the account locked and nothing committed. The
// signer does not answer it.
func (c *chaos) awaitSigning(ctx context.Context) bool {
	c.rig.link("worker-signer").set(linkBlackHole)
	return reached(ctx, func() bool {
		n, err := query[int](ctx, c.rig, `
			SELECT count(*) FROM pg_stat_activity WHERE application_name = 'checkout' AND state = 'idle in transaction'
				AND state_change < clock_timestamp() - interval '300 milliseconds'`)
		return err == nil && n > 0
	})
}

// awaitCommit waits until the signed transfer is committed. It cannot be sent.
func (c *chaos) awaitCommit(ctx context.Context) bool {
	_, committed := c.commitBehind(ctx, linkBlackHole)
	return committed
}

// awaitBroadcast waits until the node has the transfer. The worker does not learn this.
func (c *chaos) awaitBroadcast(ctx context.Context) bool {
	hash, committed := c.commitBehind(ctx, linkSwallows)
	return committed && reached(ctx, func() bool {
		var known *struct{ Nonce hexutil.Uint64 }
		err := c.onNode(ctx, money.Ethereum, func(d *devstack.LiveDouble) error {
			return d.Anvil.Call(ctx, &known, "eth_getTransactionByHash", hash)
		})
		return err == nil && known != nil
	})
}

// commitBehind lets a worker sign while its way to the node has a fault, and returns the hash of what
// it has committed.
func (c *chaos) commitBehind(ctx context.Context, f linkFault) (hash string, committed bool) {
	const newest = `
		SELECT coalesce((SELECT tx_hash FROM transfer_version WHERE currency <> 'BTC' ORDER BY created_at DESC LIMIT 1), '')`
	if !c.awaitSigning(ctx) {
		return "", false
	}
	before, err := query[string](ctx, c.rig, newest)
	if err != nil {
		return "", false
	}
	c.rig.link("worker-ethereum").set(f)
	c.rig.link("worker-signer").set(linkPasses)
	committed = reached(ctx, func() bool {
		hash, err = query[string](ctx, c.rig, newest)
		return err == nil && hash != before
	})
	return hash, committed
}

// reached asks until it is so, or ctx ends.
func reached(ctx context.Context, is func() bool) bool {
	return until(ctx, time.Minute, 20*time.Millisecond, is)
}
