package treasury_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	api "github.com/stripe/stripe-go/v85"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/activities/stripe"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/money"
)

var monthPayments = flag.Int("month-payments", 60, "payments of the simulated month; 5000 for the table of decisions/treasury.md")

// small is the number of payments below which a month is short: it lives through three days at once, with one kind of
// terms, and more comes back.
const small = 1000

// TestMonth_TheBooksOfEachDayAgree simulates a month of five shops, and what comes back afterwards. One shop sells to
// stolen cards in the third week, and nothing from then on. With -v it shows the table, in EUR.
func TestMonth_TheBooksOfEachDayAgree(t *testing.T) {
	plan := planMonth(rand.New(rand.NewPCG(47, 0)), *monthPayments)
	for terms, set := range map[string]string{
		"a reserve of 10 % for 30 days": `reserve_basis_points = 1000, reserve_days = 30`,
		"a delay of 7 days":             `payout_delay_hours = 7 * 24`,
		"neither":                       `payout_delay_hours = NULL`,
	} {
		if len(plan) < small && terms != "a reserve of 10 % for 30 days" {
			continue
		}
		t.Run(terms, func(t *testing.T) {
			m := newMonth(t, plan)
			m.Exec(t, `UPDATE merchant SET debt_limit = 100000, `+set)
			for m.today <= lastDay {
				m.live()
			}
			m.requirePaid()
			t.Logf("| %s | %s |", terms, m.sums())
		})
	}
}

const (
	saleDays = 30
	lastDay  = saleDays + 32 // the last reserve is released and paid
	badShop  = 4
)

// shops have the currencies of their prices in the first and in the second half of the month, and that of their payouts.
var shops = []struct {
	sells [2]money.Currency
	paid  money.PayoutCurrency
}{
	{[2]money.Currency{money.EUR, money.USD}, money.USDC},
	{[2]money.Currency{money.USD, money.GBP}, money.USDT},
	{[2]money.Currency{money.EUR, money.EUR}, money.ETH},
	{[2]money.Currency{money.GBP, money.EUR}, money.USDC},
	badShop: {[2]money.Currency{money.EUR, money.EUR}, money.USDC},
}

// plannedSale is a payment with what happens to it. A day 0 is never.
type plannedSale struct {
	day, shop int
	amount    money.Amount
	card      string // of Stripe's test cards
	refunds   []plannedRefund
	disputed  int
	won       bool // a week after it was disputed; otherwise it is lost
}

type plannedRefund struct {
	day    int
	amount money.Amount
}

// planMonth plans n payments: 4 % refunded, some of which the banks return, and 1 % disputed.
func planMonth(random *rand.Rand, n int) (plan []plannedSale) {
	percent := func(p int) bool { return random.IntN(100) < p }
	often := 1
	if n < small {
		often = 5
	}
	for i := range n {
		s := plannedSale{day: i * saleDays / n, shop: random.IntN(badShop), amount: money.Amount(1000 + random.IntN(10_000)), card: "visa"}
		week := s.day / 7
		if week < 2 && percent(6) || week == 2 && percent(25) {
			s.shop = badShop
		}
		bad := s.shop == badShop && week == 2
		switch {
		case bad:
			s.amount *= 2
			if percent(80) {
				s.disputed = s.day + 14 + random.IntN(8)
			}
		case percent(4 * often):
			s.card = []string{"visa", "visa", "pendingRefund", "refundFail"}[random.IntN(4)]
			s.refunds = []plannedRefund{{s.day + random.IntN(15), 0}} // all that is left
			if percent(50) {
				s.refunds = []plannedRefund{{s.day + random.IntN(10), s.amount / 3}, {s.day + 13, s.amount / 2}}
			}
		}
		if !bad && percent(often) {
			s.disputed, s.won = s.day+3+random.IntN(18), percent(30)
		}
		plan = append(plan, s)
	}
	return plan
}

// month is the world of a month: our books, the double of Stripe and a chain.
type month struct {
	fixture

	t        *testing.T
	card     *acquirer.Acquirer
	network  *stripe.Network
	api      *api.Client
	books    *activities.Books
	payments *activities.Payments
	double   storagetest.Database // of the double of Stripe

	plan    []plannedSale
	charges []string // the network's names, as the plan
	owners  []checkout.Owner
	today   int
	step    int     // days at once
	objects []int64 // of the double at the end of each day
	refused int     // refunds that nobody would cover, or too late
}

