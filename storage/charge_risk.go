package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
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
			WHERE r.mode = $1 AND t.acquirer <> 'sandbox' AND (r.status = 'open' OR r.status = 'inquiry' AND r.kind = 'dispute')
			UNION ALL
			SELECT r.acquirer_ref, NULL FROM refund r LEFT JOIN transaction t ON t.id = r.transaction_id
			WHERE r.mode = $1 AND r.status = 'succeeded' AND r.network_ref <> '' AND coalesce(t.acquirer, '') <> 'sandbox'
				AND ended_at > now() - interval '`+returnable+`'
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
		if err == nil && c.Deciding && c.ChargedTo == ledgerSandbox {
			return found, checkout.ErrPaymentUndecided // the sandbox reports again: its payments are decided without this lock
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
		update, err := c.recordRefund(ctx, tx, r.RefundID, got)
		if !errors.Is(err, checkout.ErrNotFound) {
			return update.Found, err // Reconcile starts the deliveries
		}
	}
	before, known, err := c.notedRisk(ctx, tx, r.ID)
	if err != nil {
		return nil, err
	}
	if known && r.Is(before.ChargeRisk) {
		return nil, nil
	}
	after := notedRisk{
		ChargeRisk: r, DisputeID: before.DisputeID, Debited: before.Debited || !known, Changes: before.Changes + 1,
	}
	if r.Kind == books.RiskDispute && after.DisputeID == "" {
		after.DisputeID = checkout.NewID(checkout.PrefixDispute)
	}
	if err := c.storeRisk(ctx, tx, after); err != nil {
		return nil, err
	}
	if err := c.bookRisk(ctx, tx, before, after); err != nil {
		return nil, err
	}
	if err := c.settleRisk(ctx, tx, before, after); err != nil {
		return nil, err
	}
	if c.ChargedTo == ledgerSandbox { // operators have nothing to do about the sandbox
		return nil, nil
	}
	return keepFinding(ctx, tx, r.Status != books.RiskWon, books.Finding{
		Mode: c.Mode, Kind: r.Kind.Finding(), Subject: r.ID, Detail: c.describe(r),
	})
}

// notedRisk is a risk as it was noted last.
type notedRisk struct {
	books.ChargeRisk

	DisputeID string
	Debited   bool // the merchant's balance bears it; version 1.0.0 booked risks as losses of ours
	Changes   int  // the generation of its last entry
}

// riskColumns reads a books.ChargeRisk.
const riskColumns = `
	id, kind, status, amount, currency, '' AS refund_id, reason,
	coalesce(respond_by, '0001-01-01 00:00:00+00') AS respond_by, responded, fee, fee_currency`

const selectNotedRisk = `
	SELECT ` + riskColumns + `, coalesce(dispute_id, '') AS dispute_id, debited, changes
	FROM charge_risk `

// notedRisk returns what is known of a risk of the charge. known is false when that is nothing: then no money has
// moved.
func (c paidCharge) notedRisk(ctx context.Context, tx pgx.Tx, id string) (before notedRisk, known bool, err error) {
	before, err = pg.One[notedRisk](ctx, tx, selectNotedRisk+`
		WHERE id = $1 AND mode = $2 AND transaction_id = $3`, id, c.Mode, c.TransactionID)
	return before, err == nil, pg.Optional(err)
}

