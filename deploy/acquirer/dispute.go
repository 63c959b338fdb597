package acquirer

import (
	"context"
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
