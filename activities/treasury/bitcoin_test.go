package treasury_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/bitcoin"
	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// onBitcoin is a fixture whose chain is a real Bitcoin node. Blocks come from its miner only.
type onBitcoin struct {
	fixture

	node    *chains.Bitcoin
	market  *chains.FeeMarket
	owner   checkout.Owner
	address string // of the merchant
}

// newOnBitcoin returns one whose treasury has as many coins of 0.05 BTC.
func newOnBitcoin(t *testing.T, coins int) onBitcoin {
	t.Helper()
	f := onBitcoin{fixture: newFixture(t), node: chains.BitcoinForTest(t, chains.BitcoinOptions{})}
	ctx := t.Context()
	require.NoError(t, f.node.OpenWallet(ctx, "treasury"))
	require.NoError(t, f.node.OpenWallet(ctx, "merchant"))
	require.NoError(t, must.Err(f.node.Fund(ctx, "treasury", slices.Repeat([]string{"0.05"}, coins)...)))
	f.mine(t, 6)
	f.market = chains.NewFeeMarket(f.node.URL)
	t.Cleanup(f.market.Close)
	f.Treasury = f.process(t)
	require.NoError(t, f.node.Call(ctx, "merchant", &f.address, "getnewaddress", "", "bech32"))
	f.owner = f.merchant(t, f.address)
	return f
}

// process returns a treasury with connections to PostgreSQL and to the node of its own.
func (f onBitcoin) process(t *testing.T) *treasurer.Treasury {
	t.Helper()
	process := f.fixture.process(t)
	chain := must.Get(bitcoin.Open(t.Context(), bitcoin.Options{
		Network: "regtest", RPCURL: f.market.URL(), RPCPassword: f.node.Password, Wallet: "treasury", Signs: true,
		FeeTarget: 1,
	}))(t)
	process.Chains = map[string]treasury.Chain{money.Bitcoin: chain}
	return process
}

func (f onBitcoin) mine(t *testing.T, blocks int) {
	t.Helper()
	require.NoError(t, must.Err(f.node.Mine(t.Context(), blocks)))
}

// paid returns what every transaction that paid the merchant paid it, by transaction.
func (f onBitcoin) paid(t *testing.T) map[string][]money.Crypto {
	t.Helper()
	var since struct {
		Transactions []struct {
			TxID          string      `json:"txid"`
			Category      string      `json:"category"`
			Amount        json.Number `json:"amount"`
			Confirmations int64       `json:"confirmations"`
		} `json:"transactions"`
	}
	require.NoError(t, f.node.Call(t.Context(), "merchant", &since, "listsinceblock"))
	paid := map[string][]money.Crypto{}
	for _, o := range since.Transactions {
		if o.Category == "receive" && o.Confirmations > 0 {
			paid[o.TxID] = append(paid[o.TxID], money.MustCrypto(o.Amount.String(), money.BTC))
		}
	}
	return paid
}

// wallet returns what the treasury has in final blocks.
func (f onBitcoin) wallet(t *testing.T) money.Crypto {
	t.Helper()
	return must.Get(f.Chains[money.Bitcoin].Snapshot(t.Context()))(t).FinalBalances[money.BTC]
}

// requirePaidOnce compares payouts, the chain and the ledger, to the last satoshi.
func (f onBitcoin) requirePaidOnce(t *testing.T, refs []checkout.Ref) {
	t.Helper()
	paid := f.paid(t)
	for _, ref := range refs {
		p := f.read(t, ref)
		require.Equal(t, checkout.PayoutSent, p.Status, p.ID)
		require.NotNil(t, p.ConfirmedAt, p.ID)
		i := slices.IndexFunc(paid[p.TxHash], p.Amount.Is)
		require.GreaterOrEqual(t, i, 0, "%s paid %s by %s: %v", p.ID, p.Amount, p.TxHash, paid[p.TxHash])
		paid[p.TxHash] = slices.Delete(paid[p.TxHash], i, i+1)
	}
	for hash, rest := range paid {
		require.Empty(t, rest, "%s paid more than the payouts", hash)
	}
	books := f.ledger(t)
	require.Equal(t, f.wallet(t).Units().String(), books["wallet BTC"])
	require.Contains(t, []string{"", "0"}, books["transit BTC"])
	require.Equal(t, "0", books["merchant:payable EUR"])
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM treasury_account WHERE frozen_at IS NOT NULL`))
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM finding`))
}

