package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// enemy attacks the treasury with a wallet, which has no key of ours, and with a merchant's key.
type enemy struct {
	shop     *shop
	wallet   common.Address
	poisoner common.Address
	payees   []common.Address // contracts, which do with ether what the enemy wants
}

// walletAccount is the enemy's account of the chain.
const walletAccount = 8

// enemyPrefix begins the names of the enemy's moves.
const enemyPrefix = "enemy-"

// enemyKinds are the enemy's moves. They break nothing: the service must work as it does without them.
var enemyKinds = []faultKind{
	{"enemy-dust", 3, "", attackWith(dust)},
	{"enemy-transfers-nothing", 4, "", attackWith(transferNothing)},
	{"enemy-foreign-token", 2, "", attackWith(pretend)},
	{"enemy-full-block", 1, "", attackWith(fillBlock)},
	{"enemy-takes-dust-back", 2, "", undoDust},
	{"enemy-payee", 4, "", attackWith(changePayee)},
	{"enemy-address", 4, "", changeAddress},
	{"enemy-retry", 6, "", within(clientTimeout, retryAtOnce)},
	{"enemy-refund", 2, "", within(clientTimeout, refundAndRetry)},
}

func (c *chaos) addEnemy(ctx context.Context, store *storage.Store) error {
	d, e := c.rig.stack.Live, &c.world.enemy
	e.wallet = d.Anvil.Accounts[walletAccount]
	var err error
	if e.poisoner, err = d.Anvil.Deploy(ctx, "Poisoner"); err != nil {
		return err
	}
	for range 3 {
		payee, err := d.Anvil.Deploy(ctx, "Payee", uint8(0))
		if err != nil {
			return err
		}
		e.payees = append(e.payees, payee)
	}
	for currency, token := range d.Market.Tokens() {
		if err := d.Anvil.Fund(ctx, string(currency), token, e.wallet, big.NewInt(1_000_000)); err != nil {
			return err
		}
	}
	if e.shop, err = c.addLiveMerchant(ctx, store, "Hostile shop", e.payees[0].Hex()); err != nil {
		return err
	}
	c.world.updateSiege(func(s *invariant.Siege) { s.Hostile = e.shop.id })
	return nil
}

// attack makes the enemy's moves in every second phase of the load, until ctx ends.
func (c *chaos) attack(ctx context.Context) {
	random := rand.New(rand.NewPCG(c.seed, 0xe4e)) //nolint:gosec // the same seed must give the same numbers
	for phase := min(c.limit/4, time.Minute); len(c.moves) > 0 && ctx.Err() == nil; {
		pause(ctx, phase)
		siege := invariant.Span{From: time.Now()}
		c.world.besieged.Store(true)
		for time.Since(siege.From) < phase && ctx.Err() == nil {
			kind := draw(c.moves, random)
			if kind.inject(c.life, c, nil, random) {
				c.recordFault(kind.name)
			}
			pause(ctx, between(random, 0, time.Second))
		}
		c.world.besieged.Store(false)
		siege.To = time.Now()
		c.world.updateSiege(func(s *invariant.Siege) { s.Sieges = append(s.Sieges, siege) })
	}
}

// attackWith makes a move of the wallet. It does not wait until the move is in a block.
func attackWith(do func(ctx context.Context, d *devstack.LiveDouble, w *world, random *rand.Rand) error) injection {
	return within(5*time.Second, func(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
		return c.onNode(ctx, money.Ethereum, func(d *devstack.LiveDouble) error {
			return do(ctx, d, &c.world, random)
		}) == nil
	})
}

func (e *enemy) call(
	ctx context.Context, d *devstack.LiveDouble, contract string, at common.Address, method string, args ...any,
) error {
	_, err := d.Anvil.SendCall(ctx, e.wallet, contract, at, method, args...)
	return err
}

// dust sends the treasury the smallest amount of every currency.
func dust(ctx context.Context, d *devstack.LiveDouble, w *world, _ *rand.Rand) error {
	treasury := d.Treasury()
	_, err := d.Anvil.Send(ctx, chains.Transaction{From: w.enemy.wallet, To: &treasury, Value: big.NewInt(1)})
	for c, token := range d.Market.Tokens() {
		if err == nil {
			err = w.enemy.call(ctx, d, string(c), token, "transfer", treasury, big.NewInt(1))
		}
	}
	return err
}

