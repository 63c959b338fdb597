package storage

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// ChargeLook is a charge about which the card network must be asked.
type ChargeLook struct {
	Reference string
	Reports   []string // ids of the reports that led to it; none for a dispute that is not decided
}

// ChargesToLook returns up to limit charges, ordered by reference, after the reference after: those
// with a report that nobody has followed, and those with a dispute that is not decided. The card
// network is asked for all merchants.
func (s *Store) ChargesToLook(
	ctx context.Context, mode checkout.Mode, after string, limit int,
) ([]ChargeLook, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT reference, array_remove(array_agg(report), NULL) AS reports FROM (
			SELECT reference, id AS report FROM acquirer_event WHERE mode = $1 AND unseen
			UNION ALL
			SELECT t.acquirer_ref, NULL FROM charge_risk r JOIN transaction t ON t.id = r.transaction_id AND t.mode = r.mode
			WHERE r.mode = $1 AND (r.status = 'open' OR r.status = 'inquiry' AND r.kind = 'dispute')) look
		WHERE reference > $2 GROUP BY reference ORDER BY reference LIMIT $3`, mode, after, limit)
	if err != nil {
		return nil, fmt.Errorf("charges to look at: %w", err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByName[ChargeLook])
	if err != nil {
		return nil, fmt.Errorf("charges to look at: %w", err)
	}
	return got, nil
}

// RecordRisks stores what the card network knows about the risks of a charge, books what changed, and
// opens or closes the findings about it, in one transaction. The reports of the look count as followed.
// A repeat changes nothing. It returns the findings that are new. A charge of no transaction has none.
func (s *Store) RecordRisks(
	ctx context.Context, mode checkout.Mode, look ChargeLook, risks []checkout.ChargeRisk,
) ([]checkout.Finding, error) {
	var found []checkout.Finding
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		c, err := lockCharge(ctx, tx, mode, look.Reference)
		if err != nil && !errors.Is(err, checkout.ErrNotFound) {
			return err
		}
		if err == nil {
			if found, err = c.record(ctx, tx, risks); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `
			UPDATE acquirer_event SET unseen = false WHERE mode = $1 AND id = ANY ($2)`, mode, look.Reports)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("record risks: %w", err)
	}
	return found, nil
}

// paidCharge is a charge of a transaction with what became of its payout.
type paidCharge struct {
	TransactionID string
	MerchantID    string
	Mode          checkout.Mode
	Paid          bool   // the transaction succeeded, so the charge is booked
	PayoutID      string // "" when there is none
	Payout        checkout.PayoutStatus
	Standing      bool // a transfer of the payout is signed
	Now           time.Time
}

// lockCharge locks the payout as a signature does: either the signature comes first and the risk finds
// its transfer, or the risk comes first and nothing is signed. It returns checkout.ErrNotFound.
func lockCharge(ctx context.Context, tx pgx.Tx, mode checkout.Mode, reference string) (paidCharge, error) {
	_, err := tx.Exec(ctx, `
		SELECT FROM transaction WHERE mode = $1 AND acquirer_ref = $2 FOR NO KEY UPDATE`, mode, reference)
	if err != nil {
		return paidCharge{}, err
	}
	_, err = tx.Exec(ctx, `
		SELECT FROM payout WHERE mode = $1 AND transaction_id =
			(SELECT id FROM transaction WHERE mode = $1 AND acquirer_ref = $2) FOR NO KEY UPDATE`, mode, reference)
	if err != nil {
		return paidCharge{}, err
	}
	rows, err := tx.Query(ctx, `
		SELECT t.id AS transaction_id, t.merchant_id, t.mode, t.status = 'succeeded' AS paid,
			coalesce(p.id, '') AS payout_id, coalesce(p.status, '') AS payout,
			EXISTS (SELECT FROM transfer_payout x WHERE x.payout_id = p.id AND x.standing) AS standing,
			date_trunc('milliseconds', clock_timestamp()) AS now
		FROM transaction t LEFT JOIN payout p
			ON p.transaction_id = t.id AND p.merchant_id = t.merchant_id AND p.mode = t.mode
		WHERE t.mode = $1 AND t.acquirer_ref = $2`, mode, reference)
	if err != nil {
		return paidCharge{}, err
	}
	c, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[paidCharge])
	if errors.Is(err, pgx.ErrNoRows) {
		return paidCharge{}, checkout.ErrNotFound
	}
	return c, err
}

// record stores each risk that changed. A payout that was held for a risk that is gone is due now.
func (c paidCharge) record(
	ctx context.Context, tx pgx.Tx, risks []checkout.ChargeRisk,
) ([]checkout.Finding, error) {
	var found []checkout.Finding
	for _, r := range risks {
		f, err := c.note(ctx, tx, r)
		if err != nil {
			return nil, err
		}
		if f != nil {
			found = append(found, *f)
		}
	}
	_, err := tx.Exec(ctx, `
		UPDATE payout SET next_action_at = $3 WHERE id = $1 AND mode = $2 AND status = 'pending' AND hold = 'risk'
			AND NOT EXISTS (SELECT FROM charge_risk r WHERE r.transaction_id = payout.transaction_id AND r.status <> 'won')`,
		c.PayoutID, c.Mode, c.Now)
	return found, err
}

// note stores one risk, unless nothing about it is new. It returns the finding that was opened.
func (c paidCharge) note(ctx context.Context, tx pgx.Tx, r checkout.ChargeRisk) (*checkout.Finding, error) {
	var (
		ours   bool
		before checkout.ChargeRisk // zero: no money has moved
		change = 1
	)
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM refund WHERE mode = $1 AND id = $2)`, c.Mode, r.RefundID).Scan(&ours)
	if err != nil || ours {
		return nil, err
	}
	err = tx.QueryRow(ctx, `
		SELECT status, amount, currency, changes + 1 FROM charge_risk
		WHERE id = $1 AND mode = $2 AND transaction_id = $3`, r.ID, c.Mode, c.TransactionID).Scan(
		&before.Status, &before.Amount, &before.Currency, &change)
	known := err == nil
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	if known && before.Status == r.Status && before.Amount == r.Amount && before.Currency == r.Currency {
		return nil, nil
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO charge_risk (id, mode, merchant_id, transaction_id, kind, status, amount, currency, noted_at, changed_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
		ON CONFLICT (id) DO UPDATE SET status = $6, amount = $7, currency = $8, changes = $10, changed_at = $9`,
		r.ID, c.Mode, c.MerchantID, c.TransactionID, r.Kind, r.Status, r.Amount, r.Currency, c.Now, change)
	if err != nil {
		return nil, err
	}
	if err := c.book(ctx, tx, before, r, change); err != nil {
		return nil, err
	}
	return c.find(ctx, tx, r)
}

// book books the way from where the money was to where it is.
func (c paidCharge) book(ctx context.Context, tx pgx.Tx, before, after checkout.ChargeRisk, change int) error {
	postings := append(moved(before, -1), moved(after, 1)...)
	if !c.Paid || len(postings) == 0 { // the charge of a failed payment was never booked
		return nil
	}
	return entry{
		Mode: c.Mode, Kind: entryRisk, Subject: after.ID, Generation: change, MerchantID: c.MerchantID, Postings: postings,
	}.book(ctx, tx)
}

// moved says where the money of a risk is: nowhere else than before, held by the acquirer, or lost.
func moved(r checkout.ChargeRisk, sign int64) []posting {
	account := map[checkout.RiskStatus]string{checkout.RiskOpen: accountDisputed, checkout.RiskLost: accountLoss}[r.Status]
	if account == "" || r.Kind == checkout.RiskFraudWarning {
		return nil
	}
	amount := big.NewInt(sign * int64(r.Amount))
	return []posting{
		{account, "", string(r.Currency), amount},
		{accountReceivable, "", string(r.Currency), new(big.Int).Neg(amount)},
	}
}

// find opens the finding about a risk, or closes it when the money stays.
func (c paidCharge) find(ctx context.Context, tx pgx.Tx, r checkout.ChargeRisk) (*checkout.Finding, error) {
	if r.Status == checkout.RiskWon {
		return nil, closeFindings(ctx, tx, c.Mode, r.ID, r.Kind.Finding())
	}
	f := checkout.Finding{Mode: c.Mode, Kind: r.Kind.Finding(), Subject: r.ID, Detail: c.describe(r)}
	fresh, err := openFinding(ctx, tx, f)
	if err != nil || !fresh {
		return nil, err
	}
	return &f, nil
}

func (c paidCharge) describe(r checkout.ChargeRisk) string {
	what := map[checkout.RiskKind]string{
		checkout.RiskDispute:      "The customer disputes",
		checkout.RiskFraudWarning: "The customer's bank suspects fraud in",
		checkout.RiskRefund:       "Somebody refunded, at the card network,",
	}[r.Kind]
	payout := "it has no payout"
	switch {
	case c.PayoutID != "" && (c.Standing || c.Payout == checkout.PayoutSent):
		payout = "its payout " + c.PayoutID + " is signed and cannot be stopped"
	case c.PayoutID != "":
		payout = "its payout " + c.PayoutID + " waits"
	}
	return fmt.Sprintf("%s %s %s of %s; %s.", what, r.Amount, r.Currency, c.TransactionID, payout)
}

// atRisk reports whether the charge of the payout may go back: a risk is not won, or a report about one
// has not been followed. An operator's release covers what was known at that time.
func (p *lockedPayout) atRisk(ctx context.Context, tx pgx.Tx) (bool, error) {
	var risk bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM charge_risk r WHERE r.transaction_id = p.transaction_id AND r.status <> 'won'
				AND r.changed_at > coalesce(p.risk_released_at, '-infinity'))
			OR EXISTS (SELECT FROM transaction t JOIN acquirer_event e
				ON e.mode = t.mode AND e.reference = t.acquirer_ref AND e.unseen WHERE t.id = p.transaction_id)
		FROM payout p WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3`,
		p.ID, p.MerchantID, p.Mode).Scan(&risk)
	return risk, err
}

