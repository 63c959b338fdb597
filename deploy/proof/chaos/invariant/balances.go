package invariant

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Verdict is what a query of verdicts found out about a row.
type Verdict struct{ ID, Wrong string } // Wrong: "" when nothing is

// Balance is what the ledger owes a merchant, in minor units. Merchants are told one, with the sum of their list.
type Balance struct {
	MerchantID string
	Mode       checkout.Mode
	Currency   money.Currency
	Total      int64 // pending and available, without owed
	Reserved   int64
}

func (b Balance) name() string { return fmt.Sprint(b.MerchantID, " ", b.Mode, " ", b.Currency) }

// Statement is a balance with its list, as a merchant read them.
type Statement struct {
	Balance
	Listed int64 // the sum of the list
}

// Refund is a refund of ours, or somebody else's, that gave the customer money, or may.
type Refund struct {
	ID, TransactionID string
	Amount            int64
}

// readBalances reads balances and refunds, and what the verdicts are.
func readBalances(ctx context.Context, tx pgx.Tx, f *Facts) error {
	err := cmp.Or(
		read(ctx, tx, &f.Balances, `
			SELECT holder, mode, asset, coalesce(-sum(amount) FILTER (WHERE account = 'merchant:payable'), 0)::bigint,
				coalesce(-sum(amount) FILTER (WHERE account = 'merchant:reserve'), 0)::bigint
			FROM ledger_posting WHERE account IN ('merchant:payable', 'merchant:reserve') GROUP BY 1, 2, 3`),
		read(ctx, tx, &f.Refunds, `
			SELECT id, coalesce(transaction_id, ''), amount FROM refund WHERE status <> 'failed'
			UNION ALL SELECT id, transaction_id, amount FROM charge_risk
				WHERE kind = 'refund' AND status IN ('open', 'lost')`),
	)
	f.Verdicts = map[int][]Verdict{}
	for number, sql := range verdicts {
		rows, _ := tx.Query(ctx, sql, pgx.NamedArgs{"since": f.At.Add(-f.DeliveryRetention)}) // CollectRows returns the error
		found, failed := pgx.CollectRows(rows, pgx.RowToStructByPos[Verdict])
		if failed != nil {
			return fmt.Errorf("invariant %d: %w", number, failed)
		}
		f.Verdicts[number] = found
	}
	return err
}

