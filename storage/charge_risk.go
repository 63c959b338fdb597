package storage

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// ChargeToCheck is a charge about which the card network must be asked.
type ChargeToCheck struct {
	Reference string
	Reports   []string // ids of the reports that led to it; none when it is asked without one
}

// A bank may return a refund for some weeks after it succeeded. Its report is followed at any age; without one the
// card network is asked once a day for so long.
const (
	returnable = "45 days"
	askedEvery = "1 day"
)

// ChargesToCheck returns up to limit charges, ordered by reference, after the reference after: those with an unfollowed
// report, those with an undecided dispute, and once a day those with a refund that may still be returned. The card
// network is asked for all merchants.
func (s *Books) ChargesToCheck(
	ctx context.Context, mode checkout.Mode, after string, limit int,
) ([]ChargeToCheck, error) {
	got, err := pg.Collect[ChargeToCheck](ctx, s.pool, `
		SELECT reference, array_remove(array_agg(report), NULL) AS reports FROM (
			SELECT reference, id AS report FROM acquirer_event WHERE mode = $1 AND unseen
			UNION ALL
			SELECT t.acquirer_ref, NULL FROM charge_risk r JOIN transaction t ON t.id = r.transaction_id AND t.mode = r.mode
			WHERE r.mode = $1 AND (r.status = 'open' OR r.status = 'inquiry' AND r.kind = 'dispute')
			UNION ALL
			SELECT acquirer_ref, NULL FROM refund
			WHERE mode = $1 AND status = 'succeeded' AND network_ref <> '' AND ended_at > now() - interval '`+returnable+`'
				AND coalesce(asked_at, ended_at) < now() - interval '`+askedEvery+`') look
		WHERE reference > $2 GROUP BY reference ORDER BY reference LIMIT $3`, mode, after, limit)
	return got, pg.Wrap("charges to look at", err)
}