// transferNothing transfers 0 out of the treasury, which needs no allowance: to a foreign address, to the
// treasury, and to an address for which payouts wait.
func transferNothing(ctx context.Context, d *devstack.LiveDouble, w *world, random *rand.Rand) (err error) {
	for c, token := range d.Market.Tokens() {
		for _, to := range []common.Address{w.enemy.wallet, d.Treasury(), w.anyAddress(random)} {
			if err == nil {
				err = w.enemy.call(ctx, d, string(c), token, "transferFrom", d.Treasury(), to, new(big.Int))
			}
		}
	}
	return err
}

// pretend writes a log of a foreign token: the treasury seems to have paid a payout.
func pretend(ctx context.Context, d *devstack.LiveDouble, w *world, random *rand.Rand) error {
	return w.enemy.call(ctx, d, "Poisoner", w.enemy.poisoner, "pretend", d.Treasury(), w.anyAddress(random),
		big.NewInt(random.Int64N(400_000_000)))
}

// fillBlock fills a block with transfers of nothing out of the treasury.
func fillBlock(ctx context.Context, d *devstack.LiveDouble, w *world, random *rand.Rand) error {
	const logs = 1000
	to := pick(random, []common.Address{{}, d.Treasury(), w.anyAddress(random)})
	return w.enemy.call(ctx, d, "Poisoner", w.enemy.poisoner, "poison", d.Market.USDC, d.Treasury(), to, big.NewInt(logs))
}

// undoDust sends dust, and a reorganization takes it back once the service may have seen it.
func undoDust(ctx context.Context, c *chaos, p *part, random *rand.Rand) bool {
	sent := attackWith(dust)(ctx, c, p, random)
	pause(ctx, between(random, 1500*time.Millisecond, 2500*time.Millisecond))
	return sent && replaceBlocks(money.Ethereum)(ctx, c, p, random)
}

// changePayee changes what one of the contracts does with ether: see deploy/standin/chains/contracts/Payee.sol.
func changePayee(ctx context.Context, d *devstack.LiveDouble, w *world, random *rand.Rand) error {
	payee, mode := pick(random, w.enemy.payees), uint8(random.IntN(5)) //nolint:gosec // below 5
	return w.enemy.call(ctx, d, "Payee", payee, "set", mode, d.Market.USDC)
}

// changeAddress changes a payout address of the enemy's shop: to a contract, to an unshared address, or
// to the treasury, which the dashboard refuses. Some changes are announced first, and not for a day.
func changeAddress(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	e := &c.world.enemy
	to := pick(random, append([]common.Address{c.rig.stack.Live.Treasury(), e.wallet}, e.payees...))
	currency := pick(random, invariant.CurrenciesOn(money.Ethereum))
	return c.setAddress(ctx, currency, to, time.Duration(random.IntN(2))*3*time.Second) == nil
}

func (c *chaos) setAddress(
	ctx context.Context, currency money.PayoutCurrency, to common.Address, delay time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	keyless, err := storage.OpenKeyless(ctx, storage.Options{URL: c.rig.databaseURL, MaxConns: 1})
	if err != nil {
		return err
	}
	defer keyless.Close()
	_, err = keyless.Merchants.ChangeMerchant(ctx, storage.MerchantChange{
		MerchantID: c.world.enemy.shop.id, Mode: checkout.ModeLive, Delay: delay,
		Addresses: []merchant.PayoutAddress{{Currency: currency, Network: currency.Network(), Address: to.Hex()}},
		By: merchant.AuditEntry{
			ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: c.world.enemy.shop.id, Actor: "the enemy",
			Action: "merchant.changed", Subject: c.world.enemy.shop.id,
		},
	})
	return err
}

// retryAtOnce retries failed payouts of the enemy's shop, each some times at once.
func retryAtOnce(ctx context.Context, c *chaos, _ *part, _ *rand.Rand) bool {
	failed, err := query[[]string](ctx, c.rig, `
		SELECT coalesce(array_agg(id), '{}') FROM (SELECT id FROM payout
			WHERE merchant_id = $1 AND status = 'failed' ORDER BY random() LIMIT 3) x`, c.world.enemy.shop.id)
	var all sync.WaitGroup
	for _, id := range failed {
		for range 6 {
			all.Go(func() { c.retryPayout(ctx, id) })
		}
	}
	all.Wait()
	return err == nil && len(failed) > 0
}

