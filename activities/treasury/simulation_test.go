package treasury_test

import (
	"cmp"
	"context"
	"flag"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

var (
	payouts = flag.Int("payouts", 20, "number of payouts of the simulation; .ci/run takes 300")
	dice    = flag.Uint64("dice", 0, "seed of the simulation; 0 takes the time")
)

// Two processes use one account, one call after the other. The seed draws the calls, and what happens during each of
// them: see fakeChain.step.
func TestTreasury_PaysEachPayoutOnce(t *testing.T) {
	simulate(t, 0)
}

// Four callers draw the same calls, so they pay the same payouts at the same time. PostgreSQL ends all connections of
// both processes at about every 50th call of the chain, and at every fifth signature, before its transaction ends.
func TestTreasury_PaysEachPayoutOnceToCallersAtOnce(t *testing.T) {
	simulate(t, 4)
}

func simulate(t *testing.T, callers int) {
	f := newFixture(t)
	seed := cmp.Or(*dice, uint64(time.Now().UnixNano()))
	t.Logf("-dice %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f.chain = newFakeChain(seed, map[money.PayoutCurrency]string{ // too little, so that payouts wait for a top-up
		money.ETH: "3", money.USDC: "2000", money.USDT: "2000"})
	processes := []*treasurer.Treasury{f.process(t), f.process(t)}
	for _, process := range processes {
		process.StuckAfter = time.Nanosecond
	}
	refs := f.many(t, random)
	f.chain.chaos = true
	f.callAtOnce(t, seed, callers, processes, refs)

	f.Store = f.Open(t, 8)
	f.Treasury = f.on(f.Store)
	for calls := 0; f.query(t, `SELECT count(*) FROM payout WHERE confirmed_at IS NULL OR status <> 'sent'`) != int64(0); calls++ {
		require.Less(t, calls, 1_000*len(refs))
		ctx, cut := context.WithCancel(t.Context())
		f.chain.cut = cut
		f.call(ctx, t, processes[random.IntN(2)], random, refs)
		require.False(t, t.Failed())
		cut()
	}
	f.chain.chaos = false
	f.settle(t)

	f.requirePaidOnce(t, refs...)
	payments, gas := f.chain.paid()
	require.Len(t, payments, len(refs), "the account paid nobody else")
	books := f.requireBooked(t)
	require.Equal(t, gas.String(), books["expense:gas ETH"])
	require.Equal(t, "0", books["merchant:payable EUR"])
	for currency, units := range f.chain.funded {
		require.Equal(t, new(big.Int).Neg(units).String(), books["funding "+currency], "top-ups of %s", currency)
	}
	require.Nil(t, f.account(t).FrozenAt)
}

func (f fixture) callAtOnce(
	t *testing.T, seed uint64, callers int, processes []*treasurer.Treasury, refs []checkout.Ref,
) {
	admin, signed := f.Connect(t), 0
	cut := func() {
		assert.NoError(t, must.Err(admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'checkout'`)))
	}
	f.chain.cut, f.chain.forge = cut, func(*treasury.TransferVersion) {
		if signed++; signed%5 == 0 {
			cut()
		}
	}
	defer func() { f.chain.forge = nil }()

	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, 2))
			for range 60 {
				f.call(t.Context(), t, processes[i%2], random, refs)
			}
		})
	}
	all.Wait()
}

// call follows the transfers, or goes on with a payout.
func (f fixture) call(
	ctx context.Context, t *testing.T, process *treasurer.Treasury, random *rand.Rand, refs []checkout.Ref,
) {
	if random.IntN(2) == 0 {
		report, _ := process.Sync(ctx)      // a later one does the rest
		for _, a := range report.Accounts { // none when PostgreSQL did not answer
			assert.Empty(t, a.Frozen)
			assert.Zero(t, a.Dead)
		}
	} else {
		f.act(ctx, t, process, refs[random.IntN(len(refs))])
	}
}

// many makes payouts of four merchants. One of them has an address that gets nothing, and one has an invalid address.
func (f fixture) many(t *testing.T, random *rand.Rand) (refs []checkout.Ref) {
	owners := []checkout.Owner{f.owner, f.merchant(t, "0xSecond"), f.merchant(t, "0xReverts"), f.merchant(t, "0xInvalid")}
	f.chain.reverts["0xReverts"], f.chain.invalid["0xInvalid"] = true, true
	for i := range *payouts {
		owner := owners[random.IntN(2)]
		if i%10 == 0 {
			owner = owners[2+i/10%2]
		}
		currencies := []money.PayoutCurrency{money.USDC, money.USDT, money.ETH}
		if owner == owners[2] { // raised fees would take more of a reverted payout in ETH than it has
			currencies = currencies[:2]
		}
		to := currencies[random.IntN(len(currencies))]
		refs = append(refs, f.payout(t, owner, money.Amount(500+random.IntN(9_500)), to))
	}
	return refs
}

// act does what the payout's run, its merchant or an operator does next. An error means that they do it again.
func (f fixture) act(ctx context.Context, t *testing.T, process *treasurer.Treasury, ref checkout.Ref) {
	payout, _ := process.Payouts.Payout(ctx, ref)
	switch payout.Status {
	case checkout.PayoutFailed:
		f.Exec(t, `UPDATE payout_address SET address = '0xCorrected' WHERE merchant_id = $1`, ref.MerchantID)
		_ = must.Err(process.Payouts.RetryPayout(ctx, ref))
	case checkout.PayoutPending:
		got, err := transfer(ctx, process, ref)
		if err == nil && got.Held == "" {
			_ = must.Err(process.Payouts.FinishPayout(ctx, ref, got.Generation, got.Failure))
		}
		if got.Held == checkout.HoldFloat {
			for _, c := range []money.PayoutCurrency{money.ETH, money.USDC, money.USDT} {
				f.chain.fund(c, "50.5")
			}
		}
	}
}