// RecordRisks stores what the card network knows about the risks of a charge and about our refunds of it, books what
// changed, and opens or closes the findings about it, in one transaction. The reports of the look count as followed. A
// repeat changes nothing. It returns the findings that are new. A charge of no transaction has none.
func (s *Books) RecordRisks(
	ctx context.Context, mode checkout.Mode, look ChargeToCheck, risks []books.ChargeRisk,
) ([]books.Finding, error) {
	return pg.InTx(ctx, s.pool, "record risks", func(tx pgx.Tx) (found []books.Finding, err error) {
		c, err := lockCharge(ctx, tx, mode, byReference, look.Reference)
		if err != nil && !errors.Is(err, checkout.ErrNotFound) {
			return found, err
		}
		if err == nil {
			if found, err = c.recordRisks(ctx, tx, risks); err != nil {
				return found, err
			}
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE acquirer_event SET unseen = false WHERE mode = $1 AND id = ANY ($2)`, mode, look.Reports)
		batch.Queue(`
			UPDATE refund SET asked_at = clock_timestamp() WHERE mode = $1 AND acquirer_ref = $2 AND status = 'succeeded'`,
			mode, look.Reference)
		return found, tx.SendBatch(ctx, batch).Close()
	})
}

// findBack opens and closes the findings about a charge that is refunded. It returns those that are new.
func (c paidCharge) findBack(ctx context.Context, tx pgx.Tx) ([]books.Finding, error) {
	if !c.Paid {
		return nil, nil
	}
	b, err := c.back(ctx, tx)
	if err != nil {
		return nil, err
	}
	found, err := c.findBoth(ctx, tx, b.Refunded, c.paidOut(), "its payout "+c.PayoutID+" is signed")
	if err != nil {
		return nil, err
	}
	short, err := keepFinding(ctx, tx, b.Refunded && b.Left > 0, books.Finding{
		Mode: c.Mode, Kind: books.FindingRefundShort, Subject: c.TransactionID,
		Detail: fmt.Sprintf("%s is refunded, and %s %s of it did not go back to the customer: run checkout refund again.",
			c.TransactionID, b.Left, c.Currency),
	})
	return append(found, short...), err
}

// findBoth opens the finding that the customer and the merchant both have the money. It stays until the refund fails
// or a person closes it: what the chain paid may have no transfer.
func (c paidCharge) findBoth(ctx context.Context, tx pgx.Tx, refunded, paid bool, how string) ([]books.Finding, error) {
	if refunded && !paid {
		return nil, nil
	}
	return keepFinding(ctx, tx, refunded, books.Finding{
		Mode: c.Mode, Kind: books.FindingRefundedAndPaid, Subject: c.TransactionID,
		Detail: fmt.Sprintf("%s is refunded, and %s: both have the money.", c.TransactionID, how),
	})
}

// FindPaid reports whether the payment of a payout is refunded although the chain has paid the payout, or may. how is
// what paid it, in words. The finding is opened in the same transaction. It returns checkout.ErrNotFound.
func (s *Treasury) FindPaid(ctx context.Context, payout checkout.Ref, how string) (refunded bool, err error) {
	return pg.InTx(ctx, s.pool, "find a payout that is paid and refunded", func(tx pgx.Tx) (refunded bool, err error) {
		return findPaid(ctx, tx, payout, how)
	})
}

func findPaid(ctx context.Context, tx pgx.Tx, payout checkout.Ref, how string) (refunded bool, err error) {
	c, err := lockChargeOf(ctx, tx, payout)
	if err != nil {
		return false, err
	}
	b, err := c.back(ctx, tx)
	if err == nil && b.Refunded {
		_, err = c.findBoth(ctx, tx, true, true, how)
	}
	return b.Refunded, err
}

// recordRisks stores each risk that changed. A payout that was held for a risk that is gone is due now.
func (c paidCharge) recordRisks(ctx context.Context, tx pgx.Tx, risks []books.ChargeRisk) ([]books.Finding, error) {
	var found []books.Finding
	for _, r := range risks {
		f, err := c.recordRisk(ctx, tx, r)
		if err != nil {
			return nil, err
		}
		found = append(found, f...)
	}
	refunded, err := c.findBack(ctx, tx)
	if err != nil {
		return nil, err
	}
	found = append(found, refunded...)
	_, err = tx.Exec(ctx, `
		UPDATE payout SET next_action_at = $3 WHERE id = $1 AND mode = $2 AND status = 'pending' AND hold = 'risk'
			AND NOT EXISTS (SELECT FROM charge_risk r WHERE r.transaction_id = payout.transaction_id AND r.status <> 'won')`,
		c.PayoutID, c.Mode, c.Now)
	return found, err
}

// recordRisk stores one risk, or how a refund of ours stands, unless nothing about it is new. It returns the finding
// that was opened. A refund of ours whose row is lost counts as one of somebody else.
func (c paidCharge) recordRisk(ctx context.Context, tx pgx.Tx, r books.ChargeRisk) ([]books.Finding, error) {
	if r.RefundID != "" {
		got := checkout.RefundResult{Status: r.Status.Refund(), Reference: r.ID, Amount: r.Amount}
		found, err := c.recordRefund(ctx, tx, r.RefundID, got)
		if !errors.Is(err, checkout.ErrNotFound) {
			return found, err
		}
	}
	var (
		before books.ChargeRisk // zero: no money has moved
		change = 1
	)
	err := tx.QueryRow(ctx, `
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
		VALUES (@id, @mode, @merchant, @transaction, @kind, @status, @amount, @currency, @now, @now)
		ON CONFLICT (id) DO UPDATE SET status = @status, amount = @amount, currency = @currency, changes = @change,
			changed_at = @now`,
		pgx.NamedArgs{
			"id": r.ID, "mode": c.Mode, "merchant": c.MerchantID, "transaction": c.TransactionID, "kind": r.Kind,
			"status": r.Status, "amount": r.Amount, "currency": r.Currency, "change": change, "now": c.Now,
		})
	if err != nil {
		return nil, err
	}
	if err := c.bookRisk(ctx, tx, before, r, change); err != nil {
		return nil, err
	}
	return keepFinding(ctx, tx, r.Status != books.RiskWon, books.Finding{
		Mode: c.Mode, Kind: r.Kind.Finding(), Subject: r.ID, Detail: c.describe(r),
	})
}

// bookRisks books where the money of the risks is that were noted before the charge was decided. It must run in the
// transaction that books the charge.
func bookRisks(ctx context.Context, tx pgx.Tx, t checkout.Transaction) error {
	type noted struct {
		books.ChargeRisk
		Changes int
	}
	risks, err := pg.Collect[noted](ctx, tx, `
		SELECT id, kind, status, amount, currency, '' AS refund_id, changes FROM charge_risk
		WHERE transaction_id = $1 AND mode = $2 ORDER BY id`, t.ID, t.Mode)
	c := paidCharge{TransactionID: t.ID, MerchantID: t.MerchantID, Mode: t.Mode, Paid: true}
	for _, r := range risks {
		err = errors.Join(err, c.bookRisk(ctx, tx, books.ChargeRisk{}, r.ChargeRisk, r.Changes))
	}
	return err
}

// bookRisk books the way from where the money was to where it is.
func (c paidCharge) bookRisk(ctx context.Context, tx pgx.Tx, before, after books.ChargeRisk, change int) error {
	postings := append(riskPostings(before, -1), riskPostings(after, 1)...)
	if !c.Paid || len(postings) == 0 { // the charge is not booked, or not yet: see bookRisks
		return nil
	}
	return entry{
		Mode: c.Mode, Kind: entryRisk, Subject: after.ID, Generation: change, MerchantID: c.MerchantID, Postings: postings,
	}.book(ctx, tx)
}

// riskPostings books where the money of a risk is: with us as before, held by the acquirer, or lost.
func riskPostings(r books.ChargeRisk, sign int64) []posting {
	account := map[books.RiskStatus]string{books.RiskOpen: ledgerDisputed, books.RiskLost: ledgerLoss}[r.Status]
	if account == "" || r.Kind == books.RiskFraudWarning {
		return nil
	}
	amount := big.NewInt(sign * int64(r.Amount))
	return []posting{
		{account, "", string(r.Currency), amount},
		{ledgerReceivable, "", string(r.Currency), new(big.Int).Neg(amount)},
	}
}

func (c paidCharge) describe(r books.ChargeRisk) string {
	what := map[books.RiskKind]string{
		books.RiskDispute:      "The customer disputes",
		books.RiskFraudWarning: "The customer's bank suspects fraud in",
		books.RiskRefund:       "Somebody refunded, at the card network,",
	}[r.Kind]
	payout := "it has no payout"
	switch {
	case c.paidOut():
		payout = "its payout " + c.PayoutID + " is signed and cannot be stopped"
	case c.Payout == checkout.PayoutFailed:
		payout = "its payout " + c.PayoutID + " has failed"
	case c.PayoutID != "":
		payout = "its payout " + c.PayoutID + " waits"
	}
	return fmt.Sprintf("%s %s %s of %s; %s.", what, r.Amount, r.Currency, c.TransactionID, payout)
}

// atRisk reports whether the charge of the payout may go back: a risk is not won, or a report about one
// has not been followed. An operator's release covers what was known at that time. While a refund of ours stands,
// no release helps: one that the network refused may exist after all, and its payout may be retried by then.
func (p *lockedPayout) atRisk(ctx context.Context, tx pgx.Tx) (bool, error) {
	return pg.Value[bool](ctx, tx, `
		SELECT EXISTS (SELECT FROM charge_risk r WHERE r.transaction_id = p.transaction_id AND r.status <> 'won'
				AND r.changed_at > coalesce(p.risk_released_at, '-infinity'))
			OR EXISTS (SELECT FROM transaction t JOIN acquirer_event e
				ON e.mode = t.mode AND e.reference = t.acquirer_ref AND e.unseen WHERE t.id = p.transaction_id)
			OR EXISTS (SELECT FROM refund r WHERE r.transaction_id = p.transaction_id AND r.mode = p.mode AND `+refundStands+`)
		FROM payout p WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3`, p.ID, p.MerchantID, p.Mode)
}

// ReleasePayout lets a payout pass that only an operator may release. One at risk is signed although its charge may go
// back; what changes at the card network afterwards holds it again. One that is above the largest payout is signed
// whatever the limits of a payout and of a day are, unless it is retried. It returns checkout.ErrNotFound, and
// checkout.ErrConflict when something else holds the payout, or nothing. by is written with the change.
func (s *Payouts) ReleasePayout(ctx context.Context, ref checkout.Ref, by ...merchant.AuditEntry) error {
	return pg.RunInTx(ctx, s.pool, "release payout", func(tx pgx.Tx) error {
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return err
		}
		if p.closed() || p.Hold != checkout.HoldRisk && p.Hold != checkout.HoldLarge {
			return checkout.ErrConflict
		}
		err = p.set(ctx, tx, `next_action_at = $4,
			risk_released_at = CASE hold WHEN 'risk' THEN $4 ELSE risk_released_at END,
			size_released_at = CASE hold WHEN 'large' THEN $4 ELSE size_released_at END`, p.Now)
		if err != nil {
			return err
		}
		return pg.Audit(ctx, tx, by...)
	})
}

// PayoutRisks returns the risks of a payout's charge, oldest first.
func (s *PayoutReader) PayoutRisks(ctx context.Context, ref checkout.Ref) ([]books.ChargeRisk, error) {
	got, err := pg.Collect[books.ChargeRisk](ctx, s.pool, `
		SELECT r.id, r.kind, r.status, r.amount, r.currency, '' AS refund_id
		FROM charge_risk r JOIN payout p ON p.transaction_id = r.transaction_id
		WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3 ORDER BY r.noted_at, r.id`, ref.ID, ref.MerchantID, ref.Mode)
	return got, pg.Wrap("payout risks", err)
}
