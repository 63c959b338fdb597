package storage_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

func (f fixture) liveSession() storage.NewSession {
	n := f.newSession()
	n.Mode = checkout.ModeLive
	return n
}

func TestLedger_AChargeIsBookedOnceAndOnlyInLiveMode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pay(t, f.create(t, f.newSession()), checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM ledger_entry`), "test mode moves no money")

	s := f.create(t, f.liveSession())
	f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined})
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM ledger_entry`), "a declined card moves none")
	id, _ := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	_, err := f.FinishPayment(t.Context(), ref(s), id)
	require.NoError(t, err)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM ledger_entry WHERE subject = $1 AND kind = 'charge'`, id))
	got, err := f.LedgerBalances(t.Context(), checkout.ModeLive)
	require.NoError(t, err)
	require.Equal(t, []storage.LedgerBalance{
		{Account: "acquirer:receivable", Asset: "EUR", Amount: "1050"},
		{Account: "merchant:payable", Asset: "EUR", Amount: "-1039"},
		{Account: "revenue:fee", Asset: "EUR", Amount: "-11"},
	}, got)
	got, err = f.LedgerBalances(t.Context(), checkout.ModeTest)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestFinishPayment_TakesTheFeeOfThePlanAtTheDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	change := func(name string, part int64, fixed checkout.Amount) {
		_, err := f.ChangeMerchant(t.Context(), storage.MerchantChange{
			MerchantID: f.merchant.ID, Plan: &checkout.Plan{Name: name, FeeBasisPoints: part, FeeFixed: fixed}, By: f.note(),
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
	t.Parallel()
	f := newFixture(t)
	f.pay(t, f.create(t, f.liveSession()), checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	conn, err := pgx.Connect(t.Context(), f.url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
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
	_, err = conn.Exec(t.Context(), post, "balanced", "5", "-5", "EUR")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), post, "balanced", "5", "-5", "EUR")
	require.ErrorContains(t, err, "ledger_entry_subject_key", "the same thing twice")

	for _, table := range []string{"ledger_entry", "ledger_posting", "transfer_version"} {
		for _, change := range []string{"UPDATE " + table + " SET " + map[bool]string{true: "terms = '{}'", false: "mode = 'test'"}[table == "transfer_version"],
			"DELETE FROM " + table, "TRUNCATE " + table + " CASCADE"} {
			_, err := conn.Exec(t.Context(), change)
			require.ErrorContains(t, err, "is refused on", change)
		}
	}
}
