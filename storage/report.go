package storage

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// DayReport holds the books of live mode for one day. Every list is ordered by its first fields.
type DayReport struct {
	Plans    []PlanDay
	Booked   []BookedDay // what the entries of the day changed
	Refunds  []RefundDay
	Disputes []DisputeDay
	Payouts  []PayoutDay
	Floats   []Float         // now
	Findings []books.Finding // open now, oldest first
	Checks   []LedgerCheck   // of the whole ledger, as it is now
}

// Agrees reports whether the ledger is as it should be.
func (r DayReport) Agrees() bool {
	return !slices.ContainsFunc(r.Checks, func(c LedgerCheck) bool { return !c.Agrees() })
}

// PlanDay adds up the succeeded charges of the day by plan and currency.
type PlanDay struct {
	Plan           string
	FeeBasisPoints int64
	FeeFixed       money.Amount
	Currency       money.Currency
	Charges        int
	Sum            money.Amount
	Earned         money.Amount // our fees
	Cost           money.Amount // the acquirer's, in Currency, as far as it is known
	CostUnknown    int          // charges that the acquirer has not booked yet
}

// BookedDay is the sum of what the entries of the day changed in an account.
type BookedDay struct {
	Account string
	Asset   string
	Amount  string // decimal in Asset; a debit is positive, a credit is negative
}

// Fee returns the price of a payment by the plan.
func (p PlanDay) Fee() merchant.Fee {
	return merchant.Fee{BasisPoints: p.FeeBasisPoints, Fixed: p.FeeFixed}
}

// Margin returns what is left of the fees after the acquirer's costs. It is negative when the charges
// cost more than they earned.
func (p PlanDay) Margin() money.Amount { return p.Earned - p.Cost }

// RefundDay adds up the refunds that were ordered on the day, by their present state.
type RefundDay struct {
	Reason   checkout.RefundOrigin
	Status   checkout.RefundStatus
	Currency money.Currency // "" when the charge belongs to no transaction
	Refunds  int
	Sum      money.Amount
}

// DisputeDay adds up what the card network reported about disputes on the day.
type DisputeDay struct {
	Type     string         // the card network's, such as charge.dispute.created
	Currency money.Currency // "" when the charge belongs to no transaction
	Disputes int
	Sum      money.Amount // of the charges
}

// PayoutDay adds up the payouts that were made on the day, by their present state.
type PayoutDay struct {
	State          string // pending, on hold, sent, confirmed or failed
	Currency       money.PayoutCurrency
	SourceCurrency money.Currency
	Payouts        int
	Source         money.Amount // in SourceCurrency
	Sum            string       // decimal in Currency; "0" while no transfer is signed
}

// DayReport returns the live books of the 24 hours that begin at from. All of it is of one moment. It
// changes nothing. Only operators may call it: it is about all merchants.
func (s *Books) DayReport(ctx context.Context, from time.Time) (DayReport, error) {
	to := from.Add(24 * time.Hour)
	return pg.InSnapshot(ctx, s.pool, "report", func(tx pgx.Tx) (got DayReport, err error) {
		var batch pgx.Batch
		pg.Queue(&batch, &got.Plans, plansOfDay, from, to)
		pg.Queue(&batch, &got.Refunds, refundsOfDay, from, to)
		pg.Queue(&batch, &got.Disputes, disputesOfDay, from, to)
		pg.Queue(&batch, &got.Payouts, payoutsOfDay, from, to)
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil { // fills all four
			return got, err
		}
		if got.Booked, err = booked(ctx, tx, from, to); err != nil {
			return got, err
		}
		if got.Floats, err = floats(ctx, tx, checkout.ModeLive); err != nil {
			return got, err
		}
		if got.Findings, err = openFindings(ctx, tx, checkout.ModeLive); err != nil {
			return got, err
		}
		got.Checks, err = checkLedger(ctx, tx, checkout.ModeLive)
		return got, err
	})
}

func booked(ctx context.Context, tx pgx.Tx, from, to time.Time) ([]BookedDay, error) {
	type row struct {
		Account string
		wholeUnits
	}
	var all []BookedDay
	rows, err := pg.Collect[row](ctx, tx, bookedOnDay, from, to)
	for _, r := range rows {
		all = append(all, BookedDay{r.Account, r.Asset, inAsset(r.Asset, &r.Units.Int)})
	}
	return all, err
}

// The queries of a day. $1 is its begin and $2 its end. They name no merchant: the report is about all.
const (
	// A cost in another currency is converted at the acquirer's own rate, settled / amount.
	plansOfDay = `
		SELECT t.plan, t.fee_basis_points, t.fee_fixed, s.currency, count(*) AS charges, sum(s.amount)::bigint AS sum,
			sum(t.fee)::bigint AS earned, coalesce(sum(round(t.cost * s.amount::numeric / t.settled)), 0)::bigint AS cost,
			count(*) FILTER (WHERE t.settled IS NULL) AS cost_unknown
		FROM transaction t JOIN checkout_session s ON s.id = t.session_id
		WHERE t.mode = 'live' AND t.status = 'succeeded' AND t.completed_at >= $1 AND t.completed_at < $2
		GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`
	bookedOnDay = `
		SELECT p.account, p.asset, sum(p.amount)::text AS units
		FROM ledger_entry e JOIN ledger_posting p ON p.entry_id = e.id
		WHERE e.mode = 'live' AND e.created_at >= $1 AND e.created_at < $2 GROUP BY 1, 2 ORDER BY 1, 2`
	refundsOfDay = `
		SELECT r.reason, r.status, coalesce(s.currency, '') AS currency, count(*) AS refunds, sum(r.amount)::bigint AS sum
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
