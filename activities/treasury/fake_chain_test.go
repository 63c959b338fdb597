package treasury_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// fakeChain behaves like a node with one account: a pool, blocks, a base fee, replaced versions, reorganizations. Its
// transactions have nonces and pay one payout each, as on Ethereum, or spend coins and pay several, as on Bitcoin. With
// chaos, each call may also mine, drop, reorganize, lag, lie and lose its answer.
type fakeChain struct {
	mu        sync.Mutex
	random    *rand.Rand
	chaos     bool
	finality  int    // blocks on top of a final one
	atOnce    uint64 // blocks that one call of Outflows looks at
	account   treasury.Account
	batch     treasury.Batch
	invalid   map[string]bool // destinations that Check refuses
	listed    map[string]bool // destinations that are sanctioned
	listErr   error           // of Sanctioned
	reverts   map[string]bool // destinations that get nothing
	signErr   error           // the signer's
	signHangs bool
	planErr   error       // of Plan
	refuse    error       // of Send, which does nothing then
	dearer    int64       // percent that a replacement must pay more
	slow      func() bool // whether Look answers too late
	lies      func(seen treasury.TransferSnapshot, newest treasury.TransferVersion) treasury.TransferSnapshot
	forge     func(v *treasury.TransferVersion) // what the signer changes
	replan    func(plan *treasury.TransferPlan) // what the node plans instead
	onSend    func(hash string)                 // before a transaction enters the pool
	cut       func()                            // ends the caller's context
	base      int64                             // base fee in gwei
	funded    map[string]*big.Int
	final     int // height of the last final block
	blocks    []fakeBlock
	pool      map[string]fakeTx                    // by hash
	orphaned  map[string]treasury.TransferSnapshot // receipts of blocks that are gone
	earlier   []treasury.AccountSnapshot
}

// fakeTx has a nonce, or coins.
type fakeTx struct {
	Nonce    uint64
	Coins    treasury.Slot
	Tip, Cap int64 // in gwei for each gas; with coins Cap is the whole fee in satoshis
	Change   int64
	Pays     []fakeOutput
}

type fakeOutput struct {
	To       string
	Currency money.PayoutCurrency
	Units    int64
	Payout   string
	txHash   string // of a payment in a block
}

func (o fakeOutput) amount() money.Crypto {
	return money.NewCrypto(big.NewInt(o.Units), o.Currency)
}

func (tx fakeTx) raw() []byte {
	raw, err := json.Marshal(tx)
	if err != nil {
		panic(err)
	}
	return raw
}

func (tx fakeTx) hash() string {
	sum := sha256.Sum256(tx.raw())
	if tx.Coins != nil {
		return hex.EncodeToString(sum[:])
	}
	return "0x" + hex.EncodeToString(sum[:])
}

func (tx fakeTx) slot() treasury.Slot {
	if tx.Coins != nil {
		return tx.Coins
	}
	return treasury.NumberSlot(tx.Nonce)
}

type fakeReceipt struct {
	fakeTx
	txHash string
	cost   money.Crypto
	ok     bool
}

type fakeBlock struct {
	hash     string
	receipts []fakeReceipt
	nonce    uint64           // of the account after it
	coins    map[string]int64 // of the wallet after it; nil on a chain with nonces
	balances map[string]*big.Int
}

// used reports whether a transaction up to the block has a part of the slot.
func (b *fakeBlock) used(slot treasury.Slot) bool {
	if b.coins == nil {
		nonce, ok := slot.Number()
		return ok && nonce < b.nonce
	}
	return slices.ContainsFunc(slot, func(coin string) bool { _, free := b.coins[coin]; return !free })
}

// terms are the chain's own fields of a plan. Spends is the sum of its coins.
type terms struct{ Tip, Cap, Spends int64 }

const (
	fakeGas = 21_000
	fakeTip = 2
)

var gwei = big.NewInt(1_000_000_000)

