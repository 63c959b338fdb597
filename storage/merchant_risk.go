package storage

import (
	"context"
	"slices"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// Counts of a merchant m in the mode $1 since the first ids of that time: $2 of a session, $3 of a refund, $4 of a
// dispute. An index of each table begins with merchant and mode, so a merchant costs what it did, not what it ever had.
const (
	paymentsOf = `(SELECT count(*) FROM checkout_session s
		WHERE s.merchant_id = m.id AND s.mode = $1 AND s.status = 'completed' AND s.id >= $2)`
	refundedOf = `(SELECT count(DISTINCT r.transaction_id) FROM refund r
		WHERE r.merchant_id = m.id AND r.mode = $1 AND r.id >= $3 AND r.status <> 'failed' AND r.reason <> 'unmatched')`
	disputedOf = `(SELECT count(DISTINCT d.transaction_id) FROM charge_risk d
		WHERE d.merchant_id = m.id AND d.mode = $1 AND d.dispute_id >= $4 AND d.status <> 'inquiry')`
)

// riskIDs returns the first ids of the last merchant.RiskDays.
func riskIDs() (session, refund, dispute string) {
	since := time.Now().AddDate(0, 0, -merchant.RiskDays)
	return checkout.FirstID(checkout.PrefixSession, since), checkout.FirstID(checkout.PrefixRefund, since),
		checkout.FirstID(checkout.PrefixDispute, since)
}

// riskRow is a merchant in one currency; without one, it has neither payments nor a balance.
type riskRow struct {
	merchant.Merchant

	Refunded, Disputed                 int
	Currency                           *money.Currency
	Payments                           int
	Volume                             money.Amount
	Pending, Available, Reserved, Owed money.Amount
}

// MerchantRisks returns the risk of every merchant in a mode, the highest first: see merchant.CompareRisk. All of it is
// of one moment. Only operators may call it.
func (s *Merchants) MerchantRisks(ctx context.Context, mode checkout.Mode) ([]merchant.Risk, error) {
	return s.merchantRisks(ctx, mode, "")
}

// MerchantRisk returns the risk of one merchant. It returns checkout.ErrNotFound.
func (s *Merchants) MerchantRisk(ctx context.Context, owner checkout.Owner) (merchant.Risk, error) {
	got, err := s.merchantRisks(ctx, owner.Mode, owner.MerchantID)
	if err != nil {
		return merchant.Risk{}, err
	}
	if len(got) == 0 {
		return merchant.Risk{}, pg.Wrap("merchant risk", checkout.ErrNotFound)
	}
	return got[0], nil
}

// merchantRisks reads balances as Balances.Balance does. $5 names the merchant, "" all.
func (s *Merchants) merchantRisks(ctx context.Context, mode checkout.Mode, merchantID string) ([]merchant.Risk, error) {
	session, refund, dispute := riskIDs()
	rows, err := pg.Collect[riskRow](ctx, s.pool, `
		SELECT m.id, m.name, m.plan, m.fee_basis_points, m.fee_fixed, m.payment_attempts, m.order_id_guard, m.suspended,
			m.created_at, `+refundedOf+` AS refunded, `+disputedOf+` AS disputed, b.currency,
			coalesce(b.payments, 0) AS payments, coalesce(b.volume, 0) AS volume, coalesce(b.pending, 0) AS pending,
			greatest(b.total - b.pending, 0) AS available, 0::bigint AS reserved, greatest(b.pending - b.total, 0) AS owed
		FROM merchant m LEFT JOIN LATERAL (
			SELECT currency, sum(payments)::bigint AS payments, sum(volume)::bigint AS volume, sum(total)::bigint AS total,
				sum(pending)::bigint AS pending
			FROM (
				SELECT s.currency, 1 AS payments, s.amount AS volume, 0 AS total, 0 AS pending FROM checkout_session s
				WHERE s.merchant_id = m.id AND s.mode = $1 AND s.status = 'completed' AND s.id >= $2
				UNION ALL
				SELECT asset, 0, 0, -sum(amount), 0 FROM ledger_posting
				WHERE mode = $1 AND account = '`+ledgerPayable+`' AND holder = m.id GROUP BY asset
				UNION ALL
				SELECT p.source_currency, 0, 0, 0, p.source_amount - p.deducted FROM payout p
				WHERE p.merchant_id = m.id AND p.mode = $1 AND p.status = 'pending'
					AND NOT EXISTS (SELECT FROM transfer_payout x WHERE x.payout_id = p.id AND x.standing)
					AND EXISTS (SELECT FROM ledger_entry e
						WHERE e.kind = 'charge' AND e.subject = p.transaction_id AND e.generation = 1)
			) one GROUP BY currency
		) b ON true
		WHERE $5 IN ('', m.id) ORDER BY m.id, b.currency`, mode, session, refund, dispute, merchantID)
	if err != nil {
		return nil, pg.Wrap("merchant risks", err)
	}
	all := []merchant.Risk{}
	for _, r := range rows {
		if len(all) == 0 || all[len(all)-1].ID != r.ID {
			all = append(all, merchant.Risk{Merchant: r.Merchant, Refunded: r.Refunded, Disputed: r.Disputed})
		}
		if r.Currency == nil {
			continue
		}
		to := &all[len(all)-1]
		to.Payments += r.Payments
		to.Balances = append(to.Balances, checkout.Balance{
			Currency: *r.Currency, Pending: r.Pending, Available: r.Available, Reserved: r.Reserved, Owed: r.Owed,
		})
		if r.Volume > 0 {
			to.Volume = append(to.Volume, merchant.Sum{Currency: *r.Currency, Amount: r.Volume})
		}
	}
	slices.SortFunc(all, merchant.CompareRisk)
	return all, nil
}