// The signer refuses coins in another order than the first version's. A payout above the float holds up no other.
func TestBitcoin_ATransferOfSeveralCoinsIsReplaced(t *testing.T) {
	f := newOnBitcoin(t, 1)
	require.NoError(t, must.Err(f.node.Fund(t.Context(), "treasury", "0.11", "0.15", "0.10", "0.16", "0.12", "0.14", "0.13")))
	f.mine(t, 6)
	refs := []checkout.Ref{f.payout(t, f.owner, 6_500_000, money.BTC)}
	for range 4 {
		refs = append(refs, f.payout(t, f.owner, 10_000, money.BTC))
	}
	f.Limits.Payout = 20_000_000
	above := f.payout(t, f.owner, 10_000_000, money.BTC)
	require.ErrorIs(t, must.Err(f.Transfer(t.Context(), refs[4])), treasury.ErrAwaitsBatch, "a round signs it, with others")
	require.Equal(t, 5, f.sync(t).Signed)
	require.Equal(t, checkout.HoldFloat, f.read(t, above).Hold)
	require.Greater(t, f.query(t, `SELECT count(*) FROM transfer_slot`), int64(5))
	for _, ref := range refs {
		f.send(t, ref)
	}

	f.market.Set("0.00040000")
	for range 9 {
		require.NoError(t, f.node.Call(t.Context(), "", nil, "generateblock", minerAddress, []string{}))
	}
	f.StuckAfter = time.Nanosecond
	require.Equal(t, 1, f.sync(t).Bumped)
	f.mine(t, 6)
	f.sync(t)

	require.NoError(t, must.Err(f.node.Fund(t.Context(), "treasury", "2")))
	f.mine(t, 6)
	f.Exec(t, `UPDATE payout SET next_action_at = now() WHERE id = $1`, above.ID)
	require.Equal(t, 1, f.sync(t).Signed)
	f.send(t, above)
	f.mine(t, 6)
	f.sync(t)
	f.requirePaidOnce(t, append(refs, above))
}

// The backup lacks a transaction that paid several payouts, two of them alike. Recovery writes it as a whole. A later
// payout is paid after the thaw.
func TestBitcoin_RecoversALostBatch(t *testing.T) {
	f := newOnBitcoin(t, 3)
	f.sync(t)
	var refs []checkout.Ref
	for _, amount := range []money.Amount{10_000, 20_000, 30_000, 30_000} {
		refs = append(refs, f.payout(t, f.owner, amount, money.BTC))
	}
	restore := f.backup(t)
	require.Equal(t, 4, f.sync(t).Signed)
	f.mine(t, 6)
	require.Equal(t, 1, f.sync(t).Confirmed)
	require.Len(t, f.paid(t), 1)
	restore()
	require.Equal(t, checkout.PayoutPending, f.read(t, refs[0]).Status)

	later := f.payout(t, f.owner, 40_000, money.BTC)
	require.Zero(t, f.sync(t).Signed)
	accounts := f.accounts(t)
	o := treasurer.ThawOrder{AccountID: accounts[0].ID}
	require.ErrorIs(t, f.Thaw(t.Context(), o), treasurer.ErrUnrecovered)
	got := must.Get(f.Recover(t.Context(), treasurer.RecoveryOrder{
		AccountID: o.AccountID, Apply: true, By: merchant.AuditEntry{Actor: "operator", Action: "payout.recovered"}}))(t)
	require.Len(t, got.Found, 4)
	for _, r := range got.Found {
		require.True(t, r.Done, "%s: %s", r.Payment(), r.Why)
	}
	f.sync(t)
	require.NoError(t, f.Thaw(t.Context(), o))

	f.Exec(t, `UPDATE payout SET next_action_at = now() WHERE id = $1`, later.ID)
	require.Equal(t, 1, f.sync(t).Signed)
	f.send(t, later)
	f.mine(t, 6)
	f.sync(t)
	require.Len(t, f.paid(t), 2)
	f.requirePaidOnce(t, append(refs, later))
}