func newFakeChain(seed uint64, balances map[money.PayoutCurrency]string) *fakeChain {
	c := &fakeChain{
		random: rand.New(rand.NewPCG(seed, 1)), finality: 3, atOnce: 200, base: 10, dearer: 10, batch: treasury.Batch{Most: 1},
		account: treasury.Account{Network: "ethereum", ChainID: "eip155:31337", Address: "0xTreasury"},
		invalid: map[string]bool{}, listed: map[string]bool{}, reverts: map[string]bool{},
		funded: map[string]*big.Int{}, pool: map[string]fakeTx{}, orphaned: map[string]treasury.TransferSnapshot{},
		blocks: []fakeBlock{{hash: "genesis", nonce: 0, balances: map[string]*big.Int{}}},
	}
	for _, currency := range []money.PayoutCurrency{money.ETH, money.USDC, money.USDT} {
		c.funded[string(currency)], c.blocks[0].balances[string(currency)] = new(big.Int), new(big.Int)
		if balances[currency] != "" {
			c.fund(currency, balances[currency])
		}
	}
	return c
}

// fund gives the account money in a block so old that no reorganization undoes it. With chaos it mines until a new
// block is final, because two views of one final block always agree.
func (c *fakeChain) fund(currency money.PayoutCurrency, amount string) {
	units := money.MustCrypto(amount, currency).Units()
	defer c.lock()()
	c.funded[string(currency)].Add(c.funded[string(currency)], units)
	for _, b := range c.blocks {
		b.balances[string(currency)].Add(b.balances[string(currency)], units)
	}
	for seen := c.final; c.chaos && c.final == seen; {
		c.mineOne()
	}
	c.earlier = nil
}

// take removes money without an outflow: from all blocks that are not final, and from the last one.
func (c *fakeChain) take(currency money.PayoutCurrency, units int64) {
	defer c.lock()()
	for _, b := range c.blocks[min(c.final+1, len(c.blocks)-1):] {
		b.balances[string(currency)].Sub(b.balances[string(currency)], big.NewInt(units))
	}
}

// lock keeps other calls out until what it returns is called.
func (c *fakeChain) lock() (unlock func()) {
	c.mu.Lock()
	return c.mu.Unlock
}

func (c *fakeChain) tip() *fakeBlock { return &c.blocks[len(c.blocks)-1] }

// waiting returns the pool in the order of the nonces.
func (c *fakeChain) waiting() (all []fakeTx) {
	for _, hash := range slices.Sorted(maps.Keys(c.pool)) {
		all = append(all, c.pool[hash])
	}
	slices.SortStableFunc(all, func(a, b fakeTx) int { return cmp.Compare(a.Nonce, b.Nonce) })
	return all
}

func (c *fakeChain) mine(n int) {
	defer c.lock()()
	for range n {
		c.mineOne()
	}
}

func (c *fakeChain) mineOne() {
	b := fakeBlock{nonce: c.tip().nonce, coins: maps.Clone(c.tip().coins), balances: map[string]*big.Int{}}
	for currency, units := range c.tip().balances {
		b.balances[currency] = new(big.Int).Set(units)
	}
	for _, tx := range c.waiting() {
		execute := b.execute
		if tx.Coins != nil {
			execute = b.spend
		}
		if receipt, ok := execute(tx, c); ok {
			delete(c.pool, receipt.txHash)
			b.receipts = append(b.receipts, receipt)
		}
	}
	var id [8]byte
	for i := range id {
		id[i] = byte(c.random.IntN(256))
	}
	b.hash = hex.EncodeToString(id[:])
	c.blocks = append(c.blocks, b)
	c.final = max(c.final, len(c.blocks)-1-c.finality)
	c.base = max(10, c.base*9/10)
}