func newMonth(t *testing.T, plan []plannedSale) *month {
	m := &month{fixture: newFixture(t), t: t, plan: plan, double: storagetest.At(t, pgtemp.ForTest(t, nil)), step: 1}
	if len(plan) < small {
		m.step = 3
	}
	m.chain.account.ChainID = "eip155:1" // as storagetest.Payment has it
	const key = "sk_test_month"
	m.card = must.Get(acquirer.Start(t.Context(), acquirer.Options{DatabaseURL: m.double.URL, SecretKey: key, Livemode: true}))(t)
	t.Cleanup(m.card.Stop)
	m.network = must.Get(stripe.New(stripe.Options{SecretKey: key, Mode: checkout.ModeLive, APIURL: m.card.APIURL(), Simulated: true}))(t)
	m.api = api.NewClient(key, api.WithBackends(api.NewBackendsWithConfig(&api.BackendConfig{URL: api.String(m.card.APIURL())})))
	account := activities.Account{
		CardNetwork: m.network, Succeeded: m.network.Succeeded, Movements: m.network.Movements, Charged: m.network.Charged,
		Risks: m.network.Risks, Events: m.network.Events, Note: m.Store.Books.StoreAcquirerEvent,
	}
	m.books = &activities.Books{Store: m.Store.Books, Refunds: m.Store.Refunds, Accounts: map[checkout.Mode]activities.Account{checkout.ModeLive: account}}
	m.payments = &activities.Payments{Refunds: m.Store.Refunds, Live: activities.Networks{
		Cards: map[checkout.Acquirer]checkout.CardNetwork{checkout.AcquirerStripe: m.network},
	}}
	for i := range shops {
		m.owners = append(m.owners, m.merchant(t, fmt.Sprintf("0xShop%d", i)))
	}
	m.settle(t)
	return m
}

// live lives through a day, and compares everything with everything at its end.
func (m *month) live() {
	require.NoError(m.t, m.card.SettleRefunds(m.t.Context()))
	sold := 0
	for i, s := range m.plan {
		if m.due(s.day) {
			m.sell(i)
			sold++
		}
		for _, r := range s.refunds {
			if m.due(r.day) {
				m.refund(i, r.amount)
			}
		}
		if s.disputed != 0 && m.due(s.disputed) {
			require.NoError(m.t, m.card.Dispute(m.t.Context(), m.charges[i]))
		}
		if s.disputed != 0 && m.due(s.disputed+7) {
			require.NoError(m.t, m.card.SetDispute(m.t.Context(), m.charges[i], map[bool]string{true: "won", false: "lost"}[s.won]))
		}
	}
	m.follow()
	m.payBalances()
	m.retry()
	m.payAll()
	m.execute(m.books.ReconcileCharges, contract.ModeInput{Mode: checkout.ModeLive})
	m.requireAgrees(sold)
	m.night()
}

// due reports whether the day is over which is lived through now.
func (m *month) due(day int) bool { return day <= m.today && day > m.today-m.step }

func (m *month) sell(i int) {
	s, shop := m.plan[i], shops[m.plan[i].shop]
	session := storagetest.Session(m.t, m.Store, m.owners[s.shop], func(c *checkout.Session) {
		c.Amount, c.Currency, c.PayoutCurrency = s.amount, shop.sells[s.day*2/saleDays], shop.paid
	})
	token := must.Get(m.api.V1TestHelpersConfirmationTokens.Create(m.t.Context(),
		&api.TestHelpersConfirmationTokenCreateParams{PaymentMethod: api.String("pm_card_" + s.card)}))(m.t)
	quote := must.Get(m.Rates.Quote(m.t.Context(), session.Currency, session.PayoutCurrency))(m.t)
	reference, _, _ := storagetest.Charge(m.t, m.Store, session, storage.NewPayment{CardToken: token.ID}, quote, m.network)
	m.charges = append(m.charges, reference)
}

// refund orders a refund as the merchant does.
func (m *month) refund(i int, amount money.Amount) {
	session := storagetest.Value[string](m.t, m.Database, `SELECT session_id FROM transaction WHERE acquirer_ref = $1`, m.charges[i])
	_, err := m.Store.Refunds.OrderRefund(m.t.Context(), storage.RefundOrder{
		ID: checkout.NewID(checkout.PrefixRefund), Session: m.owners[m.plan[i].shop].Ref(session), Amount: amount,
	})
	if errors.Is(err, checkout.ErrConflict) {
		m.refused++
		return
	}
	require.NoError(m.t, err)
}

// follow does what the schedule and the runs of the refunds do.
func (m *month) follow() {
	live := contract.ModeInput{Mode: checkout.ModeLive}
	m.execute(m.books.ReadReports, live)
	for _, ref := range m.refs(`SELECT id, merchant_id FROM refund WHERE status = 'pending' ORDER BY id`) {
		m.execute(m.payments.SendRefund, ref)
	}
	m.execute(m.books.LookAtCharges, live)
}

