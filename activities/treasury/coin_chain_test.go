package treasury_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"sync"
	"time"

	"example.com/checkout/workflows/checkout"
)

// coinChain behaves like a Bitcoin node with one wallet: coins, a pool, blocks, replaced versions. One transfer
// pays several payouts.
type coinChain struct {
	mu       sync.Mutex
	batch    checkout.Batch
	finality int             // blocks on top of a final one
	invalid  map[string]bool // destinations that Check refuses
	forge    func(plan *checkout.TransferPlan)
	refuse   error // of Send
	genesis  map[string]int64
	blocks   [][]coinTx
	pool     map[string]coinTx
}

type coinTx struct {
	Coins  []string
	Pays   []coinOutput
	Change int64
	Fee    int64
}

type coinOutput struct {
	To     string
	Units  int64
	Payout string
}

func (tx coinTx) raw() []byte {
	raw, err := json.Marshal(tx)
	if err != nil {
		panic(err)
	}
	return raw
}

func (tx coinTx) hash() string {
	sum := sha256.Sum256(tx.raw())
	return hex.EncodeToString(sum[:])
}

// coinTerms are the chain's own fields of a plan.
type coinTerms struct{ Spends, Fee int64 }

func newCoinChain(coins int, each int64, batch checkout.Batch) *coinChain {
	c := &coinChain{batch: batch, finality: 3, invalid: map[string]bool{}, genesis: map[string]int64{},
		blocks: make([][]coinTx, 5), pool: map[string]coinTx{}}
	for i := range coins {
		c.genesis["coin:"+strconv.Itoa(i)] = each
	}
	return c
}

func (c *coinChain) final() int { return len(c.blocks) - 1 - c.finality }

// unspent returns the wallet's coins after a block.
func (c *coinChain) unspent(height int) map[string]int64 {
	coins := maps.Clone(c.genesis)
	for _, b := range c.blocks[:height+1] {
		for _, tx := range b {
			for _, coin := range tx.Coins {
				delete(coins, coin)
			}
			if tx.Change > 0 {
				coins[tx.hash()+":1"] = tx.Change
			}
		}
	}
	return coins
}

func btc(units int64) checkout.Crypto { return checkout.NewCrypto(big.NewInt(units), checkout.BTC) }

func (c *coinChain) balance(height int) checkout.Purse {
	sum := int64(0)
	for _, units := range c.unspent(height) {
		sum += units
	}
	return checkout.PurseOf(btc(sum))
}

// mine adds n blocks. The first has what waits in the pool.
func (c *coinChain) mine(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		var b []coinTx
		for _, hash := range slices.Sorted(maps.Keys(c.pool)) {
			b = append(b, c.pool[hash])
		}
		c.blocks, c.pool = append(c.blocks, b), map[string]coinTx{}
	}
}

func (c *coinChain) Account() checkout.TreasuryAccount {
	return checkout.TreasuryAccount{Network: "bitcoin", ChainID: "bip122:fake", Address: "treasury"}
}

func (c *coinChain) Sanctioned(context.Context, string) (bool, error) { return false, nil }

func (c *coinChain) Check(_ context.Context, _ checkout.PayoutCurrency, to string) (checkout.PayoutFailure, error) {
	if c.invalid[to] {
		return checkout.PayoutInvalidAddress, nil
	}
	return "", nil
}

func (c *coinChain) Batch() checkout.Batch { return c.batch }

// using returns the coins that transactions use which are not final.
func (c *coinChain) using() (units checkout.Slot) {
	for _, tx := range append(slices.Concat(c.blocks[c.final()+1:]...), slices.Collect(maps.Values(c.pool))...) {
		units = append(units, tx.Coins...)
	}
	slices.Sort(units)
	return units
}

// smallestPayout is what a payout must have, in satoshi.
const smallestPayout = 1_000

