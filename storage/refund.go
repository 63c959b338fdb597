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
	"example.com/checkout/workflows/money"
)

// CreateRefund stores the refund of a charge without a completed session, unless the charge has had one: a
// refund that failed is repeated by a person only. See RefundUnmatched.
func (s *Books) CreateRefund(ctx context.Context, r books.Refund) error {
	return pg.Exec(ctx, s.pool, "create refund", `
		INSERT INTO refund (id, mode, acquirer_ref, transaction_id, reason, status, amount, created_at)
		SELECT $1, $2, $3, nullif($4, ''), $5, 'pending', $6, date_trunc('milliseconds', clock_timestamp())
		WHERE NOT EXISTS (SELECT FROM refund WHERE mode = $2 AND acquirer_ref = $3)
		ON CONFLICT (mode, acquirer_ref) WHERE status = 'pending' DO NOTHING`,
		checkout.NewID(checkout.PrefixRefund), r.Mode, r.Reference, r.TransactionID, r.Reason, r.Amount)
}

// selectRefund reads books.Refund.
const selectRefund = `
	SELECT r.id, r.mode, r.acquirer_ref AS reference, coalesce(r.transaction_id, '') AS transaction_id, r.reason,
		r.status, r.amount, r.network_ref, r.created_at, r.ended_at
	FROM refund r `

// refundStands is true for a refund r that gives the customer money, or may: it has not failed.
const refundStands = `r.status <> 'failed'`

// LivePayoutOf names the payout of a live transaction. The caller is an operator, who has no merchant.
// It returns checkout.ErrNotFound when the transaction was not paid, or is of test mode.
func (s *Books) LivePayoutOf(ctx context.Context, transactionID string) (checkout.Ref, error) {
	ref, err := pg.One[checkout.Ref](ctx, s.pool, `
		SELECT id, merchant_id, mode FROM payout WHERE transaction_id = $1 AND mode = 'live'`, transactionID)
	return ref, pg.Wrap("live payout", err)
}

// RefundPayout gives what is left of the payment of a live payout back to the customer instead of paying the
// merchant. One transaction, under the locks of the payment and of the payout, stores the refund, books it and
// ends the payout: a pending one fails with network_error, with its event, and a failed one stays as it is.
// Nothing can be signed for the payout unless the refund fails. The worker sends the refund. When nothing is
// left, because the customer has the money already, the refund has succeeded and nothing is sent.
//
// A repeat changes nothing and returns the refund as it is now. When the refund has failed, it orders another
// one. It returns checkout.ErrNotFound, checkout.ErrTransferStands when a signed transfer may still pay the
// merchant, checkout.ErrDisputeOpen, ErrFrozen and ErrNotCompared. by works as in CreateEndpoint.
func (s *Books) RefundPayout(ctx context.Context, ref checkout.Ref, by ...merchant.AuditEntry) (books.Refund, error) {
	return pg.InTx(ctx, s.pool, "refund payout", func(tx pgx.Tx) (got books.Refund, err error) {
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
		if got, err = c.orderRefund(ctx, tx, books.RefundOperator); err != nil {
			return got, err
		}
		if err := p.failForRefund(ctx, tx); err != nil {
			return got, err
		}
		return got, pg.Audit(ctx, tx, by...)
	})
}

// failForRefund lets the payout fail, because its payment goes back to the customer. One that is paid, or may be,
// stays.
func (p *lockedPayout) failForRefund(ctx context.Context, tx pgx.Tx) error {
	if p.Standing || p.Status != checkout.PayoutPending {
		return nil
	}
	_, err := p.decidePayout(ctx, tx, checkout.PayoutNetworkError)
	return err
}

