package storagetest

import "testing"

// RequireSums compares the balance of each merchant with its payments, refunds, disputes, payouts and reserves. No
// payout may be signed and not sent. It also compares the deductions of each payout with their sum.
func RequireSums(tb testing.TB, d Database, where string) {
	tb.Helper()
	wrong := Value[string](tb, d, `
		WITH paid AS (
			SELECT t.*, s.currency FROM transaction t JOIN checkout_session s ON s.id = t.session_id WHERE t.status = 'succeeded'
		), converted AS (
			SELECT d.*, p.source_currency FROM payout_deduction d JOIN payout p ON p.id = d.payout_id
			WHERE d.type = 'recovery' AND d.source <> p.source_currency
		), should AS (
			SELECT merchant_id, mode, currency, net AS amount FROM paid
			UNION ALL SELECT t.merchant_id, t.mode, t.currency, r.fee_returned - r.amount
				FROM refund r JOIN paid t ON t.id = r.transaction_id WHERE r.status <> 'failed'
			UNION ALL SELECT merchant_id, mode, currency, -amount FROM charge_risk WHERE status IN ('open', 'lost')
			UNION ALL SELECT merchant_id, mode, fee_currency, -fee FROM charge_risk
			UNION ALL SELECT merchant_id, mode, source_currency, deducted - source_amount FROM payout WHERE status = 'sent'
			UNION ALL SELECT merchant_id, mode, currency, -amount FROM reserve WHERE released_at IS NULL
			UNION ALL SELECT merchant_id, mode, source_currency, -amount FROM converted
			UNION ALL SELECT merchant_id, mode, source, owed FROM converted
		), sums AS (
			SELECT merchant_id, mode, currency, sum(amount) AS amount FROM should GROUP BY 1, 2, 3
		), ledger AS (
			SELECT holder AS merchant_id, mode, asset AS currency, -sum(amount) AS amount FROM ledger_posting
			WHERE account = 'merchant:payable' GROUP BY 1, 2, 3
		)
		SELECT coalesce(string_agg(format('%s %s: %s instead of %s', merchant_id, currency, l.amount, s.amount), ', '), '')
		FROM sums s FULL JOIN ledger l USING (merchant_id, mode, currency)
		WHERE coalesce(l.amount, 0) <> coalesce(s.amount, 0)`)
	if wrong != "" {
		tb.Fatalf("%s: balances differ: %s", where, wrong)
	}
	odd := Value[string](tb, d, `SELECT coalesce(string_agg(p.id, ', '), '') FROM payout p
		WHERE deducted > source_amount
			OR deducted <> (SELECT coalesce(sum(amount), 0) FROM payout_deduction d WHERE d.payout_id = p.id)`)
	if odd != "" {
		tb.Fatalf("%s: the deductions of payouts differ: %s", where, odd)
	}
}

// AtCardNetwork returns what the card network has for us by the ledger, in minor units by currency in lower case. The
// fee of a dispute that a merchant pays moves nothing there.
func AtCardNetwork(tb testing.TB, d Database) map[string]int64 {
	tb.Helper()
	return Value[map[string]int64](tb, d, `
		SELECT coalesce(jsonb_object_agg(currency, amount), '{}') FROM (
			SELECT lower(p.asset) AS currency, sum(p.amount) AS amount
			FROM ledger_posting p JOIN ledger_entry e ON e.id = p.entry_id
			WHERE p.account IN ('acquirer:receivable', 'acquirer:balance', 'expense:acquirer') AND e.kind <> 'dispute_fee'
			GROUP BY 1) sums`)
}