func (c *coinChain) Plan(
	_ context.Context, payouts []checkout.TransferRequest, taken checkout.Slot,
) (checkout.TransferPlan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fee, pays, wrong := int64(101+30*len(payouts)), int64(0), checkout.PayoutErrors{}
	plan := checkout.TransferPlan{Fee: btc(fee), MaxCost: btc(fee)}
	for i, p := range payouts {
		share := fee / int64(len(payouts))
		if int64(i) < fee%int64(len(payouts)) {
			share++
		}
		amount := p.Gross.Sub(btc(share))
		if amount.Cmp(btc(smallestPayout)) < 0 {
			wrong[p.PayoutID] = checkout.ErrTooSmall
		}
		pays += p.Gross.Units().Int64()
		plan.Outputs = append(plan.Outputs, checkout.TransferOutput{
			PayoutID: p.PayoutID, Destination: p.Destination, Amount: amount, Fee: btc(share)})
	}
	if len(wrong) > 0 {
		return checkout.TransferPlan{}, wrong
	}
	free, spends, using := c.unspent(c.final()), int64(0), c.using()
	for _, coin := range slices.Sorted(maps.Keys(free)) {
		if spends < pays && !slices.Contains(taken, coin) && !slices.Contains(using, coin) {
			plan.Slot, spends = append(plan.Slot, coin), spends+free[coin]
		}
	}
	if spends < pays {
		return checkout.TransferPlan{}, checkout.ErrFloatTooLow
	}
	return c.withTerms(plan, coinTerms{spends, fee}), nil
}

func (c *coinChain) withTerms(plan checkout.TransferPlan, t coinTerms) checkout.TransferPlan {
	plan.Terms, _ = json.Marshal(t)
	plan.MaxCost = btc(t.Fee)
	if c.forge != nil {
		c.forge(&plan)
	}
	return plan
}

func (c *coinChain) Bump(_ context.Context, last checkout.TransferVersion) (checkout.TransferPlan, error) {
	var t coinTerms
	if err := json.Unmarshal(last.Terms, &t); err != nil {
		return checkout.TransferPlan{}, err
	}
	t.Fee *= 2
	if t.Fee > 2_000 {
		return checkout.TransferPlan{}, checkout.ErrFeeTooHigh
	}
	return c.withTerms(last.TransferPlan, t), nil
}

func (c *coinChain) Cancel(_ context.Context, last checkout.TransferVersion) (checkout.TransferPlan, error) {
	var t coinTerms
	if err := json.Unmarshal(last.Terms, &t); err != nil {
		return checkout.TransferPlan{}, err
	}
	t.Fee *= 2
	return c.withTerms(checkout.TransferPlan{Slot: last.Slot, Cancels: true}, t), nil
}

func (c *coinChain) Sign(_ context.Context, plan checkout.TransferPlan) (checkout.TransferVersion, error) {
	var t coinTerms
	if err := json.Unmarshal(plan.Terms, &t); err != nil {
		return checkout.TransferVersion{}, err
	}
	tx := coinTx{Coins: plan.Slot, Fee: t.Fee, Change: t.Spends - t.Fee}
	for _, o := range plan.Outputs {
		tx.Pays = append(tx.Pays, coinOutput{o.Destination, o.Amount.Units().Int64(), o.PayoutID})
		tx.Change -= o.Amount.Units().Int64()
	}
	return checkout.TransferVersion{TransferPlan: plan, TxHash: tx.hash(), Raw: tx.raw()}, nil
}

func (c *coinChain) Send(_ context.Context, v checkout.TransferVersion) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var tx coinTx
	if err := errors.Join(c.refuse, json.Unmarshal(v.Raw, &tx)); err != nil {
		return err
	}
	return c.accept(tx)
}

// accept puts a transaction into the pool.
func (c *coinChain) accept(tx coinTx) error {
	there := c.unspent(len(c.blocks) - 1)
	for _, coin := range tx.Coins {
		if _, ok := there[coin]; !ok {
			return errors.New("missing inputs")
		}
	}
	for hash, old := range c.pool {
		if !checkout.Slot(old.Coins).Shares(tx.Coins) {
			continue
		}
		if old.Fee >= tx.Fee {
			return errors.New("insufficient fee")
		}
		delete(c.pool, hash)
	}
	c.pool[tx.hash()] = tx
	return nil
}

