package treasury_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// fakeChain behaves like an Ethereum node with one account: a pool, blocks, a base fee, replaced
// versions, reorganizations. With chaos, every call may also mine, drop, reorganize, lag, lie and
// lose its answer.
type fakeChain struct {
	mu        sync.Mutex
	random    *rand.Rand
	chaos     bool
	finality  int             // blocks on top of a final one
	atOnce    uint64          // blocks that one call of Outflows looks at
	address   string          // of the account
	invalid   map[string]bool // destinations that Check refuses
	listed    map[string]bool // destinations that are sanctioned
	listErr   error           // of Sanctioned
	reverts   map[string]bool // destinations that get nothing
	signErr   error           // the signer's
	signHangs bool
	planErr   error       // of Plan
	refuse    error       // of Send, which does nothing then
	slow      func() bool // whether Look answers too late
	lies      func(seen checkout.TransferSnapshot, newest checkout.TransferVersion) checkout.TransferSnapshot
	forge     func(v *checkout.TransferVersion) // what the signer changes
	onSend    func(hash string)                 // before a transaction enters the pool
	tick      chan struct{}                     // gets a value now and then
	base      int64                             // base fee in gwei
	funded    map[string]*big.Int
	start     uint64 // first nonce
	final     int    // height of the last final block
	blocks    []fakeBlock
	pool      map[uint64]fakeTx
	orphaned  map[string]checkout.TransferSnapshot // receipts of blocks that are gone
	earlier   []checkout.AccountSnapshot
	count     fakeCount
}

// fakeCount counts what chaos did.
type fakeCount struct{ calls, mined, dropped, reorganizations, jumps, lies, lost, lagged int }

type fakeTx struct {
	Nonce    uint64
	Tip, Cap int64
	Currency checkout.PayoutCurrency
	To       string
	Units    string
	Payout   string
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
	return "0x" + hex.EncodeToString(sum[:])
}

type fakeReceipt struct {
	fakeTx
	cost *big.Int
	ok   bool
}

type fakeBlock struct {
	hash     string
	receipts []fakeReceipt
	nonce    uint64 // of the account after it
	balances map[string]*big.Int
}

// terms are the chain's own fields of a plan.
type terms struct {
	Tip, Cap int64
	Payout   string
}

const (
	fakeGas = 21_000
	fakeTip = 2
)

var gwei = big.NewInt(1_000_000_000)

func newFakeChain(seed uint64, balances map[checkout.PayoutCurrency]string) *fakeChain {
	c := &fakeChain{
		random: rand.New(rand.NewPCG(seed, 1)), finality: 3, atOnce: 200, base: 10, start: 0, address: "0xTreasury",
		invalid: map[string]bool{}, listed: map[string]bool{}, reverts: map[string]bool{}, tick: make(chan struct{}, 1),
		funded: map[string]*big.Int{}, pool: map[uint64]fakeTx{}, orphaned: map[string]checkout.TransferSnapshot{},
		blocks: []fakeBlock{{hash: "genesis", nonce: 0, balances: map[string]*big.Int{}}},
	}
	for _, currency := range []checkout.PayoutCurrency{checkout.ETH, checkout.USDC, checkout.USDT} {
		c.funded[string(currency)], c.blocks[0].balances[string(currency)] = new(big.Int), new(big.Int)
		if balances[currency] != "" {
			c.fund(currency, balances[currency])
		}
	}
	return c
}

// fund gives the account money, in a block so old that no reorganization undoes it. While others look, a new block is
// final afterwards: two views of one final block always agree.
func (c *fakeChain) fund(currency checkout.PayoutCurrency, amount string) {
	units := checkout.MustCrypto(amount, currency).Units()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.funded[string(currency)].Add(c.funded[string(currency)], units)
	for _, b := range c.blocks {
		b.balances[string(currency)].Add(b.balances[string(currency)], units)
	}
	for seen := c.final; c.chaos && c.final == seen; {
		c.mineOne()
	}
	c.earlier = nil
}

// take removes money from the account in a way that shows in no list of outflows: from all blocks that are not
// final, and from the last one.
func (c *fakeChain) take(currency checkout.PayoutCurrency, units int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.blocks[min(c.final+1, len(c.blocks)-1):] {
		b.balances[string(currency)].Sub(b.balances[string(currency)], big.NewInt(units))
	}
}

