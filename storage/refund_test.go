package storage_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/sandbox"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

var sequences = flag.Int("sequences", 40, "random sequences of refunds, disputes and payouts")

// sale is a paid session of 10.50 EUR, whose fee is 0.11.
type sale struct {
	session checkout.Session
	payment string
	payout  checkout.Ref
}

func (f fixture) sale(t *testing.T, change ...func(*storage.NewSession)) sale {
	n := f.newSession()
	for _, c := range change {
		c(&n)
	}
	s := f.create(t, n)
	id, next := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	return sale{s, id, s.Owner.Ref(next.PayoutID)}
}

func (f fixture) refund(t *testing.T, s sale, amount money.Amount) (checkout.Refund, error) {
	return f.Refunds.OrderRefund(t.Context(), storage.RefundOrder{
		ID: checkout.NewID(checkout.PrefixRefund), Session: s.session.Ref, Amount: amount,
	})
}

func (f fixture) decide(t *testing.T, r checkout.Refund, status checkout.RefundStatus) storage.RefundUpdate {
	got := checkout.RefundResult{Status: status, Reference: "at the network " + r.ID, Amount: r.Amount}
	return must.Get(f.Refunds.RecordRefund(t.Context(), r, got))(t)
}

func (f fixture) sends(t *testing.T, s sale) checkout.Payout {
	read := func() storage.PayoutToSend { return must.Get(f.Payouts.PayoutToSend(t.Context(), s.payout))(t) }
	payouts := sandbox.Payouts{Sandbox: f.Sandbox, Payouts: f.Payouts}
	got := must.Get(payouts.Transfer(t.Context(), read()))(t)
	if got.Held == "" {
		must.Get(f.Payouts.FinishPayout(t.Context(), s.payout, got.Generation, got.Failure))(t)
	}
	return read().Payout
}

func (f fixture) balance(t *testing.T) checkout.Balance {
	got := must.Get(f.Balances.Balance(t.Context(), f.merchant.Owner(checkout.ModeTest)))(t)
	require.Len(t, got, 1)
	return got[0]
}

func (f fixture) types(t *testing.T, s sale) (types []webhook.EventType) {
	got := must.Get(f.Webhooks.Events(t.Context(), s.session.Owner, storage.EventFilter{SessionID: s.session.ID}, pg.Page{Limit: 20}))(t)
	for _, e := range got {
		types = append([]webhook.EventType{e.Type}, types...)
	}
	return types
}

func TestOrderRefund_BeforeTheSignatureReducesThePayoutAndThenEndsIt(t *testing.T) {
	f := newFixture(t)
	s := f.sale(t)
	require.Equal(t, checkout.Balance{Currency: "EUR", Pending: 1039}, f.balance(t))

	first := must.Get(f.refund(t, s, 500))(t)
	require.Equal(t, []any{money.Amount(500), money.Amount(5), checkout.RefundPending}, []any{first.Amount, first.FeeReturned, first.Status})
	require.Equal(t, checkout.Balance{Currency: "EUR", Pending: 544}, f.balance(t))
	require.ErrorIs(t, must.Err(f.refund(t, s, 1)), checkout.ErrRefundPending)
	again := must.Get(f.Refunds.OrderRefund(t.Context(), storage.RefundOrder{ID: first.ID, Session: s.session.Ref, Amount: 500}))(t)
	require.Equal(t, first, again, "a repeat changes nothing")
	f.decide(t, first, checkout.RefundSucceeded)

	tooLarge, ok := errors.AsType[*checkout.RefundTooLargeError](must.Err(f.refund(t, s, 551)))
	require.True(t, ok)
	require.Equal(t, money.Amount(550), tooLarge.Left)
	rest := must.Get(f.refund(t, s, 0))(t)
	require.Equal(t, []money.Amount{550, 6}, []money.Amount{rest.Amount, rest.FeeReturned}, "the whole fee is back")
	f.decide(t, rest, checkout.RefundSucceeded)
	p := f.sends(t, s)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutRefunded, money.Amount(0)}, []any{p.Status, p.Failure, p.Net()})
	require.Equal(t, []checkout.Deduction{{Type: "refund", Source: first.ID, Amount: 495}, {Type: "refund", Source: rest.ID, Amount: 544}}, p.Deductions)
	require.Equal(t, checkout.Balance{Currency: "EUR"}, f.balance(t))
	require.ErrorIs(t, must.Err(f.Payouts.RetryPayout(t.Context(), s.payout)), checkout.ErrPaymentRefunded)
	require.Equal(t, []webhook.EventType{
		webhook.CheckoutCompleted, webhook.PayoutReduced, webhook.RefundSucceeded, webhook.PayoutFailed, webhook.RefundSucceeded,
	}, f.types(t, s))

	// The bank returns the last one: the merchant gets that part after all.
	update := f.decide(t, rest, checkout.RefundFailed)
	require.Equal(t, webhook.RefundFailed, update.EventType)
	require.Equal(t, checkout.Balance{Currency: "EUR", Available: 544}, f.balance(t))
	must.Get(f.Payouts.RetryPayout(t.Context(), s.payout))(t)
	require.Equal(t, "5.869324", f.sends(t, s).Amount.String(), "5.44 EUR at 1.08, less the sandbox's 0.1 %")
	require.Equal(t, checkout.Balance{Currency: "EUR"}, f.balance(t))
}