// RefundUnmatched orders the refund of a live charge without a completed session once more, after it failed.
// A repeat returns the refund as it is now. It returns checkout.ErrNotFound when the charge had no refund, and
// checkout.ErrDisputeOpen.
func (s *Books) RefundUnmatched(ctx context.Context, transactionID string) (books.Refund, error) {
	return pg.InTx(ctx, s.pool, "refund an unmatched charge", func(tx pgx.Tx) (got books.Refund, err error) {
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
		return c.orderRefund(ctx, tx, books.RefundUnmatched)
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
// another one may be ordered: none is under way, and the customer does not have everything.
func (c paidCharge) lastRefund(ctx context.Context, tx pgx.Tx) (last books.Refund, more bool, err error) {
	last, err = pg.One[books.Refund](ctx, tx, selectRefund+`
		WHERE r.mode = $1 AND r.acquirer_ref = $2 ORDER BY r.id DESC LIMIT 1`, c.Mode, c.Reference)
	if errors.Is(err, checkout.ErrNotFound) {
		return books.Refund{}, true, nil
	}
	if err != nil {
		return last, false, err
	}
	b, err := c.back(ctx, tx)
	return last, last.Status != checkout.RefundPending && (!b.Refunded || b.Left > 0), err
}

// orderRefund stores the refund of what is left of the charge, and books it.
func (c paidCharge) orderRefund(ctx context.Context, tx pgx.Tx, why books.RefundReason) (books.Refund, error) {
	r := books.Refund{ID: checkout.NewID(checkout.PrefixRefund), Status: checkout.RefundPending}
	if c.Reference == "" {
		return r, fmt.Errorf("the card network's name of the charge of %s is not known", c.TransactionID)
	}
	b, err := c.back(ctx, tx)
	if err != nil {
		return r, err
	}
	if b.Disputed {
		return r, checkout.ErrDisputeOpen
	}
	if r.Amount = max(b.Left, 0); r.Amount == 0 {
		r.Status = checkout.RefundSucceeded
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO refund (id, mode, acquirer_ref, transaction_id, reason, status, amount, created_at, ended_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $6 = 'pending' THEN NULL ELSE $8::timestamptz END)`,
		r.ID, c.Mode, c.Reference, c.TransactionID, why, r.Status, r.Amount, c.Now)
	if err != nil {
		return r, err
	}
	if err := c.bookRefund(ctx, tx, books.Refund{ID: r.ID, Status: checkout.RefundFailed}, r); err != nil {
		return r, err
	}
	_, err = tx.Exec(ctx, `
		UPDATE finding SET closed_at = $3 WHERE mode = $1 AND kind = 'refund_failed' AND closed_at IS NULL
			AND subject IN (SELECT id FROM refund WHERE mode = $1 AND acquirer_ref = $2)`, c.Mode, c.Reference, c.Now)
	if err != nil {
		return r, err
	}
	if _, err := c.findBack(ctx, tx); err != nil {
		return r, err
	}
	return readRefund(ctx, tx, c.Mode, r.ID)
}

// readRefund locks a refund and returns it. It returns checkout.ErrNotFound.
func readRefund(ctx context.Context, tx pgx.Tx, mode checkout.Mode, id string) (books.Refund, error) {
	return pg.One[books.Refund](ctx, tx, selectRefund+`WHERE r.mode = $1 AND r.id = $2 FOR UPDATE OF r`, mode, id)
}

// bookRefund books the way from what a refund gave before to what it gives after. The first refund that gives
// anything takes the payment from the merchant, and our fee from us; the last one that fails gives them back.
// What the customer got in other ways was our loss until then.
func (c paidCharge) bookRefund(ctx context.Context, tx pgx.Tx, before, after books.Refund) error {
	if !c.Paid { // the charge of a failed payment was never booked
		return nil
	}
	var others bool
	var generation int
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM refund r
				WHERE r.mode = $1 AND r.acquirer_ref = $2 AND `+refundStands+` AND r.id <> $3),
			(SELECT coalesce(max(generation), 0) + 1 FROM ledger_entry WHERE kind = $4 AND subject = $3)`,
		c.Mode, c.Reference, after.ID, entryRefund).Scan(&others, &generation)
	if err != nil {
		return err
	}
	gives := func(r books.Refund) (given money.Amount, taken int64) {
		if r.Status == checkout.RefundFailed {
			return 0, 0
		}
		if others {
			return r.Amount, 0
		}
		return r.Amount, 1
	}
	gave, was := gives(before)
	given, is := gives(after)
	moved, taken := int64(given-gave), is-was
	if moved == 0 && taken == 0 {
		return nil
	}
	asset := string(c.Currency)
	return entry{
		Mode: c.Mode, Kind: entryRefund, Subject: after.ID, Generation: generation, MerchantID: c.MerchantID,
		Postings: []posting{
			{ledgerReceivable, "", asset, big.NewInt(-moved)},
			{ledgerPayable, c.MerchantID, asset, big.NewInt(taken * int64(c.Amount-c.Fee))},
			{ledgerFee, "", asset, big.NewInt(taken * int64(c.Fee))},
			{ledgerLoss, "", asset, big.NewInt(moved - taken*int64(c.Amount))},
		},
	}.book(ctx, tx)
}

// PendingRefunds returns up to limit refunds that are not decided, after the id after.
func (s *Books) PendingRefunds(
	ctx context.Context, mode checkout.Mode, after string, limit int,
) ([]books.Refund, error) {
	got, err := pg.Collect[books.Refund](ctx, s.pool, selectRefund+`
		WHERE r.mode = $1 AND r.status = 'pending' AND r.id > $2 ORDER BY r.id LIMIT $3`, mode, after, limit)
	return got, pg.Wrap("pending refunds", err)
}

// MaySendRefund returns ErrFrozen or ErrNotCompared while the chain may have paid the
// payout of an ordered refund: the order may come from an old backup.
func (s *Books) MaySendRefund(ctx context.Context, r books.Refund) error {
	if r.Reason != books.RefundOperator || r.NetworkRef != "" {
		return nil
	}
	ref, err := s.LivePayoutOf(ctx, r.TransactionID)
	if err == nil {
		err = requireCompared(ctx, s.pool, ref)
	}
	return pg.Wrap("may send a refund", err)
}

// RecordRefund stores the network's answer about a refund, books what changed, and opens or closes the findings
// about the charge, in one transaction. A repeat changes nothing. It returns the findings that are new.
func (s *Books) RecordRefund(
	ctx context.Context, r books.Refund, got checkout.RefundResult,
) (found []books.Finding, err error) {
	return pg.InTx(ctx, s.pool, "record refund", func(tx pgx.Tx) (found []books.Finding, err error) {
		c, err := lockCharge(ctx, tx, r.Mode, byReference, r.Reference)
		if errors.Is(err, checkout.ErrNotFound) {
			c, err = paidCharge{Mode: r.Mode, Reference: r.Reference}, nil
		}
		if err != nil {
			return found, err
		}
		if found, err = c.recordRefund(ctx, tx, r.ID, got); err != nil {
			return found, err
		}
		more, err := c.findBack(ctx, tx)
		found = append(found, more...)
		return found, err
	})
}

// recordRefund stores how a refund of ours stands at the network. It returns checkout.ErrNotFound, and the finding
// that it opened. A refund that the network has made and that failed stays as it is; a refused one may exist
// after all: then a payout that was retried meanwhile fails again.
func (c paidCharge) recordRefund(
	ctx context.Context, tx pgx.Tx, id string, got checkout.RefundResult,
) ([]books.Finding, error) {
	before, err := readRefund(ctx, tx, c.Mode, id)
	if err != nil || before.Status == checkout.RefundFailed && before.NetworkRef != "" {
		return nil, err
	}
	after := before
	after.Status, after.NetworkRef = got.Status, got.Reference
	if got.Reference != "" {
		after.Amount = got.Amount
	}
	if after.Status == before.Status && after.NetworkRef == before.NetworkRef && after.Amount == before.Amount {
		return nil, nil
	}
	_, err = tx.Exec(ctx, `
		UPDATE refund SET status = $3, network_ref = $4, amount = $5, ended_at = CASE WHEN $3 = 'pending' THEN NULL
			ELSE date_trunc('milliseconds', clock_timestamp()) END
		WHERE id = $1 AND mode = $2`, id, c.Mode, after.Status, after.NetworkRef, after.Amount)
	if err != nil {
		return nil, err
	}
	if err := c.bookRefund(ctx, tx, before, after); err != nil {
		return nil, err
	}
	if before.Status == checkout.RefundFailed {
		return nil, c.failRefundedPayout(ctx, tx, after)
	}
	if after.Status != checkout.RefundFailed {
		return nil, nil
	}
	return keepFinding(ctx, tx, true, books.Finding{
		Mode: c.Mode, Kind: books.FindingRefundFailed, Subject: id, Detail: c.describeFailed(after, got.Why),
	})
}

// failRefundedPayout lets the charge's payout fail when a refund of the charge stands.
func (c paidCharge) failRefundedPayout(ctx context.Context, tx pgx.Tx, r books.Refund) error {
	if c.PayoutID == "" || r.Status == checkout.RefundFailed {
		return nil
	}
	p, err := lockPayout(ctx, tx, checkout.Owner{MerchantID: c.MerchantID, Mode: c.Mode}.Ref(c.PayoutID))
	if err != nil {
		return err
	}
	return p.failForRefund(ctx, tx)
}

func (c paidCharge) describeFailed(r books.Refund, why string) string {
	what := "The card network refused the refund"
	if r.NetworkRef != "" {
		what = "The customer did not get the refund, which came back to the card network:"
	}
	if why == "" {
		why = "no reason is known"
	}
	then := ""
	if c.PayoutID != "" {
		then = " The merchant is owed the payment again. Refund it once more, or retry " + c.PayoutID + "."
	}
	return fmt.Sprintf("%s %s of %s %s of %s: %s.%s", what, r.ID, r.Amount, c.Currency, c.TransactionID, why, then)
}