// verdicts are queries that compare rows with each other, by the number of their invariant. Each selects the id of a
// row, and in words what is wrong with it. Events of before @since may be gone.
var verdicts = map[int]string{
	31: `
		WITH booked AS ( -- version 1.0.0 booked none of test mode
			SELECT t.id, t.merchant_id, t.mode, s.currency, t.net
			FROM transaction t JOIN checkout_session s ON s.id = t.session_id
			WHERE t.status = 'succeeded' AND (t.mode = 'live' OR EXISTS (SELECT FROM ledger_entry e
				WHERE e.kind = 'charge' AND e.subject = t.id))
		), risk AS (
			SELECT r.* FROM charge_risk r JOIN booked b ON b.id = r.transaction_id AND b.mode = r.mode
			WHERE r.debited AND r.kind <> 'fraud_warning'
		), change (account, merchant_id, mode, currency, amount) AS (
			SELECT 'payable', merchant_id, mode, currency, net FROM booked
			UNION ALL SELECT 'payable', b.merchant_id, b.mode, b.currency, r.fee_returned - r.amount
				FROM refund r JOIN booked b ON b.id = r.transaction_id AND b.mode = r.mode WHERE r.status <> 'failed'
			UNION ALL SELECT 'payable', merchant_id, mode, currency, -amount FROM risk WHERE status IN ('open', 'lost')
			UNION ALL SELECT 'disputed', merchant_id, mode, currency, amount FROM risk WHERE status = 'open'
			UNION ALL SELECT 'payable', merchant_id, mode, fee_currency, -fee FROM risk WHERE fee > 0
			UNION ALL SELECT 'payable', merchant_id, mode, source_currency, deducted - source_amount FROM payout p
				WHERE (p.transaction_id IS NULL OR p.transaction_id IN (SELECT id FROM booked))
					AND (p.status = 'sent' OR EXISTS (SELECT FROM transfer_payout x WHERE x.payout_id = p.id AND x.standing))
			UNION ALL SELECT 'payable', merchant_id, mode, currency, -amount FROM reserve WHERE released_at IS NULL
			UNION ALL SELECT 'reserve', merchant_id, mode, currency, amount FROM reserve WHERE released_at IS NULL
			UNION ALL SELECT 'payable', l.holder, l.mode, l.asset, -l.amount FROM ledger_posting l
				JOIN ledger_entry e ON e.id = l.entry_id WHERE e.kind = 'conversion' AND l.account = 'merchant:payable'
		), should AS (
			SELECT 'merchant:' || account AS account, merchant_id AS holder, mode, currency AS asset, sum(amount) AS sum
			FROM change GROUP BY 1, 2, 3, 4
		), booking AS (
			SELECT account, holder, mode, asset, -sum(amount) AS sum FROM ledger_posting
			WHERE account IN ('merchant:payable', 'merchant:reserve', 'merchant:disputed') GROUP BY 1, 2, 3, 4
		)
		SELECT concat_ws(' ', holder, mode, asset), CASE WHEN coalesce(b.sum, 0) <> coalesce(s.sum, 0) THEN
			format('has %s at %s, and its rows say %s', coalesce(b.sum, 0), account, coalesce(s.sum, 0)) ELSE '' END
		FROM should s FULL JOIN booking b USING (account, holder, mode, asset)`,
	33: `
		SELECT p.id, CASE
			WHEN p.deducted <> d.sum THEN format('has %s deducted, and its deductions are %s', p.deducted, d.sum)
			WHEN d.sum > p.source_amount THEN format('is of %s, and its deductions are %s', p.source_amount, d.sum)
			-- It has more of them than deductions when the chain paid it after all.
			WHEN c.took < d.took OR c.gave < d.gave THEN
				format('takes %s for %s of debts, and converted %s to %s', d.took, d.gave, c.took, c.gave)
			ELSE '' END
		FROM payout p, LATERAL (
			SELECT coalesce(sum(amount), 0) AS sum, coalesce(sum(amount) FILTER (WHERE source <> p.source_currency), 0) AS took,
				coalesce(sum(owed) FILTER (WHERE source <> p.source_currency), 0) AS gave
			FROM (SELECT amount, owed, CASE type WHEN 'recovery' THEN source ELSE p.source_currency END AS source
				FROM payout_deduction d WHERE d.payout_id = p.id) d) d, LATERAL (
			SELECT coalesce(sum(l.amount) FILTER (WHERE l.asset = p.source_currency), 0) AS took,
				coalesce(-sum(l.amount) FILTER (WHERE l.asset <> p.source_currency), 0) AS gave
			FROM ledger_entry e JOIN ledger_posting l ON l.entry_id = e.id AND l.account = 'merchant:payable'
			WHERE e.kind = 'conversion' AND e.subject = p.id) c`,
	35: `
		SELECT t.id, CASE
			WHEN r.sum > s.amount THEN format('is of %s, and its refunds are %s', s.amount, r.sum)
			WHEN x.sum > s.amount THEN format('is of %s, and the sandbox gave %s back', s.amount, x.sum)
			WHEN r.fee > t.fee THEN format('cost %s, and refunds returned %s of that', t.fee, r.fee)
			ELSE '' END
		FROM transaction t JOIN checkout_session s ON s.id = t.session_id, LATERAL (
			SELECT coalesce(sum(amount), 0) AS sum, coalesce(sum(fee_returned), 0) AS fee FROM refund r
			WHERE r.transaction_id = t.id AND r.mode = t.mode AND r.status <> 'failed') r, LATERAL (
			SELECT coalesce(sum(amount), 0) AS sum FROM sandbox_refund x WHERE x.transaction_id = t.id
				AND CASE WHEN later_at <= clock_timestamp() THEN later_status ELSE status END <> 'failed') x
		WHERE t.status = 'succeeded'`,
	36: `
		SELECT r.id, CASE
			WHEN r.status = 'pending' AND coalesce(r.next_action_at, r.created_at) < clock_timestamp() - interval '5 minutes'
				THEN format('is pending, and nobody has looked since %s', coalesce(r.next_action_at, r.created_at))
			WHEN (r.status = 'pending') <> (r.ended_at IS NULL) THEN format('is %s and ended at %s', r.status, r.ended_at)
			WHEN x.status <> r.status THEN format('is %s, and in the sandbox it is %s', r.status, x.status)
			WHEN r.reason <> 'merchant' OR r.created_at < @since THEN ''
			WHEN e.twice THEN format('has the same event twice: %s', e.types)
			WHEN coalesce(e.last, 'refund.pending') <> 'refund.' || r.status
				AND (r.status <> 'pending' OR e.last = 'refund.succeeded') THEN
				format('is %s, and its events are %s', r.status, e.types)
			ELSE '' END
		FROM refund r LEFT JOIN (
			SELECT id, CASE WHEN later_at <= clock_timestamp() THEN later_status ELSE status END AS status
			FROM sandbox_refund WHERE report_at IS NULL
		) x USING (id), LATERAL (
			SELECT string_agg(type, ', ' ORDER BY created_at, id) AS types, bool_or(type = before) AS twice,
				(array_agg(type ORDER BY created_at DESC, id DESC))[1] AS last
			FROM (SELECT *, lag(type) OVER (ORDER BY created_at, id) AS before FROM event WHERE subject_id = r.id) e) e`,
	37: `
		SELECT r.transaction_id, CASE
			WHEN l.kept IS DISTINCT FROM r.amount THEN format('keeps %s, and %s is booked', r.amount, l.kept)
			WHEN l.releases <> (r.released_at IS NOT NULL)::integer OR l.released <> l.releases * r.amount
				THEN format('was released at %s, and %s releases of %s are booked', r.released_at, l.releases, l.released)
			ELSE '' END
		FROM reserve r, LATERAL (
			SELECT -sum(p.amount) FILTER (WHERE e.kind = 'reserve') AS kept,
				count(*) FILTER (WHERE e.kind = 'release') AS releases,
				coalesce(sum(p.amount) FILTER (WHERE e.kind = 'release'), 0) AS released
			FROM ledger_entry e JOIN ledger_posting p ON p.entry_id = e.id AND p.account = 'merchant:reserve'
			WHERE e.subject = r.transaction_id AND e.kind IN ('reserve', 'release')) l`,
	38: `
		SELECT r.dispute_id, CASE
			WHEN e.last IS NULL THEN 'has no event'
			WHEN e.twice THEN format('has the same event twice: %s', e.words)
			WHEN e.last <> CASE WHEN r.status IN ('won', 'lost') THEN 'dispute.closed ' || r.status ELSE 'dispute.opened' END
				THEN format('is %s, and its events are %s', r.status, e.words)
			ELSE '' END
		FROM charge_risk r, LATERAL (
			SELECT string_agg(word, ', ' ORDER BY created_at, id) AS words, bool_or(word = before) AS twice,
				(array_agg(word ORDER BY created_at DESC, id DESC))[1] AS last
			FROM (SELECT *, lag(word) OVER (ORDER BY created_at, id) AS before FROM (
				SELECT id, created_at, CASE WHEN type = 'dispute.opened' THEN type
					ELSE type || ' ' || (convert_from(body, 'UTF8')::json -> 'data' ->> 'status') END AS word
				FROM event WHERE subject_id = r.dispute_id) e) e) e
		WHERE r.dispute_id IS NOT NULL AND r.noted_at > @since AND EXISTS (SELECT FROM ledger_entry e
			WHERE e.kind = 'charge' AND e.subject = r.transaction_id)`,
	39: `
		SELECT e.id, CASE WHEN e.merchant_id <> o.merchant_id OR e.mode <> o.mode THEN
			format('went to %s in %s mode, and %s belongs to %s in %s mode', e.merchant_id, e.mode, o.id, o.merchant_id, o.mode)
			ELSE '' END
		FROM event e JOIN (
			SELECT id, merchant_id, mode FROM transaction
			UNION ALL SELECT id, merchant_id, mode FROM payout
			UNION ALL SELECT id, merchant_id, mode FROM refund
			UNION ALL SELECT dispute_id, merchant_id, mode FROM charge_risk) o ON o.id = e.subject_id`,
}