func TestOrderRefund_AfterThePayoutIsRecoveredFromTheNextOnes(t *testing.T) {
	f := newFixture(t)
	s := f.sale(t)
	require.Equal(t, checkout.PayoutSent, f.sends(t, s).Status)
	r := must.Get(f.refund(t, s, 0))(t)
	f.decide(t, r, checkout.RefundSucceeded)
	require.Equal(t, checkout.Balance{Currency: "EUR", Owed: 1039}, f.balance(t))

	next := f.sale(t, func(n *storage.NewSession) { n.Amount = 600 })
	kept := f.sends(t, next)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutRecovered}, []any{kept.Status, kept.Failure})
	require.Equal(t, checkout.Balance{Currency: "EUR", Owed: 445}, f.balance(t))

	// A debt in another currency is paid at the rate of now: 1 EUR is 1.08 USD in the sandbox, and 1 GBP is 1.27.
	pounds := f.sends(t, f.sale(t, func(n *storage.NewSession) { n.Currency = money.GBP }))
	require.Equal(t, checkout.PayoutSent, pounds.Status)
	owed := money.Amount(445)
	require.Equal(t, []checkout.Deduction{{Type: "recovery", Source: "EUR", Amount: pounds.Deducted, Owed: &owed}}, pounds.Deductions)
	for _, b := range must.Get(f.Balances.Balance(t.Context(), s.session.Owner))(t) {
		require.Equal(t, checkout.Balance{Currency: b.Currency}, b)
	}
	require.EqualValues(t, "{test}", f.query(t, `SELECT owes::text FROM merchant`))
	require.Empty(t, f.sends(t, f.sale(t)).Deductions)
	require.EqualValues(t, "{}", f.query(t, `SELECT owes::text FROM merchant`), "nobody adds up the ledger for nothing")
}

