package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/money"
)

// liveFaultKinds are the kinds that only a run with live mode has. The double sends each report three
// times and out of order, without a fault.
var liveFaultKinds = []faultKind{
	{"acquirer-kill", 2, "acquirer", killed},
	{"acquirer-lost-answers", 5, "", planFault(acquirer.Fault{Kind: acquirer.FaultLost})},
	{"acquirer-broken", 2, "", planFault(acquirer.Fault{Kind: acquirer.FaultBroken})},
	{"acquirer-broken-after", 2, "", planFault(acquirer.Fault{Kind: acquirer.FaultBroken, AfterEffect: true})},
	{"acquirer-too-many", 1, "", planFault(acquirer.Fault{Kind: acquirer.FaultTooMany})},
	{"acquirer-slow", 1, "", planFault(acquirer.Fault{Kind: acquirer.FaultSlow, Delay: 16_000})},
	{"acquirer-forgets-keys", 3, "", control((*acquirer.Acquirer).ForgetKeys)},
	{"reports-lost", 2, "", control((*acquirer.Acquirer).LoseWebhooks)},
	{"reports-held", 2, "", holdReports},
	{"ethereum-stop", 1, money.Ethereum, recordHalt(stopped)},
	{"ethereum-pause", 2, money.Ethereum, recordHalt(paused(8 * time.Second))},
	{"ethereum-no-answers", 2, "", recordHalt(loseAnswers("worker-ethereum"))},
	{"acquirer-no-answers", 2, "", loseAnswers("worker-acquirer")},
	{"ethereum-drop", 3, "", within(10*time.Second, dropTransactions)},
	{"ethereum-fee", 2, "", recordHalt(raiseFee(money.Ethereum, raiseBaseFee))},
	{"ethereum-reorganization", 4, "", replaceBlocks(money.Ethereum)},
	{"bitcoin-stop", 2, money.Bitcoin, recordHalt(stopped)}, // its pool is lost
	{"bitcoin-pause", 1, money.Bitcoin, recordHalt(paused(8 * time.Second))},
	{"bitcoin-no-answers", 2, "", recordHalt(loseAnswers("worker-bitcoin"))},
	{"bitcoin-fee", 2, "", recordHalt(raiseFee(money.Bitcoin, raiseBitcoinFee))},
	{"bitcoin-reorganization", 4, "", replaceBlocks(money.Bitcoin)},
	{"treasury-top-up", 6, "", within(time.Minute, topUp)},
	{"treasury-freeze", 1, "", within(15*time.Second, freeze)},
	{"worker-dies-before-commit", 2, "", killWorkersAt((*chaos).awaitSigning)},
	{"worker-dies-after-commit", 2, "", killWorkersAt((*chaos).awaitCommit)},
	{"worker-dies-after-send", 2, "", killWorkersAt((*chaos).awaitBroadcast)},
}

// recordHalt notes when a fault put payouts on hold. Whether an enemy delays payouts is a question about the others.
func recordHalt(inject injection) injection {
	return func(ctx context.Context, c *chaos, p *part, random *rand.Rand) bool {
		halt := invariant.Span{From: time.Now()}
		did := inject(ctx, c, p, random)
		halt.To = time.Now()
		c.world.updateSiege(func(s *invariant.Siege) { s.Halts = append(s.Halts, halt) })
		return did
	}
}

// planFault lets some of the next requests to the card network go wrong.
func planFault(f acquirer.Fault) injection {
	return func(_ context.Context, c *chaos, _ *part, random *rand.Rand) bool {
		// Some: a client silently repeats a request with an idempotency key.
		f.Match = pick(random, []string{"", "/confirm", "/cancel", "POST /v1/payment_intents"})
		f.Count = 1 + random.IntN(8)
		return c.world.card.Plan(f) == nil
	}
}

