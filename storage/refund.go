package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// Refunds decides about the refunds of both modes.
type Refunds struct{ *RefundReader }

// RefundReader reads refunds.
type RefundReader struct{ pool *pgxpool.Pool }

const (
	refundColumns = `
		r.id, coalesce(r.merchant_id, '') AS merchant_id, r.mode, coalesce(t.session_id, '') AS session_id,
		coalesce(r.transaction_id, '') AS transaction_id, r.acquirer_ref AS reference, r.reason AS origin,
		r.cause AS reason, r.status, r.amount, coalesce(s.currency, '') AS currency, r.fee_returned, r.network_ref,
		coalesce(s.metadata, '{}') AS metadata, r.created_at, r.ended_at`
	refundJoin = `
		FROM refund r LEFT JOIN transaction t ON t.id = r.transaction_id AND t.mode = r.mode
		LEFT JOIN checkout_session s ON s.id = t.session_id`
	selectRefund = `SELECT ` + refundColumns + refundJoin
)

// ofPayment is true for a refund r of a payment. The service makes the others, of charges that paid no session.
const ofPayment = `r.reason <> 'unmatched'`

// refundStands is true for a refund r that gives the customer money, or may: it has not failed.
const refundStands = `r.status <> 'failed'`

// Refund returns one refund. It returns checkout.ErrNotFound.
func (s *RefundReader) Refund(ctx context.Context, ref checkout.Ref) (checkout.Refund, error) {
	r, err := pg.One[checkout.Refund](ctx, s.pool, selectRefund+`
		WHERE r.id = $1 AND r.merchant_id = $2 AND r.mode = $3 AND `+ofPayment, ref.ID, ref.MerchantID, ref.Mode)
	return r, pg.Wrap("refund", err)
}

// AnyRefund is Refund for an operator, and for the card network, who know only the id. It returns checkout.ErrNotFound.
func (s *RefundReader) AnyRefund(ctx context.Context, id string) (checkout.Refund, error) {
	r, err := pg.One[checkout.Refund](ctx, s.pool, selectRefund+` WHERE r.id = $1`, id)
	return r, pg.Wrap("refund", err)
}

// RefundFilter selects refunds. An empty field selects all.
type RefundFilter struct {
	Status    checkout.RefundStatus
	SessionID string
}

// Refunds lists refunds, newest first.
func (s *RefundReader) Refunds(
	ctx context.Context, owner checkout.Owner, f RefundFilter, p pg.Page,
) ([]checkout.Refund, error) {
	q := pg.NewList(owner, "r")
	q.Where(ofPayment)
	q.Equal("r.status", string(f.Status))
	q.Equal("t.session_id", f.SessionID)
	q.Page(checkout.PrefixRefund, "r", p)
	got, err := pg.Collect[checkout.Refund](ctx, s.pool, selectRefund+" "+q.SQL, q.Args...)
	return got, pg.Wrap("refunds", err)
}

// RefundOrder asks for a refund of a session's payment.
type RefundOrder struct {
	ID      string // re_…, the idempotency key
	Session checkout.Ref
	Amount  money.Amount // 0: all that is left
	Reason  checkout.RefundReason
}

// OrderRefund stores and books a refund of the merchant, and takes it from the payout that is not signed yet. One
// transaction does so, under the locks of the payment, the merchant and the payout. The caller starts the refund's run;
// Reconcile does so if the caller fails. A repeat changes nothing and returns the refund as it is now.
//
// It returns checkout.ErrNotFound, checkout.ErrNotPaid, checkout.ErrDisputeOpen, checkout.ErrRefundPending, a
// *checkout.RefundTooLargeError and a *checkout.InsufficientBalanceError. by works as in CreateEndpoint.
func (s *Refunds) OrderRefund(
	ctx context.Context, o RefundOrder, by ...merchant.AuditEntry,
) (checkout.Refund, error) {
	return pg.InTx(ctx, s.pool, "order refund", func(tx pgx.Tx) (got checkout.Refund, err error) {
		c, err := lockPaidSession(ctx, tx, o.Session)
		if err != nil {
			return got, err
		}
		got, err = c.readRefund(ctx, tx, o.ID)
		if !errors.Is(err, checkout.ErrNotFound) {
			return got, err
		}
		r := checkout.Refund{Ref: o.Session.Owner.Ref(o.ID), Origin: checkout.RefundByMerchant, Reason: o.Reason}
		if got, err = c.orderRefund(ctx, tx, r, o.Amount); err != nil {
			return got, err
		}
		all, err := balances(ctx, tx, c.owner())
		if err != nil {
			return got, err
		}
		if err := c.requireBalance(ctx, tx, all); err != nil {
			return got, err
		}
		return got, pg.Audit(ctx, tx, by...)
	})
}

