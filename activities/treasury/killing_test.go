package treasury_test

import (
	"context"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

var (
	payouts = flag.Int("payouts", 20, "number of payouts of the killing tests; .ci/run takes 300")
	dice    = flag.Uint64("dice", 0, "seed of the killing test; 0 takes the time")
)

// Two processes use one account while calls are cut short, PostgreSQL's connections are killed, and the chain has chaos.
func TestTreasury_PaysEachPayoutOnce(t *testing.T) {
	f := newFixture(t)
	seed := thrown(t)
	// Too little, so that payouts wait until the account is topped up.
	f.chain = newFakeChain(seed, map[money.PayoutCurrency]string{
		money.ETH: "3", money.USDC: "2000", money.USDT: "2000"})
	first, second := f.process(t), f.process(t)
	first.StuckAfter, second.StuckAfter = time.Nanosecond, time.Nanosecond
	f.Treasury = f.process(t)

	refs := f.many(t, *payouts, seed)
	f.chain.chaos = true
	k := newKilling(t, f, seed)
	err := k.run(t, first, second, k.kills)
	t.Logf("chain: %+v; cut short %d, killed connections %d, errors %d, retried %d",
		f.chain.count, k.cut.Load(), k.killed.Load(), k.errors.Load(), k.retried.Load())
	t.Logf("versions %v, at most %v of one transfer; holds seen: %d",
		f.query(t, `SELECT count(*) FROM transfer_version`), f.query(t, `SELECT max(number) FROM transfer_version`), k.held.Load())
	if err != nil {
		f.chain.mu.Lock()
		t.Logf("base %d, pool %d, next nonce %d, final nonce %d", f.chain.base, len(f.chain.pool), f.chain.tip().nonce,
			f.chain.blocks[f.chain.final].nonce)
		f.chain.mu.Unlock()
		for _, query := range []string{
			`SELECT status, hold, failure, generation, confirmed_at IS NOT NULL AS confirmed, count(*) FROM payout GROUP BY 1, 2, 3, 4, 5`,
			`SELECT status, count(*), min(nonce), max(nonce) FROM transfer GROUP BY 1`,
			`SELECT next_nonce, next_block, seen_height, frozen_why FROM treasury_account`,
		} {
			t.Log(f.query(t, `SELECT json_agg(x)::text FROM (`+query+`) x`))
		}
	}
	require.NoError(t, err, "%v", f.query(t, `SELECT coalesce(string_agg(frozen_why, ','), '') FROM treasury_account`))

	f.chain.chaos = false
	f.settle(t)
	k.requirePaidOnce(t, refs)
}

// many makes payouts of four merchants. One of them has an address that gets nothing, and one has an invalid address.
func (f fixture) many(t *testing.T, n int, seed uint64) []checkout.Ref {
	t.Helper()
	owners := []checkout.Owner{f.owner, f.merchant(t, "0xSecond"), f.merchant(t, "0xReverts"), f.merchant(t, "0xInvalid")}
	f.chain.reverts["0xReverts"], f.chain.invalid["0xInvalid"] = true, true
	return made(n, func(i int) checkout.Ref {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		owner := owners[random.IntN(2)]
		if i%25 == 0 {
			owner = owners[2+i/25%2]
		}
		to := []money.PayoutCurrency{money.USDC, money.USDT, money.ETH}[random.IntN(3)]
		return f.payout(t, owner, money.Amount(500+random.IntN(9_500)), to)
	})
}

// made makes n payouts, eight at once.
func made(n int, payout func(i int) checkout.Ref) []checkout.Ref {
	refs := make([]checkout.Ref, n)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range refs {
		group.Go(func() error {
			refs[i] = payout(i)
			return nil
		})
	}
	_ = group.Wait() // none fails: payout ends the test
	return refs
}

// thrown returns the seed of a killing test.
func thrown(t *testing.T) uint64 {
	t.Helper()
	seed := *dice
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-dice %d", seed)
	return seed
}

// killing is one run with faults.
type killing struct {
	fixture
	look                               *pgxpool.Pool
	seed                               uint64
	left                               atomic.Int64 // payouts that are not final
	cut, killed, errors, retried, held atomic.Int64
}

func newKilling(t *testing.T, f fixture, seed uint64) *killing {
	t.Helper()
	look := must.Get(pgxpool.New(t.Context(), f.URL))(t)
	t.Cleanup(look.Close)
	k := &killing{fixture: f, look: look, seed: seed}
	k.left.Store(1)
	return k
}

// run lets two processes send and follow until every payout is final. Meanwhile around makes faults.
func (k *killing) run(t *testing.T, first, second *treasurer.Treasury, around func(context.Context)) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute+time.Duration(*payouts)*time.Second)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for i, process := range []*treasurer.Treasury{first, second, first, second} {
		group.Go(func() error { return k.sends(ctx, process, uint64(i)) })
	}
	group.Go(func() error { return k.follows(ctx, first, 10) })
	group.Go(func() error { return k.follows(ctx, second, 11) })
	// The faults are stopped from here: kills waits for the chain's next tick, and when the others have ended, none comes.
	working, stop := context.WithCancel(ctx)
	var faults sync.WaitGroup
	faults.Go(func() { around(working) })
	err := group.Wait()
	stop()
	faults.Wait()
	return err
}

