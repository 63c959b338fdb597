package storage

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// RefundToSend is a refund with the card network that has its charge.
type RefundToSend struct {
	checkout.Refund

	Acquirer checkout.Acquirer
}

// RefundToSend returns a refund to be sent or followed. It returns checkout.ErrNotFound, and ErrFrozen or
// ErrNotCompared while the chain may have paid the payout of an operator's order: it may come from an old backup.
func (s *Refunds) RefundToSend(ctx context.Context, ref checkout.Ref) (RefundToSend, error) {
	got, err := pg.One[RefundToSend](ctx, s.pool, `
		SELECT `+refundColumns+`, t.acquirer`+refundJoin+`
		WHERE r.id = $1 AND r.merchant_id = $2 AND r.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
	if err == nil && got.Origin == checkout.RefundByOperator && got.NetworkRef == "" && got.Mode.Live() {
		var payout checkout.Ref
		if payout, err = s.LivePayoutOf(ctx, got.TransactionID); err == nil {
			err = requireCompared(ctx, s.pool, payout)
		}
	}
	return got, pg.Wrap("refund to send", err)
}

// RefundUpdate is what became of a refund, with the runs that the caller must start.
type RefundUpdate struct {
	Status     checkout.RefundStatus
	EventType  webhook.EventType // "" when there is no event
	Deliveries []webhook.Dispatch
	Found      []books.Finding // new ones
}

// Delays between two looks at a refund that the card network has not decided: a tenth of its age, within these limits.
const (
	shortestRefundDelay = time.Minute
	longestRefundDelay  = time.Hour
)

// PostponeRefund sets when a pending refund is followed again.
func (s *Refunds) PostponeRefund(ctx context.Context, ref checkout.Ref) error {
	return pg.Exec(ctx, s.pool, "postpone refund", `
		UPDATE refund SET next_action_at = clock_timestamp()
			+ least($5::interval, greatest($4::interval, (clock_timestamp() - created_at) / 10))
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, shortestRefundDelay, longestRefundDelay)
}

// RecordRefund stores the network's answer about a refund, books what changed, stores its event, and opens or closes
// the findings about the charge, in one transaction. A repeat changes nothing. It returns checkout.ErrNotFound.
func (s *Refunds) RecordRefund(
	ctx context.Context, r checkout.Refund, got checkout.RefundResult,
) (RefundUpdate, error) {
	return pg.InTx(ctx, s.pool, "record refund", func(tx pgx.Tx) (update RefundUpdate, err error) {
		c, err := lockCharge(ctx, tx, r.Mode, byReference, r.Reference)
		if errors.Is(err, checkout.ErrNotFound) {
			c, err = paidCharge{Mode: r.Mode, Reference: r.Reference}, nil
		}
		if err != nil {
			return update, err
		}
		if update, err = c.recordRefund(ctx, tx, r.ID, got); err != nil {
			return update, err
		}
		found, err := c.findBack(ctx, tx)
		update.Found = append(update.Found, found...)
		return update, err
	})
}

// recordRefund stores how a refund of ours stands at the network. It returns checkout.ErrNotFound. A refund that the
// network has made and that failed stays as it is; a refused one may exist after all.
func (c paidCharge) recordRefund(
	ctx context.Context, tx pgx.Tx, id string, got checkout.RefundResult,
) (update RefundUpdate, err error) {
	before, err := c.readRefund(ctx, tx, id)
	update.Status = before.Status
	if err != nil || before.Status == checkout.RefundFailed && before.NetworkRef != "" {
		return update, err
	}
	if got.Status == before.Status && got.Reference == before.NetworkRef {
		return update, nil
	}
	if got.Status == checkout.RefundPending && before.Status != checkout.RefundPending {
		// Two cannot be pending. This one is recorded when it has ended.
		if b, err := c.back(ctx, tx); err != nil || b.Waiting {
			return update, err
		}
	}
	_, err = tx.Exec(ctx, `
		UPDATE refund SET status = $3, network_ref = $4, ended_at = CASE WHEN $3 = 'pending' THEN NULL
			ELSE date_trunc('milliseconds', clock_timestamp()) END
		WHERE id = $1 AND mode = $2`, id, c.Mode, got.Status, got.Reference)
	if err != nil {
		return update, err
	}
	after, err := c.readRefund(ctx, tx, id)
	if err != nil {
		return update, err
	}
	update.Status = after.Status
	switch stood, stands := before.Status != checkout.RefundFailed, after.Status != checkout.RefundFailed; {
	case stood && !stands:
		err = c.fallRefund(ctx, tx, after)
	case !stood && stands:
		err = c.standRefund(ctx, tx, after)
	}
	if err != nil {
		return update, err
	}
	if after.Status != before.Status {
		update.EventType, update.Deliveries, err = c.publishRefund(ctx, tx, after)
	}
	if err == nil && after.Status == checkout.RefundFailed && after.Origin != checkout.RefundByMerchant {
		update.Found, err = keepFinding(ctx, tx, true, books.Finding{
			Mode: c.Mode, Kind: books.FindingRefundFailed, Subject: id, Detail: c.describeFailed(after, got.Why),
		})
	}
	return update, err
}

