package treasury_test

import (
	"cmp"
	"context"
	"math/big"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

type fixture struct {
	*treasurer.Treasury
	storagetest.Database
	Store *storage.Store
	chain *fakeChain
	owner checkout.Owner
}

const day = 24 * time.Hour

// fakeRates are fixed prices, whose quotes are locked for a day. none makes them fail.
type fakeRates struct {
	none bool
	eth  string // ETH for one euro; "" is the usual rate
}

func (r *fakeRates) Quote(_ context.Context, from money.Currency, to money.PayoutCurrency) (checkout.Quote, error) {
	if r.none {
		return checkout.Quote{}, checkout.ErrNoRate
	}
	rates := map[money.Currency]map[money.PayoutCurrency]string{
		money.EUR: {money.USDC: "1.08", money.USDT: "1.08", money.ETH: cmp.Or(r.eth, "0.0003375"), money.BTC: "0.00001"},
		money.USD: {money.USDC: "1", money.USDT: "1", money.ETH: "0.0003125", money.BTC: "0.0000092"},
		money.GBP: {money.USDC: "1.27", money.USDT: "1.27", money.ETH: "0.000396875", money.BTC: "0.0000117"},
	}
	return checkout.Quote{Rate: money.MustRate(rates[from][to]), At: time.Now(), Until: time.Now().Add(day)}, nil
}

var generous = treasury.PayoutLimits{Payout: 1_000_000, MerchantDay: 1_000_000_000, Day: 1_000_000_000, MerchantUnsettled: 1_000_000_000}

var wealth = map[money.PayoutCurrency]string{money.ETH: "1000", money.USDC: "1000000", money.USDT: "1000000"}

// newFixture returns the world of a test. The test runs beside others.
func newFixture(t *testing.T) fixture {
	t.Parallel()
	return newSerialFixture(t)
}

// newSerialFixture is for a test with one world after another.
func newSerialFixture(t *testing.T) fixture {
	f := fixture{Database: storagetest.New(t)}
	f.chain = newFakeChain(1, wealth)
	f.Store = f.Open(t, 8)
	f.Treasury = f.on(f.Store)
	f.owner = f.merchant(t, "0xMerchant")
	return f
}

func (f fixture) process(t *testing.T) *treasurer.Treasury {
	return f.on(f.Open(t, 8))
}

func (f fixture) on(store *storage.Store) *treasurer.Treasury {
	return &treasurer.Treasury{Payouts: store.Payouts, Store: store.Treasury, Mode: checkout.ModeLive, Rates: &fakeRates{}, Limits: generous,
		Chains: map[string]treasury.Chain{f.chain.account.Network: f.chain}, StuckAfter: time.Hour}
}

func (f fixture) merchant(t *testing.T, address string) checkout.Owner {
	m := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard",
		FeeBasisPoints: 100, PaymentAttempts: 3}
	var addresses []merchant.PayoutAddress
	for _, c := range []money.PayoutCurrency{money.ETH, money.USDC, money.USDT} {
		addresses = append(addresses, merchant.PayoutAddress{Currency: c, Network: "ethereum", Address: address})
	}
	addresses = append(addresses, merchant.PayoutAddress{Currency: money.BTC, Network: "bitcoin", Address: address})
	require.NoError(t, f.Store.Merchants.CreateMerchant(t.Context(), m, checkout.ModeLive, addresses))
	return m.Owner(checkout.ModeLive)
}

func (f fixture) payout(t *testing.T, owner checkout.Owner, amount money.Amount, to money.PayoutCurrency) checkout.Ref {
	session, id := f.begin(t, owner, amount, to)
	return f.complete(t, session, id)
}

// begin returns a session with a payment that is not decided.
func (f fixture) begin(
	t *testing.T, owner checkout.Owner, amount money.Amount, to money.PayoutCurrency,
) (session checkout.Ref, transactionID string) {
	ctx := t.Context()
	s := storagetest.Session(t, f.Store, owner, func(s *checkout.Session) { s.Amount, s.PayoutCurrency = amount, to })
	p := storagetest.Payment(s.Ref)
	p.Method = checkout.PaymentMethod{Type: "card", Last4: "4242"}
	for _, chain := range f.Chains {
		if chain.Account().Network == to.Network() {
			p.ChainRef = chain.Account().ChainID
		}
	}
	require.NoError(t, f.Store.Sessions.CreatePayment(ctx, p))
	quote := must.Get((&fakeRates{}).Quote(ctx, money.EUR, to))(t)
	require.NoError(t, must.Err(f.Store.Sessions.BeginPayment(ctx, s.Ref, p.ID, quote, p.ID)))
	return s.Ref, p.ID
}

