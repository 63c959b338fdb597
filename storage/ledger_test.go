package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

func (f fixture) liveSession() storage.NewSession {
	n := f.newSession()
	n.Mode = checkout.ModeLive
	return n
}

func TestLedger_AChargeIsBookedOnceInItsMode(t *testing.T) {
	f := newFixture(t)
	s := f.create(t, f.liveSession())
	f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined})
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM ledger_entry`), "a declined card moves none")
	id, _ := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	must.Get(f.Sessions.FinishPayment(t.Context(), s.Ref, id))(t)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM ledger_entry WHERE subject = $1 AND kind = 'charge'`, id))
	got := must.Get(f.Books.LedgerBalances(t.Context(), checkout.ModeLive))(t)
	require.Equal(t, []storage.LedgerBalance{
		{Account: "acquirer:receivable", Asset: "EUR", Amount: "1050"},
		{Account: "merchant:payable", Asset: "EUR", Amount: "-1039"},
		{Account: "revenue:fee", Asset: "EUR", Amount: "-11"},
	}, got)
	require.Empty(t, must.Get(f.Books.LedgerBalances(t.Context(), checkout.ModeTest))(t))
}

// TestLedger_BooksTestMode: the sandbox's card network and chain have one account. A payment in which a real test
// network takes part is booked as in live mode.
func TestLedger_BooksTestMode(t *testing.T) {
	t.Parallel()
	for networks, account := range map[storage.NewPayment]string{
		{Acquirer: checkout.AcquirerSandbox, ChainRef: checkout.ChainSandbox}: "sandbox",
		{Acquirer: checkout.AcquirerStripe, ChainRef: checkout.ChainSandbox}:  "acquirer:receivable",
		{Acquirer: checkout.AcquirerSandbox, ChainRef: "eip155:31337"}:        "acquirer:receivable",
	} {
		f := newSerialFixture(t)
		s := f.create(t, f.newSession())
		id := storagetest.Begin(t, f.Store, s.Ref, networks, "pi_1")
		got := storagetest.Finish(t, f.Store, s.Ref, id, storagetest.Succeeded)
		require.Equal(t, map[string]string{account: "1050", "merchant:payable": "-1039", "revenue:fee": "-11"}, f.ledger(t), networks)

		payout := s.Owner.Ref(got.PayoutID)
		sending := must.Get(f.Payouts.PayoutToSend(t.Context(), payout))(t)
		require.Equal(t, networks.ChainRef, sending.Chain)
		_, err := f.Payouts.FinishPayout(t.Context(), payout, 0, "")
		if sending.Chain != checkout.ChainSandbox {
			require.ErrorIs(t, err, checkout.ErrConflict, "nothing was signed on the chain")
			continue
		}
		require.NoError(t, err)
		must.Get(f.Payouts.FinishPayout(t.Context(), payout, 0, ""))(t)
		paid := map[string]string{"sandbox": "11", "merchant:payable": "0", "revenue:fee": "-11"}
		if account != "sandbox" {
			paid["sandbox"], paid[account] = "-1039", "1050"
		}
		require.Equal(t, paid, f.ledger(t), networks)
	}
}

// ledger returns the balances of test mode by account.
func (f fixture) ledger(t *testing.T) map[string]string {
	got := map[string]string{}
	for _, b := range must.Get(f.Books.LedgerBalances(t.Context(), checkout.ModeTest))(t) {
		got[b.Account] = b.Amount
	}
	return got
}

// TestUncharged_LeavesTheSandboxOut: nobody but the sandbox knows its charges.
func TestUncharged_LeavesTheSandboxOut(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	pays := func(acquirer checkout.Acquirer) string {
		s := f.create(t, f.newSession())
		id := storagetest.Begin(t, f.Store, s.Ref, storage.NewPayment{Acquirer: acquirer}, "pi_of_"+string(acquirer))
		storagetest.Finish(t, f.Store, s.Ref, id, storagetest.Succeeded)
		return id
	}
	pays(checkout.AcquirerSandbox)
	known := pays(checkout.AcquirerStripe)
	missing := must.Get(f.Books.Uncharged(t.Context(), checkout.ModeTest, now.Add(-time.Hour), now.Add(time.Hour), nil))(t)
	require.Equal(t, []storage.UnchargedTransaction{{ID: known, Reference: "pi_of_stripe"}}, missing)
}