func TestOrderRefund_NeedsABalanceOrALimit(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, `UPDATE merchant SET debt_limit = 1000`)
	s := f.sale(t)
	f.sends(t, s)
	missing, ok := errors.AsType[*checkout.InsufficientBalanceError](must.Err(f.refund(t, s, 0)))
	require.True(t, ok)
	require.Equal(t, checkout.InsufficientBalanceError{Missing: 39, Currency: money.EUR}, *missing)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM refund`))
	require.Equal(t, checkout.Balance{Currency: "EUR"}, f.balance(t))
	f.sale(t, func(n *storage.NewSession) { n.Amount = 40 }) // its payout is coming
	must.Get(f.refund(t, s, 0))(t)

	other := f.other(t, checkout.ModeTest)
	stranger := storage.RefundOrder{ID: checkout.NewID(checkout.PrefixRefund), Session: other.Owner(checkout.ModeTest).Ref(s.session.ID)}
	require.ErrorIs(t, must.Err(f.Refunds.OrderRefund(t.Context(), stranger)), checkout.ErrNotFound)
	unpaid := sale{session: f.create(t, f.newSession())}
	require.ErrorIs(t, must.Err(f.refund(t, unpaid, 0)), checkout.ErrNotPaid)
}

func TestReserve_IsKeptReleasedOnceAndPaidWithoutASession(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, `UPDATE merchant SET reserve_basis_points = 1000, reserve_days = 90`)
	big := func(n *storage.NewSession) { n.Amount = 20_000 }
	s := f.sale(t, big) // net 198.00
	require.Equal(t, checkout.Balance{Currency: "EUR", Pending: 17820, Reserved: 1980}, f.balance(t))
	sent := f.sends(t, s)
	require.Equal(t, []any{checkout.PayoutSent, []checkout.Deduction{{Type: "reserve", Source: s.payment, Amount: 1980}}},
		[]any{sent.Status, sent.Deductions})
	require.Equal(t, checkout.Balance{Currency: "EUR", Reserved: 1980}, f.balance(t))

	release := func() int { return must.Get(f.Balances.ReleaseReserves(t.Context(), 10))(t) }
	require.Zero(t, release(), "its time is not over")
	f.Exec(t, `UPDATE reserve SET release_at = now()`)
	require.Equal(t, 1, release())
	require.Zero(t, release())
	require.Equal(t, checkout.Balance{Currency: "EUR", Available: 1980}, f.balance(t))

	payable := func() []storage.BalancePayout { return must.Get(f.Balances.PayableBalances(t.Context()))(t) }
	due := payable()
	require.Equal(t, []storage.BalancePayout{{
		Owner: s.session.Owner, Amount: 1980, Currency: money.EUR, PayoutCurrency: money.USDC, Network: "ethereum",
		Destination: "0xabc", Chain: checkout.ChainSandbox,
	}}, due)
	for _, made := range []bool{true, false} {
		require.Equal(t, made, must.Get(f.Balances.CreateBalancePayout(t.Context(), due[0], money.MustRate("1.08")))(t))
	}
	require.Equal(t, checkout.Balance{Currency: "EUR", Pending: 1980}, f.balance(t))
	all := must.Get(f.Payouts.Payouts(t.Context(), s.session.Owner, storage.PayoutFilter{}, pg.Page{Limit: 2}))(t)
	paid := f.sends(t, sale{payout: all[0].Ref})
	require.Equal(t, []any{checkout.PayoutSent, "", "21.362616"}, []any{paid.Status, paid.SessionID, paid.Amount.String()})
	require.Equal(t, checkout.Balance{Currency: "EUR"}, f.balance(t))
	later := f.sale(t, big)
	f.sends(t, later)
	f.Exec(t, `UPDATE reserve SET release_at = now()`)
	require.Equal(t, 1, release())
	require.Empty(t, payable(), "one payout a day")
	f.Exec(t, `UPDATE payout SET id = 'po_00' || substr(id, 6) WHERE session_id IS NULL`) // made long ago
	require.Len(t, payable(), 1)

	list := must.Get(f.Balances.Transactions(t.Context(), s.session.Owner, storage.BalanceFilter{}, pg.Page{Limit: 10}))(t)[4:]
	var types []checkout.BalanceTransactionType
	for _, b := range list {
		types = append(types, b.Type)
	}
	require.Equal(t, []checkout.BalanceTransactionType{"payout", "release", "payout", "reserve", "payment"}, types)
	require.Equal(t, paid.ID, list[0].Source)

	f.Exec(t, `UPDATE reserve SET released_at = NULL`)
	require.Error(t, must.Err(f.Balances.ReleaseReserves(t.Context(), 10)), "the ledger refuses a second release")
}

// TestMoneyBack_RandomSequences orders, decides and returns refunds, opens and decides disputes, and pays, in any order.
// After each step the balance is what the rows say, no deduction is larger than its payout, and no cent was gained.
func TestMoneyBack_RandomSequences(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, `UPDATE merchant SET debt_limit = 1000000000, fee_basis_points = 290, fee_fixed = 30,
		reserve_basis_points = 1000, reserve_days = 1`)
	for i := range *sequences {
		random := rand.New(rand.NewPCG(47, uint64(i)))
		f.sequence(t, random, fmt.Sprintf("sequence %d", i))
	}
}

func (f fixture) sequence(t *testing.T, random *rand.Rand, name string) {
	var (
		s = f.sale(t, func(n *storage.NewSession) {
			n.Amount = money.Amount(50 + random.IntN(3000))
			n.Currency = []money.Currency{money.EUR, money.USD, money.GBP}[random.IntN(3)]
		})
		refunds []checkout.Refund
		risks   = map[string]books.RiskStatus{}
		pick    = func() checkout.Refund { return refunds[random.IntN(len(refunds))] }
		expect  = func(err error, all ...error) {
			for _, e := range all {
				if errors.Is(err, e) {
					return
				}
			}
			require.NoError(t, err, name)
		}
	)
	for step := range 3 + random.IntN(10) {
		switch op := random.IntN(8); {
		case op <= 1:
			r, err := f.refund(t, s, money.Amount(random.IntN(int(s.session.Amount)))*money.Amount(random.IntN(2)))
			if expect(err, checkout.ErrConflict); err == nil {
				refunds = append(refunds, r)
			}
		case op <= 3 && len(refunds) > 0:
			f.decide(t, pick(), checkout.RefundStatuses[random.IntN(3)])
		case op == 4:
			id := fmt.Sprintf("du_%s_%d", s.payment, random.IntN(2))
			risks[id] = []books.RiskStatus{books.RiskInquiry, books.RiskOpen, books.RiskWon, books.RiskLost}[random.IntN(4)]
			must.Get(f.Books.RecordRisks(t.Context(), checkout.ModeTest, storage.ChargeToCheck{Reference: s.payment}, []books.ChargeRisk{{
				ID: id, Kind: books.RiskDispute, Status: risks[id], Amount: 1 + s.session.Amount/2, Currency: s.session.Currency,
				Fee: 15, FeeCurrency: money.USD,
			}}))(t)
		case op == 5:
			f.sends(t, s)
		case op == 6:
			_, err := f.Payouts.RetryPayout(t.Context(), s.payout)
			expect(err, checkout.ErrConflict)
		case op == 7:
			f.Exec(t, `UPDATE reserve SET release_at = now() WHERE transaction_id = $1 AND released_at IS NULL`, s.payment)
			must.Get(f.Balances.ReleaseReserves(t.Context(), 10))(t)
		}
		storagetest.RequireSums(t, f.Database, fmt.Sprintf("%s, step %d", name, step))
	}
	whole := f.query(t, `SELECT count(*) FROM transaction t JOIN checkout_session s ON s.id = t.session_id
		WHERE s.amount = (SELECT sum(amount) FROM refund r WHERE r.transaction_id = t.id AND r.status <> 'failed')
			AND t.fee < (SELECT sum(fee_returned) FROM refund r WHERE r.transaction_id = t.id AND r.status <> 'failed')`)
	require.EqualValues(t, 0, whole, "no refund returns more than the fee")
}

// disputes notes a dispute of a sale as the card network has it.
func (f fixture) disputes(t *testing.T, s sale, status books.RiskStatus, amount money.Amount, fee money.Currency) error {
	return must.Err(f.Books.RecordRisks(t.Context(), checkout.ModeTest, storage.ChargeToCheck{Reference: s.payment}, []books.ChargeRisk{{
		ID: "du_" + s.payment, Kind: books.RiskDispute, Status: status, Amount: amount, Currency: money.EUR, Fee: 1500, FeeCurrency: fee,
	}}))
}

func TestDispute_AnAmountThatShrinksGivesThePayoutItsPartBack(t *testing.T) {
	f := newFixture(t)
	s := f.sale(t)
	require.NoError(t, f.disputes(t, s, books.RiskOpen, 1050, "CHF"))
	require.Equal(t, checkout.Balance{Currency: "EUR", Owed: 11}, f.balance(t), "no payout could pay the fee in francs: it is ours")
	require.NoError(t, f.disputes(t, s, books.RiskOpen, 200, "CHF"))
	require.Equal(t, checkout.Balance{Currency: "EUR", Pending: 839}, f.balance(t))
	require.NoError(t, f.disputes(t, s, books.RiskLost, 200, "CHF"))
	require.Equal(t, money.Amount(839), f.sends(t, s).Net())
	require.Equal(t, checkout.Balance{Currency: "EUR"}, f.balance(t))
}

func TestDispute_OfAnUndecidedTestPaymentIsReportedAgain(t *testing.T) {
	f := newFixture(t)
	s := f.create(t, f.newSession())
	id := f.beginPayment(t, s)
	require.ErrorIs(t, f.disputes(t, sale{payment: id}, books.RiskOpen, 1050, money.EUR), checkout.ErrPaymentUndecided)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM charge_risk`))
}

