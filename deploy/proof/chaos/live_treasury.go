package main

import (
	"context"
	"errors"
	"io"
	"math/big"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/deploy/standin/devstack"
)

// addLiveParts adds the card network and the chain's node.
func (r *rig) addLiveParts() {
	d, never := r.stack.Live, make(chan struct{})
	stopNode := func() { _ = d.Anvil.Stop() } // Stop kills a node that does not end
	r.parts = append(r.parts,
		&part{
			name: "card network", kind: "acquirer", start: d.StartAcquirer,
			pid: func() int { return 0 }, done: func() <-chan struct{} { return never }, // it is in this process
			kill: func() { d.Acquirer.Stop() }, stop: func() { d.Acquirer.Stop() },
		},
		&part{
			// A node that is killed forgets its blocks. On a real network others have them, so this one
			// always writes them; what waits in its pool is lost.
			name: "node", kind: "chain", start: d.StartChain, kill: stopNode, stop: stopNode,
			pid: func() int { return d.Anvil.PID() }, done: func() <-chan struct{} { return d.Anvil.Done() },
		},
	)
}

// onChain uses the node while no fault breaks it.
func (c *chaos) onChain(ctx context.Context, do func(d *devstack.LiveDouble) error) error {
	for _, p := range c.rig.parts {
		if p.kind != "chain" {
			continue
		}
		for !p.TryLock() {
			if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
				return ctx.Err()
			}
		}
		defer p.Unlock()
		return do(c.rig.stack.Live)
	}
	return errors.New("there is no chain")
}

// superviseTreasury is the operator who looks at the treasury until ctx ends.
func (c *chaos) superviseTreasury(ctx context.Context) {
	for c.live && ctx.Err() == nil {
		if c.world.backup.TryLock() {
			_ = c.thaw(ctx) // PostgreSQL or the node may be away; the next look is soon
			c.world.backup.Unlock()
		}
		pause(ctx, 5*time.Second)
	}
}

// thaw lets a frozen account sign again, as an operator does. Once a backup was restored, the database first
// gets to know what the chain has: a lost transaction may be mined long after that.
func (c *chaos) thaw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	id, err := query[string](ctx, c.rig, `
		SELECT coalesce(max(id), '') FROM treasury_account WHERE frozen_at IS NOT NULL`)
	if err != nil || id == "" {
		return err
	}
	why, err := query[string](ctx, c.rig, `SELECT frozen_why FROM treasury_account WHERE id = $1`, id)
	if err != nil {
		return err
	}
	at, err := query[time.Time](ctx, c.rig, `SELECT frozen_at FROM treasury_account WHERE id = $1`, id)
	if err != nil {
		return err
	}
	args := []string{"thaw", id}
	if c.restored.Load() > 0 {
		losses, err := c.recover(ctx, id)
		if err != nil {
			return err
		}
		args = append(args, losses...)
	}
	if err := c.treasury(ctx, io.Discard, args...); err != nil {
		return err
	}
	c.say("the treasury was frozen and thawed: %s", why)
	c.world.note(func(s *invariant.Siege) {
		s.Frozen = append(s.Frozen, why)
		if why == invariant.OperatorsFreeze {
			s.Halts = append(s.Halts, invariant.Span{From: at, To: time.Now()})
		}
	})
	return nil
}

// treasury runs an operator's command for the treasury. While the enemy acts, a reorganization comes just
// before.
func (c *chaos) treasury(ctx context.Context, out io.Writer, args ...string) error {
	return c.onChain(ctx, func(d *devstack.LiveDouble) error {
		if c.world.besieged.Load() {
			_ = d.Anvil.Reorg(ctx, 1+rand.Uint64N(3)) //nolint:gosec // a node that fails has none
		}
		return c.operator(ctx, out, append([]string{"treasury"}, args...)...)
	})
}

// freeze stops the treasury for a while, as an operator does. Who supervises it thaws it.
func freeze(ctx context.Context, c *chaos, _ *part, _ *rand.Rand) bool {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	id, err := query[string](ctx, c.rig, `SELECT coalesce(max(id), '') FROM treasury_account WHERE frozen_at IS NULL`)
	return err == nil && id != "" &&
		c.operator(ctx, io.Discard, "treasury", "freeze", id, "--reason", invariant.OperatorsFreeze) == nil
}