// complete decides a payment that has succeeded, and returns its payout.
func (f fixture) complete(t *testing.T, session checkout.Ref, transactionID string) checkout.Ref {
	settled := storagetest.Finish(t, f.Store, session, transactionID, storagetest.Succeeded)
	return session.Owner.Ref(settled.PayoutID)
}

// usdc returns a payout of 100 EUR, which is 106.67 USDC after the fees.
func (f fixture) usdc(t *testing.T) checkout.Ref {
	return f.payout(t, f.owner, 10_000, money.USDC)
}

// Transfer reads a payout and sends it.
func (f fixture) Transfer(ctx context.Context, ref checkout.Ref) (treasury.TransferOutcome, error) {
	return transfer(ctx, f.Treasury, ref)
}

func transfer(ctx context.Context, t *treasurer.Treasury, ref checkout.Ref) (treasury.TransferOutcome, error) {
	p, err := t.Payouts.PayoutToSend(ctx, ref)
	if err != nil {
		return treasury.TransferOutcome{}, err
	}
	return t.Transfer(ctx, p)
}

// send transfers payouts and ends them, as their runs do.
func (f fixture) send(t *testing.T, refs ...checkout.Ref) {
	for _, ref := range refs {
		got := f.transfer(t, ref)
		require.Equal(t, treasury.TransferOutcome{Generation: got.Generation}, got)
		f.end(t, ref, got.Generation, "")
	}
}

// sent sends a payout of 100 EUR, which waits in the node's pool. It returns its transfer too.
func (f fixture) sent(t *testing.T) (ref checkout.Ref, transferID string) {
	ref = f.usdc(t)
	f.send(t, ref)
	return ref, f.transferOf(t, ref)
}

// order returns a payout in the chain's first currency.
func (f fixture) order(t *testing.T, amount money.Amount) checkout.Ref {
	if f.chain.ofCoins() {
		return f.payout(t, f.owner, amount, money.BTC)
	}
	return f.payout(t, f.owner, amount, money.USDC)
}

// pay sends payouts, which a round signs on a chain with coins. It signs everything that waits.
func (f fixture) pay(t *testing.T, refs ...checkout.Ref) {
	if f.chain.ofCoins() {
		f.Exec(t, `UPDATE payout SET next_action_at = now()`)
		require.Equal(t, len(refs), f.sync(t).Signed)
	}
	f.send(t, refs...)
}

// confirms sends payouts, each alone, and follows their transfers to the final block.
func (f fixture) confirms(t *testing.T, refs ...checkout.Ref) {
	f.pay(t, refs...)
	f.chain.mine(f.chain.finality + 1)
	require.Equal(t, len(refs), f.sync(t).Confirmed)
}

// end ends a generation of a payout as its run does.
func (f fixture) end(t *testing.T, ref checkout.Ref, generation int, why checkout.PayoutFailure) {
	require.NoError(t, must.Err(f.Store.Payouts.FinishPayout(t.Context(), ref, generation, why)))
}

func (f fixture) retried(t *testing.T, ref checkout.Ref) checkout.Payout {
	return must.Get(f.Store.Payouts.RetryPayout(t.Context(), ref))(t)
}

func (f fixture) retryError(t *testing.T, ref checkout.Ref) error {
	return must.Err(f.Store.Payouts.RetryPayout(t.Context(), ref))
}

// refundError returns why a payout cannot be refunded. It compares no account first.
func (f fixture) refundError(t *testing.T, ref checkout.Ref, by ...merchant.AuditEntry) error {
	return must.Err(f.Store.Refunds.RefundPayout(t.Context(), ref, by...))
}

func (f fixture) findings(t *testing.T) []books.Finding {
	return must.Get(f.Store.Books.OpenFindings(t.Context(), checkout.ModeLive))(t)
}