// execute changes the balances. It returns false for another nonce, and when the account cannot pay for the transaction.
func (b *fakeBlock) execute(tx fakeTx, c *fakeChain) (fakeReceipt, bool) {
	cost, pays := c.cost(min(tx.Cap, c.base+tx.Tip)), tx.Pays[0]
	units, eth, token := big.NewInt(pays.Units), b.balances["ETH"], b.balances[string(pays.Currency)]
	needs := cost.Units()
	if pays.Currency == money.ETH {
		needs = new(big.Int).Add(needs, units)
	}
	if tx.Nonce != b.nonce || tx.Cap < c.base || eth.Cmp(needs) < 0 {
		return fakeReceipt{}, false
	}
	b.nonce++
	eth.Sub(eth, cost.Units())
	ok := !c.reverts[pays.To] && token.Cmp(units) >= 0
	if ok {
		token.Sub(token, units)
	}
	return fakeReceipt{tx, tx.hash(), cost, ok}, true
}

// reorganize removes the last n blocks. back says whether a transaction of theirs returns to the pool.
func (c *fakeChain) reorganize(n int, back func() bool) {
	for range n {
		height := len(c.blocks) - 1
		for _, r := range c.tip().receipts {
			c.orphaned[r.txHash] = c.sighting(r, height)
			if back() {
				c.pool[r.txHash] = r.fakeTx
			}
		}
		c.blocks = c.blocks[:height]
	}
}

// undo is a reorganization that goes below the last final block.
func (c *fakeChain) undo(n int) {
	defer c.lock()()
	c.reorganize(n, func() bool { return false })
	c.final = min(c.final, len(c.blocks)-1)
	c.earlier = nil
}

func (c *fakeChain) sighting(r fakeReceipt, height int) treasury.TransferSnapshot {
	s := treasury.TransferSnapshot{State: treasury.TransferStateMined, TxHash: r.txHash, Height: uint64(height),
		BlockHash: c.blocks[height].hash, Depth: uint64(len(c.blocks) - 1 - height), Cost: r.cost}
	if height <= c.final {
		s.State = treasury.TransferStateConfirmed
		if !r.ok {
			s.State = treasury.TransferStateReverted
		}
	}
	return s
}

// step lets the chain live a little before each call. It returns an error when the call shall fail.
func (c *fakeChain) step() error {
	if !c.chaos {
		return nil
	}
	switch dice := c.random.IntN(1000); {
	case dice < 150:
		c.mineOne()
	case dice < 170 && len(c.pool) > 0:
		delete(c.pool, c.waiting()[c.random.IntN(len(c.pool))].hash())
	case dice < 180:
		if deepest := min(c.finality, len(c.blocks)-1-c.final); deepest > 0 {
			c.reorganize(1+c.random.IntN(deepest), func() bool { return c.random.IntN(2) == 0 })
		}
	case dice < 182:
		c.base = min(c.base*20, 4_000)
	case dice < 200:
		c.cut()
	case dice < 220:
		return errNode
	}
	return nil
}

var errNode = errors.New("the node did not answer")

func (c *fakeChain) Account() treasury.Account { return c.account }

func (c *fakeChain) Sanctioned(_ context.Context, destination string) (bool, error) {
	defer c.lock()()
	if err := c.step(); err != nil {
		return false, err
	}
	return c.listed[destination], c.listErr
}

func (c *fakeChain) Check(
	_ context.Context, _ money.PayoutCurrency, destination string,
) (checkout.PayoutFailure, error) {
	defer c.lock()()
	if err := c.step(); err != nil {
		return "", err
	}
	if destination == "" || c.invalid[destination] {
		return checkout.PayoutInvalidAddress, nil
	}
	return "", nil
}

// fakeFees are what a merchant pays for the network.
var fakeFees = map[money.PayoutCurrency]string{money.USDC: "0.25", money.USDT: "0.25", money.ETH: "0.0001"}

func (c *fakeChain) Batch() treasury.Batch { return c.batch }