// publishRefund stores the event of a refund that has ended.
func (c paidCharge) publishRefund(
	ctx context.Context, tx pgx.Tx, r checkout.Refund,
) (typ webhook.EventType, all []webhook.Dispatch, err error) {
	switch {
	case !c.Paid || r.Status == checkout.RefundPending:
		return "", nil, nil
	case r.Status == checkout.RefundSucceeded:
		typ = webhook.RefundSucceeded
	default:
		typ = webhook.RefundFailed
	}
	all, err = publishAgain(ctx, tx, publication{
		Ref: checkout.Ref{Owner: c.owner()}, Type: typ, SubjectID: r.ID, SessionID: r.SessionID, Data: r, At: c.Now,
	})
	return typ, all, err
}

// publishAgain is publish for an event that may come several times about one subject. The subject must be locked.
func publishAgain(ctx context.Context, tx pgx.Tx, p publication) ([]webhook.Dispatch, error) {
	var err error
	p.Generation, err = pg.Value[int](ctx, tx, `
		SELECT coalesce(max(generation), 0) + 1 FROM event WHERE subject_id = $1 AND type = $2`, p.SubjectID, p.Type)
	if err != nil {
		return nil, err
	}
	return publish(ctx, tx, p)
}

// standRefund books a refund that gives the customer money, or may, and takes it from the payout.
func (c paidCharge) standRefund(ctx context.Context, tx pgx.Tx, r checkout.Refund) error {
	if !c.Booked { // the charge of a failed payment, and of a payment in test mode of version 1.0.0
		return nil
	}
	generation, err := lastGeneration(ctx, tx, entryRefund, r.ID)
	if err != nil {
		return err
	}
	asset, takes := string(c.Currency), r.Amount-r.FeeReturned
	if generation > 0 { // it exists after all
		err = reverse(ctx, tx, r.ID, entryRefund, generation, entryRefund, generation+1)
	} else {
		err = entry{
			Mode: c.Mode, Kind: entryRefund, Subject: r.ID, Generation: 1, MerchantID: c.MerchantID,
			Postings: []posting{
				{c.ChargedTo, "", asset, big.NewInt(-int64(r.Amount))},
				{ledgerPayable, c.MerchantID, asset, big.NewInt(int64(takes))},
				{ledgerFee, "", asset, big.NewInt(int64(r.FeeReturned))},
			},
		}.book(ctx, tx)
	}
	if err != nil {
		return err
	}
	if err := c.deduct(ctx, tx, checkout.DeductionRefund, r.ID, takes); err != nil {
		return err
	}
	if r.Origin == checkout.RefundByOperator {
		err = c.endPayout(ctx, tx, checkout.PayoutRefunded)
	} else {
		err = c.endEmptyPayout(ctx, tx, checkout.PayoutRefunded)
	}
	return errors.Join(err, noteBalance(ctx, tx, c.owner()))
}

// fallRefund takes back what standRefund did, unless the payout is paid by now: then the merchant is owed it.
func (c paidCharge) fallRefund(ctx context.Context, tx pgx.Tx, r checkout.Refund) error {
	if !c.Booked {
		return nil
	}
	generation, err := lastGeneration(ctx, tx, entryRefund, r.ID)
	if err != nil || generation == 0 {
		return err
	}
	if err := reverse(ctx, tx, r.ID, entryRefund, generation, entryRefund, generation+1); err != nil {
		return err
	}
	if err := c.restore(ctx, tx, checkout.DeductionRefund, r.ID); err != nil {
		return err
	}
	return noteBalance(ctx, tx, c.owner())
}

// lastGeneration returns the generation of the last entry of a kind about a subject, 0 when there is none.
func lastGeneration(ctx context.Context, tx pgx.Tx, kind, subject string) (int, error) {
	return pg.Value[int](ctx, tx, `
		SELECT coalesce(max(generation), 0) FROM ledger_entry WHERE kind = $1 AND subject = $2`, kind, subject)
}

func (c paidCharge) describeFailed(r checkout.Refund, why string) string {
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
