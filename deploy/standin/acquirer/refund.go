package acquirer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// createRefund serves POST /v1/refunds, for a charge or for the charge of an intent.
func (d desk) createRefund() (object, error) {
	ch, err := d.chargeToRefund()
	if err != nil {
		return nil, err
	}
	mayRefund, err := d.refundable(ch.text("payment_intent"))
	if err != nil {
		return nil, err
	}
	left := ch.number("amount") - ch.number("amount_refunded")
	asked := number(d.form.Get("amount"))
	amount := cmp.Or(asked, left)
	switch {
	case d.form.Has("amount") && asked <= 0:
		return nil, invalid("parameter_invalid_integer", "This value must be greater than or equal to 1.")
	case !ch.flag("paid"):
		return nil, invalid("charge_not_refundable", "This charge was not paid.")
	case !mayRefund:
		return nil, invalid("charge_disputed", "This charge has been charged back; it cannot be refunded.")
	case left == 0:
		return nil, invalid("charge_already_refunded", "This charge has already been refunded.")
	case amount > left:
		return nil, invalid("amount_too_large", "The refund is larger than what is left of the charge.")
	}
	c, err := d.cardOf(ch)
	if err != nil {
		return nil, err
	}
	r := d.fixture
	r["id"], r["amount"], r["currency"], r["charge"] = newID("re_"), amount, ch.text("currency"), ch.text("id")
	r["payment_intent"], r["created"], r["metadata"] = ch.text("payment_intent"), time.Now().Unix(), d.metadata()
	r["status"], r["reason"] = succeeded, orNull(d.form.Get("reason"))
	delete(r, "failure_reason") // they are there after a failure only
	delete(r, "failure_balance_transaction")
	if c.refund == refundLater {
		r["status"] = pending
	}
	b, err := d.book(r, kindRefund, -amount, 0)
	if err != nil {
		return nil, err
	}
	r["balance_transaction"] = b.text("id")
	ch["amount_refunded"] = ch.number("amount_refunded") + amount
	ch["refunded"] = ch.number("amount_refunded") == ch.number("amount")
	return r, errors.Join(
		d.insert(r, ch.text("payment_intent"), c.name), d.emit("refund.created", r), d.emit("charge.refunded", ch))
}

// chargeToRefund finds the charge of the request. It locks the intent first, as everything does.
func (d desk) chargeToRefund() (object, error) {
	chargeID := d.form.Get("charge")
	if id := d.form.Get("payment_intent"); id != "" {
		i, err := d.findNamed(kindIntent, id)
		if err != nil {
			return nil, err
		}
		chargeID = i.text("latest_charge")
		if i.text("status") != succeeded {
			return nil, invalid("", "This PaymentIntent does not have a successful charge to refund.")
		}
	}
	return d.findNamed(kindCharge, chargeID)
}

// SettleRefunds lets the banks decide the refunds that wait for them.
func (a *Acquirer) SettleRefunds(ctx context.Context) error {
	return a.act(ctx, request{}, func(d desk) error {
		// CollectRows returns the error.
		rows, _ := d.tx.Query(ctx, `
			SELECT id FROM acquirer.object WHERE kind = 'refund' AND card IN ('pendingRefund', 'refundFail') ORDER BY number`)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, id := range ids {
			if err == nil {
				err = d.settleRefund(id)
			}
		}
		return err
	})
}

func (d desk) settleRefund(id string) error {
	r, err := d.find(kindRefund, id)
	if err != nil {
		return err
	}
	c, err := d.cardOf(r)
	switch {
	case err != nil:
		return err
	case c.refund == refundLater && r.text("status") == pending:
		return d.moveRefund(r, succeeded, "")
	case c.refund == refundFails && r.text("status") == succeeded:
		return d.moveRefund(r, failed, "lost_or_stolen_card")
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
func (d desk) moveRefund(r object, status, why string) error {
	if was := r.text("status"); was == failed || was == canceled {
		return fmt.Errorf("the refund %s has ended: it is %s", r.text("id"), was)
	}
	r["status"] = status
	if status == failed || status == canceled {
		ch, err := d.find(kindCharge, r.text("charge"))
		if err != nil {
			return err
		}
		ch["amount_refunded"], ch["refunded"] = ch.number("amount_refunded")-r.number("amount"), false
		b, err := d.book(r, "refund_failure", r.number("amount"), 0)
		if err := errors.Join(err, d.update(ch)); err != nil {
			return err
		}
		r["failure_reason"], r["failure_balance_transaction"] = why, b.text("id")
	}
	kind := "refund.updated"
	if status == failed {
		kind = "refund.failed"
	}
	return d.emit(kind, r)
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
	return a.act(ctx, request{}, func(d desk) error {
		all, _, err := d.list(page{kind: kindRefund, intentID: intentID, limit: 1})
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return missing("refund of payment_intent", intentID)
		}
		return d.moveRefund(all[0], status, why)
	})
}

// failPending ends the refunds of an intent that wait, because its charge is charged back.
func (d desk) failPending(intentID string) error {
	all, _, err := d.list(page{kind: kindRefund, intentID: intentID, limit: 100})
	for _, r := range all {
		if err == nil && r.text("status") == pending {
			err = d.moveRefund(r, failed, "charge_for_pending_refund_disputed")
		}
	}
	return err
}