// lockPaidSession is lockCharge for the payment of a session. It returns checkout.ErrNotFound and checkout.ErrNotPaid.
func lockPaidSession(ctx context.Context, tx pgx.Tx, session checkout.Ref) (paidCharge, error) {
	paid, err := pg.Value[string](ctx, tx, `
		SELECT coalesce((SELECT t.id FROM transaction t WHERE t.session_id = s.id AND t.status = 'succeeded'), '')
		FROM checkout_session s WHERE s.id = $1 AND s.merchant_id = $2 AND s.mode = $3`,
		session.ID, session.MerchantID, session.Mode)
	if err != nil {
		return paidCharge{}, err
	}
	if paid == "" {
		return paidCharge{}, checkout.ErrNotPaid
	}
	return lockCharge(ctx, tx, session.Mode, `t.id = $2`, paid)
}

// CreateRefund stores the refund of a charge without a completed session, unless the charge has had one: a
// refund that failed is repeated by a person only. See RefundUnmatched.
func (s *Refunds) CreateRefund(ctx context.Context, r checkout.Refund) error {
	return pg.Exec(ctx, s.pool, "create refund", `
		INSERT INTO refund (id, mode, acquirer_ref, transaction_id, merchant_id, reason, status, amount, created_at)
		SELECT $1, $2, $3, nullif($4, ''), (SELECT merchant_id FROM transaction WHERE id = $4), $5, 'pending', $6,
			date_trunc('milliseconds', clock_timestamp())
		WHERE NOT EXISTS (SELECT FROM refund WHERE mode = $2 AND acquirer_ref = $3)
		ON CONFLICT (mode, acquirer_ref) WHERE status = 'pending' DO NOTHING`,
		checkout.NewID(checkout.PrefixRefund), r.Mode, r.Reference, r.TransactionID, r.Origin, r.Amount)
}

// LivePayoutOf names the payout of a live transaction. The caller is an operator, who has no merchant.
// It returns checkout.ErrNotFound when the transaction was not paid, or is of test mode.
func (s *Refunds) LivePayoutOf(ctx context.Context, transactionID string) (checkout.Ref, error) {
	ref, err := pg.One[checkout.Ref](ctx, s.pool, `
		SELECT id, merchant_id, mode FROM payout WHERE transaction_id = $1 AND mode = 'live'`, transactionID)
	return ref, pg.Wrap("live payout", err)
}

// RefundPayout gives what is left of the payment of a live payout back to the customer instead of paying the
// merchant. It is OrderRefund for an operator, for all that is left, before the signature: a pending payout fails,
// with its event, a failed one stays as it is, and nothing can be signed for it unless the refund fails.
//
// A repeat changes nothing and returns the refund as it is now. When the refund has failed, it orders another
// one. It returns checkout.ErrNotFound, checkout.ErrTransferStands when a signed transfer may still pay the
// merchant, checkout.ErrDisputeOpen, ErrFrozen and ErrNotCompared. by works as in CreateEndpoint.
func (s *Refunds) RefundPayout(
	ctx context.Context, ref checkout.Ref, by ...merchant.AuditEntry,
) (checkout.Refund, error) {
	return pg.InTx(ctx, s.pool, "refund payout", func(tx pgx.Tx) (got checkout.Refund, err error) {
		c, err := lockChargeOf(ctx, tx, ref)
		if err != nil {
			return got, err
		}
		var more bool
		if got, more, err = c.lastRefund(ctx, tx); err != nil || !more {
			return got, err
		}
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return got, err
		}
		if err := p.mayGoBack(ctx, tx); err != nil {
			return got, err
		}
		if got, err = c.orderRefund(ctx, tx, c.operators(checkout.RefundByOperator), 0); err != nil {
			return got, err
		}
		if err := c.endPayout(ctx, tx, checkout.PayoutRefunded); err != nil {
			return got, err
		}
		return got, pg.Audit(ctx, tx, by...)
	})
}

// operators returns a refund of the charge that nobody of the merchant orders.
func (c paidCharge) operators(origin checkout.RefundOrigin) checkout.Refund {
	return checkout.Refund{Ref: c.owner().Ref(checkout.NewID(checkout.PrefixRefund)), Origin: origin}
}

// RefundUnmatched orders the refund of a live charge without a completed session once more, after it failed.
// A repeat returns the refund as it is now. It returns checkout.ErrNotFound when the charge had no refund, and
// checkout.ErrDisputeOpen.
func (s *Refunds) RefundUnmatched(ctx context.Context, transactionID string) (checkout.Refund, error) {
	return pg.InTx(ctx, s.pool, "refund an unmatched charge", func(tx pgx.Tx) (got checkout.Refund, err error) {
		c, err := lockCharge(ctx, tx, checkout.ModeLive, `t.id = $2`, transactionID)
		if err != nil {
			return got, err
		}
		var more bool
		if got, more, err = c.lastRefund(ctx, tx); err != nil || !more {
			return got, err
		}
		if got.ID == "" || c.Paid {
			return got, checkout.ErrNotFound
		}
		return c.orderRefund(ctx, tx, c.operators(checkout.RefundUnmatched), 0)
	})
}