func (c *fakeChain) tip() *fakeBlock { return &c.blocks[len(c.blocks)-1] }

// mine adds n blocks.
func (c *fakeChain) mine(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.mineOne()
	}
}

func (c *fakeChain) mineOne() {
	b := fakeBlock{nonce: c.tip().nonce, balances: map[string]*big.Int{}}
	for currency, units := range c.tip().balances {
		b.balances[currency] = new(big.Int).Set(units)
	}
	for {
		tx, there := c.pool[b.nonce]
		if !there || tx.Cap < c.base {
			break
		}
		receipt, ok := b.execute(tx, c.base, c.reverts[tx.To])
		if !ok {
			break
		}
		delete(c.pool, b.nonce)
		b.receipts, b.nonce = append(b.receipts, receipt), b.nonce+1
	}
	var id [8]byte
	for i := range id {
		id[i] = byte(c.random.IntN(256))
	}
	b.hash = hex.EncodeToString(id[:])
	c.blocks = append(c.blocks, b)
	c.final = max(c.final, len(c.blocks)-1-c.finality)
	c.base = max(10, c.base*9/10)
	c.count.mined++
}

// execute changes the balances. It returns false when the account cannot pay for the transaction.
func (b *fakeBlock) execute(tx fakeTx, base int64, refused bool) (fakeReceipt, bool) {
	cost := new(big.Int).Mul(big.NewInt(fakeGas*min(tx.Cap, base+tx.Tip)), gwei)
	units, _ := new(big.Int).SetString(tx.Units, 10)
	eth, token := b.balances["ETH"], b.balances[string(tx.Currency)]
	needs := new(big.Int).Set(cost)
	if tx.Currency == checkout.ETH {
		needs.Add(needs, units)
	}
	if eth.Cmp(needs) < 0 {
		return fakeReceipt{}, false
	}
	eth.Sub(eth, cost)
	ok := !refused && token.Cmp(units) >= 0
	if ok {
		token.Sub(token, units)
	}
	return fakeReceipt{tx, cost, ok}, true
}

// reorganize removes the last n blocks. back says whether a transaction of theirs returns to the pool.
func (c *fakeChain) reorganize(n int, back func() bool) {
	for range n {
		height := len(c.blocks) - 1
		for _, r := range c.tip().receipts {
			c.orphaned[r.hash()] = c.sighting(r, height)
			if back() {
				c.pool[r.Nonce] = r.fakeTx
			}
		}
		c.blocks = c.blocks[:height]
	}
	c.count.reorganizations++
}

// undo is a reorganization that goes below the last final block.
func (c *fakeChain) undo(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reorganize(n, func() bool { return false })
	c.final = min(c.final, len(c.blocks)-1)
	c.earlier = nil
}

func (c *fakeChain) sighting(r fakeReceipt, height int) checkout.TransferSnapshot {
	s := checkout.TransferSnapshot{State: checkout.TransferStateMined, TxHash: r.hash(), Height: uint64(height),
		BlockHash: c.blocks[height].hash, Depth: uint64(len(c.blocks) - 1 - height),
		Cost: checkout.NewCrypto(r.cost, checkout.ETH)}
	if height <= c.final {
		s.State = checkout.TransferStateConfirmed
		if !r.ok {
			s.State = checkout.TransferStateReverted
		}
	}
	return s
}

// step lets the chain live a little before each call. It returns an error when the call shall fail.
func (c *fakeChain) step() error {
	c.count.calls++
	if !c.chaos {
		return nil
	}
	if c.count.calls%60 == 0 {
		select {
		case c.tick <- struct{}{}:
		default:
		}
	}
	switch dice := c.random.IntN(1000); {
	case dice < 150:
		c.mineOne()
	case dice < 170 && len(c.pool) > 0:
		nonces := slices.Sorted(maps.Keys(c.pool))
		delete(c.pool, nonces[c.random.IntN(len(nonces))])
		c.count.dropped++
	case dice < 180:
		if deepest := min(c.finality, len(c.blocks)-1-c.final); deepest > 0 {
			c.reorganize(1+c.random.IntN(deepest), func() bool { return c.random.IntN(2) == 0 })
		}
	case dice < 182:
		c.base = min(c.base*20, 4_000)
		c.count.jumps++
	case dice < 205:
		return errNode
	}
	return nil
}

