package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// Balances reads what the service owes merchants. Only ledger entries change it.
type Balances struct {
	pool *pgxpool.Pool
	ids  checkout.NumberKey
}

// Balance returns the balance of a merchant in each fiat currency that it had any of, ordered by currency.
func (s *Balances) Balance(ctx context.Context, owner checkout.Owner) ([]checkout.Balance, error) {
	got, err := balances(ctx, s.pool, owner)
	return got, pg.Wrap("balance", err)
}

// balanceSums selects the balances of the merchant $1 in the mode $2; $3 is the account of what we owe it.
const balanceSums = `
	WITH ledger AS (
		SELECT asset AS currency, coalesce(-sum(amount) FILTER (WHERE account = $3), 0)::bigint AS total,
			coalesce(-sum(amount) FILTER (WHERE account <> $3), 0)::bigint AS reserved
		FROM ledger_posting WHERE mode = $2 AND account IN ($3, 'merchant:reserve') AND holder = $1 GROUP BY 1
	), under_way AS (
		SELECT p.source_currency AS currency, sum(p.source_amount - p.deducted)::bigint AS pending FROM payout p
		WHERE p.merchant_id = $1 AND p.mode = $2 AND p.status = 'pending'
			AND NOT EXISTS (SELECT FROM transfer_payout x WHERE x.payout_id = p.id AND x.standing)
			AND (p.transaction_id IS NULL OR EXISTS (SELECT FROM ledger_entry e
				WHERE e.kind = 'charge' AND e.subject = p.transaction_id AND e.generation = 1))
		GROUP BY 1
	), sums AS (
		SELECT currency, coalesce(total, 0) AS total, coalesce(reserved, 0) AS reserved, coalesce(pending, 0) AS pending
		FROM ledger FULL JOIN under_way USING (currency)
	)
	SELECT currency, pending, greatest(total - pending, 0) AS available, reserved, greatest(pending - total, 0) AS owed
	FROM sums`

// balances adds up the postings of what we owe the merchant, in one snapshot with its payouts under way. A payout of
// version 1.0.0 in test mode is not booked, and neither is its payment.
func balances(ctx context.Context, from pg.Querier, owner checkout.Owner) ([]checkout.Balance, error) {
	return pg.Collect[checkout.Balance](ctx, from, balanceSums+` ORDER BY currency`,
		owner.MerchantID, owner.Mode, ledgerPayable)
}

// requireBalance returns a *checkout.InsufficientBalanceError when the merchant owes more than its limit after the
// refund that was just booked, with everything that it still gets in the refund's currency. What it owes in other
// currencies counts one to one: payouts may pay that first.
func (c paidCharge) requireBalance(ctx context.Context, tx pgx.Tx, all []checkout.Balance) error {
	limit, err := pg.Value[*money.Amount](ctx, tx, `SELECT debt_limit FROM merchant WHERE id = $1`, c.MerchantID)
	if err != nil {
		return err
	}
	if limit == nil {
		fallback := merchant.DefaultDebtLimit(c.Mode)
		limit = &fallback
	}
	missing := -*limit
	for _, b := range all {
		if b.Currency == c.Currency {
			missing -= b.Pending + b.Available + b.Reserved - b.Owed
		} else {
			missing += b.Owed
		}
	}
	if missing > 0 {
		return &checkout.InsufficientBalanceError{Missing: missing, Currency: c.Currency}
	}
	return nil
}

// noteBalance notes whether the merchant may owe something and may have an available balance. The notes spare every
// other payout, and every look for payouts to make, the sum of the ledger. The merchant's row must be locked.
func noteBalance(ctx context.Context, tx pgx.Tx, owner checkout.Owner) error {
	all, err := balances(ctx, tx, owner)
	if err != nil {
		return err
	}
	owes, has := false, false
	for _, b := range all {
		owes, has = owes || b.Owed > 0, has || b.Available > 0
	}
	_, err = tx.Exec(ctx, `
		UPDATE merchant SET owes = array_remove(owes, $2) || CASE WHEN $3 THEN ARRAY[$2::text] ELSE '{}' END,
			credits = array_remove(credits, $2) || CASE WHEN $4 THEN ARRAY[$2::text] ELSE '{}' END
		WHERE id = $1 AND (($2 = ANY (owes)) <> $3 OR ($2 = ANY (credits)) <> $4)`,
		owner.MerchantID, owner.Mode, owes, has)
	return err
}

