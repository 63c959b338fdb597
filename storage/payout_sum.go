package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// PayoutSum adds up payouts of one status. Either Currency or SourceCurrency is set: a status has one
// sum for each payout currency and one for each currency of the payments.
type PayoutSum struct {
	Status         checkout.PayoutStatus
	Currency       money.PayoutCurrency // "" in a sum of payments
	SourceCurrency money.Currency       // "" in a sum of payouts
	Payouts        int
	Amount         string       // decimal in Currency; "" while none has an amount
	Source         money.Amount // in SourceCurrency, after the fee and the deductions
}

// SumPayouts adds up the payouts that a list shows on all its pages, ordered by status and currency. p bounds the
// times; its Before does not count. complete is false when there are more than p.Limit: then there are no sums.
func (s *PayoutReader) SumPayouts(
	ctx context.Context, owner checkout.Owner, f PayoutFilter, p pg.Page,
) (sums []PayoutSum, complete bool, err error) {
	q := f.list(owner)
	q.Page(checkout.PrefixPayout, "p", pg.Page{Since: p.Since, Until: p.Until, Limit: p.Limit + 1})
	sums, err = pg.Collect[PayoutSum](ctx, s.pool, `
		SELECT status, coalesce(currency, '') AS currency, coalesce(source_currency, '') AS source_currency,
			count(*) AS payouts, coalesce(sum(nullif(amount, '')::numeric)::text, '') AS amount,
			CASE WHEN source_currency IS NULL THEN 0 ELSE sum(net) END::bigint AS source
		FROM (SELECT p.status, p.currency, p.source_currency, p.amount,
			p.source_amount - p.deducted AS net FROM payout p `+q.SQL+`) p
		GROUP BY GROUPING SETS ((status, currency), (status, source_currency)) ORDER BY 1, 2, 3`, q.Args...)
	if err != nil {
		return nil, false, pg.Wrap("sum of payouts", err)
	}
	all := 0
	for _, sum := range sums {
		if sum.Currency != "" {
			all += sum.Payouts
		}
	}
	if all > p.Limit {
		return nil, false, nil
	}
	return sums, true, nil
}

// PayoutChains returns the chains (CAIP-2, such as "eip155:1") of the transfers that pay payouts, by the
// id of the payout. A payout without such a transfer has no entry.
func (s *PayoutReader) PayoutChains(
	ctx context.Context, owner checkout.Owner, ids []string,
) (map[string]string, error) {
	rows, _ := s.pool.Query(ctx, // ForEachRow returns the error
		`SELECT x.payout_id, a.chain_id
		FROM transfer_payout x JOIN transfer t ON t.id = x.transfer_id JOIN treasury_account a ON a.id = t.account_id
		WHERE x.merchant_id = $1 AND x.mode = $2 AND x.payout_id = ANY ($3) AND x.standing`,
		owner.MerchantID, owner.Mode, ids)
	chains := map[string]string{}
	var id, chain string
	_, err := pgx.ForEachRow(rows, []any{&id, &chain}, func() error {
		chains[id] = chain
		return nil
	})
	return chains, pg.Wrap("chains of payouts", err)
}