// execute executes an activity.
func (m *month) execute(activity, in any) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(m.books)
	env.RegisterActivity(m.payments)
	require.NoError(m.t, must.Err(env.ExecuteActivity(activity, in)))
}

// refs returns the objects of the id and the merchant that a query selects.
func (m *month) refs(query string) []checkout.Ref {
	return storagetest.Value[[]checkout.Ref](m.t, m.Database, `
		SELECT coalesce(jsonb_agg(jsonb_build_object('id', id, 'merchant_id', merchant_id, 'mode', 'live')), '[]') FROM (`+query+`) q`)
}

// payBalances is what activities.BalancePayer does.
func (m *month) payBalances() {
	must.Get(m.Store.Balances.ReleaseReserves(m.t.Context(), 10_000))(m.t)
	for _, b := range must.Get(m.Store.Balances.PayableBalances(m.t.Context()))(m.t) {
		quote := must.Get(m.Rates.Quote(m.t.Context(), b.Currency, b.PayoutCurrency))(m.t)
		must.Get(m.Store.Balances.CreateBalancePayout(m.t.Context(), b, quote.Rate))(m.t)
	}
}

// retry makes pending what failed and has something to pay again: the bank returned a refund.
func (m *month) retry() {
	for _, ref := range m.refs(`SELECT id, merchant_id FROM payout WHERE status = 'failed' AND source_amount > deducted ORDER BY id`) {
		m.retried(m.t, ref)
	}
}

// payAll does what the runs of the payouts that are due do, and follows their transfers to the final block.
func (m *month) payAll() {
	due := m.refs(`
		SELECT id, merchant_id FROM payout WHERE status = 'pending' AND coalesce(next_action_at, created_at) <= now() ORDER BY id`)
	for _, ref := range due {
		if got := m.transfer(m.t, ref); got.Held == "" {
			m.end(m.t, ref, got.Generation, got.Failure)
		}
	}
	if len(due) > 0 {
		m.settle(m.t)
	}
}

func (m *month) requireAgrees(sold int) {
	ctx, words := m.t.Context(), fmt.Sprintf("day %d", m.today)
	report := must.Get(m.Store.Books.DayReport(ctx, time.Now().Add(-23*time.Hour)))(m.t)
	require.True(m.t, report.Agrees(), "%s: %+v", words, report.Checks)
	charges := 0
	for _, p := range report.Plans {
		charges += p.Charges
	}
	require.Equal(m.t, sold, charges, words)
	// Operators close the finding about a dispute that is lost.
	disputes := storagetest.Value[int](m.t, m.Database, `SELECT count(*) FROM charge_risk WHERE status <> 'won'`)
	for _, f := range report.Findings {
		require.Equal(m.t, books.FindingChargeDisputed, f.Kind, "%s: %s", words, f.Detail)
	}
	require.Len(m.t, report.Findings, disputes, words)

	require.Equal(m.t, must.Get(m.card.Facts(ctx))(m.t).Balance, storagetest.AtCardNetwork(m.t, m.Database), words)
	m.requireBooked(m.t)
	storagetest.RequireSums(m.t, m.Database, words)
	for _, owner := range m.owners {
		m.requireList(owner, words)
	}
}

// requireList compares the balance of a merchant with the list of its transactions.
func (m *month) requireList(owner checkout.Owner, words string) {
	sums := map[money.Currency]money.Amount{}
	list := must.Get(m.Store.Balances.Transactions(m.t.Context(), owner, storage.BalanceFilter{}, pg.Page{Limit: 100_000}))(m.t)
	for _, b := range list {
		sums[b.Currency] += b.Net
	}
	for _, b := range m.balances(owner) {
		require.Equal(m.t, sums[b.Currency], b.Pending+b.Available-b.Owed, "%s: %s of %s", words, b.Currency, owner.MerchantID)
	}
}

// requirePaid checks that the good merchants have all their money, but for less than the least payout of a balance.
func (m *month) requirePaid() {
	for _, owner := range m.owners[:badShop] {
		for _, b := range m.balances(owner) {
			require.Less(m.t, b.Pending+b.Available+b.Reserved, money.Amount(10_00), "%s: %+v", owner.MerchantID, b)
		}
	}
	converted := storagetest.Value[int](m.t, m.Database, `SELECT count(*) FROM ledger_entry WHERE kind = 'conversion'`)
	require.Positive(m.t, converted, "a debt was paid in another currency")
}