// open opens the accounts of a process, as a round does first, and compares them with their chains.
func (f fixture) open(t *testing.T, process *treasurer.Treasury) {
	for _, chain := range process.Chains {
		now := must.Get(chain.Snapshot(t.Context()))(t)
		require.NoError(t, must.Err(process.Store.OpenTreasury(t.Context(), process.Mode, chain.Account(), now)))
	}
	require.NoError(t, process.Compare(t.Context()))
}

// accounts returns the accounts, oldest first.
func (f fixture) accounts(t *testing.T) []storage.TreasuryAccount {
	return must.Get(f.Accounts(t.Context()))(t)
}

func (f fixture) account(t *testing.T) storage.TreasuryAccount {
	accounts := f.accounts(t)
	require.Len(t, accounts, 1)
	return accounts[0]
}

// transfer orders a payout once more, and returns what became of it.
func (f fixture) transfer(t *testing.T, ref checkout.Ref) treasury.TransferOutcome {
	return must.Get(f.Transfer(t.Context(), ref))(t)
}

func (f fixture) transferOf(t *testing.T, ref checkout.Ref) string {
	id, ok := f.query(t, `SELECT transfer_id FROM transfer_payout WHERE payout_id = $1 AND standing`, ref.ID).(string)
	require.True(t, ok)
	return id
}

// version returns a version of a live transfer, the first being 1.
func (f fixture) version(t *testing.T, transferID string, number int) treasury.TransferVersion {
	live := must.Get(f.Store.Treasury.LiveTransfers(t.Context(), f.account(t).ID, 10))(t)
	i := slices.IndexFunc(live, func(one storage.Transfer) bool { return one.ID == transferID })
	return live[i].Versions[number-1]
}

func (f fixture) sync(t *testing.T) treasurer.AccountResult {
	report := must.Get(f.Sync(t.Context()))(t)
	require.Len(t, report.Accounts, 1)
	return report.Accounts[0]
}

func (f fixture) read(t *testing.T, ref checkout.Ref) checkout.Payout {
	return must.Get(f.Store.Payouts.Payout(t.Context(), ref))(t)
}

func (f fixture) requireConfirmed(t *testing.T, refs ...checkout.Ref) {
	for _, ref := range refs {
		require.NotNil(t, f.read(t, ref).ConfirmedAt)
	}
}

func (f fixture) query(t *testing.T, sql string, args ...any) any {
	return storagetest.Value[any](t, f.Database, sql, args...)
}

// ledger returns the balances as "account asset" and smallest units.
func (f fixture) ledger(t *testing.T) map[string]string {
	all := must.Get(f.Store.Books.LedgerBalances(t.Context(), checkout.ModeLive))(t)
	balances, sums := map[string]string{}, map[string]*big.Int{}
	for _, b := range all {
		balances[b.Account+" "+b.Asset] = b.Amount
		units, ok := new(big.Int).SetString(b.Amount, 10)
		require.True(t, ok)
		if sums[b.Asset] == nil {
			sums[b.Asset] = new(big.Int)
		}
		sums[b.Asset].Add(sums[b.Asset], units)
	}
	for asset, sum := range sums {
		require.Zero(t, sum.Sign(), "the ledger of %s adds up to 0", asset)
	}
	return balances
}

// requireBooked compares the ledger with the chain. Nothing may be on its way.
func (f fixture) requireBooked(t *testing.T) map[string]string {
	books := f.ledger(t)
	for currency, units := range f.chain.tip().balances {
		require.Equal(t, units.String(), books["wallet "+currency], "wallet of %s", currency)
		require.Contains(t, []string{"", "0"}, books["transit "+currency])
	}
	return books
}

// settle mines and follows until every transfer is final.
func (f fixture) settle(t *testing.T) {
	for range 20 {
		f.sync(t)
		f.chain.mine(f.chain.finality + 1)
		if f.query(t, `SELECT count(*) FROM transfer WHERE status = 'live'`) == int64(0) {
			f.sync(t)
			return
		}
	}
	require.Fail(t, "transfers stay live")
}

func TestMain(m *testing.M) {
	pgtemp.RunInParallel()
	os.Exit(m.Run())
}