// Two processes pay while calls are cut short, connections of PostgreSQL are killed, and payees spend unconfirmed
// outputs. The node restarts without its pool, reorganizes three blocks, and reports fees 20 times as high.
func TestBitcoin_PaysEachPayoutOnce(t *testing.T) {
	f := newOnBitcoin(t, 60)
	seed := thrown(t)
	refs := made(*payouts, func(i int) checkout.Ref {
		// The smallest can pay the dearest fee: one on hold for it would wait a minute, again and again.
		amount := money.Amount(12_000 + rand.New(rand.NewPCG(seed, uint64(i))).IntN(20_000))
		return f.payout(t, f.owner, amount, money.BTC)
	})
	// They are due one after another, so there are many batches.
	f.Exec(t, `UPDATE payout SET next_action_at = now() + random() * $1::integer * interval '100 milliseconds'`, *payouts)
	k := newKilling(t, f.fixture, seed)
	world := bitcoinWorld{onBitcoin: f, killing: k, count: map[string]int{}}
	err := k.run(t, f.process(t), f.process(t), world.run)
	t.Logf("world %v; cut short %d, killed connections %d, errors %d; %v transfers, %v versions, at most %v of one",
		world.count, k.cut.Load(), k.killed.Load(), k.errors.Load(), f.query(t, `SELECT count(*) FROM transfer`),
		f.query(t, `SELECT count(*) FROM transfer_version`), f.query(t, `SELECT max(number) FROM transfer_version`))
	require.NoError(t, err, "%v; the last error: %v",
		f.query(t, `SELECT coalesce(string_agg(frozen_why, ','), '') FROM treasury_account`), k.last.Load())
	f.mine(t, 6)
	f.sync(t)
	f.requirePaidOnce(t, refs)
}

// minerAddress gets the rewards of empty blocks. It is of BIP-173.
const minerAddress = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"

// bitcoinWorld is what happens around the treasury.
type bitcoinWorld struct {
	onBitcoin

	killing *killing
	count   map[string]int
}

func (w *bitcoinWorld) run(ctx context.Context) {
	random := rand.New(rand.NewPCG(w.killing.seed, 99))
	rates := []string{"0.00002000", "0.00005000"}
	for ctx.Err() == nil {
		what, do := "block", func() error { _, err := w.node.Mine(ctx, 1); return err }
		switch n := random.IntN(100); {
		case n < 3:
			what, do = "restart", w.restart
		case n < 8:
			what, do = "reorganization", func() error { return w.node.Reorganize(ctx, 1+random.IntN(3)) }
		case n < 13:
			what, do = "fee", func() error { w.market.Set(rates[random.IntN(len(rates))]); return nil }
		case n < 30:
			what, do = "kill", func() error { return w.killing.kill(ctx) }
		case n < 34:
			what, do = "spike", func() error { return w.spike(ctx) }
		case n < 45:
			what, do = "child", func() error { return w.child(ctx, random) }
		}
		if err := do(); err == nil {
			w.count[what]++
		}
		// After a kill a round must succeed first: on a busy machine a round takes longer than the time between two kills.
		for before := w.killing.rounds.Load(); ctx.Err() == nil; {
			time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
			if what != "kill" || w.killing.rounds.Load() > before {
				break
			}
		}
	}
}

// restart starts the node again without its pool. It must be there afterwards.
func (w *bitcoinWorld) restart() error {
	if err := w.node.Stop(); err != nil {
		return err
	}
	if err := w.node.ForgetPool(); err != nil {
		return fmt.Errorf("forget the pool: %w", err)
	}
	return w.node.Start(context.Background())
}

// child lets a payee spend an output of a transfer that waits, or of another payee's child, which the node refuses.
func (w *bitcoinWorld) child(ctx context.Context, random *rand.Rand) error {
	var (
		waiting []string
		digits  string
	)
	if err := w.node.Call(ctx, "", &waiting, "getrawmempool"); err != nil || len(waiting) == 0 {
		return errors.Join(err, errors.New("nothing waits"))
	}
	txid := waiting[random.IntN(len(waiting))]
	if err := w.node.Call(ctx, "", &digits, "getrawtransaction", txid); err != nil {
		return err
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return err
	}
	_, err = w.node.Spend(ctx, "merchant", raw, 0, chains.Child{
		Version: restricted, Size: chains.SmallChild + 31*random.Int64N(28), Fee: 1_000 + random.Int64N(30_000)})
	return err
}

// spike makes size 20 times as dear, and blocks take nothing for a second.
func (w *bitcoinWorld) spike(ctx context.Context) error {
	w.market.Set("0.00040000")
	for range 10 {
		if err := w.node.Call(ctx, "", nil, "generateblock", minerAddress, []string{}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}
