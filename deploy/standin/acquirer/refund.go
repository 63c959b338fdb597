package acquirer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
)

// createRefund serves POST /v1/refunds, for a charge or for the charge of an intent.
func (a *Acquirer) createRefund(ctx context.Context, tx pgx.Tx, q request) (answer, error) {
	ch, no, err := chargeToRefund(ctx, tx, q)
	if err != nil || no.status != 0 {
		return no, err
	}
	mayRefund, err := refundable(ctx, tx, ch.text("payment_intent"))
	if err != nil {
		return answer{}, err
	}
	left := ch.number("amount") - ch.number("amount_refunded")
	amount := cmp.Or(number(q.form.Get("amount")), left)
	switch {
	case q.publishable:
		return refusal(http.StatusForbidden, "invalid_request_error", "secret_key_required", "Use a secret key."), nil
	case !ch.flag("paid"):
		return invalid("charge_not_refundable", "This charge was not paid."), nil
	case !mayRefund:
		return invalid("charge_disputed", "This charge has been charged back; it cannot be refunded."), nil
	case left == 0:
		return invalid("charge_already_refunded", "This charge has already been refunded."), nil
	case amount > left:
		return invalid("amount_too_large", "The refund is larger than what is left of the charge."), nil
	}
	_, cardName, err := find(ctx, tx, kindCharge, ch.text("id"))
	if err != nil {
		return answer{}, err
	}
	r := q.fixture
	r["id"], r["amount"], r["currency"], r["charge"] = newID("re_"), amount, ch.text("currency"), ch.text("id")
	r["payment_intent"], r["created"], r["metadata"] = ch.text("payment_intent"), time.Now().Unix(), metadata(q)
	r["status"] = succeeded
	delete(r, "failure_reason") // they are there after a failure only
	delete(r, "failure_balance_transaction")
	if cardNamed(cardName).refund == refundLater {
		r["status"] = pending
	}
	b, err := a.book(ctx, tx, r, kindRefund, -amount, 0)
	if err != nil {
		return answer{}, err
	}
	r["balance_transaction"] = b.text("id")
	ch["amount_refunded"] = ch.number("amount_refunded") + amount
	ch["refunded"] = ch.number("amount_refunded") == ch.number("amount")
	if err := insert(ctx, tx, r, ch.text("payment_intent"), cardName); err != nil {
		return answer{}, err
	}
	if err := a.emit(ctx, tx, q, "refund.created", r); err != nil {
		return answer{}, err
	}
	return ok(r), a.emit(ctx, tx, q, "charge.refunded", ch)
}

// chargeToRefund finds the charge of the request. It locks the intent first, as everything does.
func chargeToRefund(ctx context.Context, tx pgx.Tx, q request) (object, answer, error) {
	chargeID := q.form.Get("charge")
	if id := q.form.Get("payment_intent"); id != "" {
		i, _, err := find(ctx, tx, kindIntent, id)
		if errors.Is(err, errMissing) {
			return nil, invalid("resource_missing", "No such payment_intent: '"+id+"'"), nil
		}
		if err != nil {
			return nil, answer{}, err
		}
		chargeID = i.text("latest_charge")
		if i.text("status") != succeeded {
			return nil, invalid("", "This PaymentIntent does not have a successful charge to refund."), nil
		}
	}
	ch, _, err := find(ctx, tx, kindCharge, chargeID)
	if errors.Is(err, errMissing) {
		return nil, invalid("resource_missing", "No such charge: '"+chargeID+"'"), nil
	}
	return ch, answer{}, err
}

// SettleRefunds lets the banks decide the refunds that wait for them.
func (a *Acquirer) SettleRefunds(ctx context.Context) error {
	return pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		// CollectRows returns the error.
		rows, _ := tx.Query(ctx, `
			SELECT id FROM acquirer.object WHERE kind = 'refund' AND card IN ('pendingRefund', 'refundFail') ORDER BY number`)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := a.settleRefund(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *Acquirer) settleRefund(ctx context.Context, tx pgx.Tx, id string) error {
	r, cardName, err := find(ctx, tx, kindRefund, id)
	if err != nil {
		return err
	}
	switch {
	case cardNamed(cardName).refund == refundLater && r.text("status") == pending:
		return a.moveRefund(ctx, tx, r, succeeded, "")
	case cardNamed(cardName).refund == refundFails && r.text("status") == succeeded:
		return a.moveRefund(ctx, tx, r, failed, "lost_or_stolen_card")
	}
	return nil
}

// Statuses of a refund, beside succeeded and canceled.
const (
	pending = "pending"
	failed  = "failed"
)

// moveRefund gives a refund a status. What does not reach the customer comes back to the account, and the charge
// can be refunded again. A refund that has failed or was canceled stays so.
func (a *Acquirer) moveRefund(ctx context.Context, tx pgx.Tx, r object, status, why string) error {
	kind := "refund.updated"
	switch r.text("status") {
	case failed, canceled:
		return fmt.Errorf("the refund %s has ended: it is %s", r.text("id"), r.text("status"))
	}
	r["status"] = status
	if status == failed || status == canceled {
		ch, _, err := find(ctx, tx, kindCharge, r.text("charge"))
		if err != nil {
			return err
		}
		ch["amount_refunded"], ch["refunded"] = ch.number("amount_refunded")-r.number("amount"), false
		if err := update(ctx, tx, ch); err != nil {
			return err
		}
		b, err := a.book(ctx, tx, r, "refund_failure", r.number("amount"), 0)
		if err != nil {
			return err
		}
		r["failure_reason"], r["failure_balance_transaction"] = why, b.text("id")
	}
	if status == failed {
		kind = "refund.failed"
	}
	return a.emit(ctx, tx, request{}, kind, r)
}

// SetRefund gives the youngest refund of an intent one of Stripe's statuses.
func (a *Acquirer) SetRefund(ctx context.Context, intentID, status string) error {
	reasons := map[string]string{
		pending: "", needsAction: "", succeeded: "", failed: "expired_or_canceled_card", canceled: "merchant_request",
	}
	why, known := reasons[status]
	if !known {
		return fmt.Errorf("%q is no status of a refund", status)
	}
	return pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		all, _, err := list(ctx, tx, page{kind: kindRefund, intentID: intentID, limit: 1})
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return errMissing
		}
		return a.moveRefund(ctx, tx, all[0], status, why)
	})
}

// failPending ends the refunds of an intent that wait, because its charge is charged back.
func (a *Acquirer) failPending(ctx context.Context, tx pgx.Tx, intentID string) error {
	all, _, err := list(ctx, tx, page{kind: kindRefund, intentID: intentID, limit: 100})
	for _, r := range all {
		if err == nil && r.text("status") == pending {
			err = a.moveRefund(ctx, tx, r, failed, "charge_for_pending_refund_disputed")
		}
	}
	return err
}