// keepTreasury acts for the operator at the end of the load: it repairs the card network, thaws the
// account, makes failed payouts good, and tops the account up while payouts wait for that.
func (c *chaos) keepTreasury(ctx context.Context) error {
	if !c.live {
		return nil
	}
	err := errors.Join(c.world.control.Clear(ctx), c.world.control.ReleaseWebhooks(ctx))
	if err != nil {
		return err
	}
	if time.Since(c.world.looked) < 3*time.Second {
		return nil
	}
	c.world.looked = time.Now()
	// The chain may not be final yet: the next look is soon.
	if err := errors.Join(c.thaw(ctx), c.endAttack(ctx), c.refundUnknown(ctx)); err != nil {
		c.say("the operator waits: %s", err)
	}
	waiting, err := query[int](ctx, c.rig, `SELECT count(*) FROM payout WHERE status = 'pending' AND hold = 'float'`)
	if err != nil || waiting == 0 || time.Since(c.world.toppedUp) < time.Minute {
		return err
	}
	c.world.toppedUp = time.Now()
	return c.onChain(ctx, func(d *devstack.LiveDouble) error { return topUpAll(ctx, d, 10*float) })
}

// topUpAll gives the treasury more of every currency, and waits until this is final: a node here
// forgets what a reorganization removes, and the operator would have to send it again.
func topUpAll(ctx context.Context, d *devstack.LiveDouble, dollars int64) error {
	for _, currency := range invariant.LiveCurrencies {
		if err := d.Fund(ctx, currency, dollars); err != nil {
			return err
		}
	}
	pause(ctx, 5*time.Second)
	return nil
}

// robTreasury sends a transaction with the treasury's key, as a thief would, when everything is at
// rest. The account must freeze, and sign nothing for the payout of a new session. After an operator
// has thawed it, the payout is sent.
func (c *chaos) robTreasury(ctx context.Context) error {
	if !c.live {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	theft, err := c.steal(ctx)
	if err != nil {
		return err
	}
	c.world.note(func(s *invariant.Siege) { s.Thefts = append(s.Thefts, theft) })
	if theft.Froze == "" {
		return nil // invariant 25 tells
	}
	if err := c.payWhileFrozen(ctx); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, c.rig.databaseURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was written
	rest := ""
	c.until(ctx, 4*time.Minute, func() bool {
		if err = c.keepTreasury(ctx); err == nil {
			rest, err = restless(ctx, conn)
		}
		return err != nil || rest == ""
	})
	if rest != "" {
		return errors.Join(err, errors.New("after the thaw there are still "+rest))
	}
	return err
}

// steal moves a little ether, and waits until the account is frozen.
func (c *chaos) steal(ctx context.Context) (theft invariant.Theft, err error) {
	err = c.onChain(ctx, func(d *devstack.LiveDouble) (err error) {
		thief := d.Anvil.Accounts[9]
		theft.TxHash, err = d.Anvil.Send(ctx, chains.Transaction{From: d.Treasury(), To: &thief, Value: big.NewInt(1_000)})
		return err
	})
	if err != nil {
		return theft, err
	}
	c.say("a thief used the treasury's key")
	c.until(ctx, 90*time.Second, func() bool {
		theft.Froze, err = query[string](ctx, c.rig, `SELECT coalesce(max(frozen_why), '') FROM treasury_account`)
		return err != nil || theft.Froze != ""
	})
	return theft, err
}

// payWhileFrozen pays a session. Its payout must wait.
func (c *chaos) payWhileFrozen(ctx context.Context) (err error) {
	random := rand.New(rand.NewPCG(c.seed, 0x7e57)) //nolint:gosec // the same seed must give the same numbers
	c.playLive(ctx, script{name: "live: pay while frozen", play: func(ctx context.Context, c *chaos, s *scene) {
		c.payLive(ctx, s, liveGood)
	}}, random)
	held := 0
	c.until(ctx, time.Minute, func() bool {
		held, err = query[int](ctx, c.rig, `SELECT count(*) FROM payout WHERE status = 'pending' AND hold = 'frozen'`)
		return err != nil || held > 0
	})
	if err == nil && held == 0 {
		err = errors.New("a frozen treasury did not hold a payout")
	}
	return err
}

// until waits until done, for some time at most.
func (c *chaos) until(ctx context.Context, longest time.Duration, done func() bool) {
	for began := time.Now(); !done() && time.Since(began) < longest && ctx.Err() == nil; {
		pause(ctx, time.Second)
	}
}
