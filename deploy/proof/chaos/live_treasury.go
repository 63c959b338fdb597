package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"slices"
	"time"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/money"
)

func (r *rig) addLiveParts() {
	d, never := r.stack.Live, make(chan struct{})
	stopAnvil := func() { _ = d.Anvil.Stop() } // Stop kills a node that does not end
	stopBitcoin := func() {
		_ = d.Bitcoin.Stop()       // as above
		_ = d.Bitcoin.ForgetPool() // it may be gone
	}
	r.parts = append(r.parts,
		&part{
			name: "card network", kind: "acquirer", start: d.Acquirer.Restart,
			pid: func() int { return 0 }, done: func() <-chan struct{} { return never }, // it is in this process
			kill: d.Acquirer.Kill, stop: d.Acquirer.Kill,
		},
		// A node that is killed forgets its blocks. On a real network others have them, so these
		// always write them; what waits in their pools is lost.
		&part{
			name: "node of Ethereum", kind: money.Ethereum, start: d.Anvil.Start, kill: stopAnvil,
			stop: stopAnvil, pid: d.Anvil.PID, done: d.Anvil.Done,
		},
		&part{
			name: "node of Bitcoin", kind: money.Bitcoin, kill: stopBitcoin, stop: stopBitcoin, pid: d.Bitcoin.PID,
			done: d.Bitcoin.Done, start: func(ctx context.Context) error { return d.Bitcoin.Start(ctx) },
		},
	)
}

// onNode uses the node of a network while no fault breaks it.
func (c *chaos) onNode(ctx context.Context, network string, do func(d *devstack.LiveDouble) error) error {
	node := c.rig.parts[slices.IndexFunc(c.rig.parts, func(p *part) bool { return p.kind == network })]
	if err := node.await(ctx); err != nil {
		return err
	}
	defer node.Unlock()
	return do(c.rig.stack.Live)
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

// account is a row of the treasury's accounts.
type account struct {
	ID, Network string
	FrozenAt    *time.Time
	FrozenWhy   string
}

// accounts returns the treasury's frozen accounts, or the other ones.
func (c *chaos) accounts(ctx context.Context, frozen bool) ([]account, error) {
	return queryAll[account](ctx, c.rig, `
		SELECT id, network, frozen_at, frozen_why FROM treasury_account WHERE (frozen_at IS NOT NULL) = $1`, frozen)
}

// thaw lets the frozen accounts sign again.
func (c *chaos) thaw(ctx context.Context) error {
	frozen, err := c.accounts(ctx, true)
	for _, a := range frozen {
		err = errors.Join(err, c.thawAccount(ctx, a))
	}
	return err
}

// thawAccount lets an account sign again, as an operator does. Once a backup was restored, the database first
// gets to know what the chain has: a lost transaction may be mined long after that.
func (c *chaos) thawAccount(ctx context.Context, a account) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	args := []string{"thaw", a.ID, "--wait", "0s"} // the supervisor comes again, and the node is locked meanwhile
	if c.restored.Load() > 0 {
		if err := c.finishPayments(ctx, *a.FrozenAt); err != nil {
			return err
		}
		losses, err := c.recover(ctx, a)
		if err != nil {
			return err
		}
		args = append(args, losses...)
	}
	if err := c.treasury(ctx, a, io.Discard, args...); err != nil {
		return err
	}
	c.world.chosen[a.Network] = nil
	c.say("the account on %s was frozen and thawed: %s", a.Network, a.FrozenWhy)
	c.world.updateSiege(func(s *invariant.Siege) {
		s.Frozen = append(s.Frozen, a.FrozenWhy)
		if a.FrozenWhy == invariant.OperatorsFreeze {
			s.Halts = append(s.Halts, invariant.Span{From: *a.FrozenAt, To: time.Now()})
		}
	})
	return nil
}

// treasury runs an operator's command for an account. While the enemy acts, a reorganization comes just
// before.
func (c *chaos) treasury(ctx context.Context, a account, out io.Writer, args ...string) error {
	return c.onNode(ctx, a.Network, func(d *devstack.LiveDouble) error {
		if c.world.besieged.Load() {
			_ = reorganize(ctx, d, a.Network, 1+rand.IntN(3)) //nolint:gosec // a node that fails has none
		}
		return c.operator(ctx, out, append([]string{"treasury"}, args...)...)
	})
}

// freeze stops an account for a while, as an operator does. Who supervises the treasury thaws it.
func freeze(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	all, err := c.accounts(ctx, false)
	return err == nil && len(all) > 0 && c.freezeAccounts(ctx, pick(random, all)) == nil
}

func (c *chaos) freezeAccounts(ctx context.Context, all ...account) (err error) {
	for _, a := range all {
		err = errors.Join(err,
			c.operator(ctx, io.Discard, "treasury", "freeze", a.ID, "--reason", invariant.OperatorsFreeze))
	}
	return err
}

