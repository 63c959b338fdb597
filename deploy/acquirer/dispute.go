package acquirer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// dispute charges a payment back: the customer told the bank that it was not theirs.
func (a *Acquirer) dispute(ctx context.Context, tx pgx.Tx, ch object, reason string) error {
	id := newID("du_")
	d, err := a.mock.fixture(ctx, "/v1/disputes/"+id)
	if err != nil {
		return err
	}
	d["id"], d["charge"], d["payment_intent"] = id, ch.text("id"), ch.text("payment_intent")
	d["amount"], d["currency"], d["created"] = ch.number("amount"), ch.text("currency"), time.Now().Unix()
	d["livemode"], d["reason"], d["status"] = a.options.Livemode, reason, "needs_response"
	d["is_charge_refundable"], d["metadata"] = false, object{}
	ch["disputed"] = true
	if err := update(ctx, tx, ch); err != nil {
		return err
	}
	if err := insert(ctx, tx, d, ch.text("payment_intent"), ""); err != nil {
		return err
	}
	return a.emit(ctx, tx, request{}, "charge.dispute.created", d)
}

// disputeIntent disputes the charge of an intent, on command.
func (a *Acquirer) disputeIntent(ctx context.Context, intentID, reason string) error {
	return pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		i, _, err := find(ctx, tx, kindIntent, intentID)
		if err != nil {
			return err
		}
		ch, _, err := find(ctx, tx, kindCharge, i.text("latest_charge"))
		if err != nil {
			return err
		}
		return a.dispute(ctx, tx, ch, reason)
	})
}

// endDispute decides the open dispute of an intent: "won" or "lost".
func (a *Acquirer) endDispute(ctx context.Context, intentID, status string) error {
	if status != "won" && status != "lost" {
		return fmt.Errorf("a dispute is won or lost, not %q", status)
	}
	return pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		all, _, err := list(ctx, tx, page{kind: kindDispute, intentID: intentID, limit: 1})
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return errMissing
		}
		d := all[0]
		d["status"] = status
		if err := update(ctx, tx, d); err != nil {
			return err
		}
		return a.emit(ctx, tx, request{}, "charge.dispute.closed", d)
	})
}

// warn tells of an early fraud warning: the customer's bank believes that the charge is a fraud.
func (a *Acquirer) warn(ctx context.Context, intentID string) error {
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