func (c paidCharge) storeRisk(ctx context.Context, tx pgx.Tx, r notedRisk) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO charge_risk (id, mode, merchant_id, transaction_id, kind, status, amount, currency, noted_at, changed_at,
			dispute_id, debited, reason, respond_by, responded, fee, fee_currency)
		VALUES (@id, @mode, @merchant, @transaction, @kind, @status, @amount, @currency, @now, @now,
			nullif(@dispute, ''), @debited, @reason,
			nullif(@respond_by::timestamptz, @never::timestamptz), @responded, @fee, @fee_currency)
		ON CONFLICT (id) DO UPDATE SET status = @status, amount = @amount, currency = @currency, changes = @changes,
			changed_at = CASE WHEN charge_risk.status = @status AND charge_risk.amount = @amount THEN charge_risk.changed_at
				ELSE @now END,
			dispute_id = nullif(@dispute, ''), reason = @reason,
			respond_by = nullif(@respond_by::timestamptz, @never::timestamptz), responded = @responded,
			fee = @fee, fee_currency = @fee_currency`,
		pgx.NamedArgs{
			"id": r.ID, "mode": c.Mode, "merchant": c.MerchantID, "transaction": c.TransactionID, "kind": r.Kind,
			"status": r.Status, "amount": r.Amount, "currency": r.Currency, "changes": r.Changes, "now": c.Now,
			"dispute": r.DisputeID, "debited": r.Debited, "reason": r.Reason, "respond_by": r.RespondBy,
			"never": time.Time{}, "responded": r.Responded, "fee": r.Fee, "fee_currency": r.FeeCurrency,
		})
	return err
}

// bookRisks books where the money of the risks is that were noted before the charge was decided. It must run in the
// transaction that books the charge.
func bookRisks(ctx context.Context, tx pgx.Tx, t checkout.Transaction) error {
	risks, err := pg.Collect[notedRisk](ctx, tx, selectNotedRisk+`
		WHERE transaction_id = $1 AND mode = $2 ORDER BY id`, t.ID, t.Mode)
	if err != nil || len(risks) == 0 {
		return err
	}
	c, err := lockCharge(ctx, tx, t.Mode, `t.id = $2`, t.ID)
	for _, r := range risks {
		if r.Kind == books.RiskDispute && r.DisputeID == "" && err == nil { // noted by version 1.0.0
			r.DisputeID = checkout.NewID(checkout.PrefixDispute)
			err = c.storeRisk(ctx, tx, r)
		}
		if err == nil {
			err = c.bookRisk(ctx, tx, notedRisk{Debited: r.Debited}, r)
		}
		if err == nil {
			err = c.settleRisk(ctx, tx, notedRisk{}, r)
		}
	}
	return err
}

// bookRisk books the way from where the money was to where it is.
func (c paidCharge) bookRisk(ctx context.Context, tx pgx.Tx, before, after notedRisk) error {
	if !c.Booked { // not yet: see bookRisks
		return nil
	}
	e := entry{
		Mode: c.Mode, Kind: entryRisk, Subject: after.ID, Generation: after.Changes, MerchantID: c.MerchantID,
		Postings: append(c.riskPostings(before, after.Debited, -1), c.riskPostings(after, after.Debited, 1)...),
	}
	if err := e.bookChange(ctx, tx); err != nil {
		return err
	}
	if !after.Debited {
		return nil
	}
	e.Kind, e.Postings = entryFee, append(c.feePostings(before, -1), c.feePostings(after, 1)...)
	return e.bookChange(ctx, tx)
}

// bookChange books an entry unless its postings cancel each other out.
func (e entry) bookChange(ctx context.Context, tx pgx.Tx) error {
	sums := map[posting]*big.Int{}
	for _, p := range e.Postings {
		key := posting{Account: p.Account, Holder: p.Holder, Asset: p.Asset}
		if sums[key] == nil {
			sums[key] = new(big.Int)
		}
		sums[key].Add(sums[key], p.Amount)
	}
	for _, sum := range sums {
		if sum.Sign() != 0 {
			return e.book(ctx, tx)
		}
	}
	return nil
}

// riskPostings books where the money of a risk is: with us as before, held by the acquirer, or lost. The merchant bears
// it from the beginning, and gets it back when the risk is won.
func (c paidCharge) riskPostings(r notedRisk, debited bool, sign int64) []posting {
	if r.Kind == books.RiskFraudWarning || r.Status != books.RiskOpen && r.Status != books.RiskLost {
		return nil
	}
	asset, amount := string(r.Currency), big.NewInt(sign*int64(r.Amount))
	less := new(big.Int).Neg(amount)
	all := []posting{{c.ChargedTo, "", asset, less}}
	open := r.Status == books.RiskOpen
	if open {
		all = append(all, posting{ledgerDisputed, "", asset, amount})
	}
	switch {
	case debited && open:
		return append(all, posting{ledgerPayable, c.MerchantID, asset, amount},
			posting{ledgerContested, c.MerchantID, asset, less})
	case debited:
		return append(all, posting{ledgerPayable, c.MerchantID, asset, amount})
	case !open:
		return append(all, posting{ledgerLoss, "", asset, amount})
	}
	return all
}

// feePostings books that the merchant pays the card network's fee for a dispute, which is an expense of ours.
func (c paidCharge) feePostings(r notedRisk, sign int64) []posting {
	if r.Fee == 0 || !slices.Contains(money.Currencies, r.FeeCurrency) { // no payout could pay another currency
		return nil
	}
	fee := big.NewInt(sign * int64(r.Fee))
	return []posting{
		{ledgerPayable, c.MerchantID, string(r.FeeCurrency), fee},
		{ledgerAcquirer, "", string(r.FeeCurrency), new(big.Int).Neg(fee)},
	}
}

// gone reports whether the customer has the money of the risk, or may get it.
func (r notedRisk) gone() bool {
	return r.Debited && r.Kind != books.RiskFraudWarning && (r.Status == books.RiskOpen || r.Status == books.RiskLost)
}

// settleRisk takes what the customer has, or may get, from the payout, gives it back when it is won, and stores the
// event.
func (c paidCharge) settleRisk(ctx context.Context, tx pgx.Tx, before, after notedRisk) (err error) {
	if !c.Booked {
		return nil
	}
	source := cmp.Or(after.DisputeID, after.ID)
	moved := before.gone() != after.gone() || before.Amount != after.Amount
	if moved && before.gone() {
		err = c.restore(ctx, tx, checkout.DeductionDispute, source)
	}
	if err == nil && moved && after.gone() && after.Currency == c.Currency {
		err = c.deduct(ctx, tx, checkout.DeductionDispute, source, after.Amount)
	}
	if err == nil && after.Debited && after.Status == books.RiskLost {
		why := checkout.PayoutDisputed
		if after.Kind == books.RiskRefund {
			why = checkout.PayoutRefunded
		}
		err = c.endEmptyPayout(ctx, tx, why)
	}
	if err == nil && after.Kind == books.RiskDispute {
		err = c.publishDispute(ctx, tx, before, after)
	}
	return errors.Join(err, noteBalance(ctx, tx, c.owner()))
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
// has not been followed. What was lost is deducted. An operator's release covers what was known at that time. While a
// refund by an operator stands, no release helps: one that the network refused may exist after all, and its payout may
// be retried by then.
func (p *lockedPayout) atRisk(ctx context.Context, tx pgx.Tx) (bool, error) {
	return pg.Value[bool](ctx, tx, `
		SELECT EXISTS (SELECT FROM charge_risk r WHERE r.transaction_id = p.transaction_id AND r.status <> 'won'
				AND NOT (r.debited AND r.status = 'lost') AND r.changed_at > coalesce(p.risk_released_at, '-infinity'))
			OR EXISTS (SELECT FROM transaction t JOIN acquirer_event e
				ON e.mode = t.mode AND e.reference = t.acquirer_ref AND e.unseen WHERE t.id = p.transaction_id)
			OR EXISTS (SELECT FROM refund r WHERE r.transaction_id = p.transaction_id AND r.mode = p.mode
				AND r.reason <> 'merchant' AND `+refundStands+`)
		FROM payout p WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3`, p.ID, p.MerchantID, p.Mode)
}

// ReleasePayout lets a payout pass that only an operator may release. One at risk is signed although its charge may go
// back; what changes at the card network afterwards holds it again. One that is above the largest payout is signed
// whatever the limits of a payout and of a day are, unless it is retried. It returns checkout.ErrNotFound, and
// checkout.ErrConflict when something else holds the payout, or nothing. by is written with the change.
func (s *Payouts) ReleasePayout(ctx context.Context, ref checkout.Ref, by ...merchant.AuditEntry) error {
	return pg.RunInTx(ctx, s.pool, "release payout", func(tx pgx.Tx) error {
		c, err := lockChargeOf(ctx, tx, ref)
		if err != nil {
			return err
		}
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return err
		}
		if p.closed() || p.Hold != checkout.HoldRisk && p.Hold != checkout.HoldLarge {
			return checkout.ErrConflict
		}
		err = p.set(ctx, tx, `next_action_at = least(next_action_at, $4),
			risk_released_at = CASE hold WHEN 'risk' THEN $4 ELSE risk_released_at END,
			size_released_at = CASE hold WHEN 'large' THEN $4 ELSE size_released_at END`, p.Now)
		if err == nil && p.Hold == checkout.HoldRisk {
			err = c.payDisputed(ctx, tx)
		}
		if err != nil {
			return err
		}
		return pg.Audit(ctx, tx, by...)
	})
}

// payDisputed takes the deductions for disputes back, so that the payout pays what may be lost. The merchant owes it.
func (c paidCharge) payDisputed(ctx context.Context, tx pgx.Tx) error {
	sources, err := pg.Values[string](ctx, tx, `
		SELECT source FROM payout_deduction WHERE payout_id = $1 AND merchant_id = $2 AND mode = $3 AND type = $4`,
		c.PayoutID, c.MerchantID, c.Mode, checkout.DeductionDispute)
	for _, source := range sources {
		if err == nil {
			err = c.restore(ctx, tx, checkout.DeductionDispute, source)
		}
	}
	return errors.Join(err, noteBalance(ctx, tx, c.owner()))
}

// PayoutRisks returns the risks of a payout's charge, oldest first.
func (s *PayoutReader) PayoutRisks(ctx context.Context, ref checkout.Ref) ([]books.ChargeRisk, error) {
	got, err := pg.Collect[books.ChargeRisk](ctx, s.pool, `
		SELECT `+riskColumns+` FROM charge_risk
		WHERE transaction_id = (SELECT transaction_id FROM payout WHERE id = $1 AND merchant_id = $2 AND mode = $3)
			AND merchant_id = $2 AND mode = $3 ORDER BY noted_at, id`, ref.ID, ref.MerchantID, ref.Mode)
	return got, pg.Wrap("payout risks", err)
}