func (c *fakeChain) Plan(
	_ context.Context, payouts []treasury.TransferRequest, taken treasury.Slot,
) (treasury.TransferPlan, error) {
	defer c.lock()()
	if err := errors.Join(c.step(), c.planErr); err != nil {
		return treasury.TransferPlan{}, err
	}
	if c.ofCoins() {
		return c.planCoins(payouts, taken)
	}
	req := payouts[0]
	if c.base > 1_000 {
		return treasury.TransferPlan{}, treasury.ErrFeeTooHigh
	}
	fee := money.MustCrypto(fakeFees[req.Gross.Currency()], req.Gross.Currency())
	if fee.Currency() == money.ETH {
		fee = fee.Add(req.Burnt)
	}
	amount := req.Gross.Sub(fee)
	if amount.Sign() <= 0 {
		return treasury.TransferPlan{}, treasury.ErrTooSmall
	}
	pays := treasury.TransferOutput{PayoutID: req.PayoutID, Destination: req.Destination, Amount: amount, Fee: fee}
	return c.withTerms(treasury.TransferPlan{Outputs: []treasury.TransferOutput{pays}, Fee: fee},
		terms{Tip: fakeTip, Cap: 2*c.base + fakeTip}), nil
}

func (c *fakeChain) withTerms(plan treasury.TransferPlan, t terms) treasury.TransferPlan {
	plan.Terms, _ = json.Marshal(t)
	plan.MaxCost = c.cost(t.Cap)
	if c.replan != nil {
		c.replan(&plan)
	}
	return plan
}

// cost returns what the network takes at a price.
func (c *fakeChain) cost(price int64) money.Crypto {
	if c.ofCoins() {
		return btc(price)
	}
	return money.NewCrypto(new(big.Int).Mul(big.NewInt(fakeGas*price), gwei), money.ETH)
}

func (c *fakeChain) Bump(_ context.Context, last treasury.TransferVersion) (treasury.TransferPlan, error) {
	defer c.lock()()
	var t terms
	if err := errors.Join(c.step(), json.Unmarshal(last.Terms, &t)); err != nil {
		return treasury.TransferPlan{}, err
	}
	most := int64(10_000)
	if c.ofCoins() {
		t.Cap, most = t.Cap*2, 2_000
	} else {
		t.Tip += t.Tip*15/100 + 1
		t.Cap = max(t.Cap+t.Cap*15/100+1, 2*c.base+t.Tip)
	}
	if t.Cap > most {
		return treasury.TransferPlan{}, treasury.ErrFeeTooHigh
	}
	return c.withTerms(last.TransferPlan, t), nil
}

func (c *fakeChain) Cancel(_ context.Context, last treasury.TransferVersion) (treasury.TransferPlan, error) {
	defer c.lock()()
	var t terms
	if err := errors.Join(c.step(), c.planErr, json.Unmarshal(last.Terms, &t)); err != nil {
		return treasury.TransferPlan{}, err
	}
	t.Tip, t.Cap = t.Tip*2, max(t.Cap*2, 2*c.base+t.Tip)
	return c.withTerms(treasury.TransferPlan{Slot: last.Slot, Cancels: true}, t), nil
}

func (c *fakeChain) Sign(ctx context.Context, plan treasury.TransferPlan) (treasury.TransferVersion, error) {
	defer c.lock()()
	if c.signHangs {
		<-ctx.Done()
	}
	if err := errors.Join(ctx.Err(), c.signErr); err != nil {
		return treasury.TransferVersion{}, err
	}
	if c.chaos && c.random.IntN(100) == 0 {
		return treasury.TransferVersion{}, errNode
	}
	var t terms
	if err := json.Unmarshal(plan.Terms, &t); err != nil {
		return treasury.TransferVersion{}, err
	}
	tx := fakeTx{Tip: t.Tip, Cap: t.Cap, Change: t.Spends}
	for _, o := range plan.Outputs {
		tx.Pays = append(tx.Pays, fakeOutput{To: o.Destination, Currency: o.Amount.Currency(), Units: o.Amount.Units().Int64(), Payout: o.PayoutID})
		tx.Change -= o.Amount.Units().Int64()
	}
	switch tx.Nonce, _ = plan.Slot.Number(); {
	case c.ofCoins():
		tx.Nonce, tx.Coins, tx.Change = 0, plan.Slot, tx.Change-t.Cap
	case plan.Cancels:
		tx.Pays, tx.Change = []fakeOutput{{To: "0xTreasury", Currency: money.ETH}}, 0
	default:
		tx.Change = 0
	}
	v := treasury.TransferVersion{TransferPlan: plan, TxHash: tx.hash(), Raw: tx.raw()}
	if c.forge != nil {
		v.Outputs = slices.Clone(v.Outputs)
		c.forge(&v)
	}
	return v, nil
}