// Money that may go back pays no debt: the refund that made the debt may be returned.
func TestRecoverDebt_TakesNothingFromAPayoutAtRisk(t *testing.T) {
	f := newFixture(t)
	paid := f.sale(t)
	f.sends(t, paid)
	must.Get(f.refund(t, paid, 0))(t)
	s := f.sale(t)
	require.NoError(t, f.disputes(t, s, books.RiskOpen, 200, money.EUR))
	require.Equal(t, money.Amount(839), f.sends(t, s).Net())
}

func TestOrderRefund_DebtsInOtherCurrenciesCount(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, `UPDATE merchant SET debt_limit = 0`)
	s := f.sale(t)
	f.sends(t, s)
	f.sale(t)                                                                                           // 10.39 are coming
	require.NoError(t, f.disputes(t, f.sale(t), books.RiskInquiry, 100, money.USD), "its fee of 15.00") // a warning may cost one
	missing, ok := errors.AsType[*checkout.InsufficientBalanceError](must.Err(f.refund(t, s, 1050)))
	require.True(t, ok)
	require.Equal(t, money.Amount(461), missing.Missing, "10.39 twice cover the refund, and 15.00 USD are owed")
}

// Version 1.0.0 writes refunds without their merchant while the installation is upgraded.
func TestRefunds_OfTheBuildBeforeHaveARun(t *testing.T) {
	f := newFixture(t)
	s := f.sale(t)
	f.Exec(t, `INSERT INTO refund (id, mode, acquirer_ref, transaction_id, reason, status, amount, created_at)
		VALUES ('re_1', 'test', $1, $1, 'operator', 'pending', 1050, now() - interval '1 hour')`, s.payment)
	due := must.Get(f.Installation.Overdue(t.Context(), 0, "re", 1))(t)
	require.Equal(t, []storage.Overdue{{Ref: s.session.Owner.Ref("re_1")}}, due)
	require.Equal(t, "re_1", must.Get(f.Refunds.RefundToSend(t.Context(), due[0].Ref))(t).ID)
}

