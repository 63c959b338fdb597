package storage

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// DayReport holds the books of live mode for one day. Every list is ordered by its first fields.
type DayReport struct {
	Plans    []PlanDay
	Booked   []BookedDay // what the entries of the day changed
	Refunds  []RefundDay
	Disputes []DisputeDay
	Payouts  []PayoutDay
	Findings []checkout.Finding // open now, oldest first
	Checks   []LedgerCheck      // of the whole ledger, as it is now
}

// Agrees reports whether the ledger is as it should be.
func (r DayReport) Agrees() bool {
	return !slices.ContainsFunc(r.Checks, func(c LedgerCheck) bool { return !c.Agrees() })
}

// PlanDay adds up the succeeded charges of the day by plan and currency.
type PlanDay struct {
	Plan           string // "" when an older build decided the payments: it did not store the plan
	FeeBasisPoints int64
	FeeFixed       checkout.Amount
	Currency       checkout.Currency
	Charges        int
	Sum            checkout.Amount
	Earned         checkout.Amount // our fees
	Cost           checkout.Amount // the acquirer's, in Currency, as far as it is known
	CostUnknown    int             // charges that the acquirer has not booked yet
}

// BookedDay is the sum of what the entries of the day changed in an account.
type BookedDay struct {
	Account string
	Asset   string
	Amount  string // decimal in Asset; a debit is positive, a credit is negative
}

// Fee returns the price of a payment by the plan.
func (p PlanDay) Fee() checkout.Fee {
	return checkout.Fee{BasisPoints: p.FeeBasisPoints, Fixed: p.FeeFixed}
}

// Margin returns what is left of the fees after the acquirer's costs. It is negative when the charges
// cost more than they earned.
func (p PlanDay) Margin() checkout.Amount { return p.Earned - p.Cost }

// RefundDay adds up the refunds that were ordered on the day, by their present state.
type RefundDay struct {
	Reason   checkout.RefundReason
	Status   checkout.RefundStatus
	Currency checkout.Currency // "" when the charge belongs to no transaction
	Refunds  int
	Sum      checkout.Amount
}

// DisputeDay adds up what the card network reported about disputes on the day.
type DisputeDay struct {
	Type     string            // the card network's, such as charge.dispute.created
	Currency checkout.Currency // "" when the charge belongs to no transaction
	Disputes int
	Sum      checkout.Amount // of the charges
}

// PayoutDay adds up the payouts that were made on the day, by their present state.
type PayoutDay struct {
	State          string // pending, on hold, sent, confirmed or failed
	Currency       checkout.PayoutCurrency
	SourceCurrency checkout.Currency
	Payouts        int
	Source         checkout.Amount // in SourceCurrency
	Sum            string          // decimal in Currency; "0" while no transfer is signed
}

// DayReport returns the live books of the 24 hours that begin at from. All of it is of one moment. It
// changes nothing. Only operators may call it: it is about all merchants.
func (a *Accounts) DayReport(ctx context.Context, from time.Time) (DayReport, error) {
	var got DayReport
	to := from.Add(24 * time.Hour)
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, a.pool, options, func(tx pgx.Tx) (err error) {
		if got.Plans, err = collect[PlanDay](ctx, tx, plansOfDay, from, to); err != nil {
			return err
		}
		if got.Booked, err = booked(ctx, tx, from, to); err != nil {
			return err
		}
		if got.Refunds, err = collect[RefundDay](ctx, tx, refundsOfDay, from, to); err != nil {
			return err
		}
		if got.Disputes, err = collect[DisputeDay](ctx, tx, disputesOfDay, from, to); err != nil {
			return err
		}
		if got.Payouts, err = collect[PayoutDay](ctx, tx, payoutsOfDay, from, to); err != nil {
			return err
		}
		if got.Findings, err = openFindings(ctx, tx, checkout.ModeLive); err != nil {
			return err
		}
		got.Checks, err = checkLedger(ctx, tx)
		return err
	})
	if err != nil {
		return DayReport{}, fmt.Errorf("report: %w", err)
	}
	return got, nil
}

// booked returns what the entries of the day changed.
func booked(ctx context.Context, tx pgx.Tx, from, to time.Time) ([]BookedDay, error) {
	all, err := collect[BookedDay](ctx, tx, bookedOnDay, from, to)
	if err != nil {
		return nil, err
	}
	for i, b := range all {
		units, ok := new(big.Int).SetString(b.Amount, 10)
		if !ok {
			return nil, fmt.Errorf("%q is not a whole number", b.Amount)
		}
		all[i].Amount = inAsset(b.Asset, units)
	}
	return all, nil
}