func (c *fakeChain) Send(_ context.Context, v treasury.TransferVersion) error {
	if c.onSend != nil {
		c.onSend(v.TxHash)
	}
	defer c.lock()()
	if err := errors.Join(c.step(), c.refuse); err != nil {
		return err
	}
	forgotten := c.chaos && c.random.IntN(100) < 15
	if forgotten {
		return nil
	}
	var tx fakeTx
	if err := json.Unmarshal(v.Raw, &tx); err != nil {
		return err
	}
	err := c.accept(tx)
	if c.chaos && c.random.IntN(100) < 10 {
		return errNode // after the effect
	}
	return err
}

func (c *fakeChain) accept(tx fakeTx) error {
	if c.tip().used(tx.slot()) {
		return errors.New("nonce too low, or missing inputs")
	}
	for hash, old := range c.pool {
		switch {
		case !old.slot().Shares(tx.slot()):
			continue
		case hash == tx.hash():
			return errors.New("already known")
		case tx.Cap*100 < old.Cap*(100+c.dearer) || tx.Tip*100 < old.Tip*(100+c.dearer):
			return errors.New("replacement transaction underpriced")
		}
		delete(c.pool, hash)
	}
	c.pool[tx.hash()] = tx
	return nil
}

func (c *fakeChain) Look(ctx context.Context, versions []treasury.TransferVersion) (treasury.TransferSnapshot, error) {
	if c.slow != nil && c.slow() {
		<-ctx.Done()
		return treasury.TransferSnapshot{}, ctx.Err()
	}
	defer c.lock()()
	if err := c.step(); err != nil {
		return treasury.TransferSnapshot{}, err
	}
	seen := c.look(versions)
	if c.lies != nil {
		return c.lies(seen, versions[len(versions)-1]), nil
	}
	lies := 8 // of a hundred answers
	if slices.ContainsFunc(versions, func(v treasury.TransferVersion) bool { return c.orphaned[v.TxHash].TxHash != "" }) {
		lies = 50
	}
	if c.chaos && c.random.IntN(100) < lies {
		return c.lie(seen, versions), nil
	}
	return seen, nil
}

func (c *fakeChain) look(versions []treasury.TransferVersion) treasury.TransferSnapshot {
	for height, b := range c.blocks {
		for _, r := range b.receipts {
			i := slices.IndexFunc(versions, func(v treasury.TransferVersion) bool { return v.TxHash == r.txHash })
			if i < 0 {
				continue
			}
			s := c.sighting(r, height)
			if versions[i].Cancels && s.State == treasury.TransferStateConfirmed {
				s.State = treasury.TransferStateCanceled
			}
			return s
		}
	}
	pending := func(v treasury.TransferVersion) bool { _, there := c.pool[v.TxHash]; return there }
	switch {
	case c.blocks[c.final].used(versions[0].Slot):
		return treasury.TransferSnapshot{State: treasury.TransferStateDead}
	case slices.ContainsFunc(versions, pending):
		return treasury.TransferSnapshot{State: treasury.TransferStatePending}
	}
	return treasury.TransferSnapshot{State: treasury.TransferStateUnknown}
}