func TestDeleteOldSessions_TakesTheirRefundsAndDisputesAlong(t *testing.T) {
	f := newFixture(t)
	s := f.sale(t)
	f.sends(t, s)
	f.decide(t, must.Get(f.refund(t, s, 100))(t), checkout.RefundSucceeded)
	require.NoError(t, f.disputes(t, s, books.RiskLost, 200, money.EUR))
	f.Exec(t, `DELETE FROM webhook_delivery`)
	f.Exec(t, `DELETE FROM event`)
	f.Exec(t, `UPDATE checkout_session SET ended_at = now() - interval '100 days'`)
	_, deleted, err := f.Installation.DeleteOldSessions(t.Context(), -2*time.Hour, "", 10)
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	require.EqualValues(t, 0, f.query(t, `SELECT (SELECT count(*) FROM refund) + (SELECT count(*) FROM charge_risk) + (SELECT count(*) FROM payout)`))
	require.Equal(t, checkout.Balance{Currency: "EUR", Owed: 99 + 200 + 1500}, f.balance(t), "the ledger stays")
}

// The chain has the transfer, and its payout is about to be decided.
func TestOrderRefund_WhileTheSandboxSendsIsADebt(t *testing.T) {
	f := newFixture(t)
	s := f.sale(t)
	sending := must.Get(f.Payouts.PayoutToSend(t.Context(), s.payout))(t)
	must.Get((&sandbox.Payouts{Sandbox: f.Sandbox, Payouts: f.Payouts}).Transfer(t.Context(), sending))(t)
	must.Get(f.refund(t, s, 0))(t)
	require.Equal(t, checkout.PayoutSent, f.sends(t, s).Status)
	require.Equal(t, checkout.Balance{Currency: "EUR", Owed: 1039}, f.balance(t))
}

// The debt was paid, and then the bank returned the refund: the merchant gets what it paid.
func TestOrderRefund_OneThatIsReturnedAfterItsRecoveryIsPaidOut(t *testing.T) {
	f := newFixture(t)
	s := f.sale(t)
	f.sends(t, s)
	r := must.Get(f.refund(t, s, 0))(t)
	f.decide(t, r, checkout.RefundSucceeded)
	kept := f.sale(t)
	require.Equal(t, checkout.PayoutRecovered, f.sends(t, kept).Failure)
	require.ErrorIs(t, must.Err(f.Payouts.RetryPayout(t.Context(), kept.payout)), checkout.ErrNothingLeft)
	f.decide(t, r, checkout.RefundFailed)
	require.Equal(t, checkout.Balance{Currency: "EUR", Available: 1039}, f.balance(t))
	require.Equal(t, money.Amount(1039), must.Get(f.Balances.PayableBalances(t.Context()))(t)[0].Amount)
}