func collect[T any](ctx context.Context, tx pgx.Tx, query string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

// The queries of a day. $1 is its begin and $2 its end. They name no merchant: the report is about all.
const (
	// A cost in another currency is converted at the acquirer's own rate, settled / amount.
	plansOfDay = `
		SELECT coalesce(t.plan, '') AS plan, coalesce(t.fee_basis_points, 0) AS fee_basis_points,
			coalesce(t.fee_fixed, 0) AS fee_fixed, s.currency, count(*) AS charges, sum(s.amount)::bigint AS sum,
			sum(t.fee)::bigint AS earned, coalesce(sum(round(t.cost * s.amount::numeric / t.settled)), 0)::bigint AS cost,
			count(*) FILTER (WHERE t.settled IS NULL) AS cost_unknown
		FROM transaction t JOIN checkout_session s ON s.id = t.session_id
		WHERE t.mode = 'live' AND t.status = 'succeeded' AND t.completed_at >= $1 AND t.completed_at < $2
		GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`
	bookedOnDay = `
		SELECT p.account, p.asset, sum(p.amount)::text AS amount
		FROM ledger_entry e JOIN ledger_posting p ON p.entry_id = e.id
		WHERE e.mode = 'live' AND e.created_at >= $1 AND e.created_at < $2 GROUP BY 1, 2 ORDER BY 1, 2`
	refundsOfDay = `
		SELECT r.reason, r.status, coalesce(s.currency, '') AS currency, count(*) AS refunds,
			coalesce(sum(s.amount), 0)::bigint AS sum
		FROM refund r LEFT JOIN transaction t ON t.id = r.transaction_id AND t.mode = r.mode
			LEFT JOIN checkout_session s ON s.id = t.session_id
		WHERE r.mode = 'live' AND r.created_at >= $1 AND r.created_at < $2 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`
	// The card network may report the same more than once.
	disputesOfDay = `
		SELECT e.type, coalesce(s.currency, '') AS currency, count(*) AS disputes, coalesce(sum(s.amount), 0)::bigint AS sum
		FROM (SELECT DISTINCT type, object_id, reference, mode FROM acquirer_event
			WHERE mode = 'live' AND received_at >= $1 AND received_at < $2 AND type LIKE 'charge.dispute.%') e
			LEFT JOIN transaction t ON t.acquirer_ref = e.reference AND t.mode = e.mode
			LEFT JOIN checkout_session s ON s.id = t.session_id
		GROUP BY 1, 2 ORDER BY 1, 2`
	payoutsOfDay = `
		SELECT CASE WHEN status = 'sent' AND confirmed_at IS NOT NULL THEN 'confirmed'
			WHEN status = 'pending' AND hold <> '' THEN 'on hold' ELSE status END AS state,
			currency, source_currency, count(*) AS payouts, sum(source_amount)::bigint AS source,
			coalesce(sum(nullif(amount, '')::numeric), 0)::text AS sum
		FROM payout WHERE mode = 'live' AND created_at >= $1 AND created_at < $2 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`
)

// LedgerCheck compares a sum of the ledger with what it should be. All amounts are decimals in Asset.
type LedgerCheck struct {
	What       string // such as "wallet tre_…"
	Asset      string
	Ledger     string
	Expected   string // "" when it is not known yet
	UnderWay   string // by how much the two may differ, because of transfers that are not final
	Difference string // what the ledger has too much; "0" when it agrees
}

// Agrees reports whether the ledger is as it should be. It is so while nothing to compare with is known.
func (c LedgerCheck) Agrees() bool { return c.Difference == "0" }

// checkLedger makes the three comparisons: the ledger adds up to 0, the wallets have what the chain
// showed last, and the acquirer owes what it has not booked yet.
func checkLedger(ctx context.Context, tx pgx.Tx) ([]LedgerCheck, error) {
	var all []LedgerCheck
	type comparison func(context.Context, pgx.Tx) ([]LedgerCheck, error)
	for _, check := range []comparison{checkSums, checkWallets, checkReceivable} {
		found, err := check(ctx, tx)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// compared is a row with two sums in smallest units.
type compared struct {
	Asset    string
	Ledger   string
	Expected string
}

// check compares the two sums.
func (c compared) check(what string) (LedgerCheck, error) {
	ledger, ok := new(big.Int).SetString(c.Ledger, 10)
	expected, right := new(big.Int).SetString(c.Expected, 10)
	if !ok || !right {
		return LedgerCheck{}, fmt.Errorf("%q or %q is not a whole number", c.Ledger, c.Expected)
	}
	return ledgerCheck(what, c.Asset, ledger, expected, new(big.Int)), nil
}

// ledgerCheck compares two sums that may be underWay apart.
func ledgerCheck(what, asset string, ledger, expected, underWay *big.Int) LedgerCheck {
	c := LedgerCheck{
		What: what, Asset: asset, Ledger: inAsset(asset, ledger), Expected: inAsset(asset, expected),
		UnderWay: inAsset(asset, underWay), Difference: "0",
	}
	if more := new(big.Int).Sub(ledger, expected); more.CmpAbs(underWay) > 0 {
		c.Difference = inAsset(asset, more)
	}
	return c
}

// inAsset writes a number of smallest units as a decimal.
func inAsset(asset string, units *big.Int) string {
	places := checkout.USD.Places() // all fiat currencies that we charge have the same
	if c := checkout.PayoutCurrency(asset); c.Valid() {
		places = c.Places()
	}
	return checkout.FormatUnits(units, places)
}

func checkEach(what string, rows []compared) ([]LedgerCheck, error) {
	var checks []LedgerCheck
	for _, row := range rows {
		c, err := row.check(what)
		if err != nil {
			return nil, err
		}
		checks = append(checks, c)
	}
	return checks, nil
}

func checkSums(ctx context.Context, tx pgx.Tx) ([]LedgerCheck, error) {
	rows, err := collect[compared](ctx, tx, `
		SELECT asset, sum(amount)::text AS ledger, '0' AS expected FROM ledger_posting
		WHERE mode = 'live' GROUP BY 1 ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	return checkEach("sum of all accounts", rows)
}

// checkReceivable compares what the acquirer owes by the ledger with the charges that it has not booked,
// less what it gives back to cards for an operator.
func checkReceivable(ctx context.Context, tx pgx.Tx) ([]LedgerCheck, error) {
	rows, err := collect[compared](ctx, tx, `
		WITH moved AS (
			SELECT asset, amount AS ledger, 0 AS expected FROM ledger_posting
			WHERE mode = 'live' AND account = $1
			UNION ALL
			SELECT s.currency, 0, s.amount FROM transaction t JOIN checkout_session s ON s.id = t.session_id
			WHERE t.mode = 'live' AND t.status = 'succeeded' AND t.settled IS NULL
			UNION ALL
			SELECT s.currency, 0, -s.amount FROM refund r JOIN transaction t ON t.id = r.transaction_id AND t.mode = r.mode
				JOIN checkout_session s ON s.id = t.session_id
			WHERE r.mode = 'live' AND r.reason = 'operator' AND r.status <> 'failed' AND t.status = 'succeeded')
		SELECT asset, sum(ledger)::text AS ledger, sum(expected)::text AS expected FROM moved GROUP BY 1 ORDER BY 1`,
		accountReceivable)
	if err != nil {
		return nil, err
	}
	return checkEach(accountReceivable, rows)
}

// seenWallet is an account of the treasury with the balances that the chain showed last.
type seenWallet struct {
	ID           string
	Network      string
	SeenHeight   uint64
	SeenBalances map[checkout.PayoutCurrency]string // decimals; nil before the first comparison
}

func checkWallets(ctx context.Context, tx pgx.Tx) ([]LedgerCheck, error) {
	wallets, err := collect[seenWallet](ctx, tx, `
		SELECT id, network, seen_height, seen_balances FROM treasury_account WHERE mode = 'live' ORDER BY id`)
	if err != nil {
		return nil, err
	}
	var all []LedgerCheck
	for _, w := range wallets {
		checks, err := w.check(ctx, tx)
		if err != nil {
			return nil, err
		}
		all = append(all, checks...)
	}
	return all, nil
}

// check compares the wallet with the chain, currency by currency.
func (w seenWallet) check(ctx context.Context, tx pgx.Tx) (checks []LedgerCheck, err error) {
	booked, err := walletBalances(ctx, tx, checkout.ModeLive, w.ID)
	if err != nil {
		return nil, err
	}
	account := treasury{ID: w.ID, Network: w.Network}
	live, err := account.live(ctx, tx, w.SeenHeight)
	if err != nil {
		return nil, err
	}
	for _, currency := range checkout.PayoutCurrencies {
		text, known := w.SeenBalances[currency]
		ledger := orZero(booked[currency])
		if !known && ledger.Sign() == 0 {
			continue
		}
		what, asset := accountWallet+" "+w.ID, string(currency)
		if !known {
			checks = append(checks, LedgerCheck{What: what, Asset: asset, Ledger: inAsset(asset, ledger), Difference: "0"})
			continue
		}
		units, err := currency.Units(text)
		if err != nil {
			return nil, err
		}
		checks = append(checks, ledgerCheck(what, asset, ledger, units, orZero(live[currency])))
	}
	return checks, nil
}

func orZero(n *big.Int) *big.Int {
	if n == nil {
		return new(big.Int)
	}
	return n
}