// lie shows the receipt of a block that is gone, or forgets what it knows.
func (c *fakeChain) lie(seen treasury.TransferSnapshot, versions []treasury.TransferVersion) treasury.TransferSnapshot {
	if seen.State == treasury.TransferStateConfirmed {
		return treasury.TransferSnapshot{State: treasury.TransferStateDead}
	}
	for _, v := range versions {
		if receipt, there := c.orphaned[v.TxHash]; there && seen.State != treasury.TransferStateMined &&
			seen.State != treasury.TransferStateReverted {
			receipt.State = treasury.TransferStateConfirmed
			return receipt
		}
	}
	if seen.State == treasury.TransferStateReverted {
		return seen
	}
	return treasury.TransferSnapshot{State: treasury.TransferStateUnknown}
}

func (c *fakeChain) Snapshot(context.Context) (treasury.AccountSnapshot, error) {
	defer c.lock()()
	if err := c.step(); err != nil {
		return treasury.AccountSnapshot{}, err
	}
	final := c.blocks[c.final] // a copy: later blocks may replace it
	now := treasury.AccountSnapshot{Next: c.tip().nonce, Balances: c.tip().purse(), Height: uint64(len(c.blocks) - 1),
		FinalBalances: final.purse(), FinalHeight: uint64(c.final), Using: c.using(), Used: final.used}
	for _, tx := range c.waiting() { // also behind a gap
		if !c.ofCoins() {
			now.Next = max(now.Next, tx.Nonce+1)
		}
	}
	for nonce := final.nonce; nonce < now.Next; nonce++ {
		now.Using = append(now.Using, treasury.NumberSlot(nonce)...)
	}
	c.earlier = append(c.earlier, now)
	if c.chaos && c.random.IntN(100) < 10 {
		return c.earlier[max(0, len(c.earlier)-1-c.random.IntN(20))], nil
	}
	return now, nil
}

func (b *fakeBlock) purse() money.Purse {
	all := money.Purse{}
	for currency, units := range b.balances {
		all[money.PayoutCurrency(currency)] = money.NewCrypto(units, money.PayoutCurrency(currency))
	}
	return all
}

func (c *fakeChain) Outflows(_ context.Context, from, to uint64) (treasury.Outflows, error) {
	defer c.lock()()
	if err := c.step(); err != nil {
		return treasury.Outflows{}, err
	}
	last := min(to, uint64(c.final), from+c.atOnce-1)
	out := treasury.Outflows{Next: max(from, last+1)}
	for height := from; height <= last; height++ {
		b := c.blocks[height]
		for _, r := range b.receipts {
			out.All = append(out.All, r.outflows(height)...)
		}
		for nonce := c.blocks[max(height, 1)-1].nonce + uint64(len(b.receipts)); nonce < b.nonce; nonce++ { // see forget
			out.All = append(out.All, treasury.Outflow{
				Slot: treasury.NumberSlot(nonce), Amount: money.NewCrypto(new(big.Int), money.ETH), Height: height})
		}
	}
	return out, nil
}

// outflows returns the payments of a transaction, the last one first. That one has the cost.
func (r fakeReceipt) outflows(height uint64) (all []treasury.Outflow) {
	pays, cost := r.Pays, r.cost
	if len(pays) == 0 {
		pays = []fakeOutput{{Currency: money.BTC}}
	}
	for i, to := range slices.Backward(pays) {
		o := treasury.Outflow{TxHash: r.txHash, Slot: r.slot(), Destination: to.To, Amount: to.amount(), Cost: cost, Height: height}
		if r.Coins != nil {
			o.Output = strconv.Itoa(i)
		}
		if !r.ok {
			o.Amount = money.NewCrypto(new(big.Int), money.ETH)
		}
		all, cost = append(all, o), money.Crypto{}
	}
	return all
}