func (m *month) balances(owner checkout.Owner) []checkout.Balance {
	return must.Get(m.Store.Balances.Balance(m.t.Context(), owner))(m.t)
}

// night makes everything older. The id of a payout without a session says how old it is.
func (m *month) night() {
	m.today += m.step
	m.Exec(m.t, strings.ReplaceAll(`DO $$
		DECLARE one record;
		BEGIN
			SET LOCAL session_replication_role = replica;
			FOR one IN SELECT table_name, string_agg(format('%1$I = %1$I - interval ''{days} days''', column_name), ', ') AS moves
				FROM information_schema.columns WHERE table_schema = 'public' AND data_type = 'timestamp with time zone'
				AND table_name IN ('transaction', 'payout', 'reserve', 'refund', 'ledger_entry', 'transfer', 'transfer_payout',
					'acquirer_event', 'acquirer_comparison', 'acquirer_cursor', 'charge_risk') GROUP BY 1
			LOOP
				EXECUTE format('UPDATE %I SET %s', one.table_name, one.moves);
			END LOOP;
			FOR one IN SELECT id, 'po_00' || substr(id, 6) AS aged FROM payout WHERE session_id IS NULL AND id NOT LIKE 'po\_00%' LOOP
				UPDATE payout SET id = one.aged WHERE id = one.id;
				UPDATE transfer_payout SET payout_id = one.aged WHERE payout_id = one.id;
				UPDATE payout_deduction SET payout_id = one.aged WHERE payout_id = one.id;
				UPDATE ledger_entry SET subject = one.aged WHERE subject = one.id;
				UPDATE event SET subject_id = one.aged WHERE subject_id = one.id;
			END LOOP;
		END $$`, "{days}", strconv.Itoa(m.step)))
	m.Exec(m.t, `VACUUM ANALYZE`) // as PostgreSQL does by itself, but not in tests
	// The service reads the lists of the last two days.
	m.objects = append(m.objects, storagetest.Value[int64](m.t, m.double, `SELECT coalesce(max(number), 0) FROM acquirer.object`))
	m.double.Exec(m.t, `
		UPDATE acquirer.object SET body = body || jsonb_build_object('created', (body ->> 'created')::bigint - 86400 * $2)
		WHERE kind IN ('payment_intent', 'charge', 'balance_transaction', 'event') AND number > $1`,
		m.objects[max(0, len(m.objects)-4)]*int64(min(1, len(m.objects)/4)), m.step)
	m.double.Exec(m.t, `VACUUM ANALYZE`)
}

// sums returns a row of the table, in EUR.
func (m *month) sums() string {
	euros := func(query string) string {
		rows := storagetest.Value[map[money.Currency]money.Amount](m.t, m.Database, `
			SELECT coalesce(jsonb_object_agg(currency, amount), '{}') FROM (SELECT currency, sum(amount) AS amount FROM (`+query+`) q GROUP BY 1) q`)
		return m.euros(rows).String()
	}
	const paid = `transaction t JOIN checkout_session s ON s.id = t.session_id`
	owed := []map[money.Currency]money.Amount{{}, {}}
	for i, owner := range m.owners {
		for _, b := range m.balances(owner) {
			owed[min(1, badShop-i)][b.Currency] += b.Owed
		}
	}
	count := func(query string) int { return storagetest.Value[int](m.t, m.Database, `SELECT count(*) FROM `+query) }
	return fmt.Sprintf("%d: %s | %d: %s, %d returned, %d refused | %d: %s, %d won | %s | %s",
		count(`transaction WHERE status = 'succeeded'`), euros(`SELECT currency, amount FROM `+paid+` WHERE t.status = 'succeeded'`),
		count(`refund WHERE status <> 'failed'`), euros(`SELECT s.currency, r.amount FROM `+paid+` JOIN refund r ON r.transaction_id = t.id WHERE r.status <> 'failed'`),
		count(`refund WHERE status = 'failed'`), m.refused,
		count(`charge_risk`), euros(`SELECT currency, amount FROM charge_risk`), count(`charge_risk WHERE status = 'won'`),
		m.euros(owed[0]), m.euros(owed[1]))
}

// euros adds amounts up.
func (m *month) euros(all map[money.Currency]money.Amount) money.Amount {
	rates := must.Get(checkout.FiatRates(context.Background(), m.Rates, money.EUR, []money.Currency{money.USD, money.GBP}))(m.t)
	rates[money.EUR] = big.NewRat(1, 1)
	sum := new(big.Rat)
	for currency, amount := range all {
		sum.Add(sum, new(big.Rat).Mul(amount.Coins(currency), rates[currency]))
	}
	return money.FloorAmount(sum, money.EUR)
}
