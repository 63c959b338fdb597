package storage

import (
	"context"
	"slices"
	"strings"
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

// balancesOf selects the balances of a merchant m in the mode $1.
var balancesOf = strings.NewReplacer("$1", "m.id", "$2", "$1", "$3", "'"+ledgerPayable+"'").Replace(balanceSums)

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

// merchantRisks reads one merchant, or all for "".
func (s *Merchants) merchantRisks(ctx context.Context, mode checkout.Mode, merchantID string) ([]merchant.Risk, error) {
	session, refund, dispute := riskIDs()
	rows, err := pg.Collect[riskRow](ctx, s.pool, `
		SELECT m.*, `+refundedOf+` AS refunded, `+disputedOf+` AS disputed, currency,
			coalesce(v.payments, 0) AS payments, coalesce(v.volume, 0) AS volume, coalesce(b.pending, 0) AS pending,
			coalesce(b.available, 0) AS available, coalesce(b.reserved, 0) AS reserved, coalesce(b.owed, 0) AS owed
		FROM (SELECT `+merchantColumns+` FROM merchant) m LEFT JOIN (
			LATERAL (`+balancesOf+`) b FULL JOIN LATERAL (
				SELECT s.currency, count(*) AS payments, sum(s.amount)::bigint AS volume FROM checkout_session s
				WHERE s.merchant_id = m.id AND s.mode = $1 AND s.status = 'completed' AND s.id >= $2 GROUP BY 1
			) v USING (currency)
		) ON true
		WHERE $5 IN ('', m.id) ORDER BY m.id, currency`, mode, session, refund, dispute, merchantID)
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