// keepTreasury acts for the operator at the end of the load: it repairs the card network, thaws the
// account, makes failed payouts good, and tops the account up while payouts wait for that.
func (c *chaos) keepTreasury(ctx context.Context) error {
	if !c.live {
		return nil
	}
	c.world.card.Clear()
	c.world.card.ReleaseWebhooks()
	if time.Since(c.world.looked) < 3*time.Second {
		return nil
	}
	c.world.looked = time.Now()
	// The chain may not be final yet: the next look is soon.
	if err := errors.Join(c.thaw(ctx), c.takeEther(ctx), c.endAttack(ctx), c.refundUnknown(ctx)); err != nil {
		c.say("the operator waits: %s", err)
	}
	waiting, err := query[int](ctx, c.rig, `SELECT count(*) FROM payout WHERE status = 'pending' AND hold = 'float'`)
	if err != nil || waiting == 0 || time.Since(c.world.toppedUp) < time.Minute {
		return err
	}
	c.world.toppedUp = time.Now()
	return c.topUpAll(ctx, 10*float)
}

// topUpAll gives the treasury more of every currency, and waits until this is final: a node here
// forgets what a reorganization removes, and the operator would have to send it again.
func (c *chaos) topUpAll(ctx context.Context, dollars int64) (err error) {
	for _, network := range []string{money.Ethereum, money.Bitcoin} {
		err = errors.Join(err, c.onNode(ctx, network, func(d *devstack.LiveDouble) error {
			for _, currency := range invariant.CurrenciesOn(network) {
				if err := d.Fund(ctx, currency, dollars); err != nil {
					return err
				}
			}
			if network == money.Ethereum {
				pause(ctx, 5*time.Second)
			}
			return nil
		}))
	}
	return err
}

// robTreasury sends a transaction with the treasury's key of each chain, as a thief would, when everything is at
// rest. The account must freeze, and sign nothing for the payout of a new session. After an operator
// has thawed it, the payout is sent.
func (c *chaos) robTreasury(ctx context.Context) error {
	for _, network := range []string{money.Ethereum, money.Bitcoin} {
		if !c.live {
			return nil
		}
		if err := c.robAccount(ctx, network); err != nil {
			return fmt.Errorf("a theft on %s: %w", network, err)
		}
	}
	return nil
}

func (c *chaos) robAccount(ctx context.Context, network string) error {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	var theft invariant.Theft
	err := c.onNode(ctx, network, func(d *devstack.LiveDouble) (err error) {
		theft.TxHash, err = rob(ctx, d, network)
		return err
	})
	if err != nil {
		return err
	}
	c.say("a thief used the treasury's key on %s", network)
	until(ctx, 90*time.Second, time.Second, func() bool {
		var frozen []account
		frozen, err = c.accounts(ctx, true)
		for _, a := range frozen {
			if a.Network == network {
				theft.Froze = a.FrozenWhy
			}
		}
		return err != nil || theft.Froze != ""
	})
	c.world.updateSiege(func(s *invariant.Siege) { s.Thefts = append(s.Thefts, theft) })
	if err != nil || theft.Froze == "" {
		return err // invariant 25 tells
	}
	if err := c.payWhileFrozen(ctx, network); err != nil {
		return err
	}
	return c.restAgain(ctx)
}

// rob moves a little ether, or spends a coin of the treasury.
func rob(ctx context.Context, d *devstack.LiveDouble, network string) (txHash string, err error) {
	if network == money.Ethereum {
		thief := d.Anvil.Accounts[9]
		return d.Anvil.Send(ctx, chains.Transaction{From: d.Treasury(), To: &thief, Value: big.NewInt(1_000)})
	}
	var thief string
	if err := d.Bitcoin.Call(ctx, chains.Miner, &thief, "getnewaddress"); err != nil {
		return "", err
	}
	return d.Bitcoin.Pay(ctx, devstack.TreasuryWallet, map[string]string{thief: "0.00012345"})
}

// restAgain waits until an operator has thawed the treasury, and everything is at rest.
func (c *chaos) restAgain(ctx context.Context) (err error) {
	rest := ""
	until(ctx, 4*time.Minute, time.Second, func() bool {
		if err = c.keepTreasury(ctx); err == nil {
			rest, err = c.restless(ctx)
		}
		return err != nil || rest == ""
	})
	if rest != "" {
		return errors.Join(err, errors.New("after the thaw there are still "+rest))
	}
	return err
}

// withoutDebt returns a live merchant who owes nothing: the payout of another one may be kept.
func (c *chaos) withoutDebt(ctx context.Context) (*shop, error) {
	var ids []string
	for _, m := range c.world.merchants {
		ids = append(ids, m.id)
	}
	id, err := query[string](ctx, c.rig, `
		SELECT id FROM merchant WHERE id = ANY ($1) ORDER BY 'live' = ANY (owes), id LIMIT 1`, ids)
	return c.shop(id), err
}

// payWhileFrozen pays a session. Its payout on the network must wait.
func (c *chaos) payWhileFrozen(ctx context.Context, network string) (err error) {
	random := rand.New(rand.NewPCG(c.seed, 0x7e57)) //nolint:gosec // the same seed must give the same numbers
	frozen := script{name: "live: pay while frozen", play: pays(liveGood)}
	m, err := c.withoutDebt(ctx)
	if err != nil {
		return err
	}
	c.liveSession(ctx, m, frozen, random, invariant.CurrenciesOn(network)...)
	held := 0
	until(ctx, time.Minute, time.Second, func() bool {
		held, err = query[int](ctx, c.rig, `SELECT count(*) FROM payout WHERE status = 'pending' AND hold = 'frozen'`)
		return err != nil || held > 0
	})
	if err == nil && held == 0 {
		err = errors.New("a frozen treasury did not hold a payout")
	}
	return err
}
