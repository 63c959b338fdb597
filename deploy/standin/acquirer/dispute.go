package acquirer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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

// evidenceTime is how long the bank waits for evidence. Stripe's banks wait 7 to 21 days.
const evidenceTime = 10 * 24 * time.Hour

// dispute lets the bank dispute a charge, for the first time or once more.
func (d desk) dispute(ch object, reason, status string) error {
	o, err := d.newObject("/v1/disputes/", "du_")
	if err != nil {
		return err
	}
	o["charge"], o["payment_intent"] = ch.text("id"), ch.text("payment_intent")
	o["amount"], o["currency"] = ch.number("amount"), ch.text("currency")
	o["reason"], o["metadata"] = reason, object{}
	o["evidence_details"] = object{
		"due_by": time.Now().Add(evidenceTime).Unix(), "submission_count": int64(0), "has_evidence": false, "past_due": false,
		"enhanced_eligibility": object{},
	}
	brand := ch.part("payment_method_details").part("card").text("brand")
	o["balance_transactions"], o["status"] = []any{}, ""
	o["payment_method_details"] = object{"card": object{"brand": brand, "network": brand}}
	ch["disputed"] = true
	if err := errors.Join(d.update(ch), d.insert(o, ch.text("payment_intent"), "")); err != nil {
		return err
	}
	return d.moveDispute(o, status, "charge.dispute.created")
}

// moveDispute gives a dispute a status and moves its money.
func (d desk) moveDispute(o object, status, event string) error {
	card := o.part("payment_method_details").part("card")
	from, to := disputes[o.text("status")], disputes[status]
	if card.text("case_type") == "resolution" {
		from = disputes["resolution"]
	}
	o["status"], o["is_charge_refundable"] = status, to.refundable
	card["case_type"] = "chargeback"
	switch status {
	case "prevented":
		card["case_type"] = "block"
	case "resolution":
		o["status"], card["case_type"] = "prevented", status
	case "warning_needs_response", "warning_under_review", "warning_closed":
		card["case_type"] = "inquiry"
	}
	o["payment_method_details"] = object{"type": "card", "card": card}
	if strings.HasSuffix(status, "under_review") {
		countEvidence(o)
	}
	amount, fee, category := int64(0), int64(0), ""
	switch {
	case to.holds && !from.holds:
		amount, fee, category = -o.number("amount"), disputeFee, "dispute"
	case !to.holds && from.holds:
		amount, category = o.number("amount"), "dispute_reversal"
	}
	if amount != 0 {
		b, err := d.book(o, category, amount, fee)
		if err != nil {
			return err
		}
		moved, _ := o["balance_transactions"].([]any) // none before the first
		o["balance_transactions"] = append(moved, b)
	}
	if to.holds {
		if err := d.failPending(o.text("payment_intent")); err != nil {
			return err
		}
	}
	return d.emit(event, o)
}

// countEvidence notes that evidence was sent.
func countEvidence(o object) {
	details := o.part("evidence_details")
	details["has_evidence"], details["submission_count"] = true, details.number("submission_count")+1
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
	return a.act(ctx, request{}, func(d desk) error {
		i, err := d.find(kindIntent, intentID)
		if err != nil {
			return err
		}
		all, _, err := d.list(page{kind: kindDispute, intentID: intentID, limit: 1})
		if err != nil {
			return err
		}
		if len(all) > 0 && (to.closed || !disputes[all[0].text("status")].closed) {
			event := "charge.dispute.updated"
			if to.closed {
				event = "charge.dispute.closed"
			}
			return d.moveDispute(all[0], status, event)
		}
		ch, err := d.find(kindCharge, i.text("latest_charge"))
		if err != nil {
			return err
		}
		return d.dispute(ch, "fraudulent", status)
	})
}

// refundable reports whether no dispute of the intent forbids a refund.
func (d desk) refundable(intentID string) (bool, error) {
	all, _, err := d.list(page{kind: kindDispute, intentID: intentID, limit: 100})
	return !slices.ContainsFunc(all, func(o object) bool { return !o.flag("is_charge_refundable") }), err
}

// Warn creates an early fraud warning: the customer's bank believes that the charge of the intent is a fraud.
func (a *Acquirer) Warn(ctx context.Context, intentID string) error {
	return a.act(ctx, request{}, func(d desk) error {
		i, err := d.find(kindIntent, intentID)
		if err != nil {
			return err
		}
		return d.warn(i)
	})
}

func (d desk) warn(i object) error {
	w, err := d.newObject("/v1/radar/early_fraud_warnings/", "issfr_")
	if err != nil {
		return err
	}
	w["charge"], w["payment_intent"] = i.text("latest_charge"), i.text("id")
	w["actionable"], w["fraud_type"] = true, "unauthorized_use_of_card"
	if err := d.insert(w, i.text("id"), ""); err != nil {
		return err
	}
	return d.emit("radar.early_fraud_warning.created", w)
}