func (c *fakeChain) VersionOf(_ context.Context, all []treasury.Outflow) (treasury.TransferVersion, error) {
	defer c.lock()()
	for _, r := range c.mined() {
		if r.txHash != all[0].TxHash || len(all) != len(r.Pays) || r.Pays[0].Payout == "" {
			continue
		}
		v := treasury.TransferVersion{TxHash: r.txHash, Raw: r.raw()}
		v.Slot, v.MaxCost = r.slot(), c.cost(r.Cap)
		v.Terms, _ = json.Marshal(terms{Tip: r.Tip, Cap: r.Cap})
		share := money.NewCrypto(new(big.Int).Div(v.MaxCost.Units(), big.NewInt(int64(len(all)))), v.MaxCost.Currency())
		for _, o := range all {
			v.Outputs = append(v.Outputs, treasury.TransferOutput{Destination: o.Destination, Amount: o.Amount,
				Fee: share.Add(money.NewCrypto(big.NewInt(1), share.Currency()))})
		}
		return v, nil
	}
	return treasury.TransferVersion{}, treasury.ErrNotSigned
}

func (c *fakeChain) mined() (all []fakeReceipt) {
	for _, b := range c.blocks {
		all = append(all, b.receipts...)
	}
	return all
}

// paid returns the chain's payments by payout id ("" for foreign ones), and the fees of the network.
func (c *fakeChain) paid() (payments map[string][]fakeOutput, fees *big.Int) {
	defer c.lock()()
	payments, fees = map[string][]fakeOutput{}, new(big.Int)
	for _, r := range c.mined() {
		fees.Add(fees, r.cost.Units())
		for _, to := range r.Pays {
			if r.ok {
				to.txHash = r.txHash
				payments[to.Payout] = append(payments[to.Payout], to)
			}
		}
	}
	return payments, fees
}

// requirePaidOnce requires that the chain has paid each payout once: what the rows say, to the address that they have.
func (f fixture) requirePaidOnce(t *testing.T, refs ...checkout.Ref) {
	payments, _ := f.chain.paid()
	for _, ref := range refs {
		p := f.read(t, ref)
		require.Equal(t, checkout.PayoutSent, p.Status, p.ID)
		require.NotNil(t, p.ConfirmedAt, p.ID)
		require.Len(t, payments[p.ID], 1, "payments of %s", p.ID)
		paid := payments[p.ID][0]
		require.Equal(t, []string{p.Amount.String(), p.Destination, p.TxHash}, []string{paid.amount().String(), paid.To, paid.txHash})
	}
}

// foreign mines a transaction of somebody else with the account's key.
func (c *fakeChain) foreign(t *testing.T, nonce uint64, units int64) {
	defer c.lock()()
	maps.DeleteFunc(c.pool, func(_ string, tx fakeTx) bool { return tx.Nonce == nonce })
	require.NoError(t, c.accept(fakeTx{Nonce: nonce, Tip: 5, Cap: 5_000,
		Pays: []fakeOutput{{To: "0xThief", Currency: money.USDC, Units: units}}}))
}

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

// using returns the coins that transactions spend which are not final.
func (c *fakeChain) using() (units treasury.Slot) {
	all := c.waiting()
	for _, b := range c.blocks[c.final+1:] {
		for _, r := range b.receipts {
			all = append(all, r.fakeTx)
		}
	}
	for _, tx := range all {
		units = append(units, tx.Coins...)
	}
	slices.Sort(units)
	return units
}

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
		if amount.Cmp(btc(1_000)) < 0 {
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
	for _, coin := range slices.Backward(slices.Sorted(maps.Keys(free))) {
		if spends < pays && !slices.Contains(taken, coin) && !slices.Contains(using, coin) {
			plan.Slot, spends = append(plan.Slot, coin), spends+free[coin]
		}
	}
	if spends < pays {
		return treasury.TransferPlan{}, treasury.ErrFloatTooLow
	}
	return c.withTerms(plan, terms{Cap: fee, Spends: spends}), nil
}

// forget leaves the node with the states of its blocks, and without a transaction.
func (c *fakeChain) forget() {
	for i := range c.blocks {
		c.blocks[i].receipts = nil
	}
}
