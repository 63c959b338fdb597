package treasury_test

import (
	"maps"
	"math/big"
	"slices"
	"strconv"
	"time"

	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// newCoinChain returns a chain with one wallet, which has some coins.
func newCoinChain(coins int, each int64, batch treasury.Batch) *fakeChain {
	c := newFakeChain(1, nil)
	c.account = treasury.Account{Network: "bitcoin", ChainID: "bip122:fake", Address: "treasury"}
	c.batch = batch
	first := fakeBlock{hash: "genesis", coins: map[string]int64{}, balances: map[string]*big.Int{"BTC": big.NewInt(each * int64(coins))}}
	for i := range coins {
		first.coins["coin:"+strconv.Itoa(i)] = each
	}
	c.blocks = []fakeBlock{first}
	c.mine(4)
	return c
}

func btc(units int64) money.Crypto { return money.NewCrypto(big.NewInt(units), money.BTC) }

var soon = treasury.Batch{Most: 100, Wait: time.Nanosecond}

func (c *fakeChain) ofCoins() bool { return c.tip().coins != nil }

// spend changes the coins.
func (b *fakeBlock) spend(tx fakeTx, _ *fakeChain) (fakeReceipt, bool) {
	hash, left := tx.hash(), tx.Change
	for _, coin := range tx.Coins {
		left -= b.coins[coin]
		delete(b.coins, coin)
	}
	if tx.Change > 0 {
		b.coins[hash+":1"] = tx.Change
	}
	b.balances["BTC"].Add(b.balances["BTC"], big.NewInt(left))
	return fakeReceipt{tx, hash, btc(tx.Cap), true}, true
}

// using returns what transactions use which are not final.
func (c *fakeChain) using() (units treasury.Slot) {
	all := c.waiting()
	for _, b := range c.blocks[c.final+1:] {
		for _, r := range b.receipts {
			all = append(all, r.fakeTx)
		}
	}
	for _, tx := range all {
		units = append(units, tx.slot()...)
	}
	slices.Sort(units)
	return units
}

// smallestPayout is what a payout must have, in satoshi.
const smallestPayout = 1_000

// planCoins shares the fee among the payouts, and spends final coins that nobody uses.
func (c *fakeChain) planCoins(payouts []treasury.TransferRequest, taken treasury.Slot) (treasury.TransferPlan, error) {
	fee, pays, wrong := int64(101+30*len(payouts)), int64(0), treasury.PayoutErrors{}
	plan := treasury.TransferPlan{Fee: btc(fee)}
	for i, p := range payouts {
		share := fee / int64(len(payouts))
		if int64(i) < fee%int64(len(payouts)) {
			share++
		}
		amount := p.Gross.Sub(btc(share))
		if amount.Cmp(btc(smallestPayout)) < 0 {
			wrong[p.PayoutID] = treasury.ErrTooSmall
		}
		pays += p.Gross.Units().Int64()
		plan.Outputs = append(plan.Outputs, treasury.TransferOutput{
			PayoutID: p.PayoutID, Destination: p.Destination, Amount: amount, Fee: btc(share)})
	}
	if len(wrong) > 0 {
		return treasury.TransferPlan{}, wrong
	}
	free, spends, using := c.blocks[c.final].coins, int64(0), c.using()
	for _, coin := range slices.Sorted(maps.Keys(free)) {
		if spends < pays && !slices.Contains(taken, coin) && !slices.Contains(using, coin) {
			plan.Slot, spends = append(plan.Slot, coin), spends+free[coin]
		}
	}
	if spends < pays {
		return treasury.TransferPlan{}, treasury.ErrFloatTooLow
	}
	return c.withTerms(plan, terms{Cap: fee, Spends: spends}), nil
}

// forget leaves the node with the state of the last block, and without a transaction.
func (c *fakeChain) forget() {
	for i := range c.blocks {
		c.blocks[i].receipts, c.blocks[i].coins, c.blocks[i].balances = nil, c.tip().coins, c.tip().balances
	}
}