func TestFinishPayment_TakesTheFeeOfThePlanAtTheDecision(t *testing.T) {
	f := newFixture(t)
	change := func(name string, part int64, fixed money.Amount) {
		_, err := f.Merchants.ChangeMerchant(t.Context(), storage.MerchantChange{
			MerchantID: f.merchant.ID, Plan: &merchant.Plan{Name: name, FeeBasisPoints: part, FeeFixed: fixed}, By: f.note(),
		})
		require.NoError(t, err)
	}
	taken := func(id string) any {
		return f.query(t, `
			SELECT concat_ws(' ', t.plan, t.fee_basis_points, t.fee_fixed, t.fee, t.net, p.source_amount, -l.amount)
			FROM transaction t JOIN payout p ON p.transaction_id = t.id JOIN ledger_entry e ON e.subject = t.id
			LEFT JOIN ledger_posting l ON l.entry_id = e.id AND l.account = 'revenue:fee' WHERE t.id = $1`, id)
	}
	s := f.create(t, f.liveSession())
	change("with a fixed part", 290, 30)
	first, _ := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	require.Equal(t, "with a fixed part 290 30 60 990 990 60", taken(first), "the plan of the payment, not of the creation")

	greedy := f.create(t, f.liveSession())
	change("greedy", 290, 5000)
	all, _ := f.pay(t, greedy, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	require.Equal(t, "greedy 290 5000 1050 0 0 1050", taken(all), "never more than the amount")
	change("greedy", 290, 4000)
	require.Equal(t, "greedy 290 5000 1050 0 0 1050", taken(all), "a fee that was taken stays")
	require.Equal(t, "with a fixed part 290 30 60 990 990 60", taken(first))
}

func TestLedger_TheDatabaseRefusesWhatIsNotBalancedOrChanges(t *testing.T) {
	f := newFixture(t)
	f.pay(t, f.create(t, f.liveSession()), checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	conn := f.Connect(t)
	const post = `
		WITH e AS (INSERT INTO ledger_entry (mode, kind, subject, generation) VALUES ('live', 'x', $1, 1) RETURNING id)
		INSERT INTO ledger_posting (entry_id, mode, account, asset, amount)
		SELECT e.id, 'live', p.account, p.asset, p.amount::numeric FROM e, (VALUES ('a', 'EUR', $2), ('b', $4, $3)) p (account, asset, amount)`
	for name, c := range map[string][3]string{
		"a sum that is not 0":           {"5", "-4", "EUR"},
		"two assets that do not add up": {"5", "-5", "USD"},
	} {
		_, err := conn.Exec(t.Context(), post, name, c[0], c[1], c[2])
		require.ErrorContains(t, err, "is not balanced", name)
	}
	must.Get(conn.Exec(t.Context(), post, "balanced", "5", "-5", "EUR"))(t)
	_, err := conn.Exec(t.Context(), post, "balanced", "5", "-5", "EUR")
	require.ErrorContains(t, err, "ledger_entry_subject_key", "the same thing twice")

	for _, table := range []string{"ledger_entry", "ledger_posting", "transfer_version"} {
		for _, change := range []string{"UPDATE " + table + " SET " + map[bool]string{true: "terms = '{}'", false: "mode = 'test'"}[table == "transfer_version"],
			"DELETE FROM " + table, "TRUNCATE " + table + " CASCADE"} {
			_, err := conn.Exec(t.Context(), change)
			require.ErrorContains(t, err, "is refused on", change)
		}
	}
}
