package acquirer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// disputes has for each status of a dispute whether the card network holds the money, and whether the charge can
// be refunded meanwhile. Source: docs.stripe.com/disputes/how-disputes-work.
var disputes = map[string]struct{ holds, refundable, closed bool }{
	"warning_needs_response": {refundable: true},
	"warning_under_review":   {refundable: true},
	"warning_closed":         {refundable: true, closed: true},
	"needs_response":         {holds: true},
	"under_review":           {holds: true},
	"won":                    {refundable: true, closed: true},
	"lost":                   {holds: true, closed: true},
	// A block keeps the dispute away. A resolution gives the customer the money instead.
	"prevented":  {refundable: true, closed: true},
	"resolution": {holds: true, closed: true},
}

// disputeFee is what a chargeback costs, in minor units. It is not given back.
const disputeFee = 15_00

// dispute lets the bank dispute a charge, for the first time or once more.
func (a *Acquirer) dispute(ctx context.Context, tx pgx.Tx, ch object, reason, status string) error {
	id := newID("du_")
	d, err := a.mock.fixture(ctx, "/v1/disputes/"+id)
	if err != nil {
		return err
	}
	d["id"], d["charge"], d["payment_intent"] = id, ch.text("id"), ch.text("payment_intent")
	d["amount"], d["currency"], d["created"] = ch.number("amount"), ch.text("currency"), time.Now().Unix()
	d["livemode"], d["reason"], d["metadata"] = a.options.Livemode, reason, object{}
	brand := ch.part("payment_method_details").part("card").text("brand")
	d["balance_transactions"], d["status"] = []any{}, ""
	d["payment_method_details"] = object{"card": object{"brand": brand, "network": brand}}
	ch["disputed"] = true
	if err := update(ctx, tx, ch); err != nil {
		return err
	}
	if err := insert(ctx, tx, d, ch.text("payment_intent"), ""); err != nil {
		return err
	}
	return a.moveDispute(ctx, tx, d, status, "charge.dispute.created")
}

// moveDispute gives a dispute a status and moves its money.
func (a *Acquirer) moveDispute(ctx context.Context, tx pgx.Tx, d object, status, event string) error {
	card := d.part("payment_method_details").part("card")
	from, to := disputes[d.text("status")], disputes[status]
	if card.text("case_type") == "resolution" {
		from = disputes["resolution"]
	}
	d["status"], d["is_charge_refundable"] = status, to.refundable
	card["case_type"] = "chargeback"
	switch status {
	case "prevented":
		card["case_type"] = "block"
	case "resolution":
		d["status"], card["case_type"] = "prevented", status
	case "warning_needs_response", "warning_under_review", "warning_closed":
		card["case_type"] = "inquiry"
	}
	d["payment_method_details"] = object{"type": "card", "card": card}
	amount, fee, category := int64(0), int64(0), ""
	switch {
	case to.holds && !from.holds:
		amount, fee, category = -d.number("amount"), disputeFee, "dispute"
	case !to.holds && from.holds:
		amount, category = d.number("amount"), "dispute_reversal"
	}
	if amount != 0 {
		b, err := a.book(ctx, tx, d, category, amount, fee)
		if err != nil {
			return err
		}
		moved, _ := d["balance_transactions"].([]any) // none before the first
		d["balance_transactions"] = append(moved, b)
	}
	if to.holds {
		if err := a.failPending(ctx, tx, d.text("payment_intent")); err != nil {
			return err
		}
	}
	return a.emit(ctx, tx, request{}, event, d)
}

// Dispute charges the payment of an intent back.
func (a *Acquirer) Dispute(ctx context.Context, intentID string) error {
	return a.SetDispute(ctx, intentID, "needs_response")
}

// SetDispute gives the youngest dispute of an intent one of Stripe's statuses. When there is none, or it was decided
// and is opened again, the bank disputes the charge. The status "resolution" is "prevented" by giving the customer
// the money.
func (a *Acquirer) SetDispute(ctx context.Context, intentID, status string) error {
	to, known := disputes[status]
	if !known {
		return fmt.Errorf("%q is no status of a dispute", status)
	}
	return pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		i, _, err := find(ctx, tx, kindIntent, intentID)
		if err != nil {
			return err
		}
		all, _, err := list(ctx, tx, page{kind: kindDispute, intentID: intentID, limit: 1})
		if err != nil {
			return err
		}
		if len(all) > 0 && (to.closed || !disputes[all[0].text("status")].closed) {
			event := "charge.dispute.updated"
			if to.closed {
				event = "charge.dispute.closed"
			}
			return a.moveDispute(ctx, tx, all[0], status, event)
		}
		ch, _, err := find(ctx, tx, kindCharge, i.text("latest_charge"))
		if err != nil {
			return err
		}
		return a.dispute(ctx, tx, ch, "fraudulent", status)
	})
}

// refundable reports whether no dispute of the intent forbids a refund.
func refundable(ctx context.Context, tx pgx.Tx, intentID string) (bool, error) {
	all, _, err := list(ctx, tx, page{kind: kindDispute, intentID: intentID, limit: 100})
	for _, d := range all {
		if !d.flag("is_charge_refundable") {
			return false, err
		}
	}
	return true, err
}

// Warn creates an early fraud warning: the customer's bank believes that the charge of the intent is a fraud.
func (a *Acquirer) Warn(ctx context.Context, intentID string) error {
	return pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		i, _, err := find(ctx, tx, kindIntent, intentID)
		if err != nil {
			return err
		}
		id := newID("issfr_")
		w, err := a.mock.fixture(ctx, "/v1/radar/early_fraud_warnings/"+id)
		if err != nil {
			return err
		}
		w["id"], w["charge"], w["payment_intent"] = id, i.text("latest_charge"), intentID
		w["actionable"], w["fraud_type"], w["created"] = true, "unauthorized_use_of_card", time.Now().Unix()
		w["livemode"] = a.options.Livemode
		if err := insert(ctx, tx, w, intentID, ""); err != nil {
			return err
		}
		return a.emit(ctx, tx, request{}, "radar.early_fraud_warning.created", w)
	})
}