// ReleasePayout takes the risk of a payout: it is signed although its charge may go back. What changes
// at the card network afterwards holds it again. It returns checkout.ErrNotFound, and
// checkout.ErrConflict when the payout is not held for a risk. by is written with the change.
func (s *Store) ReleasePayout(ctx context.Context, ref checkout.Ref, by ...checkout.AuditEntry) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return err
		}
		if p.closed() || p.Hold != checkout.HoldRisk {
			return checkout.ErrConflict
		}
		_, err = tx.Exec(ctx, `
			UPDATE payout SET risk_released_at = $4, next_action_at = $4
			WHERE id = $1 AND merchant_id = $2 AND mode = $3`, p.ID, p.MerchantID, p.Mode, p.Now)
		if err != nil {
			return err
		}
		return auditAll(ctx, tx, by)
	})
	if err != nil {
		return fmt.Errorf("release payout: %w", err)
	}
	return nil
}

// PayoutRisks returns the risks of a payout's charge, oldest first.
func (s *Store) PayoutRisks(ctx context.Context, ref checkout.Ref) ([]checkout.ChargeRisk, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT r.id, r.kind, r.status, r.amount, r.currency, '' AS refund_id
		FROM charge_risk r JOIN payout p ON p.transaction_id = r.transaction_id
		WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3 ORDER BY r.noted_at, r.id`,
		ref.ID, ref.MerchantID, ref.Mode)
	if err != nil {
		return nil, fmt.Errorf("payout risks: %w", err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByName[checkout.ChargeRisk])
	if err != nil {
		return nil, fmt.Errorf("payout risks: %w", err)
	}
	return got, nil
}
