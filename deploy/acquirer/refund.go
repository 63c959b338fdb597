package acquirer

import (
	"context"
	"errors"
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
	left := ch.number("amount") - ch.number("amount_refunded")
	amount := number(q.form.Get("amount"))
	if amount == 0 {
		amount = left
	}
	switch {
	case q.publishable:
		return refusal(http.StatusForbidden, "invalid_request_error", "secret_key_required", "Use a secret key."), nil
	case !ch.flag("paid"):
		return invalid("charge_not_refundable", "This charge was not paid."), nil
	case ch.flag("disputed"):
		return invalid("charge_disputed", "This charge has been charged back."), nil
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
	if cardNamed(cardName).refund == refundLater {
		r["status"] = "pending"
	}
	ch["amount_refunded"] = ch.number("amount_refunded") + amount
	ch["refunded"] = ch.number("amount_refunded") == ch.number("amount")
	if err := update(ctx, tx, ch); err != nil {
		return answer{}, err
	}
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

// settleRefunds lets the banks decide the refunds that wait for them.
func (a *Acquirer) settleRefunds(ctx context.Context) error {
	return pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT id FROM acquirer.object WHERE kind = 'refund' AND card IN ('pendingRefund', 'refundFail') ORDER BY number`)
		if err != nil {
			return err
		}
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
	kind := "refund.updated"
	switch {
	case cardNamed(cardName).refund == refundLater && r.text("status") == "pending":
		r["status"] = succeeded
	case cardNamed(cardName).refund == refundFails && r.text("status") == succeeded:
		kind, r["status"], r["failure_reason"] = "refund.failed", "failed", "lost_or_stolen_card"
	default:
		return nil
	}
	if err := update(ctx, tx, r); err != nil {
		return err
	}
	if r.text("status") == "failed" {
		if err := takeBack(ctx, tx, r); err != nil {
			return err
		}
	}
	return a.emit(ctx, tx, request{}, kind, r)
}

// takeBack makes the charge of a failed refund as it was before. It can be refunded again.
func takeBack(ctx context.Context, tx pgx.Tx, r object) error {
	ch, _, err := find(ctx, tx, kindCharge, r.text("charge"))
	if err != nil {
		return err
	}
	ch["amount_refunded"], ch["refunded"] = ch.number("amount_refunded")-r.number("amount"), false
	return update(ctx, tx, ch)
}