func (c *coinChain) Look(_ context.Context, versions []checkout.TransferVersion) (checkout.TransferSnapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range versions {
		for height, b := range c.blocks {
			i := slices.IndexFunc(b, func(tx coinTx) bool { return tx.hash() == v.TxHash })
			if i < 0 {
				continue
			}
			s := checkout.TransferSnapshot{State: checkout.TransferStateMined, TxHash: v.TxHash, Height: uint64(height),
				BlockHash: "b" + strconv.Itoa(height), Depth: uint64(len(c.blocks) - 1 - height), Cost: btc(b[i].Fee)}
			if height <= c.final() {
				s.State = checkout.TransferStateConfirmed
				if v.Cancels {
					s.State = checkout.TransferStateCanceled
				}
			}
			return s, nil
		}
		if _, waits := c.pool[v.TxHash]; waits {
			return checkout.TransferSnapshot{State: checkout.TransferStatePending}, nil
		}
	}
	if c.used()(versions[0].Slot) {
		return checkout.TransferSnapshot{State: checkout.TransferStateDead}, nil
	}
	return checkout.TransferSnapshot{State: checkout.TransferStateUnknown}, nil
}

func (c *coinChain) used() func(checkout.Slot) bool {
	free := c.unspent(c.final())
	return func(slot checkout.Slot) bool {
		return slices.ContainsFunc(slot, func(coin string) bool { _, ok := free[coin]; return !ok })
	}
}

func (c *coinChain) Snapshot(context.Context) (checkout.AccountSnapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return checkout.AccountSnapshot{Using: c.using(), Used: c.used(),
		Balances: c.balance(len(c.blocks) - 1), Height: uint64(len(c.blocks) - 1),
		FinalBalances: c.balance(c.final()), FinalHeight: uint64(c.final())}, nil
}

func (c *coinChain) Outflows(_ context.Context, first, last uint64) (checkout.Outflows, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last = min(last, uint64(c.final()))
	out := checkout.Outflows{Next: max(first, last+1)}
	for height := first; height <= last; height++ {
		for _, tx := range c.blocks[height] {
			cost := btc(tx.Fee)
			for i, pays := range slices.Backward(append(tx.Pays, coinOutput{})[:max(1, len(tx.Pays))]) {
				out.All = append(out.All, checkout.Outflow{TxHash: tx.hash(), Output: strconv.Itoa(i), Slot: tx.Coins,
					Destination: pays.To, Amount: btc(pays.Units), Cost: cost, Height: height})
				cost = checkout.Crypto{}
			}
		}
	}
	return out, nil
}

func (c *coinChain) VersionOf(_ context.Context, all []checkout.Outflow) (checkout.TransferVersion, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tx := range slices.Concat(c.blocks...) {
		if tx.hash() != all[0].TxHash || len(all) != len(tx.Pays) {
			continue
		}
		v := checkout.TransferVersion{TxHash: tx.hash(), Raw: tx.raw()}
		v.Slot, v.MaxCost, v.Terms = tx.Coins, btc(tx.Fee), json.RawMessage(`{}`)
		for _, o := range all {
			v.Outputs = append(v.Outputs, checkout.TransferOutput{Destination: o.Destination, Amount: o.Amount,
				Fee: btc(tx.Fee/int64(len(all)) + 1)})
		}
		return v, nil
	}
	return checkout.TransferVersion{}, checkout.ErrNotSigned
}

// paid returns the chain's payments by payout id, and what the network took.
func (c *coinChain) paid() (payments map[string][]int64, fees int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	payments = map[string][]int64{}
	for _, tx := range slices.Concat(c.blocks...) {
		fees += tx.Fee
		for _, pays := range tx.Pays {
			payments[pays.Payout] = append(payments[pays.Payout], pays.Units)
		}
	}
	return payments, fees
}

var soon = checkout.Batch{Most: 100, Wait: time.Nanosecond}