// cutShort is a context that may end at any moment.
func (k *killing) cutShort(ctx context.Context, random *rand.Rand) (context.Context, context.CancelFunc) {
	if random.IntN(5) > 0 {
		return context.WithCancel(ctx)
	}
	k.cut.Add(1)
	return context.WithTimeout(ctx, time.Duration(random.IntN(15_000))*time.Microsecond)
}

// sends orders payouts, as the runs of the payouts do, until all are final.
func (k *killing) sends(ctx context.Context, process *treasurer.Treasury, number uint64) error {
	random := rand.New(rand.NewPCG(k.seed, 100+number))
	for k.left.Load() > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d payouts are not final: %w", k.left.Load(), err)
		}
		due, err := k.due(ctx, random)
		if err != nil {
			k.errors.Add(1)
		}
		for _, p := range due {
			short, cancel := k.cutShort(ctx, random)
			if err := k.handle(short, process, p); err != nil {
				k.errors.Add(1)
			}
			cancel()
		}
		time.Sleep(10 * time.Millisecond) // leave the computer to those that follow
	}
	return nil
}

func (k *killing) handle(ctx context.Context, process *treasurer.Treasury, p checkout.Payout) error {
	if p.Status == checkout.PayoutFailed {
		// The merchant corrects the address and asks for a retry.
		if _, err := process.Payouts.RetryPayout(ctx, p.Ref); err != nil {
			return err
		}
		k.retried.Add(1)
		return nil
	}
	got, err := transfer(ctx, process, p.Ref)
	if err != nil {
		return err
	}
	if got.Held != "" {
		k.held.Add(1)
		if got.Held == checkout.HoldFloat {
			for _, c := range []money.PayoutCurrency{money.ETH, money.USDC, money.USDT} {
				k.chain.fund(c, "50.5")
			}
		}
		return nil
	}
	_, err = process.Payouts.FinishPayout(ctx, p.Ref, got.Generation, got.Failure)
	return err
}

// due returns some payouts that are pending or failed, and counts those that are not final.
func (k *killing) due(ctx context.Context, random *rand.Rand) ([]checkout.Payout, error) {
	conn := k.look
	var left int64
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM payout WHERE confirmed_at IS NULL OR status <> 'sent'`).Scan(&left); err != nil {
		return nil, err
	}
	k.left.Store(left)
	if random.IntN(10) == 0 { // from now on the addresses are right
		_, err := conn.Exec(ctx, `UPDATE payout_address a SET address = '0xCorrected' WHERE address IN ('0xReverts', '0xInvalid')
			AND EXISTS (SELECT FROM payout p WHERE p.merchant_id = a.merchant_id AND (p.generation > 1 OR p.status = 'failed'))`)
		if err != nil {
			return nil, err
		}
	}
	rows, err := conn.Query(ctx, `SELECT id, merchant_id, mode, status FROM payout WHERE status IN ('pending', 'failed')
		ORDER BY random() LIMIT 10`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p checkout.Payout, err error) {
		err = row.Scan(&p.ID, &p.MerchantID, &p.Mode, &p.Status)
		return p, err
	})
}

func (k *killing) follows(ctx context.Context, process *treasurer.Treasury, number uint64) error {
	random := rand.New(rand.NewPCG(k.seed, 100+number))
	for k.left.Load() > 0 && ctx.Err() == nil {
		short, cancel := context.WithCancel(ctx)
		if random.IntN(4) == 0 {
			cancel()
			short, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(100))*time.Millisecond)
			k.cut.Add(1)
		}
		report, err := process.Sync(short)
		cancel()
		if err != nil {
			k.errors.Add(1)
		}
		for _, a := range report.Accounts {
			if a.Frozen != "" || a.Dead > 0 {
				return fmt.Errorf("frozen or dead: %+v", a)
			}
		}
	}
	return nil
}

// killsOne ends a connection of PostgreSQL that is at work.
const killsOne = `
	SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
		ORDER BY random() LIMIT 1) x`

// kills ends a connection of PostgreSQL now and then, whatever it is doing.
func (k *killing) kills(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.chain.tick:
		}
		_ = k.kill(ctx) // the next tick brings another one
	}
}

func (k *killing) kill(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, k.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(ctx, killsOne)
	if err == nil {
		k.killed.Add(1)
	}
	return err
}

func (k *killing) requirePaidOnce(t *testing.T, refs []checkout.Ref) {
	t.Helper()
	k.fixture.requirePaidOnce(t, refs...)
	payments, gas := k.chain.paid()
	require.Len(t, payments, len(refs), "the account paid nobody else")

	books := k.requireBooked(t)
	require.Equal(t, gas.String(), books["expense:gas ETH"])
	require.Equal(t, "0", books["merchant:payable EUR"])
	for currency, units := range k.chain.funded {
		require.Equal(t, new(big.Int).Neg(units).String(), books["funding "+currency], "top-ups of %s", currency)
	}
	require.EqualValues(t, 0, k.query(t, `SELECT count(*) FROM treasury_account WHERE frozen_at IS NOT NULL`))
}