// control lets the card network lose what it has. PostgreSQL may be away.
func control(do func(*acquirer.Acquirer, context.Context) error) injection {
	return within(30*time.Second, func(ctx context.Context, c *chaos, _ *part, _ *rand.Rand) bool {
		return do(c.world.card, ctx) == nil
	})
}

// holdReports keeps the card network's reports back for a while. A restart of it lets them go.
func holdReports(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	held := c.world.card.HoldWebhooks() == nil
	pause(ctx, between(random, 2*time.Second, 20*time.Second))
	c.world.card.ReleaseWebhooks() // the end of the load releases them too
	return held
}

// loseAnswers lets requests through a link take effect and loses their answers.
func loseAnswers(name string) injection {
	return func(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
		l := c.rig.link(name)
		l.set(linkSwallows)
		pause(ctx, between(random, 500*time.Millisecond, 4*time.Second))
		l.set(linkCut) // nobody gets the answers later
		l.set(linkPasses)
		return true
	}
}

// dropTransactions removes half of the treasury's transactions from the node's pool.
func dropTransactions(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	hashes, err := query[[]string](ctx, c.rig, `
		SELECT coalesce(array_agg(v.tx_hash), '{}') FROM transfer_version v JOIN transfer t ON t.id = v.transfer_id
		WHERE t.status = 'live' AND v.currency <> 'BTC'`)
	if err != nil || len(hashes) == 0 {
		return false
	}
	return c.onNode(ctx, money.Ethereum, func(d *devstack.LiveDouble) error {
		for _, hash := range hashes {
			if random.IntN(2) == 0 {
				_ = d.Anvil.Drop(ctx, hash) // it is not in the pool
			}
		}
		return nil
	}) == nil
}

// highFee is 20 times the base fee of the first block, in wei.
const highFee = 20_000_000_000

// What 1,000 virtual bytes cost, in bitcoins. The higher one is 20 times the other.
const (
	usualRate = "0.00002000"
	highRate  = "0.00040000"
)

// raiseFee keeps the fee of a network high, sometimes for so long that the service must raise its own.
func raiseFee(network string, raise func(context.Context, *rig) error) injection {
	return func(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
		longest := 20 * time.Second
		if random.IntN(3) == 0 {
			longest = 150 * time.Second
		}
		raised := false
		end := time.Now().Add(between(random, longest/2, longest))
		for ; time.Now().Before(end); pause(ctx, 500*time.Millisecond) {
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := c.onNode(limited, network, func(*devstack.LiveDouble) error { return raise(limited, c.rig) })
			cancel()
			raised = raised || err == nil
		}
		if network == money.Bitcoin { // that of Ethereum falls by itself
			c.rig.fees.Set(usualRate)
			c.rig.stack.Live.Bitcoin.MineEmptyBlocks(false)
		}
		return raised
	}
}

func raiseBaseFee(ctx context.Context, r *rig) error {
	return r.stack.Live.Anvil.SetBaseFee(ctx, highFee)
}

// raiseBitcoinFee lets blocks take nothing: others pay more.
func raiseBitcoinFee(_ context.Context, r *rig) error {
	r.fees.Set(highRate)
	r.stack.Live.Bitcoin.MineEmptyBlocks(true)
	return nil
}

// replaceBlocks replaces up to three blocks by others without their transactions.
func replaceBlocks(network string) injection {
	return within(10*time.Second, func(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
		return c.onNode(ctx, network, func(d *devstack.LiveDouble) error {
			return reorganize(ctx, d, network, 1+random.IntN(3))
		}) == nil
	})
}

func reorganize(ctx context.Context, d *devstack.LiveDouble, network string, blocks int) error {
	if network == money.Bitcoin {
		return d.Bitcoin.Reorganize(ctx, blocks)
	}
	return d.Anvil.Reorg(ctx, uint64(blocks)) //nolint:gosec // some blocks
}

// topUp gives the treasury more, which lasts longer in a long run.
func topUp(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	some := float * max(1, int64(c.payouts)/30)
	return c.topUpAll(ctx, some+random.Int64N(3*some)) == nil
}

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