var errNode = errors.New("the node did not answer")

func (c *fakeChain) Account() checkout.TreasuryAccount {
	return checkout.TreasuryAccount{Network: "ethereum", ChainID: "eip155:31337", Address: c.address}
}

func (c *fakeChain) Sanctioned(_ context.Context, destination string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.step(); err != nil {
		return false, err
	}
	return c.listed[destination], c.listErr
}

func (c *fakeChain) Check(
	_ context.Context, _ checkout.PayoutCurrency, destination string,
) (checkout.PayoutFailure, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.step(); err != nil {
		return "", err
	}
	if destination == "" || c.invalid[destination] {
		return checkout.PayoutInvalidAddress, nil
	}
	return "", nil
}

// fakeFees are what a merchant pays for the network.
var fakeFees = map[checkout.PayoutCurrency]string{checkout.USDC: "0.25", checkout.USDT: "0.25", checkout.ETH: "0.0001"}

func (c *fakeChain) Batch() checkout.Batch { return checkout.Batch{Most: 1} }

func (c *fakeChain) Plan(
	_ context.Context, payouts []checkout.TransferRequest, _ checkout.Slot,
) (checkout.TransferPlan, error) {
	req := payouts[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := errors.Join(c.step(), c.planErr); err != nil {
		return checkout.TransferPlan{}, err
	}
	if c.base > 1_000 {
		return checkout.TransferPlan{}, checkout.ErrFeeTooHigh
	}
	fee := checkout.MustCrypto(fakeFees[req.Gross.Currency()], req.Gross.Currency())
	amount := req.Gross.Sub(fee)
	if amount.Sign() <= 0 {
		return checkout.TransferPlan{}, checkout.ErrTooSmall
	}
	pays := checkout.TransferOutput{PayoutID: req.PayoutID, Destination: req.Destination, Amount: amount, Fee: fee}
	return withTerms(checkout.TransferPlan{Outputs: []checkout.TransferOutput{pays}, Fee: fee},
		terms{fakeTip, 2*c.base + fakeTip, req.PayoutID}), nil
}

func withTerms(plan checkout.TransferPlan, t terms) checkout.TransferPlan {
	plan.Terms, _ = json.Marshal(t)
	plan.MaxCost = checkout.NewCrypto(new(big.Int).Mul(big.NewInt(fakeGas*t.Cap), gwei), checkout.ETH)
	return plan
}

func (c *fakeChain) Bump(_ context.Context, last checkout.TransferVersion) (checkout.TransferPlan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.step(); err != nil {
		return checkout.TransferPlan{}, err
	}
	var t terms
	if err := json.Unmarshal(last.Terms, &t); err != nil {
		return checkout.TransferPlan{}, err
	}
	t.Tip += t.Tip*15/100 + 1
	t.Cap = max(t.Cap+t.Cap*15/100+1, 2*c.base+t.Tip)
	if t.Cap > 10_000 {
		return checkout.TransferPlan{}, checkout.ErrFeeTooHigh
	}
	return withTerms(last.TransferPlan, t), nil
}

func (c *fakeChain) Cancel(_ context.Context, last checkout.TransferVersion) (checkout.TransferPlan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := errors.Join(c.step(), c.planErr); err != nil {
		return checkout.TransferPlan{}, err
	}
	var t terms
	if err := json.Unmarshal(last.Terms, &t); err != nil {
		return checkout.TransferPlan{}, err
	}
	t.Tip, t.Cap, t.Payout = t.Tip*2, max(t.Cap*2, 2*c.base+t.Tip), ""
	return withTerms(checkout.TransferPlan{Slot: last.Slot, Cancels: true}, t), nil
}

func (c *fakeChain) Sign(ctx context.Context, plan checkout.TransferPlan) (checkout.TransferVersion, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.signHangs {
		<-ctx.Done()
	}
	if err := errors.Join(ctx.Err(), c.signErr); err != nil {
		return checkout.TransferVersion{}, err
	}
	if c.chaos && c.random.IntN(100) == 0 {
		return checkout.TransferVersion{}, errNode
	}
	var t terms
	if err := json.Unmarshal(plan.Terms, &t); err != nil {
		return checkout.TransferVersion{}, err
	}
	nonce, _ := plan.Slot.Number()
	tx := fakeTx{nonce, t.Tip, t.Cap, checkout.ETH, "0xTreasury", "0", t.Payout}
	if !plan.Cancels {
		pays := plan.Outputs[0]
		tx.Currency, tx.To, tx.Units = plan.Currency(), pays.Destination, pays.Amount.Units().String()
	}
	v := checkout.TransferVersion{TransferPlan: plan, TxHash: tx.hash(), Raw: tx.raw()}
	if c.forge != nil {
		v.Outputs = slices.Clone(v.Outputs)
		c.forge(&v)
	}
	return v, nil
}

func (c *fakeChain) Send(_ context.Context, v checkout.TransferVersion) error {
	if c.onSend != nil {
		c.onSend(v.TxHash)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := errors.Join(c.step(), c.refuse); err != nil {
		return err
	}
	forgotten := c.chaos && c.random.IntN(100) < 15
	if forgotten {
		c.count.lost++
		return nil
	}
	err := c.accept(v.Raw)
	if c.chaos && c.random.IntN(100) < 10 {
		c.count.lost++
		return errNode // after the effect
	}
	return err
}

// accept puts a transaction into the pool.
func (c *fakeChain) accept(raw []byte) error {
	var tx fakeTx
	if err := json.Unmarshal(raw, &tx); err != nil {
		return err
	}
	if tx.Nonce < c.tip().nonce {
		return errors.New("nonce too low")
	}
	if old, there := c.pool[tx.Nonce]; there {
		if old == tx {
			return errors.New("already known")
		}
		if tx.Cap*10 < old.Cap*11 || tx.Tip*10 < old.Tip*11 {
			return errors.New("replacement transaction underpriced")
		}
	}
	c.pool[tx.Nonce] = tx
	return nil
}

func (c *fakeChain) Look(ctx context.Context, versions []checkout.TransferVersion) (checkout.TransferSnapshot, error) {
	if c.slow != nil && c.slow() {
		<-ctx.Done()
		return checkout.TransferSnapshot{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.step(); err != nil {
		return checkout.TransferSnapshot{}, err
	}
	nonce, _ := versions[0].Slot.Number()
	seen := c.look(nonce, versions)
	if c.lies != nil {
		return c.lies(seen, versions[len(versions)-1]), nil
	}
	lies := 8 // of a hundred answers
	if slices.ContainsFunc(versions, func(v checkout.TransferVersion) bool { return c.orphaned[v.TxHash].TxHash != "" }) {
		lies = 50
	}
	if c.chaos && c.random.IntN(100) < lies {
		return c.lie(seen, versions), nil
	}
	return seen, nil
}

func (c *fakeChain) look(nonce uint64, versions []checkout.TransferVersion) checkout.TransferSnapshot {
	ours := func(hash string) bool {
		return slices.ContainsFunc(versions, func(v checkout.TransferVersion) bool { return v.TxHash == hash })
	}
	for height, b := range c.blocks {
		for _, r := range b.receipts {
			if r.Nonce == nonce && ours(r.hash()) {
				s := c.sighting(r, height)
				cancels := slices.ContainsFunc(versions, func(v checkout.TransferVersion) bool { return v.TxHash == r.hash() && v.Cancels })
				if cancels && s.State == checkout.TransferStateConfirmed {
					s.State = checkout.TransferStateCanceled
				}
				return s
			}
		}
	}
	if nonce < c.blocks[c.final].nonce {
		return checkout.TransferSnapshot{State: checkout.TransferStateDead}
	}
	if tx, there := c.pool[nonce]; there && ours(tx.hash()) {
		return checkout.TransferSnapshot{State: checkout.TransferStatePending}
	}
	return checkout.TransferSnapshot{State: checkout.TransferStateUnknown}
}

// lie shows the receipt of a block that is gone, or forgets what it knows.
func (c *fakeChain) lie(seen checkout.TransferSnapshot, versions []checkout.TransferVersion) checkout.TransferSnapshot {
	c.count.lies++
	if seen.State == checkout.TransferStateConfirmed {
		return checkout.TransferSnapshot{State: checkout.TransferStateDead}
	}
	for _, v := range versions {
		if receipt, there := c.orphaned[v.TxHash]; there && seen.State != checkout.TransferStateMined &&
			seen.State != checkout.TransferStateReverted {
			receipt.State = checkout.TransferStateConfirmed
			return receipt
		}
	}
	if seen.State == checkout.TransferStateReverted {
		return seen
	}
	return checkout.TransferSnapshot{State: checkout.TransferStateUnknown}
}

func (c *fakeChain) Snapshot(context.Context) (checkout.AccountSnapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.step(); err != nil {
		return checkout.AccountSnapshot{}, err
	}
	used := c.blocks[c.final].nonce
	now := checkout.AccountSnapshot{Next: c.tip().nonce, Balances: c.tip().purse(), Height: uint64(len(c.blocks) - 1),
		FinalBalances: c.blocks[c.final].purse(), FinalHeight: uint64(c.final)}
	for c.pool[now.Next].To != "" {
		now.Next++
	}
	for nonce := used; nonce < now.Next; nonce++ {
		now.Using = append(now.Using, checkout.NumberSlot(nonce)...)
	}
	now.Used = func(slot checkout.Slot) bool {
		nonce, ok := slot.Number()
		return ok && nonce < used
	}
	c.earlier = append(c.earlier, now)
	if c.chaos && c.random.IntN(100) < 10 {
		c.count.lagged++
		return c.earlier[max(0, len(c.earlier)-1-c.random.IntN(20))], nil
	}
	return now, nil
}

func (b *fakeBlock) purse() checkout.Purse {
	all := checkout.Purse{}
	for currency, units := range b.balances {
		all[checkout.PayoutCurrency(currency)] = checkout.NewCrypto(units, checkout.PayoutCurrency(currency))
	}
	return all
}

func (c *fakeChain) Outflows(_ context.Context, from, to uint64) (checkout.Outflows, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.step(); err != nil {
		return checkout.Outflows{}, err
	}
	last := min(to, uint64(c.final), from+c.atOnce-1)
	out := checkout.Outflows{Next: max(from, last+1)}
	for height := from; height <= last; height++ {
		for _, r := range c.blocks[height].receipts {
			o := checkout.Outflow{TxHash: r.hash(), Slot: checkout.NumberSlot(r.Nonce), Destination: r.To,
				Amount: checkout.NewCrypto(new(big.Int), checkout.ETH), Cost: checkout.NewCrypto(r.cost, checkout.ETH), Height: height}
			if r.ok {
				units, _ := new(big.Int).SetString(r.Units, 10)
				o.Amount = checkout.NewCrypto(units, r.Currency)
			}
			out.All = append(out.All, o)
		}
	}
	return out, nil
}

// VersionOf is only of real chains: what is recovered is read from a real node.
func (c *fakeChain) VersionOf(context.Context, []checkout.Outflow) (checkout.TransferVersion, error) {
	return checkout.TransferVersion{}, errNode
}

// paid returns the chain's payments by payout id. Payments that belong to no payout are under "".
func (c *fakeChain) paid() (payments map[string][]fakeTx, gas *big.Int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	payments, gas = map[string][]fakeTx{}, new(big.Int)
	for _, b := range c.blocks {
		for _, r := range b.receipts {
			gas.Add(gas, r.cost)
			if r.ok {
				payments[r.Payout] = append(payments[r.Payout], r.fakeTx)
			}
		}
	}
	return payments, gas
}

// foreign mines a transaction of somebody else with the account's key.
func (c *fakeChain) foreign(t *testing.T, nonce uint64, units string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pool, nonce)
	require.NoError(t, c.accept(fakeTx{Nonce: nonce, Tip: 5, Cap: 5_000, Currency: checkout.USDC, To: "0xThief",
		Units: units}.raw()))
}