// lockMerchants locks the rows of merchants whose balances are to change. It comes before the locks of their payouts.
func lockMerchants(ctx context.Context, tx pgx.Tx, ids ...string) error {
	_, err := tx.Exec(ctx, `SELECT FROM merchant WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE`, ids)
	return err
}

// BalanceFilter selects balance transactions. An empty field selects all.
type BalanceFilter struct {
	Type     checkout.BalanceTransactionType
	Currency money.Currency
	Source   string // id of a transaction, payout, refund or dispute
}

// balanceRow is a ledger entry as a merchant sees it.
type balanceRow struct {
	Number     int64
	Kind       string
	Generation int
	Source     string
	Currency   money.Currency
	Net, Fee   money.Amount
	CreatedAt  time.Time
}

// Transactions lists what changed the balance, newest first: the postings of what we owe the merchant. So their sum is
// the balance.
func (s *Balances) Transactions(
	ctx context.Context, owner checkout.Owner, f BalanceFilter, p pg.Page,
) ([]checkout.BalanceTransaction, error) {
	q := &pg.List{
		SQL:  "WHERE l.holder = $1 AND l.mode = $2 AND l.account = 'merchant:payable'",
		Args: []any{owner.MerchantID, owner.Mode},
	}
	q.Equal("l.asset", string(f.Currency))
	if f.Type != "" {
		q.Where(balanceType+" = ?", string(f.Type))
	}
	if f.Source != "" {
		q.Where("? IN ("+balanceSource+", e.subject)", f.Source)
	}
	if p.Before != "" {
		q.Where("l.entry_id < ?", s.ids.Number(p.Before))
	}
	if !p.Since.IsZero() {
		q.Where("e.created_at >= ?", p.Since)
	}
	if !p.Until.IsZero() {
		q.Where("e.created_at < ?", p.Until)
	}
	q.Args = append(q.Args, p.Limit)
	rows, err := pg.Collect[struct {
		balanceRow
		Type checkout.BalanceTransactionType
	}](ctx, s.pool, `
		SELECT l.entry_id AS number, e.kind, e.generation, `+balanceType+` AS type, `+balanceSource+` AS source,
			l.asset AS currency, -l.amount::bigint AS net,
			coalesce(-(SELECT sum(f.amount) FROM ledger_posting f
				WHERE f.entry_id = e.id AND f.account = 'revenue:fee' AND f.asset = l.asset), 0)::bigint AS fee, e.created_at
		FROM ledger_posting l JOIN ledger_entry e ON e.id = l.entry_id `+q.SQL+`
		ORDER BY l.entry_id DESC `+fmt.Sprintf("LIMIT $%d", len(q.Args)), q.Args...)
	if err != nil {
		return nil, pg.Wrap("balance transactions", err)
	}
	got := make([]checkout.BalanceTransaction, len(rows))
	for i, r := range rows {
		got[i] = checkout.BalanceTransaction{
			Ref: owner.Ref(s.ids.ID(checkout.PrefixBalance, r.CreatedAt, r.Number)), Type: r.Type,
			Currency: r.Currency, Amount: r.Net + r.Fee, Fee: r.Fee, Net: r.Net, Source: r.Source, CreatedAt: r.CreatedAt,
		}
	}
	return got, nil
}

// balanceType and balanceSource are the type and the source of a posting l of an entry e in the list. An entry about a
// transfer names its payout by its place; entries that take back other ones have the opposite sign.
const (
	balanceType = `CASE
		WHEN e.kind = 'charge' THEN 'payment'
		WHEN e.kind IN ('payout', 'transfer_signed') THEN 'payout'
		WHEN e.kind LIKE 'transfer_%' THEN 'payout_failed'
		WHEN e.kind = 'refund' AND e.generation % 2 = 0 THEN 'refund_failed'
		WHEN e.kind = 'risk' THEN 'dispute'
		ELSE e.kind END`
	balanceSource = `CASE
		WHEN e.kind = 'transfer_signed' THEN coalesce((SELECT x.payout_id FROM transfer_payout x
			WHERE x.transfer_id = e.subject ORDER BY x.payout_id OFFSET e.generation - 1 LIMIT 1), e.subject)
		WHEN e.kind LIKE 'transfer_%' THEN coalesce((SELECT x.payout_id FROM transfer_payout x
			WHERE x.transfer_id = e.subject AND x.merchant_id = l.holder ORDER BY x.payout_id LIMIT 1), e.subject)
		WHEN e.kind IN ('risk', 'dispute_fee') THEN coalesce(
			(SELECT r.dispute_id FROM charge_risk r WHERE r.id = e.subject), e.subject)
		ELSE e.subject END`
)
