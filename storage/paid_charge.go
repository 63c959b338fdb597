package storage

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// paidCharge is a charge of a transaction with what became of its payout.
type paidCharge struct {
	TransactionID string
	MerchantID    string
	Mode          checkout.Mode
	Reference     string // the card network's name of the charge; "" when it is not known
	Amount        money.Amount
	Fee           money.Amount // ours
	Currency      money.Currency
	Paid          bool   // the transaction succeeded
	Deciding      bool   // it is not decided yet
	Booked        bool   // and the ledger has it; version 1.0.0 booked none of test mode
	ChargedTo     string // the account of the ledger that the charge was debited to
	PayoutID      string // "" when there is none
	Payout        checkout.PayoutStatus
	Standing      bool // a transfer of the payout is signed
	Now           time.Time
}

// byReference finds a transaction t for lockCharge.
const byReference = `t.acquirer_ref = $2`

// lockCharge locks the payment that a condition with $2 finds, its merchant and its payout, the latter two as a
// signature does: either the signature comes first and the risk finds its transfer, or the risk comes first and nothing
// is signed. It returns checkout.ErrNotFound.
func lockCharge(ctx context.Context, tx pgx.Tx, mode checkout.Mode, where string, id string) (paidCharge, error) {
	_, err := tx.Exec(ctx, `
		SELECT FROM transaction t WHERE t.mode = $1 AND `+where+` FOR NO KEY UPDATE`, mode, id)
	if err != nil {
		return paidCharge{}, err
	}
	_, err = tx.Exec(ctx, `
		SELECT FROM merchant WHERE id = (SELECT merchant_id FROM transaction t WHERE t.mode = $1 AND `+where+`)
		FOR NO KEY UPDATE`, mode, id)
	if err != nil {
		return paidCharge{}, err
	}
	_, err = tx.Exec(ctx, `
		SELECT FROM payout WHERE mode = $1 AND transaction_id =
			(SELECT id FROM transaction t WHERE t.mode = $1 AND `+where+`) FOR NO KEY UPDATE`, mode, id)
	if err != nil {
		return paidCharge{}, err
	}
	return pg.One[paidCharge](ctx, tx, `
		SELECT t.id AS transaction_id, t.merchant_id, t.mode, coalesce(t.acquirer_ref, '') AS reference, s.amount, t.fee,
			s.currency, t.status = 'succeeded' AS paid, t.status = 'processing' AS deciding,
			coalesce(p.id, '') AS payout_id, coalesce(p.status, '') AS payout,
			EXISTS (SELECT FROM transfer_payout x WHERE x.payout_id = p.id AND x.standing)
				OR coalesce(p.status = 'pending' AND p.signed_transfer IS NOT NULL AND p.failure = '', false) AS standing,
			EXISTS (SELECT FROM ledger_entry e
				WHERE e.kind = 'charge' AND e.subject = t.id AND e.generation = 1) AS booked,
			CASE WHEN t.acquirer = 'sandbox' AND t.chain_ref = 'sandbox' THEN 'sandbox' ELSE 'acquirer:receivable' END
				AS charged_to,
			date_trunc('milliseconds', clock_timestamp()) AS now
		FROM transaction t JOIN checkout_session s ON s.id = t.session_id LEFT JOIN payout p
			ON p.transaction_id = t.id AND p.merchant_id = t.merchant_id AND p.mode = t.mode
		WHERE t.mode = $1 AND `+where, mode, id)
}

// lockChargeOf is lockCharge for the charge of a payout. A payout of a balance has none; it is locked alone.
func lockChargeOf(ctx context.Context, tx pgx.Tx, payout checkout.Ref) (paidCharge, error) {
	transactionID, err := pg.Value[string](ctx, tx, `
		SELECT coalesce(transaction_id, '') FROM payout WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
		payout.ID, payout.MerchantID, payout.Mode)
	if err != nil {
		return paidCharge{}, err
	}
	if transactionID == "" {
		return paidCharge{MerchantID: payout.MerchantID, Mode: payout.Mode}, lockMerchants(ctx, tx, payout.MerchantID)
	}
	return lockCharge(ctx, tx, payout.Mode, `t.id = $2`, transactionID)
}

// owner returns the merchant in the mode of the charge.
func (c paidCharge) owner() checkout.Owner {
	return checkout.Owner{MerchantID: c.MerchantID, Mode: c.Mode}
}

// backToCustomer is how much of a charge went back to the customer.
type backToCustomer struct {
	Left         money.Amount // what did not; below 0 when the customer got more than the charge
	Refunds      money.Amount // of ours that stand
	FeesReturned money.Amount // by them
	Refunded     bool         // by an operator: the merchant does not get the payment
	Waiting      bool         // a refund of ours is pending
	Disputed     bool         // a dispute is open
}

func (c paidCharge) back(ctx context.Context, tx pgx.Tx) (backToCustomer, error) {
	return pg.One[backToCustomer](ctx, tx, `
		WITH ours AS (
			SELECT coalesce(sum(amount), 0)::bigint AS refunds, coalesce(sum(fee_returned), 0)::bigint AS fees_returned,
				coalesce(bool_or(reason <> 'merchant'), false) AS refunded,
				coalesce(bool_or(status = 'pending'), false) AS waiting
			FROM refund r WHERE r.mode = $1 AND r.acquirer_ref = $2 AND `+refundStands+`
		), others AS (
			SELECT coalesce(sum(amount) FILTER (WHERE currency = $5 AND status IN ('open', 'lost')), 0)::bigint AS risks,
				coalesce(bool_or(kind = 'dispute' AND status = 'open'), false) AS disputed
			FROM charge_risk WHERE transaction_id = $3 AND mode = $1 AND kind <> 'fraud_warning'
		)
		SELECT $4 - risks - refunds AS left, refunds, fees_returned, refunded, waiting, disputed FROM ours, others`,
		c.Mode, c.Reference, c.TransactionID, c.Amount, c.Currency)
}

// paidOut reports whether the merchant has the money, or a signed transfer may still bring it.
func (c paidCharge) paidOut() bool {
	return c.PayoutID != "" && (c.Standing || c.Payout == checkout.PayoutSent)
}