// mayGoBack returns an error while the payout is paid, or may be.
func (p *lockedPayout) mayGoBack(ctx context.Context, tx pgx.Tx) error {
	if p.Standing || p.Status == checkout.PayoutSent {
		return checkout.ErrTransferStands
	}
	return requireCompared(ctx, tx, p.Ref)
}

// lastRefund returns the newest refund of the charge, the zero value when there is none. more reports whether
// an operator may order another one: none is under way, and the customer does not have everything.
func (c paidCharge) lastRefund(ctx context.Context, tx pgx.Tx) (last checkout.Refund, more bool, err error) {
	last, err = pg.One[checkout.Refund](ctx, tx, selectRefund+`
		WHERE r.mode = $1 AND r.acquirer_ref = $2 ORDER BY r.id DESC LIMIT 1`, c.Mode, c.Reference)
	if errors.Is(err, checkout.ErrNotFound) {
		return checkout.Refund{}, true, nil
	}
	if err != nil {
		return last, false, err
	}
	b, err := c.back(ctx, tx)
	none := b.Refunds == 0 && !b.Refunded // one of an operator stands also when there was nothing left to send
	return last, last.Status != checkout.RefundPending && (none || b.Left > 0), err
}

// orderRefund stores a refund of an amount of the charge, books it, and takes it from the payout. 0 is all that is
// left: nothing is sent when that is nothing.
func (c paidCharge) orderRefund(
	ctx context.Context, tx pgx.Tx, r checkout.Refund, amount money.Amount,
) (checkout.Refund, error) {
	if c.Reference == "" {
		return r, fmt.Errorf("the card network's name of the charge of %s is not known", c.TransactionID)
	}
	b, err := c.back(ctx, tx)
	if err != nil {
		return r, err
	}
	left, ours := max(b.Left, 0), r.Origin == checkout.RefundByMerchant
	switch {
	case b.Disputed:
		return r, checkout.ErrDisputeOpen
	case b.Waiting:
		return r, checkout.ErrRefundPending
	case amount > left || ours && left == 0:
		return r, &checkout.RefundTooLargeError{Left: left, Currency: c.Currency}
	case amount == 0:
		amount = left
	}
	status := checkout.RefundPending
	if amount == 0 {
		status = checkout.RefundSucceeded
	}
	returned := c.feeReturned(b, amount)
	_, err = tx.Exec(ctx, `
		INSERT INTO refund (id, mode, merchant_id, acquirer_ref, transaction_id, reason, cause, status, amount,
			fee_returned, created_at, ended_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, CASE WHEN $8 = 'pending' THEN NULL ELSE $11::timestamptz END)`,
		r.ID, c.Mode, c.MerchantID, c.Reference, c.TransactionID, r.Origin, r.Reason, status, amount, returned, c.Now)
	if err != nil {
		return r, err
	}
	if r, err = c.readRefund(ctx, tx, r.ID); err != nil {
		return r, err
	}
	if err := c.standRefund(ctx, tx, r); err != nil {
		return r, err
	}
	if err := c.closeFailed(ctx, tx); err != nil {
		return r, err
	}
	_, err = c.findBack(ctx, tx)
	return r, err
}

// closeFailed closes the findings about earlier refunds of the charge that failed: one is ordered again.
func (c paidCharge) closeFailed(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		UPDATE finding SET closed_at = $3 WHERE mode = $1 AND kind = 'refund_failed' AND closed_at IS NULL
			AND subject IN (SELECT id FROM refund WHERE mode = $1 AND acquirer_ref = $2)`, c.Mode, c.Reference, c.Now)
	return err
}

// feeReturned returns what the merchant gets back of the payment's fee with a refund of amount: the part of the fee
// that belongs to all refunds of the payment, less what the earlier ones have returned. So the number of refunds does
// not matter, and the whole payment returns the whole fee.
func (c paidCharge) feeReturned(b backToCustomer, amount money.Amount) money.Amount {
	if c.Amount == 0 {
		return 0
	}
	return max(0, money.Amount(int64(c.Fee)*int64(b.Refunds+amount)/int64(c.Amount))-b.FeesReturned)
}

// readRefund locks a refund of the charge and returns it. It returns checkout.ErrNotFound.
func (c paidCharge) readRefund(ctx context.Context, tx pgx.Tx, id string) (checkout.Refund, error) {
	return pg.One[checkout.Refund](ctx, tx, selectRefund+`
		WHERE r.id = $2 AND r.mode = $1 AND r.acquirer_ref = $3 FOR UPDATE OF r`, c.Mode, id, c.Reference)
}