func (c *chaos) retryPayout(ctx context.Context, id string) {
	owner, _ := query[string](ctx, c.rig, `SELECT merchant_id FROM payout WHERE id = $1`, id) // without it nobody retries
	if m := c.shop(owner); m != nil {
		c.call(ctx, m, call{op: opRetry, id: id, path: "/v1/payouts/" + id + "/retry"})
	}
}

// refundAndRetry lets an operator refund a payment of the enemy's shop while the shop retries its payout.
func refundAndRetry(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	found, err := query[[]string](ctx, c.rig, `
		SELECT coalesce((SELECT ARRAY[id, transaction_id] FROM payout
			WHERE merchant_id = $1 AND status <> 'sent' AND transaction_id IS NOT NULL
			ORDER BY random() LIMIT 1), '{}')`, c.world.enemy.shop.id)
	if err != nil || len(found) == 0 {
		return false
	}
	race(
		func(ctx context.Context, c *chaos, _ *scene) { c.retryPayout(ctx, found[0]) },
		func(ctx context.Context, c *chaos, _ *scene) { _ = c.refund(ctx, found[1]) }, // refused when a transfer is signed
		100*time.Millisecond,
	)(ctx, c, &scene{random: random})
	return true
}

// refund gives a live payment back, as an operator does.
func (c *chaos) refund(ctx context.Context, transactionID string) error {
	if !c.world.backup.TryRLock() {
		return errors.New("an operator restores a backup")
	}
	defer c.world.backup.RUnlock()
	return c.operator(ctx, io.Discard, "refund", transactionID)
}

func (c *chaos) operator(ctx context.Context, out io.Writer, args ...string) error {
	if err := app.Main(ctx, args, c.rig.stack.OperatorsEnvironment(), out, io.Discard); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}

// takeEther lets the enemy's contracts take ether while a payout waits for that. Only a simulation on the chain showed
// that they refuse it, so the payout does not fail for a day.
func (c *chaos) takeEther(ctx context.Context) error {
	e := &c.world.enemy
	waiting, err := query[int](ctx, c.rig, `
		SELECT count(*) FROM payout WHERE merchant_id = $1 AND status = 'pending' AND hold = 'chain'`, e.shop.id)
	if err != nil || waiting == 0 {
		return err
	}
	return c.onNode(ctx, money.Ethereum, func(d *devstack.LiveDouble) (err error) {
		for _, payee := range e.payees {
			err = errors.Join(err, e.call(ctx, d, "Payee", payee, "set", uint8(0), d.Market.USDC))
		}
		return err
	})
}

// endAttack makes failed payouts good at the end of the load: one half is given back to the
// customers, the other half is paid to an address that can be paid. A refund that is not made yet is ordered
// again, which hurries it.
func (c *chaos) endAttack(ctx context.Context) error {
	failed, err := queryAll[struct {
		ID, TransactionID, MerchantID string
		Currency                      money.PayoutCurrency
		Ordered                       bool
	}](ctx, c.rig, `
		SELECT p.id, coalesce(p.transaction_id, ''), p.merchant_id, p.currency, ordered
		FROM payout p, LATERAL (
			SELECT count(*) > 0 AS ordered, coalesce(bool_or(r.status = 'pending'), false) AS waits FROM refund r WHERE
				r.transaction_id = p.transaction_id AND r.mode = p.mode AND r.reason = 'operator' AND r.status <> 'failed') r
		WHERE p.mode = 'live' AND p.status = 'failed' AND (p.source_amount > p.deducted OR r.waits)`)
	for _, p := range failed {
		if p.Ordered || p.TransactionID != "" && p.ID[len(p.ID)-1]%2 == 0 {
			if err := c.refund(ctx, p.TransactionID); err != nil {
				c.say("%s", err)
			}
			continue
		}
		if p.MerchantID == c.world.enemy.shop.id && p.Currency.Network() == money.Ethereum {
			if err := c.setAddress(ctx, p.Currency, c.world.enemy.wallet, 0); err != nil {
				return err
			}
		}
		c.retryPayout(ctx, p.ID)
	}
	return err
}