func (w *world) verdicts(r *Result) {
	for _, v := range w.Verdicts[r.Number] {
		if r.Checked++; v.Wrong != "" {
			r.violated(v.ID, "%s", v.Wrong)
		}
	}
}

// statements compares what merchants read with the ledger. A merchant without a balance has none of either.
func (w *world) statements(r *Result) {
	booked := by(w.Balances, Balance.name)
	for _, told := range w.Told {
		r.Checked++
		if b := booked[told.name()]; told.Total != b.Total || told.Reserved != b.Reserved || told.Listed != told.Total {
			r.violated(told.name(), "was told %d and %d in reserve with a list of %d, and is owed %d and %d in reserve",
				told.Total, told.Reserved, told.Listed, b.Total, b.Reserved)
		}
		delete(booked, told.name())
	}
	read := by(w.Told, func(s Statement) string { return s.MerchantID })
	for name, b := range booked {
		if s, asked := read[b.MerchantID]; asked && s.Mode == b.Mode {
			r.violated(name, "has a balance of which its merchant was not told")
		}
	}
}

// refundOrders compares what clients were told about refunds with the refunds.
func (w *world) refundOrders(r *Result) {
	type scope struct{ merchantID, key string }
	ordered := map[scope]string{}
	for _, c := range w.Calls {
		if c.Op != OpRefund || c.Outcome() != CallOK {
			continue
		}
		r.Checked++
		at := scope{c.MerchantID, c.Key}
		if before, again := ordered[at]; again && before != c.ID {
			r.violated(c.Key, "was answered with the refunds %s and %s", before, c.ID)
		}
		ordered[at] = c.ID
		if !slices.ContainsFunc(w.Verdicts[36], func(v Verdict) bool { return v.ID == c.ID }) {
			r.violated(c.ID, "was acknowledged at %s and is not there", c.EndedAt)
		}
	}
}

// netPaid compares what was sent with what was left of the source amount, at the payout's rate.
func (w *world) netPaid(r *Result) {
	for _, p := range w.Payouts {
		if p.Status != checkout.PayoutSent {
			continue
		}
		r.Checked++
		amount, err := money.ParseCrypto(p.Amount, p.Currency)
		if err != nil {
			r.violated(p.ID, "is sent with the amount %q", p.Amount)
			continue
		}
		net := checkout.Payout{
			SourceAmount: p.SourceAmount, SourceCurrency: p.SourceCurrency, Deducted: p.Deducted, ExchangeRate: p.ExchangeRate,
			Currency: p.Currency,
		}
		if gross := net.Gross(); amount.Units().Cmp(gross.Units()) > 0 {
			r.violated(p.ID, "sent %s %s, and %s %s of it at %s are %s", p.Amount, p.Currency, net.Net(), p.SourceCurrency,
				p.ExchangeRate, gross)
		}
	}
}
